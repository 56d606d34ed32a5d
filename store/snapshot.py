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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from store.rows import Shelf
from store.voices import Position

FORMAT = "voicekin-index-2"
# A file being written is never this old; one that is was left by a process that died.
_STALE_S = 3600.0
_DIGEST_BYTES = 65
_HEADER_BYTES = 2**20


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
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        if data[: _DIGEST_BYTES - 1] != hashlib.sha256(data[_DIGEST_BYTES:]).hexdigest().encode():
            raise SnapshotDamaged("the checksum does not match")
        end = data.index(b"\n", _DIGEST_BYTES) + 1
        header = _header(data[_DIGEST_BYTES:end])
        shelves = tuple(_read_shelves(header["shelves"], memoryview(data)[end:]))
        return Snapshot(Position(header["store_id"], header["revision"]), shelves)

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
        body.append(bytes.fromhex("".join(shelf.speaker_ids).replace("-", "")))
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


def _read_shelves(headers: Sequence[dict[str, Any]], body: memoryview) -> Iterator[Shelf]:
    start = 0
    for header in headers:
        count, width = header["count"], header["width"]
        ids, revisions, stop = start + 16 * count, start + 24 * count, start + 24 * count + 4 * count * width
        end = stop + header["coarse_bytes"]
        yield Shelf(
            header["encoder_id"],
            _spell_ids(body[start:ids]),
            np.frombuffer(body[ids:revisions], dtype="<i8"),
            np.frombuffer(body[revisions:stop], dtype="<f4").reshape(count, width),
            body[stop:end] if end > stop else None,
        )
        start = end


def _spell_ids(data: memoryview) -> tuple[str, ...]:
    """The ids in 36 characters each; a million of them in a fraction of a second."""
    digits = np.frombuffer(data.hex().encode(), np.uint8).reshape(-1, 32)
    spelt = np.full((len(digits), 36), ord("-"), np.uint8)
    for start, stop in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)):
        n_dashes = (start >= 8) + (start >= 12) + (start >= 16) + (start >= 20)
        spelt[:, start + n_dashes : stop + n_dashes] = digits[:, start:stop]
    return tuple(spelt.view("S36").ravel().astype("U36").tolist())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
