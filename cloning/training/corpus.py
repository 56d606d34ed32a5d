"""Corpora as lists of utterances: what there is to learn from, before any audio is read."""

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cloning.training.errors import CorpusError

WARP_SEPARATOR = "@"


@dataclass(frozen=True, slots=True)
class Utterance:
    """One recording and its text.

    `member` is the path inside `file` where that is a tar. `symbols` and `ends_ms` are the corpus's own phonemes and
    their end times, if it has them. `warp` 1.1 plays the recording 1.1 times as fast, formants and pitch with it.
    """

    file: str
    member: str | None
    speaker: str
    text: str
    recording: str
    duration_s: float
    symbols: tuple[str, ...] = ()
    ends_ms: tuple[float, ...] = ()
    warp: float = 1.0


def read_manifest(path: Path) -> list[Utterance]:
    """The utterances of one corpus: ours (`manifest.tsv`), LJSpeech-style (`metadata.csv`) or VCTK-style folders.

    Raises: CorpusError where the file is missing or a line cannot be understood; the message names the line.
    """
    if path.is_dir():
        return list(_read_folders(path))
    if not path.is_file():
        raise CorpusError("manifest_missing", f"there is no manifest at {path}")
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix == ".tsv":
        rows = list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
        return list(_read_tsv(path, rows))
    return list(_read_ljspeech(path, text.splitlines()))


def _read_tsv(path: Path, rows: list[dict[str, str]]) -> Iterator[Utterance]:
    for line, row in enumerate(rows, 2):
        try:
            if "symbols" in row:
                yield _aligned_row(path.parent, row)
            elif row["split"] == "train":
                yield _transcribed_row(path.parent, row)
        except (KeyError, TypeError, ValueError) as error:
            raise CorpusError("bad_line", f"{path}, line {line}: {error!r}", line=line) from error


def _aligned_row(folder: Path, row: dict[str, str]) -> Utterance:
    symbols, ends = tuple(row["symbols"].split(" ")), tuple(float(e) for e in row["ends_ms"].split())
    if len(symbols) != len(ends):
        raise ValueError(f"{len(symbols)} symbols but {len(ends)} end times")
    return Utterance(
        str(folder / row["tar"]), row["path"], row["speaker"], row["text"], "studio", float(row["seconds"]),
        symbols, ends,
    )  # fmt: skip


def _transcribed_row(folder: Path, row: dict[str, str]) -> Utterance:
    recording = "narrow-band" if int(row["sample_rate"]) < 22050 else "full-band"
    text = row["text_punctuated"] or row["transcript"]
    return Utterance(str(folder / row["shard"]), row["path"], row["speaker"], text, recording, float(row["seconds"]))


def _read_ljspeech(path: Path, lines: list[str]) -> Iterator[Utterance]:
    for number, line in enumerate(lines, 1):
        fields = line.split("|")
        if len(fields) < 2 or not fields[-1].strip():
            raise CorpusError("bad_line", f"{path}, line {number}: expected `clip|text`, found {line!r}", line=number)
        clip = fields[0] if Path(fields[0]).suffix else f"wavs/{fields[0]}.wav"
        yield _file_utterance(path.parent / clip, "speaker", fields[-1].strip())


def _read_folders(folder: Path) -> Iterator[Utterance]:
    texts = sorted((folder / "txt").glob("*/*.txt"))
    if not texts:
        raise CorpusError("manifest_missing", f"{folder} holds no txt/<speaker>/<clip>.txt")
    for text in texts:
        clips = sorted(p for d in folder.glob("wav*") for p in (d / text.parent.name).glob(f"{text.stem}*"))
        if clips:
            yield _file_utterance(clips[0], text.parent.name, text.read_text(encoding="utf-8-sig").strip())


def _file_utterance(clip: Path, speaker: str, text: str) -> Utterance:
    import soundfile

    try:
        info = soundfile.info(clip)
    except (RuntimeError, OSError) as error:
        raise CorpusError("unreadable_clip", f"{clip}: {error}") from error
    recording = "narrow-band" if info.samplerate < 22050 else "full-band"
    return Utterance(str(clip), None, speaker, text, recording, info.duration)


def with_warps(utterances: Iterable[Utterance], low: float, high: float) -> list[Utterance]:
    """The utterances and, for each real speaker, two invented ones: slower and lower, faster and higher.

    Playing at another rate moves formants and pitch together, which makes another person for a speaker encoder; the
    factor is drawn from the speaker's name, within 4 points of `low` and of `high`.
    """
    result = []
    for utterance in utterances:
        result.append(utterance)
        if utterance.symbols:
            continue
        spread = int(hashlib.sha256(utterance.speaker.encode()).hexdigest()[:4], 16) / 0xFFFF * 0.08 - 0.04
        for factor in (round(low + spread, 3), round(high + spread, 3)):
            speaker = f"{utterance.speaker}{WARP_SEPARATOR}{factor}"
            result.append(replace(utterance, speaker=speaker, warp=factor, duration_s=utterance.duration_s / factor))
    return result


def hold_out(utterances: Iterable[Utterance], speakers: frozenset[str]) -> tuple[list[Utterance], list[Utterance]]:
    """Utterances to learn from, and those of speakers that are kept back for choices (their warps are dropped)."""
    learn, kept = [], []
    for utterance in utterances:
        name = utterance.speaker.split(WARP_SEPARATOR)[0]
        if name not in speakers:
            learn.append(utterance)
        elif utterance.warp == 1.0:
            kept.append(utterance)
    return learn, kept


def fingerprint(utterances: Iterable[Utterance], *settings: object) -> str:
    """A short hash of everything that a packed part depends on."""
    text = json.dumps([*(asdict(u) for u in utterances), *map(str, settings)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
