"""The store behaves as a dictionary would, its search as brute force would, through restarts."""

import hashlib
import shutil
import tempfile
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from store.checks import clean_name, name_key
from store.errors import BadName, NameTaken, SpeakerNotFound
from store.index import SpeakerIndex
from store.rows import Shelf
from store.schema import migrate
from store.service import Store
from store.types import ClipRecord, FloatArray, NewSpeaker, PrunePolicy, StoreConfig

WIDTH = 6
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = st.sampled_from(["Anna", "ANNA", "Ben", "Zoë", "Zoe\u0308", "cleo", "Dan"])
NUMBERS = st.integers(0, 30)
ENCODERS = st.sampled_from(["first", "second"])


def unit_vector(number: int) -> FloatArray:
    vector = np.random.default_rng(number).standard_normal(WIDTH) + 1.5  # one half-space: no mean cancels
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def clip(number: int) -> ClipRecord:
    return ClipRecord(hashlib.sha256(bytes([number])).hexdigest(), unit_vector(number), 2.0, 1.0, 1)


def mean(numbers: set[int]) -> np.ndarray:
    total = np.sum([unit_vector(number).astype(np.float64) for number in numbers], axis=0)
    return np.asarray(total / np.linalg.norm(total))


class StoreMachine(RuleBasedStateMachine):
    """`voices` is the model: what each id should be."""

    ids = Bundle("ids")

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.config = StoreConfig(f"sqlite:///{self.folder}/voices.db", self.folder, grace_s=1e8)
        migrate(self.config)
        self.store = Store.open(self.config)
        self.voices: dict[str, tuple[str, str, set[int]]] = {}
        self.revisions: dict[str, int] = {}
        self.pinned: set[str] = set()
        self.used: dict[str, int] = {}
        self.gone: set[str] = set()
        self.trash: dict[str, tuple[tuple[str, str, set[int]], bool, int | None]] = {}
        self.clock = 0

    @rule(target=ids, name=NAMES, encoder=ENCODERS, numbers=st.lists(NUMBERS, min_size=1, max_size=3))
    def enrol(self, name: str, encoder: str, numbers: list[int]) -> object:
        new = NewSpeaker(name, encoder, tuple(map(clip, numbers)))
        if name_key(name) in {name_key(other) for other, _, _ in self.voices.values()}:
            with pytest.raises(NameTaken):
                self.store.enrol(new)
            return multiple()
        speaker = self.store.enrol(new)
        assert speaker.id not in self.gone | set(self.voices)
        self.voices[speaker.id] = (clean_name(name), encoder, set(numbers))
        self.revisions[speaker.id] = speaker.revision
        return speaker.id

    @rule(id_=ids, numbers=st.lists(NUMBERS, min_size=1, max_size=3))
    def add_clips(self, id_: str, numbers: list[int]) -> None:
        if id_ in self.gone:
            with pytest.raises(SpeakerNotFound):
                self.store.add_clips(id_, "first", list(map(clip, numbers)))
            return
        _, encoder, had = self.voices[id_]
        speaker = self.store.add_clips(id_, encoder, list(map(clip, numbers)))
        assert (speaker.revision > self.revisions[id_]) == bool(set(numbers) - had)
        had |= set(numbers)
        self.revisions[id_] = speaker.revision

    @rule(id_=ids, pinned=st.booleans())
    def pin(self, id_: str, pinned: bool) -> None:
        if id_ in self.voices:
            self.store.update(id_, pinned=pinned)
            (self.pinned.add if pinned else self.pinned.discard)(id_)

    @rule(id_=ids)
    def use(self, id_: str) -> None:
        self.clock += 1
        self.store.touch({id_: (EPOCH + timedelta(days=self.clock), 1)})
        if id_ in self.voices:
            self.used[id_] = self.clock

    @rule(id_=consumes(ids))
    def erase(self, id_: str) -> None:
        if id_ in self.gone:
            with pytest.raises(SpeakerNotFound):
                self.store.delete(id_, at_once=True)
            return
        assert self.store.delete(id_, at_once=True) is not None
        self._forget({id_})

    @rule(id_=ids)
    def delete(self, id_: str) -> None:
        if id_ in self.voices:
            assert self.store.delete(id_) is None
            self._put_into_trash({id_})

    @rule(id_=ids)
    def undo(self, id_: str) -> None:
        if id_ not in self.trash:
            with pytest.raises(SpeakerNotFound):
                self.store.bring_back(id_)
            return
        voice, pinned, used = self.trash[id_]
        if name_key(voice[0]) in {name_key(name) for name, _, _ in self.voices.values()}:
            with pytest.raises(NameTaken):
                self.store.bring_back(id_)
            return
        self.revisions[id_] = self.store.bring_back(id_).revision
        self.voices[id_] = voice
        self.gone.discard(id_)
        del self.trash[id_]
        if pinned:
            self.pinned.add(id_)
        if used is not None:
            self.used[id_] = used

    @rule(all_of_them=st.booleans())
    def purge(self, all_of_them: bool) -> None:
        chosen = sorted(self.trash)[: None if all_of_them else 1]
        assert self.store.purge(chosen).n_speakers == len(chosen)
        assert self.store.purge().n_speakers == 0
        for id_ in chosen:
            del self.trash[id_]

    @rule(days=st.integers(1, 4))
    def prune(self, days: int) -> None:
        now = EPOCH + timedelta(days=self.clock)
        stale = {id_ for id_, clock in self.used.items() if self.clock - clock > days and id_ not in self.pinned}
        # Voices that were never used count from their creation, which lies before the model's clock starts.
        age = now - datetime.now(UTC) > timedelta(days=days)
        stale |= {id_ for id_ in self.voices if id_ not in self.used and id_ not in self.pinned and age}
        report = self.store.prune(PrunePolicy(unused_for_days=days), now)
        assert {id_ for id_, _, _ in report.victims} == stale
        assert report.kept == len(self.voices) - len(stale)
        self._put_into_trash(stale)

    @rule(damage=st.booleans())
    def restart(self, damage: bool) -> None:
        self.store.close()
        snapshot = self.folder / "speakers.index"
        if damage and snapshot.exists():
            snapshot.write_bytes(snapshot.read_bytes()[:-3])
        self.store = Store.open(self.config)
        assert self.store.stats().index_repaired == 0

    @rule()
    def crash(self) -> None:
        """The process ends where it is: nothing is saved, closed or tidied."""
        self.store._database.engine.dispose()
        self.store = Store.open(self.config)
        assert self.store.stats().index_repaired == 0

    @rule(number=NUMBERS, encoder=ENCODERS, k=st.integers(1, 6))
    def search(self, number: int, encoder: str, k: int) -> None:
        query = unit_vector(number)
        expected = sorted(
            (float(query @ mean(had)) for _, own, had in self.voices.values() if own == encoder), reverse=True
        )
        found = self.store.similar(query, encoder, k)
        np.testing.assert_allclose([match.cosine for match in found], expected[:k], atol=1e-5)
        for match in found:
            name, own, had = self.voices[match.speaker_id]
            assert (match.name, encoder) == (name, own)
            assert abs(match.cosine - float(query @ mean(had))) < 1e-5

    @invariant()
    def everyone_is_as_in_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        assert {speaker.id for speaker in self.store.list(limit=1000).speakers} == set(self.voices)
        for id_, (name, encoder, had) in self.voices.items():
            vector, encoder_id, revision = self.store.d_vector(id_)
            np.testing.assert_allclose(vector, mean(had), atol=1e-6)
            assert (encoder_id, revision, self.store.find(name).id) == (encoder, self.revisions[id_], id_)
        assert {each.id for each in self.store.deleted(1000)} == set(self.trash)
        for id_ in self.gone:
            with pytest.raises(SpeakerNotFound):
                self.store.d_vector(id_)
        assert self.store.index_agrees()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    def _put_into_trash(self, ids: set[str]) -> None:
        for id_ in ids:
            self.trash[id_] = (self.voices[id_], id_ in self.pinned, self.used.get(id_))
        self._forget(ids)

    def _forget(self, ids: set[str]) -> None:
        self.gone |= ids
        self.pinned -= ids
        for id_ in ids:
            del self.voices[id_], self.revisions[id_]
            self.used.pop(id_, None)


StoreMachine.TestCase.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestStore = StoreMachine.TestCase


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=40),
    query=NUMBERS,
    k=st.integers(1, 20),
)
def test_the_index_is_brute_force(steps: list[tuple[bool, int]], query: int, k: int) -> None:
    index, model = SpeakerIndex(), dict[str, FloatArray]()
    for step, (adds, number) in enumerate(steps):
        speaker_id = str(uuid.UUID(int=number))
        if adds:
            vector = unit_vector(number + step)
            index.apply([Shelf("e", (speaker_id,), np.array([step]), vector[np.newaxis])])
            model[speaker_id] = vector
        else:
            index.apply([], [speaker_id])
            model.pop(speaker_id, None)
    hits = index.search(unit_vector(query), "e", k)
    cosines = {speaker_id: float(vector @ unit_vector(query)) for speaker_id, vector in model.items()}
    assert len(hits) == min(k, len(model)) and len({hit.speaker_id for hit in hits}) == len(hits)
    assert all(abs(hit.cosine - cosines[hit.speaker_id]) < 1e-5 for hit in hits)
    np.testing.assert_allclose([hit.cosine for hit in hits], sorted(cosines.values(), reverse=True)[:k], atol=1e-5)


@settings(max_examples=200)
@given(st.text(max_size=220))
def test_a_cleaned_name_is_clean(text: str) -> None:
    try:
        name = clean_name(text)
    except BadName:
        return
    assert clean_name(name) == name and 1 <= len(name) <= 200
    assert name_key(name) == name_key(text)
    name.encode("utf-8")
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in name)
