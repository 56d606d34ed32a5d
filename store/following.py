"""Keeps an index in memory, and its snapshot on disk, in step with SQL."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from store.errors import StoreError
from store.index import SpeakerIndex
from store.rows import Shelf
from store.snapshot import Snapshot, SnapshotDamaged, SnapshotFile
from store.tenants import of_tenant
from store.unit_of_work import Database
from store.voices import Position, VoiceQueries, VoiceRow

_log = logging.getLogger(__name__)

# Rewriting the file costs its whole size, so changes are saved up in proportion to it.
_MIN_CHANGES_PER_SAVE = 1024
_CHANGES_PER_SAVE_SHARE = 0.25
_REPORT_EVERY_S = 2.0
_NOWHERE = Position("", 0)


class IndexFollower:
    """One process's index. Each search first catches up with SQL, so processes need not know of each other."""

    def __init__(
        self,
        database: Database,
        index: SpeakerIndex,
        file: SnapshotFile,
        on_removal: Callable[[Iterable[str]], None] = lambda speaker_ids: None,
    ) -> None:
        self._database = database
        self._index = index
        self._file = file
        self._on_removal = on_removal
        self._turn = threading.Lock()
        self._position = _NOWHERE
        self._saved_revision: int | None = None
        self._n_unsaved = 0
        self._n_repaired = 0

    @property
    def revision(self) -> int:
        return self._position.revision

    @property
    def n_repaired(self) -> int:
        return self._n_repaired

    @property
    def saved_revision(self) -> int | None:
        return self._saved_revision

    def open(self) -> None:
        """Loads the snapshot, catches up, and makes good what still differs. Raises: StoreUnavailable."""
        self._load()
        with self._turn:
            self._database.read(self._catch_up)
            self._index.prepare(_Reporter("codes made for %d of %d voices"))
            self._n_repaired = self._database.read(self._repair)
            self._n_unsaved += self._n_repaired
        if self._n_repaired:
            _log.warning("index: %d entries differed from the database and were repaired", self._n_repaired)
        if self._is_save_due():
            self.save()

    def follow(self) -> None:
        """Brings the index to the revision of SQL. Raises: StoreUnavailable."""
        with self._turn:
            self._database.read(self._catch_up)
        self._index.prepare_beside()
        if self._is_save_due():
            self.save()

    def close(self) -> None:
        """Waits for what is done beside searches, and saves."""
        self._index.join()
        self.save()

    def save(self) -> None:
        """Writes the snapshot if the index has moved since; a failure is logged, for the file is only a copy."""
        with self._turn:
            if self._saved_revision == self._position.revision:
                return
            snapshot = Snapshot(self._position, self._index.shelves())
            # Not again at every change while the disk stays full.
            self._n_unsaved = 0
        try:
            self._file.write(snapshot)
            self._saved_revision = snapshot.position.revision
            # Another process may have removed a voice, and the old file with it, while this one was being written.
            _, last = self._database.read(lambda speakers: speakers.removed_since(snapshot.position.revision))
            self._forget(last)
        except (OSError, StoreError) as error:
            _log.warning("index: no snapshot was saved, the next start will rebuild it: %s", error)

    def _is_save_due(self) -> bool:
        with self._turn:
            return self._n_unsaved >= max(_MIN_CHANGES_PER_SAVE, _CHANGES_PER_SAVE_SHARE * len(self._index))

    def agrees(self) -> bool:
        """Whether the index holds exactly the voices of SQL, after catching up. Raises: StoreUnavailable."""
        self.follow()
        with self._turn:
            return self._database.read(self._catch_up_and_compare)

    def _load(self) -> None:
        self._file.sweep()
        try:
            snapshot = self._file.read()
        except (SnapshotDamaged, OSError) as error:
            _log.warning("index: the snapshot is not usable and is rebuilt from the database: %s", error)
            self._discard()
            return
        position = self._database.read(VoiceQueries.position)
        if snapshot is None:
            return
        if snapshot.position.store_id != position.store_id or snapshot.position.revision > position.revision:
            _log.warning("index: the snapshot belongs to another database and is rebuilt")
            self._discard()
            return
        self._index.apply(snapshot.shelves, adopt=True)
        self._position = snapshot.position
        self._saved_revision = snapshot.position.revision

    def _catch_up(self, speakers: VoiceQueries) -> None:
        position = speakers.position()
        if position == self._position:
            return
        if position.store_id != self._position.store_id or position.revision < self._position.revision:
            self._restart()
        # A voice that changes or goes after `position` was read is met again at the next call, which does no harm.
        n_voices, report = 0, _Reporter("%d voices read from the database")
        for voices in speakers.voices_since(self._position.revision):
            self._index.apply(_shelves(voices))
            n_voices += len(voices)
            report(n_voices)
        self._n_unsaved += n_voices
        gone, last = speakers.removed_since(self._position.revision)
        self._index.apply([], gone)
        if len(gone):
            self._on_removal(gone)
        self._n_unsaved += len(gone)
        self._position = position
        self._forget(last)

    def _restart(self) -> None:
        if self._position != _NOWHERE:
            _log.warning("index: the database was replaced or set back; the index is rebuilt")
            self._discard()
        self._index.clear()
        self._position = _NOWHERE

    def _repair(self, speakers: VoiceQueries) -> int:
        ids, revisions = speakers.revisions()
        if self._index.holds(ids, revisions):
            return 0
        true, held = dict(zip(ids, revisions.tolist(), strict=True)), self._index.revisions()
        missing = [speaker_id for speaker_id, revision in true.items() if held.get(speaker_id) != revision]
        surplus = [speaker_id for speaker_id in held if speaker_id not in true]
        self._index.apply(_shelves(speakers.voices(missing)), surplus)
        return len(missing) + len(surplus)

    def _catch_up_and_compare(self, speakers: VoiceQueries) -> bool:
        self._catch_up(speakers)
        ids, revisions = speakers.revisions()
        if self._index.holds(ids, revisions):
            return True
        return self._index.revisions() == dict(zip(ids, revisions.tolist(), strict=True))

    def _forget(self, last: int) -> None:
        """A voice removed at the revision must not live on in the file, which the next save writes anew."""
        if not last:
            return
        self._saved_revision = None
        try:
            self._file.discard_before(last)
        except OSError as error:
            _log.warning("index: the snapshot with removed voices could not be deleted: %s", error)

    def _discard(self) -> None:
        self._saved_revision = None
        try:
            self._file.discard()
        except OSError as error:
            _log.warning("index: the snapshot could not be deleted: %s", error)


class _Reporter:
    """Logs how far long work has come, every few seconds."""

    def __init__(self, words: str) -> None:
        self._words = f"index: {words}"
        self._last_s = time.monotonic()

    def __call__(self, *figures: int) -> None:
        if time.monotonic() - self._last_s >= _REPORT_EVERY_S:
            self._last_s = time.monotonic()
            _log.info(self._words, *figures)


def _shelves(voices: Sequence[VoiceRow]) -> list[Shelf]:
    by_shelf: dict[str, list[VoiceRow]] = {}
    for voice in voices:
        by_shelf.setdefault(of_tenant(voice.tenant, voice.encoder_id), []).append(voice)
    return [_shelf(name, by_shelf[name]) for name in sorted(by_shelf)]


def _shelf(name: str, voices: Sequence[VoiceRow]) -> Shelf:
    revisions = np.array([voice.revision for voice in voices], dtype=np.int64)
    return Shelf(
        name,
        tuple(voice.speaker_id for voice in voices),
        revisions,
        np.stack([voice.vector for voice in voices]),
    )
