"""Kept clips in an archive: `audio-N.bin`, clips one after the other, and `audio-N.index`, which says whose they are.

An index is JSON: a list of [speaker_id, sha256, bytes], in the order of the clips.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from store.archive import ArchiveReader, ArchiveWriter
from store.blobs import ClipFolder
from store.checks import as_speaker_id
from store.errors import ArchiveRefused

# A shard is held in memory while it is written.
_SHARD_BYTES = 32 * 2**20
_Place = tuple[str, int, int]


def write_clips(archive: ArchiveWriter, folder: ClipFolder, digests: Mapping[str, Iterable[str]], first: int) -> int:
    """Adds those of the speakers' clips that are kept, in shards from this number on; the number after the last."""
    index: list[tuple[str, str, int]] = []
    parts: list[bytes] = []
    number = first
    for speaker_id, names in digests.items():
        for sha256 in sorted(names):
            # What is erased meanwhile, or damaged, does not move.
            if (data := folder.read(speaker_id, sha256)) is not None:
                index.append((speaker_id, sha256, len(data)))
                parts.append(data)
        if sum(map(len, parts)) >= _SHARD_BYTES:
            _add(archive, number, index, parts)
            index, parts, number = [], [], number + 1
    if parts:
        _add(archive, number, index, parts)
        number += 1
    return number


class ArchivedClips:
    """The clips of an archive, each checked by its name when it is read; all of them are checked when this is made."""

    def __init__(self, archive: ArchiveReader) -> None:
        """Raises: ArchiveRefused."""
        self._archive = archive
        self._places: dict[str, dict[str, _Place]] = {}
        for name in sorted(archive.manifest["sha256"]):
            if name.startswith("audio-") and name.endswith(".index"):
                self._take(name.removesuffix(".index") + ".bin", archive.json(name))

    def __len__(self) -> int:
        return sum(map(len, self._places.values()))

    def speakers(self) -> Sequence[str]:
        """Whose clips there are."""
        return tuple(self._places)

    def of(self, speaker_id: str) -> dict[str, bytes]:
        """The speaker's clips by sha256. Raises: ArchiveRefused."""
        found = {}
        for sha256, place in self._places.get(speaker_id, {}).items():
            found[sha256] = self._archive.part(*place)
            if hashlib.sha256(found[sha256]).hexdigest() != sha256:
                raise _damaged(place[0])
        return found

    def _take(self, member: str, index: object) -> None:
        start = 0
        try:
            for speaker_id, sha256, n_bytes in index:  # type: ignore[attr-defined]
                if as_speaker_id(speaker_id) != speaker_id or n_bytes < 0 or len(bytes.fromhex(sha256)) != 32:
                    raise ValueError
                self._places.setdefault(speaker_id, {})[sha256] = (member, start, n_bytes)
                start += n_bytes
        except (TypeError, ValueError, AttributeError) as error:
            raise _damaged(member) from error
        if self._archive.check(member) != start:
            raise _damaged(member)


def _add(archive: ArchiveWriter, number: int, index: object, parts: Sequence[bytes]) -> None:
    archive.add(f"audio-{number:06}.bin", b"".join(parts))
    archive.add(f"audio-{number:06}.index", json.dumps(index).encode())


def _damaged(member: str) -> ArchiveRefused:
    message = f"the archive is damaged: {member} is not what its index says; take another copy"
    return ArchiveRefused("archive_refused", message)
