"""The command line: the second door, to the same functions as HTTP."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from api.admin_cli import register
from api.command_line import AsJson, Model, Named, Server, door, settings_now, show
from api.consents_cli import app as consents
from api.consents_cli import protected
from api.engines_cli import app as engines
from api.evaluation import evaluate
from api.finetuning import finetune
from api.jobs_cli import app as jobs
from api.keys_cli import app as keys
from api.training import app as training
from api.voices_cli import app as voices

app = typer.Typer(
    name="voicekin",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Enrol a speaker from seconds of speech, then speak any text with that voice.\n\n"
    "Start with `voicekin doctor --migrate`, then `voicekin enrol Ada ada.wav` and "
    '`voicekin speak Ada "Good morning." -o out.wav`. Commands work on this machine; '
    "with --server URL they ask a running server.",
)
app.add_typer(training, name="train")
app.add_typer(voices, name="voices")
app.add_typer(engines, name="engines")
app.add_typer(keys, name="keys")
app.add_typer(jobs, name="jobs")
app.add_typer(consents, name="consents")
app.add_typer(protected, name="protected")
app.command()(evaluate)
app.command()(finetune)
register(app)


def main() -> None:
    """Runs the command line; an error of ours becomes one line and exit code 1."""
    from api.report import guarded

    guarded(app)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    allow_open: Annotated[bool, typer.Option("--allow-open", help="Serve the network without keys.")] = False,
    vram_limit: Annotated[
        str | None, typer.Option(help="Most device memory, such as 1500MB or 2GiB; for a GPU.")
    ] = None,
) -> None:
    """Start the HTTP server."""
    from api.server import serve as run

    limit = None if vram_limit is None else _n_bytes(vram_limit)
    chosen = {"host": host, "port": port, "allow_open": allow_open or None, "vram_limit_bytes": limit}
    settings = settings_now()
    run(settings.model_copy(update={name: value for name, value in chosen.items() if value is not None}))


@app.command()
def enrol(
    name: Annotated[str, typer.Argument(help="The speaker's name.")],
    clips: Annotated[list[Path], typer.Argument(help="Audio files of this one voice; 5 to 30 seconds are best.")],
    label: Annotated[list[str] | None, typer.Option(help="KEY=VALUE; may be given again.")] = None,
    model: Model = None,
    consent: Annotated[
        str | None, typer.Option(metavar="CONSENT_ID", help="The person's consent; `voicekin consents add` records it.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Enrol a speaker from one or more clips."""
    from api.report import show_enrolled

    with door(server) as opened, _busy(f"Listening to {len(clips)} clip(s)"):
        document = opened.enrol(name, clips, _labels(label or []), model, consent)
    show(document, as_json, show_enrolled)


@app.command()
def speak(  # noqa: PLR0913, PLR0917 - the options of a command
    speaker: Named,
    text: Annotated[str, typer.Argument(help="What to say; - reads it from standard input.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write; its ending chooses the format.")],
    language: Annotated[str | None, typer.Option(help="Language, such as en.")] = None,
    speed: Annotated[float, typer.Option(help="0.25 to 4; 2 is twice as fast.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same speech.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Measure the likeness to the speaker.")] = False,
    subtitles: Annotated[
        Path | None, typer.Option(help="Also write when what is heard: a .srt, .vtt or .json.")
    ] = None,
    model: Model = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Speak a text with an enrolled speaker, into a file."""
    from api.report import format_of, show_facts
    from api.subtitles import writer_of

    order = {"text": sys.stdin.read() if text == "-" else text, "format": format_of(output), "language": language}
    order |= {"speed": speed, "seed": seed, "verify": verify, "model": model, "timestamps": subtitles is not None}
    write = writer_of(subtitles.suffix) if subtitles else None
    with door(server) as opened, _busy("Speaking"):
        audio = opened.speak(speaker, order)
    output.write_bytes(audio.data)
    written = {"file": str(output)}
    if subtitles and write:
        subtitles.write_text(write(str(order["text"]), audio.sentences), encoding="utf-8")
        written["subtitles"] = str(subtitles)
    show({**audio.facts, **written}, as_json, show_facts)


@app.command()
def speakers(server: Server = None, as_json: AsJson = False) -> None:
    """List the enrolled speakers."""
    from api.report import show_speakers

    with door(server) as opened:
        show({"speakers": list(opened.voices())}, as_json, show_speakers)


@app.command()
def similar(
    speaker: Named,
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many.")] = 5,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Find the speakers that sound most like one."""
    from api.report import show_matches

    with door(server) as opened:
        show(opened.similar(speaker, k), as_json, show_matches)


@app.command()
def doctor(
    migrate: Annotated[bool, typer.Option("--migrate", help="Create or upgrade the database first.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Say what was found here, what is missing, and what to do. Exit code 1 where something is missing."""
    from api.doctor import examine, examine_server
    from api.report import show_findings

    settings = settings_now()
    url = server or settings.server
    with _busy("Looking"):
        findings = examine_server(settings, url) if url else examine(settings, migrate)
    show({"findings": findings}, as_json, show_findings)
    if any(not item["ok"] for item in findings):
        raise typer.Exit(1)


@app.command()
def settings(as_json: AsJson = False) -> None:
    """Show every setting and its value; secrets are hidden."""
    from api.report import show_settings

    show(settings_now().shown(), as_json, show_settings)


@contextmanager
def _busy(words: str) -> Iterator[None]:
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(words, total=None)
        yield


def _n_bytes(text: str) -> int:
    from pydantic import ByteSize, Field, TypeAdapter, ValidationError

    try:
        size: ByteSize = TypeAdapter(Annotated[ByteSize, Field(gt=0)]).validate_python(text)
    except ValidationError:
        raise typer.BadParameter(f"{text!r} is not a size such as 1500MB", param_hint="--vram-limit") from None
    return size


def _labels(pairs: list[str]) -> dict[str, str]:
    split = [pair.partition("=") for pair in pairs]
    if wrong := [pair for pair, parts in zip(pairs, split, strict=True) if not parts[1]]:
        raise typer.BadParameter(f"{wrong[0]!r} is not KEY=VALUE", param_hint="--label")
    return {key.strip(): value.strip() for key, _, value in split}


if __name__ == "__main__":
    main()
