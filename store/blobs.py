"""Kept reference clips: the uploaded bytes, a file each, named by nothing but ids and digests.

SQL says what may be here. A clip is written before its row is committed, under the speaker's turn; what a refused or
interrupted enrolment leaves is found by comparing a folder with SQL in the same turn, at the latest at the next start.
"""

import errno
import fcntl
import hashlib
import math
import os
import threading
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from store.checks import as_speaker_id
from store.errors import StorageFull, StoreUnavailable

_OWNER = "store.id"
# From here on a look at the folder is quicker than one for each speaker.
_MANY = 1000
# Other servers may share the folder, so what one process has counted grows old.
_COUNT_EVERY_S = 3600.0
NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


class ClipFolder:
    """The kept clips of all speakers of a state folder; no folder is made before the first clip is kept."""

    def __init__(self, state_dir: Path) -> None:
        self._root = state_dir / "clips"
        self._counting = threading.Lock()
        self._n_bytes = 0
        self._counted_s = -math.inf

    @contextmanager
    def turn(self, speaker_id: str) -> Iterator[None]:
        """While the block runs, no other thread or process changes this speaker's folder, which is made.

        Raises: StorageFull, StoreUnavailable, OSError.
        """
        handle = self._lock(speaker_id)
        try:
            yield
        finally:
            with suppress(OSError):
                self._of(speaker_id).rmdir()
            os.close(handle)

    def write(self, speaker_id: str, clips: Mapping[str, bytes]) -> None:
        """Keeps the clips by their sha256, on disk when this returns; for the speaker's turn.

        Raises: StorageFull, StoreUnavailable.
        """
        folder = self._of(speaker_id)
        with _room():
            for sha256, data in clips.items():
                if not (folder / sha256).exists():
                    write_whole(folder / sha256, data)
                    self._add(len(data))
            sync_folder(folder)
            sync_folder(self._root)

    def keep_only(self, speaker_id: str, digests: Collection[str]) -> None:
        """Removes every file but these clips; for the speaker's turn. Raises: OSError."""
        for name in self.names(speaker_id).difference(digests):
            path = self._of(speaker_id) / name
            n_bytes = path.stat().st_size
            path.unlink()
            self._add(-n_bytes)

    def drop(self, speaker_ids: Collection[str]) -> None:
        """Removes all clips of these speakers. Raises: OSError."""
        gone = frozenset(speaker_ids)
        for speaker_id in self.speakers() if len(gone) >= _MANY else gone:
            if speaker_id in gone and self._of(speaker_id).is_dir():
                with self.turn(speaker_id):
                    self.keep_only(speaker_id, ())

    def read(self, speaker_id: str, sha256: str) -> bytes | None:
        """The clip's bytes as they were uploaded; None where it was not kept or is damaged. Raises: OSError."""
        try:
            data = (self._of(speaker_id) / sha256).read_bytes()
        except FileNotFoundError:
            return None
        return data if hashlib.sha256(data).hexdigest() == sha256 else None

    def speakers(self) -> list[str]:
        """The ids of those who have a folder."""
        if not self._root.is_dir():
            return []
        return sorted(folder.name for folder in self._root.iterdir() if as_speaker_id(folder.name) == folder.name)

    def names(self, speaker_id: str) -> set[str]:
        """The names of the files in the speaker's folder. Raises: OSError."""
        try:
            return set(os.listdir(self._of(speaker_id)))
        except FileNotFoundError:
            return set()

    def n_bytes(self) -> int:
        """The size of all clips: counted once an hour, with what this process wrote and removed since."""
        now_s = time.monotonic()
        with self._counting:
            if now_s - self._counted_s > _COUNT_EVERY_S:
                self._counted_s = now_s
                self._n_bytes = sum(map(_size, self._root.glob("*/*")))
            return self._n_bytes

    def belongs_to(self, store_id: str) -> bool:
        """Whether the clips are of this database; the first that asks owns them.

        Raises: StorageFull, StoreUnavailable.
        """
        owner = self._root / _OWNER
        with _room():
            try:
                return owner.read_text("ascii") == store_id
            except FileNotFoundError:
                self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_whole(owner, store_id.encode())
            return True

    def is_free_for(self, store_id: str) -> bool:
        """Whether a database that does not ask yet can own the clips: they are its own, or there are none of another.

        Raises: StoreUnavailable.
        """
        owner = self._root / _OWNER
        with _room():
            if owner.exists() and owner.read_text("ascii") != store_id:
                if self.speakers():
                    return False
                owner.unlink()
        return True

    def _add(self, n_bytes: int) -> None:
        with self._counting:
            self._n_bytes += n_bytes

    def _of(self, speaker_id: str) -> Path:
        return self._root / speaker_id

    def _lock(self, speaker_id: str) -> int:
        folder = self._of(speaker_id)
        while True:
            with _room():
                self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX)
                    # Whoever had the turn before may have removed the folder that was waited for.
                    if os.path.samestat(os.fstat(handle), folder.stat()):
                        return handle
                except BaseException:
                    os.close(handle)
                    raise
                os.close(handle)


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            message = f"the folder of kept clips cannot be written: {error.strerror}; nothing was enrolled"
            raise StoreUnavailable("store_unavailable", message) from error
        message = "the disk of the kept clips is full: make room and try again; nothing was enrolled"
        raise StorageFull("storage_full", message) from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def write_whole(path: Path, data: bytes) -> None:
    """A file that is there whole or not at all, readable by the server's user only. Raises: OSError."""
    fresh = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Has the names in a folder on disk when it returns. Raises: OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
