"""What every part of the store's front stands on: the open parts, and how they follow a change."""

import copy
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from store.audio_cache import AudioCache, Bounds
from store.audio_places import open_place
from store.blobs import ClipFolder
from store.connections import translated_faults, use_write_ahead_log
from store.erasures import ErasureList, erase_again
from store.errors import StoreError
from store.following import IndexFollower
from store.index import SpeakerIndex, check_library
from store.jobs import Jobs
from store.schema import check_schema
from store.snapshot import SnapshotFile
from store.types import Owner, StoreConfig
from store.unit_of_work import Database
from store.vectors import VectorPool
from store.voices import VoiceQueries, chunks
from store.watching import Watcher

_log = logging.getLogger(__name__)


class StoreCore:
    """The open parts of a store. Safe to use from many threads."""

    def __init__(self, config: StoreConfig) -> None:
        """Opens nothing: `open` does."""
        self._config = config
        self._database = Database(config)
        self._index = SpeakerIndex(config.exact_below)
        self._pool = VectorPool(config.pool_bytes)
        file = SnapshotFile(config.state_dir)
        self._follower = IndexFollower(self._database, self._index, file, self._drop_derived)
        self._watcher = Watcher(self._database.engine, self._follower.follow, config.watch_every_s)
        self._erasures = ErasureList(config.state_dir)
        self._clips = ClipFolder(config.state_dir)
        self._audio: AudioCache | None = None
        self.jobs = Jobs(self._database, config)
        self._owner = Owner()

    @classmethod
    def open(cls, config: StoreConfig) -> Self:
        """A store on a migrated database. Raises: SchemaMismatch, StoreUnavailable."""
        check_library()
        check_schema(config)
        store = cls(config)
        try:
            with translated_faults():
                use_write_ahead_log(store._database.engine)
            erase_again(store._database, store._erasures, store.jobs.end_of_speakers)
            store._overwrite_removed()
            store._sweep_clips()
            store._tidy_jobs()
            store._open_audio()
            store._follower.open()
            if config.watch_every_s > 0:
                store._watcher.start()
        except BaseException:
            store._database.close()
            raise
        return store

    def seen_by(self, owner: Owner) -> Self:
        """The same store on this owner's behalf: whatever is not its tenant's is not there. Who opened it closes it."""
        view = copy.copy(self)
        view._owner = owner
        view._database = self._database.seen_by(owner.tenant, owner.actor)
        view.jobs = self.jobs.seen_by(owner.tenant)
        return view

    def close(self) -> None:
        """Saves the index and closes every connection."""
        self._watcher.close()
        self._follower.close()
        if self._audio is not None:
            self._audio.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _follow_commit(self) -> None:
        """The change is on disk and must be reported so; an index that cannot follow now does so before a search."""
        try:
            self._follower.follow()
        except StoreError as error:
            _log.warning("index: could not follow a commit and will before the next search: %s", error)

    def _hide(self, speaker_ids: Sequence[str]) -> None:
        """What is derived from these speakers goes; SQL has let go of them."""
        self._drop_derived(speaker_ids)
        if self._audio is not None:
            self._audio.drop(speaker_ids)
        self._tidy_jobs()
        self._follow_commit()

    def _tidy_jobs(self) -> None:
        try:
            self.jobs.tidy()
        except (StoreError, OSError) as error:
            _log.warning("pieces of ended jobs could not be removed now and will at the next start: %s", error)

    def _drop_derived(self, speaker_ids: Iterable[str]) -> None:
        """What this process remembers of speakers that went, here or in another process."""
        ids = list(speaker_ids)
        self._pool.drop(*ids)
        if self._audio is not None:
            self._audio.forget(ids)

    def _open_audio(self) -> None:
        config = self._config
        if not config.audio_cache:
            return
        bounds = Bounds(config.audio_cache_bytes, config.audio_cache_s)
        store_id = self._database.read(VoiceQueries.position).store_id
        self._audio = AudioCache(open_place(config.audio_cache, bounds, config.state_dir, store_id), bounds)
        self._audio.match(lambda found: self._database.read(lambda speakers: speakers.existing(found)))

    def _forget(self, speaker_ids: Sequence[str], consents: Sequence[str]) -> None:
        """As `_hide`, and nothing may bring them back, nor the consents that went with them."""
        with self._rewriting():
            self._erasures.add([*speaker_ids, *consents])
            self._drop_clips(speaker_ids)
            self._hide(speaker_ids)
        self._overwrite_removed()

    @contextmanager
    def _rewriting(self) -> Iterator[None]:
        """Rewrites what most speakers have left, beside the block; who fails here is met again afterwards."""
        with ThreadPoolExecutor(1, "voicekin-rewrite") as beside:
            with suppress(StoreError, sqlite3.Error):
                if self._database.is_marked:
                    beside.submit(self._try_to_overwrite, self._database.rewrite_marked)
            yield

    def _overwrite_removed(self) -> None:
        self._try_to_overwrite(self._database.overwrite_removed)

    def _try_to_overwrite(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (StoreError, sqlite3.Error) as error:
            _log.warning("removed voices could not be overwritten on disk now: %s", error)

    def _drop_clips(self, speaker_ids: Iterable[str]) -> None:
        try:
            self._clips.drop(list(speaker_ids))
        except (StoreError, OSError) as error:
            _log.warning("kept clips could not be removed now and will at the next start: %s", error)

    def _sweep_clips(self) -> None:
        """Removes kept clips that SQL knows nothing of; of another database's clips only those of the erased."""
        try:
            found = self._clips.speakers()
            if not found:
                return
            if not self._clips.belongs_to(self._database.read(VoiceQueries.position).store_id):
                _log.warning("the kept clips belong to another database; only those of erased speakers are removed")
                self._clips.drop(self._erasures.read().intersection(found))
                return
            for ids in chunks(found):
                self._sweep_folders(ids)
        except OSError as error:
            _log.warning("kept clips could not be compared with the database: %s", error)

    def _sweep_folders(self, speaker_ids: Sequence[str]) -> None:
        known = self._database.read(lambda speakers: speakers.clip_digests(speaker_ids))
        for speaker_id in speaker_ids:
            names = self._clips.names(speaker_id)
            if not names or names - known[speaker_id]:
                # An enrolment under way holds the turn until its rows are there.
                with self._clips.turn(speaker_id):
                    self._match_clips(speaker_id)

    def _match_clips(self, speaker_id: str) -> None:
        """Removes the speaker's files that no clip here or in the trash has; for the speaker's turn."""
        known = self._database.read(lambda speakers: speakers.clip_digests([speaker_id]))
        self._clips.keep_only(speaker_id, known[speaker_id])
