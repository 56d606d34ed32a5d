"""Whatever tenants do, each of them sees a store in which the others never were."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from store.errors import NameTaken, SpeakerNotFound
from store.schema import migrate
from store.service import Store
from store.types import ClipRecord, FloatArray, NewSpeaker, Owner, RequestKey, StoreConfig

WIDTH = 6
TENANTS = ("", "acme", "Acme")
NAMES = st.sampled_from(["Anna", "ANNA", "Ben", "acme", "\x1fAnna"])
WHO = st.sampled_from(TENANTS)
NUMBERS = st.integers(0, 12)


def unit_vector(number: int) -> FloatArray:
    vector = np.random.default_rng(number).standard_normal(WIDTH) + 1.5  # one half-space: no mean cancels
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def clip(number: int) -> ClipRecord:
    return ClipRecord(hashlib.sha256(bytes([number])).hexdigest(), unit_vector(number), 2.0, 1.0, 1)


def folded(name: str) -> str:
    return name.strip("\x1f ").casefold()


class TenantMachine(RuleBasedStateMachine):
    """`voices` is the model: each id's tenant, folded name and number; `trash` holds those that were deleted."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        config = StoreConfig(f"sqlite:///{self.folder}/voices.db", self.folder, grace_s=1e8)
        migrate(config)
        self.store = Store.open(config)
        self.views = {tenant: self.store.seen_by(Owner(None, tenant)) for tenant in TENANTS}
        self.voices: dict[str, tuple[str, str, int]] = {}
        self.trash: dict[str, tuple[str, str, int]] = {}

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    def names(self, tenant: str) -> set[str]:
        return {name for whose, name, _ in self.voices.values() if whose == tenant}

    @rule(tenant=WHO, name=NAMES, number=NUMBERS, keyed=st.booleans())
    def enrol(self, tenant: str, name: str, number: int, keyed: bool) -> None:
        new = NewSpeaker(name, "encoder", (clip(number),))
        key = RequestKey("the same for all", f"{number} {folded(name)}") if keyed and not self.voices else None
        if folded(name) in self.names(tenant):
            with pytest.raises(NameTaken):
                self.views[tenant].enrol(new)
            return
        speaker = self.views[tenant].enrol(new, key)
        assert speaker.id not in self.voices
        self.voices[speaker.id] = tenant, folded(name), number

    @precondition(lambda self: self.voices)
    @rule(tenant=WHO, which=st.integers(0, 99), verb=st.sampled_from(["delete", "rename", "more"]), name=NAMES)
    def change(self, tenant: str, which: int, verb: str, name: str) -> None:
        speaker_id = sorted(self.voices)[which % len(self.voices)]
        whose, before, number = self.voices[speaker_id]
        view = self.views[tenant]
        verbs: dict[str, Callable[[], object]] = {
            "delete": lambda: view.delete(speaker_id),
            "rename": lambda: view.update(speaker_id, name=name),
            "more": lambda: view.add_clips(speaker_id, "encoder", [clip(number)]),
        }
        if whose != tenant:
            with pytest.raises(SpeakerNotFound):
                verbs[verb]()
        elif verb == "rename" and folded(name) in self.names(tenant) - {before}:
            with pytest.raises(NameTaken):
                verbs[verb]()
        else:
            verbs[verb]()
            if verb == "delete":
                self.trash[speaker_id] = self.voices.pop(speaker_id)
            elif verb == "rename":
                self.voices[speaker_id] = whose, folded(name), number

    @precondition(lambda self: self.trash)
    @rule(tenant=WHO, which=st.integers(0, 99))
    def bring_back(self, tenant: str, which: int) -> None:
        speaker_id = sorted(self.trash)[which % len(self.trash)]
        whose, name, _ = self.trash[speaker_id]
        refusal = SpeakerNotFound if whose != tenant else NameTaken if name in self.names(tenant) else None
        if refusal is not None:
            with pytest.raises(refusal):
                self.views[tenant].bring_back(speaker_id)
            return
        self.views[tenant].bring_back(speaker_id)
        self.voices[speaker_id] = self.trash.pop(speaker_id)

    @invariant()
    def each_sees_its_own_and_all_see_the_whole(self) -> None:
        for tenant, view in self.views.items():
            mine = {each: model for each, model in self.voices.items() if model[0] == tenant}
            page = view.list(None, 100)
            assert {speaker.id for speaker in page.speakers} == set(mine) and page.total == len(mine)
            assert {speaker.id for speaker in view.list(None, 100, "ann").speakers} == {
                each for each, (_, name, _) in mine.items() if "ann" in name
            }
            assert {point.speaker_id for point in view.chart("encoder", 100).points} == set(mine)
            for name in {name for _, name, _ in self.voices.values()}:
                found = [each for each, model in mine.items() if model[1] == name]
                if found:
                    assert view.find(name.upper()).id == found[0]
                else:
                    with pytest.raises(SpeakerNotFound):
                        view.find(name)
            self.check_search(view, mine, 2)
            self.check_hidden(view, set(self.voices) - set(mine))
        assert {speaker.id for speaker in self.store.list(None, 100).speakers} == set(self.voices)
        self.check_search(self.store, self.voices, 3)
        assert self.store.index_agrees()

    def check_search(self, view: Store, voices: dict[str, tuple[str, str, int]], k: int) -> None:
        probe = unit_vector(99)
        expected = sorted((float(probe @ unit_vector(number)) for _, _, number in voices.values()), reverse=True)[:k]
        matches = view.similar(probe, "encoder", k)
        assert {match.speaker_id for match in matches} <= set(voices)
        assert [match.cosine for match in matches] == pytest.approx(expected, abs=1e-5)

    def check_hidden(self, view: Store, others: set[str]) -> None:
        for speaker_id in others:
            looks: list[Callable[[], object]] = [
                lambda: view.get(speaker_id),  # noqa: B023 - called at once
                lambda: view.d_vector(speaker_id),  # noqa: B023
                lambda: view.similar_to(speaker_id, 3),  # noqa: B023
                lambda: view.kept_clips(speaker_id),  # noqa: B023
                lambda: view.chart("encoder", 3, speaker_id),  # noqa: B023
            ]
            for look in looks:
                with pytest.raises(SpeakerNotFound):
                    look()


TestTenants = TenantMachine.TestCase
TestTenants.settings = settings(
    max_examples=12, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
