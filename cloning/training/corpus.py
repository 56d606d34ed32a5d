"""Corpora as lists of utterances: what there is to learn from, before any audio is read."""

import csv
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from functools import partial
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


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a corpus offers, and each line of it that cannot be used, with the reason, in words."""

    utterances: list[Utterance]
    refused: tuple[str, ...]


Entry = tuple[str, Callable[[], Utterance]]


def read_manifest(path: Path) -> Manifest:
    """One corpus: ours (`manifest.tsv`), LJSpeech-style (`metadata.csv`) or VCTK-style folders.

    Raises: CorpusError where it is missing, or where no line of it can be used; the message names the first one.
    """
    if not path.exists():
        raise CorpusError("manifest_missing", f"there is no manifest at {path}")
    utterances, refused = [], []
    for place, read in _entries(path):
        try:
            utterances.append(read())
        except (CorpusError, KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"there is no column {error}" if isinstance(error, KeyError) else str(error)
            refused.append(f"{place}: {reason}")
    if not utterances:
        first = refused[0] if refused else "it is empty"
        raise CorpusError("nothing_to_learn", f"no line of {path} can be used; {first}")
    return Manifest(utterances, tuple(refused))


def _entries(path: Path) -> Iterator[Entry]:
    if path.is_dir():
        yield from _folder_entries(path)
        return
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    if path.suffix != ".tsv":
        for number, line in enumerate(lines, 1):
            yield f"{path}, line {number}", partial(_ljspeech_line, path.parent, line)
        return
    for number, row in enumerate(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), 2):
        if "symbols" in row:
            yield f"{path}, line {number}", partial(_aligned_row, path.parent, row)
        elif row.get("split", "train") == "train":
            yield f"{path}, line {number}", partial(_transcribed_row, path.parent, row)


def _folder_entries(folder: Path) -> Iterator[Entry]:
    texts = sorted((folder / "txt").glob("*/*.txt"))
    if not texts:
        raise CorpusError("manifest_missing", f"{folder} holds no txt/<speaker>/<clip>.txt")
    for text in texts:
        yield str(text), partial(_clip_of_text, folder, text)


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
    return Utterance(
        str(folder / row["shard"]), row["path"], row["speaker"], _said(text), recording, float(row["seconds"])
    )


def _ljspeech_line(folder: Path, line: str) -> Utterance:
    fields = line.split("|")
    if len(fields) not in {2, 3}:
        raise ValueError(f"expected `clip|text` or `clip|text|text in words`, found {line[:60]!r}")
    clip = fields[0].strip()
    return _file_utterance(folder / (clip if Path(clip).suffix else f"wavs/{clip}.wav"), "speaker", fields[-1])


def _clip_of_text(folder: Path, text: Path) -> Utterance:
    clips = sorted(p for d in folder.glob("wav*") for p in (d / text.parent.name).glob(f"{text.stem}[._]*"))
    if not clips:
        raise ValueError(f"no wav*/{text.parent.name}/{text.stem}.* belongs to it")
    return _file_utterance(clips[0], text.parent.name, text.read_text(encoding="utf-8-sig"))


def _file_utterance(clip: Path, speaker: str, text: str) -> Utterance:
    import soundfile

    if not clip.is_file():
        raise CorpusError("unreadable_clip", f"there is no {clip}{_likely(clip)}")
    try:
        info = soundfile.info(clip)
    except (RuntimeError, OSError) as error:
        raise CorpusError("unreadable_clip", f"{clip}: {error}") from error
    recording = "narrow-band" if info.samplerate < 22050 else "full-band"
    return Utterance(str(clip), None, speaker, _said(text), recording, info.duration)


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is empty")
    return text.strip()


def _likely(missing: Path) -> str:
    """A hint at the name that was probably meant: another case, another ending, one ending too many."""
    folder = next(parent for parent in missing.parents if parent.is_dir())
    wanted = missing.relative_to(folder).parts[0].lower()
    names = {entry.name.lower(): entry.name for entry in folder.iterdir()}
    like = get_close_matches(wanted, names, 1)
    return f"; {folder} has {names[like[0]]}" if like else ""


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
