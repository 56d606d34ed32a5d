"""People to judge a voice with: speakers of a manifest and the files of their recordings."""

import csv
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cloning.training.errors import CorpusError, EvaluationError


@dataclass(frozen=True, slots=True)
class Clip:
    """One recording of a person, as its file holds it."""

    path: str
    text: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Person:
    """A speaker and the recordings, in the manifest's order."""

    name: str
    split: str
    gender: str
    clips: tuple[Clip, ...]


def read_people(manifest: Path, splits: Sequence[str], names: Sequence[str] = ()) -> list[Person]:
    """The people of some splits of a manifest (`manifest.tsv`), all or those named, with their clips.

    Raises: CorpusError where the manifest or a tar cannot be read; EvaluationError (`nothing_to_judge`) naming the
    speakers that are not there.
    """
    rows = [row for row in _rows(manifest) if row["split"] in splits and (not names or row["speaker"] in names)]
    grouped: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        grouped.setdefault((row["split"], row["speaker"]), []).append(row)
    absent = sorted(set(names) - {speaker for _, speaker in grouped})
    if not grouped or absent:
        raise EvaluationError(
            "nothing_to_judge",
            f"{manifest} has no speaker {', '.join(absent) or 'at all'} in {', '.join(splits)}; "
            "choose --split and --speakers from its columns",
        )
    data = _read_members(manifest.parent, [row for clips in grouped.values() for row in clips])
    return [
        Person(
            name, split, clips[0]["gender"],
            tuple(Clip(c["path"], c["text_punctuated"] or c["transcript"], data[c["path"]]) for c in clips),
        )
        for (split, name), clips in grouped.items()
    ]  # fmt: skip


def _rows(manifest: Path) -> list[dict[str, str]]:
    if not manifest.is_file():
        raise CorpusError("manifest_missing", f"there is no manifest at {manifest}")
    with manifest.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    needed = {"split", "shard", "path", "speaker", "gender", "transcript", "text_punctuated"}
    if absent := needed - set(rows[0] if rows else ()):
        raise CorpusError("bad_line", f"{manifest} lacks the columns {', '.join(sorted(absent))}", line=1)
    return rows


def _read_members(folder: Path, rows: Sequence[Mapping[str, str]]) -> dict[str, bytes]:
    found = {}
    for shard in sorted({row["shard"] for row in rows}):
        wanted = {row["path"] for row in rows if row["shard"] == shard}
        try:
            with tarfile.open(folder / shard) as tar:
                for member in tar:
                    if member.name in wanted and (stream := tar.extractfile(member)):
                        found[member.name] = stream.read()
        except (OSError, tarfile.TarError) as error:
            raise CorpusError("unreadable_clip", f"{folder / shard}: {error}") from error
        if absent := sorted(wanted - set(found)):
            raise CorpusError("unreadable_clip", f"{folder / shard} lacks {absent[0]} and {len(absent) - 1} more")
    return found
