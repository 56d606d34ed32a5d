"""The store's front: everything that the API does with speakers, each call whole or not at all."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from store import checks
from store.audio_cache import usage_figures
from store.charting import Charting
from store.enrolling import Enrolling, enrol
from store.errors import StoreError
from store.grouping import Group
from store.speakers import SpeakerRepository
from store.types import (
    ClipRecord,
    FloatArray,
    Match,
    Naming,
    NewSpeaker,
    Page,
    RequestKey,
    Speaker,
    StoreConfig,
    StoreStats,
)
from store.unit_of_work import Reading
from store.voices import VoiceRow

# A neighbour can be removed between the search and the look into SQL; more than a few such rounds are a livelock.
_SEARCH_ROUNDS = 3
_NOTHING: Mapping[str, bytes] = MappingProxyType({})
_SAME = Naming()
_Results = list[Speaker | Exception]


class Store(Charting):
    """Speakers in SQL, with an index and a pool that follow it. Safe to use from many threads."""

    def __init__(self, config: StoreConfig) -> None:
        """Opens nothing: `open` does."""
        super().__init__(config)
        self._enrolments: Group[Enrolling, Speaker] = Group(self._enrol_group)

    def enrol(
        self,
        new: NewSpeaker,
        key: RequestKey | None = None,
        actor: str = "api",
        audio: Mapping[str, bytes] = _NOTHING,
        consent_id: str | None = None,
    ) -> Speaker:
        """The new speaker, on disk when this returns; under a key that was answered before, the speaker of then.

        The bytes in `audio`, by the clips' sha256, are kept beside the database.
        Raises: BadName, BadArgument, BadVector, NameTaken, KeyReused, SpeakerNotFound for a key whose speaker is gone,
        QuotaExceeded, ConsentNotFound, ConsentRefused, VoiceProtected, StorageFull, StoreUnavailable.
        """
        checked = replace(
            new,
            name=checks.clean_name(new.name),
            encoder_id=checks.check_encoder_id(new.encoder_id),
            clips=checks.check_clips(new.clips),
            labels=checks.clean_labels(new.labels),
            report=checks.clean_report(new.report),
        )
        speaker_id = str(uuid.uuid4())
        own_key = None if key is None else key.of(self._owner.tenant)
        with self._keeping(speaker_id, checked.clips, audio):
            return self._enrolments.submit(
                Enrolling(speaker_id, checked, own_key, self._owner.actor or actor, self._owner, consent_id)
            )

    def enrolled_before(self, key: RequestKey) -> Speaker | None:
        """The speaker that this key enrolled, None if it enrolled nobody.

        Raises: KeyReused, SpeakerNotFound where that speaker is gone, StoreUnavailable.
        """

        own = key.of(self._owner.tenant)

        def look(unit: Reading) -> Speaker | None:
            speaker_id = unit.ledger.answered(own)
            return None if speaker_id is None else unit.speakers.get(speaker_id)

        return self._database.read_all(look)

    def add_clips(
        self,
        speaker_id: str,
        encoder_id: str,
        clips: Sequence[ClipRecord],
        report: Mapping[str, object] | None = None,
        audio: Mapping[str, bytes] = _NOTHING,
        naming: Naming = _SAME,
    ) -> Speaker:
        """The speaker with a renewed mean; clips that it already has change nothing. `audio` is as in `enrol`.

        `naming` is changed with them or not at all.
        Raises: SpeakerNotFound, BadArgument, BadVector, BadName, NameTaken, ConsentRefused, VoiceProtected,
        StorageFull, StoreUnavailable.
        """
        name = None if naming.name is None else checks.clean_name(naming.name)
        labels = None if naming.labels is None else checks.clean_labels(naming.labels)
        checked = checks.check_clips(clips)
        cleaned = None if report is None else checks.clean_report(report)
        canonical, _, _ = self._database.read(lambda speakers: speakers.voice_key(speaker_id))
        with self._keeping(canonical, checked, audio), self._database.write() as unit:
            speaker = unit.speakers.add_clips(canonical, encoder_id, checked, cleaned, unit.revision)
            vectors = [clip.vector for clip in checked]
            unit.consents.check_added(canonical, vectors, encoder_id, self._config.consent)
            unit.protection.check([*vectors, speaker.vector], encoder_id, self._config.protected_cosine)
            if naming != _SAME:
                speaker = unit.speakers.change(canonical, name, labels, None)
        self._pool.drop(speaker.id)
        self._follow_commit()
        return speaker

    def get(self, speaker_id: str) -> Speaker:
        """The speaker. Raises: SpeakerNotFound, StoreUnavailable."""
        return self._database.read(lambda speakers: speakers.get(speaker_id))

    def find(self, name_or_id: str) -> Speaker:
        """The speaker of this id or of this name in any case. Raises: SpeakerNotFound, StoreUnavailable."""
        return self._database.read(lambda speakers: speakers.find(name_or_id))

    def list(self, cursor: str | None = None, limit: int = 50, name_contains: str | None = None) -> Page:
        """One page, oldest speaker first. Raises: BadArgument (bad_cursor, bad_limit), StoreUnavailable."""
        checks.check_limit(limit, "limit")
        return self._database.read(lambda speakers: speakers.page(cursor, limit, name_contains))

    def update(
        self,
        speaker_id: str,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        pinned: bool | None = None,
    ) -> Speaker:
        """The speaker with what is given replaced; its voice and so its revision stay.

        Raises: SpeakerNotFound, BadName, BadArgument (bad_labels), NameTaken, StorageFull, StoreUnavailable.
        """
        cleaned_name = None if name is None else checks.clean_name(name)
        cleaned_labels = None if labels is None else checks.clean_labels(labels)
        with self._database.write() as unit:
            return unit.speakers.change(speaker_id, cleaned_name, cleaned_labels, pinned)

    def similar(self, vector: FloatArray, encoder_id: str, k: int, exclude: str | None = None) -> tuple[Match, ...]:
        """At most k speakers of this encoder, nearest first. Shapes: vector float32 (d,), L2 norm 1.

        Raises: BadVector, BadArgument (bad_limit), StoreUnavailable.
        """
        checks.check_limit(k, "k")
        checked = checks.check_vector(vector)
        excluded = None if exclude is None else checks.as_speaker_id(exclude)
        for _ in range(_SEARCH_ROUNDS):
            matches, all_live = self._search(checked, encoder_id, k + (excluded is not None))
            if all_live:
                break
        return tuple(match for match in matches if match.speaker_id != excluded)[:k]

    def similar_to(self, speaker_id: str, k: int) -> tuple[Match, ...]:
        """At most k other speakers, nearest to this one first.

        Raises: SpeakerNotFound, BadArgument (bad_limit), StoreUnavailable.
        """
        voice = self._database.read(lambda speakers: speakers.voice(speaker_id))
        return self.similar(voice.vector, voice.encoder_id, k, exclude=voice.speaker_id)

    @contextmanager
    def hold(self, speaker_id: str) -> Iterator[VoiceRow]:
        """The speaker's voice; until the block is left, pruning here passes it over.

        Nobody speaks but through here, and whether a consent still stands is asked of SQL each time.
        Shapes: vector float32 (d,), read-only. Raises: SpeakerNotFound, ConsentRefused, StoreUnavailable.
        """
        voice = self._database.read_all(lambda unit: self._current_voice(unit, speaker_id))
        with self._pool.hold((voice.speaker_id, voice.revision), voice.vector) as vector:
            yield replace(voice, vector=vector)

    def d_vector(self, speaker_id: str) -> tuple[FloatArray, str, int]:
        """The speaker's (vector, encoder_id, revision), from the pool if SQL says that it is still current.

        Shapes: vector float32 (d,), read-only. Raises: SpeakerNotFound, ConsentRefused, StoreUnavailable.
        """
        with self.hold(speaker_id) as voice:
            return voice.vector, voice.encoder_id, voice.revision

    def cached_embedding(self, sha256: str, encoder_id: str) -> ClipRecord | None:
        """A clip with these bytes that this encoder has embedded for a speaker who is still here.

        Raises: StoreUnavailable.
        """
        return self._database.read(lambda speakers: speakers.clip(sha256, encoder_id))

    def touch(self, uses: Mapping[str, tuple[datetime, int]]) -> None:
        """Notes (last use, how many uses) of many speakers; those that are gone are passed over.

        Raises: StorageFull, StoreUnavailable.
        """
        if uses:
            with self._database.write_usage() as speakers:
                speakers.touch(uses)

    def stats(self) -> StoreStats:
        """Counts and sizes now. Raises: StoreUnavailable."""
        self._follower.follow()
        return self._database.read_all(self._stats)

    def health(self) -> None:
        """Returns if SQL answers. Raises: StoreUnavailable."""
        self._database.read(SpeakerRepository.position)

    def index_agrees(self) -> bool:
        """Whether the index holds exactly the voices of SQL. Raises: StoreUnavailable."""
        return self._follower.agrees()

    def _enrol_group(self, group: Sequence[Enrolling]) -> Sequence[Speaker | Exception]:
        """One transaction for all; who is refused takes nobody along."""
        results: _Results = []
        with self._database.write() as unit:
            for each in group:
                try:
                    results.append(enrol(unit, each, self._config))
                except StoreError as error:
                    # It was refused before anything of it was written: the rest of the group can go on.
                    results.append(error)
        self._follow_commit()
        return results

    def _search(self, vector: FloatArray, encoder_id: str, k: int) -> tuple[tuple[Match, ...], bool]:
        """The neighbours that SQL confirms, and whether it confirmed all."""
        self._follower.follow()
        hits = self._index.search(vector, encoder_id, k, self._owner.tenant)
        there = self._database.read(lambda speakers: speakers.existing(hit.speaker_id for hit in hits))
        live = (hit for hit in hits if hit.speaker_id in there and there[hit.speaker_id][1] == hit.revision)
        matches = tuple(Match(hit.speaker_id, there[hit.speaker_id][0], hit.cosine) for hit in live)
        return matches, len(matches) == len(hits)

    def _current_voice(self, unit: Reading, speaker_id: str) -> VoiceRow:
        """The voice at its revision in SQL; its vector from the pool if it is there."""
        canonical, encoder_id, revision = unit.speakers.voice_key(speaker_id)
        unit.consents.check_spoken(canonical, self._config.consent)
        pooled = self._pool.get((canonical, revision))
        return unit.speakers.voice(canonical) if pooled is None else VoiceRow(canonical, revision, encoder_id, pooled)

    def _stats(self, unit: Reading) -> StoreStats:
        speakers = unit.speakers
        n_speakers, n_clips = speakers.counts()
        pool = self._pool.usage()
        return StoreStats(
            n_speakers=n_speakers,
            n_clips=n_clips,
            revision=speakers.position().revision,
            encoder_ids=speakers.encoder_ids(),
            index_size=len(self._index),
            index_bytes=self._index.n_bytes(),
            index_kinds=self._index.kinds(),
            index_revision=self._follower.revision,
            index_repaired=self._follower.n_repaired,
            snapshot_revision=self._follower.saved_revision,
            database_bytes=speakers.database_bytes(),
            pool_vectors=pool.n_vectors,
            pool_bytes=pool.n_bytes,
            pool_hits=pool.hits,
            pool_misses=pool.misses,
            n_deleted=unit.trash.count(),
            clip_bytes=self._clips.n_bytes(),
            **usage_figures(self._audio),
        )
