"""The files of spoken pieces: a folder for each job, under the id of the database that knows it.

SQL says which of them count. A file is whole before its row names it, and no two files ever have one name, so what a
dead writer left is only a file that no row names.
"""

import hashlib
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from store.blobs import NO_ROOM, sync_folder, write_whole
from store.checks import as_speaker_id
from store.errors import StorageFull, StoreUnavailable
from store.jobs_types import Piece

# How often a folder may vanish under one piece before something else than an erasure must be the reason.
_TRIES = 5


class PieceFolder:
    """The pieces of all jobs of one database; no folder is made before the first piece is kept."""

    def __init__(self, state_dir: Path, store_id: str) -> None:
        self._root = state_dir / "jobs" / store_id

    def write(self, job_id: str, number: int, data: bytes) -> str:
        """The name of a new file with these bytes, on disk when this returns. Raises: StorageFull, StoreUnavailable."""
        name, folder = f"{number:06}-{uuid.uuid4().hex}", self._root / job_id
        with _room():
            for tries_left in reversed(range(_TRIES)):
                try:
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    write_whole(folder / name, data)
                    sync_folder(folder)
                    break
                except FileNotFoundError:
                    # Another process dropped the job while this one wrote; SQL says next whether the piece counts.
                    if not tries_left:
                        raise
            sync_folder(self._root)
        return name

    def read(self, job_id: str, piece: Piece) -> bytes | None:
        """The piece's bytes as they were written; None where they are not there or damaged."""
        try:
            data = (self._root / job_id / str(piece.file)).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == piece.sha256 else None

    def missing(self, job_id: str, pieces: Collection[Piece]) -> list[int]:
        """The numbers of those of the pieces whose file is not there, or is not as long as it was."""
        return [piece.number for piece in pieces if self._size(job_id, str(piece.file)) != piece.n_bytes]

    def remove(self, job_id: str, name: str) -> None:
        """Removes one file, and with the last one the job's folder."""
        with suppress(OSError):
            (self._root / job_id / name).unlink(missing_ok=True)
            (self._root / job_id).rmdir()

    def keep_only(self, job_id: str, names: Collection[str]) -> None:
        """Removes every file of the job but these."""
        folder = self._root / job_id
        if folder.is_dir():
            for path in folder.iterdir():
                if path.name not in names:
                    path.unlink(missing_ok=True)

    def drop(self, job_id: str) -> None:
        """Removes all files of the job; what is out of reach now goes at the next sweep."""
        shutil.rmtree(self._root / job_id, ignore_errors=True)

    def jobs(self) -> list[str]:
        """The ids of the jobs that have a folder."""
        if not self._root.is_dir():
            return []
        return sorted(folder.name for folder in self._root.iterdir() if as_speaker_id(folder.name) == folder.name)

    def _size(self, job_id: str, name: str) -> int:
        try:
            return (self._root / job_id / name).stat().st_size
        except OSError:
            return -1


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            message = "the disk of the jobs' pieces is full: make room; the jobs go on by themselves"
            raise StorageFull("storage_full", message) from error
        message = f"the folder of the jobs' pieces cannot be written: {error.strerror}"
        raise StoreUnavailable("store_unavailable", message) from error
