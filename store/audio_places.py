"""Places of the audio cache on this machine, and which place a URL names."""

import heapq
import os
import threading
import time
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from store.audio_cache import Bounds, Place, PlaceFault
from store.errors import StoreUnavailable

# What is swept away goes down to this share, so that not every addition sweeps.
_FULL_SHARE = 0.9


def open_place(url: str, bounds: Bounds, state_dir: Path, store_id: str) -> Place:
    """The place that `memory`, `disk`, `redis://...` or `s3://BUCKET/PREFIX` names.

    Raises: StoreUnavailable, where its library is missing, the URL names nothing or is not understood.
    """
    if url == "memory":
        return MemoryPlace(bounds)
    if url == "disk":
        return FolderPlace(state_dir / "audio", bounds)
    scheme = url.partition("://")[0]
    try:
        if scheme in ("redis", "rediss", "unix"):
            from store.audio_redis import RedisPlace

            return RedisPlace(url, bounds, store_id)
        if scheme == "s3":
            from store.audio_s3 import BucketPlace

            return BucketPlace(url, bounds, store_id)
    except PlaceFault as error:
        raise StoreUnavailable("store_unavailable", f"the audio cache cannot be opened: {error}") from error
    except ImportError as error:
        message = f"the audio cache needs the library that voicekin[{scheme.replace('rediss', 'redis')}] installs"
        raise StoreUnavailable("store_unavailable", message) from error
    message = "the audio cache is nowhere: give memory, disk, redis://HOST/NUMBER or s3://BUCKET/PREFIX"
    raise StoreUnavailable("store_unavailable", message)


class MemoryPlace:
    """In this process; what was asked for longest ago goes first."""

    is_shared = False

    def __init__(self, bounds: Bounds, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds, self._clock = bounds, clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()
        self._keys: defaultdict[str, set[str]] = defaultdict(set)
        self.n_bytes = 0

    def get(self, speaker_id: str, key: str) -> bytes | None:
        with self._lock:
            found = self._entries.get((speaker_id, key))
            if found is None:
                return None
            self._entries.move_to_end((speaker_id, key))
            return found[1]

    def put(self, speaker_id: str, key: str, data: bytes) -> None:
        with self._lock:
            self._remove(speaker_id, key)
            self._entries[speaker_id, key] = self._clock(), data
            self._keys[speaker_id].add(key)
            self.n_bytes += len(data)
            while self.n_bytes > self._bounds.max_bytes:
                self._remove(*next(iter(self._entries)))

    def drop(self, speaker_ids: Collection[str]) -> None:
        with self._lock:
            for speaker_id in speaker_ids:
                for key in list(self._keys.get(speaker_id, ())):
                    self._remove(speaker_id, key)

    def speakers(self) -> set[str]:
        with self._lock:
            return set(self._keys)

    def sweep(self) -> None:
        oldest = self._clock() - self._bounds.max_age_s
        with self._lock:
            for name in [name for name, (made_s, _) in self._entries.items() if made_s < oldest]:
                self._remove(*name)

    def close(self) -> None:
        with self._lock:
            self._entries.clear()
            self._keys.clear()
            self.n_bytes = 0

    def _remove(self, speaker_id: str, key: str) -> None:
        _, data = self._entries.pop((speaker_id, key), (0.0, b""))
        self.n_bytes -= len(data)
        self._keys[speaker_id].discard(key)
        if not self._keys[speaker_id]:
            del self._keys[speaker_id]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a place that can be listed; `used_s` is when it was made or, where the place knows, used."""

    used_s: float
    name: str
    n_bytes: int


class Trimmer:
    """Keeps a place that knows its size only by being listed within its bounds.

    Between two lists a process counts what it adds itself: with several, each may add a tenth of the room more.
    """

    def __init__(
        self, bounds: Bounds, entries: Callable[[], Iterable[Entry]], remove: Callable[[Sequence[str]], None]
    ) -> None:
        self._bounds, self._entries, self._remove = bounds, entries, remove
        self._lock = threading.Lock()
        self._n_bytes: int | None = None

    def add(self, n_bytes: int) -> None:
        """Notes an addition, and sweeps when there is too much."""
        with self._lock:
            if self._n_bytes is not None:
                self._n_bytes += n_bytes
            is_due = self._n_bytes is None or self._n_bytes > self._bounds.max_bytes
        if is_due:
            self.sweep()

    def sweep(self) -> None:
        """Removes what is too old, then the oldest until there is room."""
        with self._lock:
            entries = list(self._entries())
            oldest_s = time.time() - self._bounds.max_age_s
            gone = [entry for entry in entries if entry.used_s < oldest_s]
            left = [entry for entry in entries if entry.used_s >= oldest_s]
            n_bytes = sum(entry.n_bytes for entry in left)
            if n_bytes > self._bounds.max_bytes:
                heapq.heapify(by_age := [(entry.used_s, entry.name, entry.n_bytes) for entry in left])
                while n_bytes > self._bounds.max_bytes * _FULL_SHARE:
                    used_s, name, size = heapq.heappop(by_age)
                    gone.append(Entry(used_s, name, size))
                    n_bytes -= size
            if gone:
                self._remove([entry.name for entry in gone])
            self._n_bytes = n_bytes


class FolderPlace:
    """Files `SPEAKER_ID/KEY` in a folder of the state folder; what was used longest ago goes first."""

    is_shared = True

    def __init__(self, root: Path, bounds: Bounds) -> None:
        self._root = root
        self._trimmer = Trimmer(bounds, self._entries, self._remove)

    def get(self, speaker_id: str, key: str) -> bytes | None:
        path = self._root / speaker_id / key
        with _faults():
            try:
                data = path.read_bytes()
                os.utime(path)
            except FileNotFoundError:
                return None
            return data

    def put(self, speaker_id: str, key: str, data: bytes) -> None:
        path = self._root / speaker_id / key
        fresh = path.with_name(f"{key}.{uuid.uuid4().hex}.part")
        # The folder may go at any time, with its speaker or its last entry: then this one goes too.
        with _faults(), suppress(FileNotFoundError):
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                path.parent.mkdir(mode=0o700)
            try:
                # Not synced: what a power cut leaves of it fails its checksum and is made again.
                with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(data)
                fresh.replace(path)
            finally:
                fresh.unlink(missing_ok=True)
            self._trimmer.add(len(data))

    def drop(self, speaker_ids: Collection[str]) -> None:
        for speaker_id in speaker_ids:
            folder = self._root / speaker_id
            with _faults(), suppress(FileNotFoundError):
                while folder.is_dir():
                    self._remove([f"{speaker_id}/{name}" for name in os.listdir(folder)])
                    with suppress(OSError):  # somebody may just be adding to it
                        folder.rmdir()

    def speakers(self) -> set[str]:
        with _faults():
            return set(os.listdir(self._root)) if self._root.is_dir() else set()

    def sweep(self) -> None:
        with _faults():
            self._trimmer.sweep()

    def close(self) -> None:
        """Nothing is open."""

    def _entries(self) -> Iterator[Entry]:
        for speaker_id in self.speakers():
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._root / speaker_id) as found:
                for file in found:
                    with suppress(FileNotFoundError):
                        stat = file.stat()
                        yield Entry(stat.st_mtime, f"{speaker_id}/{file.name}", stat.st_size)

    def _remove(self, names: Sequence[str]) -> None:
        for name in names:
            (self._root / name).unlink(missing_ok=True)
        for speaker_id in {name.partition("/")[0] for name in names}:
            with suppress(OSError):
                (self._root / speaker_id).rmdir()


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PlaceFault(f"the folder of cached audio: {error.strerror or error}") from error
