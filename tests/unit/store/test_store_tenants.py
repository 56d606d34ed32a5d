"""Tenants on both databases: what is one's own is nobody else's."""

from dataclasses import replace
from pathlib import Path

import pytest
from store_samples import ENCODER, clip, new_speaker, sha256, unit_vector

from store.backup import back_up, restore
from store.errors import BadArgument, JobNotFound, NameTaken, SpeakerNotFound
from store.jobs_types import JobBounds, NewJob, NewPiece
from store.key_types import KeyTerms
from store.schema import migrate
from store.service import Store
from store.types import Owner, RequestKey, StoreConfig

BOUNDS = JobBounds(10, 10**9)


def seen(store: Store, tenant: str) -> Store:
    return store.seen_by(Owner(None, tenant))


def job_of(speaker_id: str) -> NewJob:
    return NewJob("t", "Hello.", {}, (), (NewPiece(speaker_id, 0, 6, 0.0),), 10)


def test_another_tenants_speaker_is_not_there_for_any_verb(store: Store) -> None:
    acme, other = seen(store, "acme"), seen(store, "other")
    mine = acme.enrol(new_speaker("Anna", [1]))
    for view in (other, seen(store, "")):
        for call in (
            lambda view=view: view.get(mine.id),
            lambda view=view: view.find("anna"),
            lambda view=view: view.update(mine.id, name="Taken over"),
            lambda view=view: view.add_clips(mine.id, ENCODER, [clip(2)]),
            lambda view=view: view.reembed(mine.id, ENCODER, [clip(1)]),
            lambda view=view: view.d_vector(mine.id),
            lambda view=view: view.similar_to(mine.id, 1),
            lambda view=view: view.kept_clips(mine.id),
            lambda view=view: view.delete(mine.id),
            lambda view=view: view.jobs.add(job_of(mine.id), BOUNDS),
        ):
            with pytest.raises(SpeakerNotFound):
                call()  # type: ignore[no-untyped-call]
        assert view.list().total == 0
        assert view.similar(unit_vector(1), ENCODER, 5) == ()
        assert view.cached_embedding(sha256(1), ENCODER) is None, "nor does anybody learn who has a clip"
    for view in (acme, store):
        found = view.get(mine.id)
        assert (found.name, found.revision, found.updated_at) == ("Anna", mine.revision, mine.updated_at)
    assert acme.cached_embedding(sha256(1), ENCODER) is not None
    assert [match.speaker_id for match in store.similar(unit_vector(1), ENCODER, 5)] == [mine.id]


def test_names_are_each_tenants_own_and_searched_without_its_name(store: Store) -> None:
    views = [seen(store, tenant) for tenant in ("", "acme", "other")]
    ids = [view.enrol(new_speaker("Anna", [number])).id for number, view in enumerate(views)]
    for view, speaker_id in zip(views, ids, strict=True):
        assert view.find("ANNA").id == speaker_id
        with pytest.raises(NameTaken):
            view.enrol(new_speaker("anna", [9]))
        assert [each.id for each in view.list(None, 9, "nn").speakers] == [speaker_id]
        assert view.list(None, 9, "acme").total == 0
    assert store.find("anna").id == ids[0], "who sees all finds the names of the tenant without one"
    assert store.list(None, 9, "ANN").total == 3


def test_the_same_request_key_of_two_tenants_is_two_keys(store: Store) -> None:
    key = RequestKey("1", "digest")
    acme, other = seen(store, "acme"), seen(store, "other")
    mine = acme.enrol(new_speaker("Anna", [1]), key)
    assert acme.enrol(new_speaker("Anna", [1]), key).id == mine.id
    known = acme.enrolled_before(key)
    assert known is not None and known.id == mine.id
    assert other.enrolled_before(key) is None
    assert other.enrol(new_speaker("Ben", [2]), replace(key, request_sha256="another")).name == "Ben"
    job = acme.jobs.add(job_of(mine.id), BOUNDS, replace(key, key="2"))
    assert other.jobs.added_before(replace(key, key="2")) is None
    assert acme.jobs.added_before(replace(key, key="2")) == job


def test_jobs_are_their_tenants_and_end_with_a_speaker_whoever_deletes_it(store: Store) -> None:
    acme, other = seen(store, "acme"), seen(store, "other")
    mine, its = acme.enrol(new_speaker("Anna", [1])), other.enrol(new_speaker("Ben", [2]))
    job, kept = acme.jobs.add(job_of(mine.id), BOUNDS), other.jobs.add(job_of(its.id), BOUNDS)
    of_admin = store.jobs.add(job_of(mine.id), BOUNDS)
    assert [each.id for each in acme.jobs.page().jobs] == [job.id] and acme.jobs.page().total == 1
    assert {each.id for each in store.jobs.page().jobs} == {job.id, kept.id, of_admin.id}
    for call in (other.jobs.get, other.jobs.text, other.jobs.cancel, other.jobs.delete):
        with pytest.raises(JobNotFound):
            call(job.id)
    store.jobs._files.write(kept.id, 0, b"piece")
    acme.jobs.cancel(job.id)
    acme.delete(mine.id, at_once=True)
    assert store.jobs.get(of_admin.id).state == "speaker_gone"
    assert store.jobs.get(kept.id).state == "waiting"
    assert store.jobs._files.jobs() == [kept.id], "tidying after one tenant leaves the others' files"


def test_every_tenant_is_in_a_backup_and_an_archive_keeps_whose_each_was(config: StoreConfig, tmp_path: Path) -> None:
    with Store.open(config) as store:
        ids = {tenant: seen(store, tenant).enrol(new_speaker("Anna", [1])).id for tenant in ("", "acme")}
        back_up(config, tmp_path / "backup.zip")
        store.export(tmp_path / "speakers.zip")
    for number, fill in enumerate(("restore", "import")):
        fresh = StoreConfig(f"sqlite:///{tmp_path}/fresh-{number}/voices.db", tmp_path / f"fresh-{number}")
        migrate(fresh)
        if fill == "restore":
            restore(fresh, tmp_path / "backup.zip")
        with Store.open(fresh) as store:
            if fill == "import":
                assert store.import_speakers(tmp_path / "speakers.zip").imported == 2
            for tenant, speaker_id in ids.items():
                assert [each.id for each in seen(store, tenant).list().speakers] == [speaker_id]
                assert seen(store, tenant).find("anna").id == speaker_id


def test_an_index_of_many_tenants_follows_from_its_snapshot(config: StoreConfig) -> None:
    with Store.open(config) as store:
        ids = [seen(store, f"t{number}").enrol(new_speaker("Anna", [number])).id for number in range(5)]
    with Store.open(config) as store:
        assert store.index_agrees() and store.stats().index_repaired == 0
        assert dict(store.stats().index_kinds) == {ENCODER: "exact"}
        for number, speaker_id in enumerate(ids):
            for k in (1, 9):
                found = seen(store, f"t{number}").similar(unit_vector(0), ENCODER, k)
                assert [match.speaker_id for match in found] == [speaker_id], "however near the others' are"
        assert len(store.similar(unit_vector(0), ENCODER, 9)) == 5


def test_the_audit_names_the_key_that_did_it(store: Store) -> None:
    view = store.seen_by(Owner(None, "acme", "key vk_12345678"))
    speaker = view.enrol(new_speaker("Anna", [1]), actor="http")
    view.delete(speaker.id, actor="http")
    store.enrol(new_speaker("Ben", [2]), actor="http")
    assert [(line.action, line.actor) for line in store.audit()] == [
        ("enrol", "http"),
        ("delete", "key vk_12345678"),
        ("enrol", "key vk_12345678"),
    ]


@pytest.mark.parametrize("tenant", ["a b", "é", "a/b", "a\x1fb", "x" * 65, " "])
def test_a_tenant_is_a_plain_word(sqlite_store: Store, tenant: str) -> None:
    with pytest.raises(BadArgument, match="tenant"):
        sqlite_store.create_key(KeyTerms("a", frozenset({"speak"}), tenant=tenant))


def test_a_keys_tenant_stays_and_admins_have_none(sqlite_store: Store) -> None:
    key, _ = sqlite_store.create_key(KeyTerms("a", frozenset({"speak"}), tenant="acme"))
    moved = sqlite_store.change_key(key.id, lambda terms: replace(terms, tenant="other"))
    assert moved.terms.tenant == "acme"
    for call in (
        lambda: sqlite_store.create_key(KeyTerms("a", frozenset({"admin"}), tenant="acme")),
        lambda: sqlite_store.change_key(key.id, lambda terms: replace(terms, scopes=frozenset({"admin"}))),
    ):
        with pytest.raises(BadArgument, match="sees all tenants"):
            call()
