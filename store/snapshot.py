"""The index on disk: one file, written whole under a new name and then renamed, never trusted without its checksum.

Layout: the SHA-256 of all that follows as 64 digits and a newline; one line of JSON; for each shelf n ids of 16 bytes,
n revisions of 8 bytes and n * d float32, all little-endian, then, where the header gives their size, the codes in
FAISS' own form.
"""

import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from store.ids import SpeakerIds
from store.rows import Shelf
from store.voices import Position

FORMAT = "voicekin-index-2"
# A file being written is never this old; one that is was left by a process that died.
_STALE_S = 3600.0
_DIGEST_BYTES = 65
_HEADER_BYTES = 2**20
_BYTES_PER_READ = 2**23
_SIZES = ("count", "width", "coarse_bytes")
Number = TypeVar("Number", bound=np.generic)


class SnapshotDamaged(Exception):
    """The file is not a whole snapshot of this format."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The voices of a store at one position."""

    position: Position
    shelves: Sequence[Shelf]


class SnapshotFile:
    """Reads, replaces and discards the one snapshot of a state folder."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "speakers.index"

    def read(self) -> Snapshot | None:
        """The snapshot, None if there is none. Raises: SnapshotDamaged, OSError."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return None
        with file, ThreadPoolExecutor(1) as beside:
            return _read(file, beside)

    def write(self, snapshot: Snapshot) -> None:
        """Replaces the file, unless it is already as new. Raises: OSError."""
        there = self.position()
        mine = snapshot.position
        if there is not None and there.store_id == mine.store_id and there.revision >= mine.revision:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex}.part")
        try:
            with fresh.open("wb") as file:
                file.writelines(_pieces(snapshot))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path)
        finally:
            fresh.unlink(missing_ok=True)
        _sync_folder(self.path.parent)

    def position(self) -> Position | None:
        """Where the file says it stands, without reading it whole; None if it does not say."""
        try:
            with self.path.open("rb") as file:
                file.seek(_DIGEST_BYTES)
                header = _header(file.readline(_HEADER_BYTES))
        except (OSError, SnapshotDamaged):
            return None
        return Position(header["store_id"], header["revision"])

    def discard(self) -> None:
        """Removes the file. Raises: OSError."""
        self.path.unlink(missing_ok=True)

    def discard_before(self, revision: int) -> None:
        """Removes the file if it may hold what was removed at the revision, and every one that is half written.

        Who is just writing one finds it gone, and writes another later. Raises: OSError.
        """
        for part in self._parts():
            part.unlink(missing_ok=True)
        position = self.position()
        if position is None or position.revision < revision:
            self.discard()

    def sweep(self) -> None:
        """Removes what processes that died while writing have left."""
        for part in self._parts():
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > _STALE_S:
                    part.unlink()

    def _parts(self) -> Iterator[Path]:
        return self.path.parent.glob(f"{self.path.name}.*.part")


def _pieces(snapshot: Snapshot) -> Iterator[bytes | memoryview]:
    body = [_header_line(snapshot)]
    for shelf in snapshot.shelves:
        body.append(SpeakerIds.of(shelf.speaker_ids).to_bytes())
        body.append(shelf.revisions.astype("<i8").tobytes())
        body.append(shelf.vectors.astype("<f4", copy=False).data.cast("B"))
        body.append(shelf.coarse or b"")
    digest = hashlib.sha256()
    for piece in body:
        digest.update(piece)
    yield digest.hexdigest().encode() + b"\n"
    yield from body


def _header_line(snapshot: Snapshot) -> bytes | memoryview:
    header = {
        "format": FORMAT,
        "store_id": snapshot.position.store_id,
        "revision": snapshot.position.revision,
        "shelves": [
            {
                "encoder_id": shelf.encoder_id,
                "count": len(shelf.speaker_ids),
                "width": shelf.vectors.shape[1],
                "coarse_bytes": len(shelf.coarse or b""),
            }
            for shelf in snapshot.shelves
        ],
    }
    return json.dumps(header).encode() + b"\n"


def _header(line: bytes) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except ValueError as error:
        raise SnapshotDamaged("the header cannot be read") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise SnapshotDamaged("the format is another one")
    return header


def _read(file: BinaryIO, beside: ThreadPoolExecutor) -> Snapshot:
    digest = file.read(_DIGEST_BYTES)
    line = file.readline(_HEADER_BYTES)
    header = _header(line)
    reader = _Reader(file, beside, line)
    try:
        # Before any memory is taken for it: the header is not checked yet.
        n_bytes = sum(each["count"] * (24 + 4 * each["width"]) + each["coarse_bytes"] for each in header["shelves"])
        whole = n_bytes == os.fstat(file.fileno()).st_size - file.tell()
        if not whole or any(each[name] < 0 for each in header["shelves"] for name in _SIZES):
            raise SnapshotDamaged("the size does not match")
        shelves = tuple(_read_shelf(each, reader) for each in header["shelves"])
        position = Position(header["store_id"], header["revision"])
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotDamaged("the header makes no sense") from error
    if digest[: _DIGEST_BYTES - 1] != reader.digest().encode():
        raise SnapshotDamaged("the checksum does not match")
    return Snapshot(position, shelves)


def _read_shelf(header: dict[str, Any], reader: "_Reader") -> Shelf:
    count, width = header["count"], header["width"]
    ids = reader.fill(np.empty((count, 2), ">u8"))
    revisions = reader.fill(np.empty(count, "<i8"))
    vectors = reader.fill(np.empty((count, width), "<f4"))
    coarse = reader.fill(np.empty(header["coarse_bytes"], np.uint8)).data if header["coarse_bytes"] else None
    return Shelf(header["encoder_id"], SpeakerIds(ids.astype(np.uint64)), revisions, vectors, coarse)


class _Reader:
    """Reads arrays straight into their memory, and digests beside what it has just read."""

    def __init__(self, file: BinaryIO, beside: ThreadPoolExecutor, first: bytes) -> None:
        self._file, self._beside, self._digest = file, beside, hashlib.sha256(first)
        self._work: Future[None] | None = None

    def fill(self, array: NDArray[Number]) -> NDArray[Number]:
        """The array, read whole. Raises: SnapshotDamaged, OSError."""
        data = array.reshape(-1).view(np.uint8).data
        for start in range(0, len(data), _BYTES_PER_READ):
            piece = data[start : start + _BYTES_PER_READ]
            if self._file.readinto(piece) != len(piece):  # type: ignore[attr-defined]
                raise SnapshotDamaged("the file ends too early")
            # One behind the other, in the order of the file.
            self._work = self._beside.submit(self._digest.update, piece)
        return array

    def digest(self) -> str:
        """Of all that was read, and of what came first."""
        if self._work is not None:
            self._work.result()
        return self._digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
