"""Deleting with time to undo, purging with a receipt, pruning by every policy, keys of requests: on both databases."""

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from sqlalchemy import text
from store_samples import ENCODER, clip, new_speaker, unit_vector

from store.errors import BadArgument, KeyReused, NameTaken, SpeakerNotFound
from store.service import Store
from store.types import NewSpeaker, PrunePolicy, RequestKey, Speaker, StoreConfig

LATER = datetime.now(UTC) + timedelta(days=30)


@pytest.fixture
def grace(config: StoreConfig) -> StoreConfig:
    return replace(config, grace_s=7 * 86400.0)


def bytes_everywhere(store: Store, config: StoreConfig) -> bytes:
    """Every file of the state folder, and every row of every table."""
    files = b"".join(path.read_bytes() for path in config.state_dir.rglob("*") if path.is_file())
    with store._database.engine.connect() as connection:
        for table in store_tables():
            for row in connection.execute(text(f"SELECT * FROM {table}")):
                files += b"".join(
                    bytes(item) if isinstance(item, bytes | memoryview) else str(item).encode() for item in row
                )
    return files


def store_tables() -> list[str]:
    from store.tables import Base

    return [table.name for table in Base.metadata.sorted_tables]


def secrets_of(speaker: Speaker, *numbers: int) -> list[bytes]:
    vectors = [unit_vector(number).tobytes() for number in numbers]
    return [speaker.name.encode(), speaker.vector.tobytes(), *vectors, b"anna@example.org"]


def test_a_deleted_speaker_can_be_brought_back_whole(grace: StoreConfig) -> None:
    with Store.open(grace) as store:
        speaker = store.enrol(new_speaker("Anna", [1, 2], labels={"team": "a"}, report={"x": 1}, pinned=True))
        store.touch({speaker.id: (LATER, 3)})
        assert store.delete(speaker.id) is None
        for door in (store.get, store.d_vector, store.find, store.delete, lambda id_: store.similar_to(id_, 1)):
            with pytest.raises(SpeakerNotFound):
                door(speaker.id)
        assert store.similar(speaker.vector, ENCODER, 5) == () and store.list().total == 0
        assert store.cached_embedding(clip(1).sha256, ENCODER) is None
        (deleted,) = store.deleted()
        assert (deleted.id, deleted.name, deleted.n_clips, store.stats().n_deleted) == (speaker.id, "Anna", 2, 1)
        assert deleted.purge_after - deleted.deleted_at == timedelta(days=7)
        back = store.bring_back(speaker.id.upper())
        expected = replace(speaker, revision=back.revision, uses=3, last_used_at=LATER, vector=back.vector)
        assert back == expected and back.revision > speaker.revision
        np.testing.assert_array_equal(store.d_vector(speaker.id)[0], speaker.vector)
        assert store.similar(speaker.vector, ENCODER, 1)[0].speaker_id == speaker.id
        assert store.deleted() == () and store.index_agrees() and store.cached_embedding(clip(1).sha256, ENCODER)
        assert [line.action for line in store.audit()] == ["bring_back", "delete", "enrol"]
    with Store.open(grace) as store:
        assert store.get(speaker.id).name == "Anna" and store.index_agrees()


def test_bringing_back_needs_a_free_name_and_somebody_in_the_trash(grace: StoreConfig) -> None:
    with Store.open(grace) as store:
        old = store.enrol(new_speaker("Anna", [1]))
        store.delete(old.id)
        new = store.enrol(new_speaker("ANNA", [2]))
        with pytest.raises(NameTaken):
            store.bring_back(old.id)
        store.update(new.id, name="Other")
        assert store.bring_back(old.id).id == old.id
        for nobody in (old.id, "x", "00000000-0000-4000-8000-000000000000"):
            with pytest.raises(SpeakerNotFound):
                store.bring_back(nobody)


def test_a_speaker_in_the_trash_survives_restarts_and_is_seen_back_by_other_processes(grace: StoreConfig) -> None:
    with Store.open(grace) as first, Store.open(grace) as second:
        speaker = first.enrol(new_speaker("Anna", [1]))
        assert second.similar(speaker.vector, ENCODER, 1)
        first.delete(speaker.id)
        assert second.similar(speaker.vector, ENCODER, 1) == ()
        first.bring_back(speaker.id)
        assert second.similar(speaker.vector, ENCODER, 1)[0].speaker_id == speaker.id
        first.delete(speaker.id)
    with Store.open(grace) as store:
        assert [each.id for each in store.deleted()] == [speaker.id]
        assert store.bring_back(speaker.id).id == speaker.id


def test_a_purge_leaves_nothing_and_gives_a_receipt(grace: StoreConfig) -> None:
    with Store.open(grace) as store:
        store.enrol(new_speaker("Ben", [3]))
        speaker = store.enrol(
            new_speaker("Anna Unmistakable", [1, 2], labels={"mail": "anna@example.org"}),
            RequestKey("key", hashlib.sha256(b"anna's request").hexdigest()),
        )
        secrets = [*secrets_of(speaker, 1, 2), hashlib.sha256(b"anna's request").hexdigest().encode()]
        store._follower.save()
        store.delete(speaker.id)
        assert all(secret in bytes_everywhere(store, grace) for secret in secrets), "it can be brought back"
        assert store.purge(now=datetime.now(UTC)).n_speakers == 0, "its time is not over"
        receipt = store.purge(now=LATER, actor="schedule")
        assert (receipt.actor, receipt.action, receipt.n_speakers, receipt.n_clips) == ("schedule", "purge", 1, 2)
        assert receipt.speakers_sha256 == hashlib.sha256(f"{speaker.id}\n".encode()).hexdigest()
        left = bytes_everywhere(store, grace)
        assert [secret for secret in secrets if secret in left] == []
        assert store.audit()[0].receipt == {**vars_of(receipt), "at": receipt.at.isoformat()}
        with pytest.raises(SpeakerNotFound):
            store.bring_back(speaker.id)
        assert store.similar(unit_vector(3), ENCODER, 5)[0].name == "Ben"


def vars_of(receipt: object) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(receipt)  # type: ignore[call-overload, no-any-return]


def test_a_purge_of_some_and_a_delete_at_once(grace: StoreConfig) -> None:
    with Store.open(grace) as store:
        anna, ben, cleo = (store.enrol(new_speaker(name, [n])) for n, name in enumerate(("Anna", "Ben", "Cleo")))
        store.delete(anna.id)
        store.delete(ben.id)
        assert store.purge([ben.id, "nobody", cleo.id]).n_speakers == 1, "only from the trash"
        assert [each.id for each in store.deleted()] == [anna.id]
        receipt = store.delete(cleo.id, at_once=True)
        assert receipt is not None and receipt.n_speakers == 1 and len(store.deleted()) == 1


def test_an_erased_speaker_is_erased_again_from_the_trash_of_a_backup(sqlite_config: StoreConfig) -> None:
    from store.schema import migrate

    config = replace(sqlite_config, grace_s=1000.0)
    migrate(config)
    with Store.open(config) as store:
        speaker, other = store.enrol(new_speaker("Anna", [1])), store.enrol(new_speaker("Ben", [2]))
        store.delete(speaker.id)
        store.delete(other.id)
    database = config.state_dir / "voices.db"
    backup = database.read_bytes()
    with Store.open(config) as store:
        store.purge([speaker.id])
    for rest in config.state_dir.glob("voices.db-*"):
        rest.unlink()
    database.write_bytes(backup)
    with Store.open(config) as store:
        assert [each.id for each in store.deleted()] == [other.id], "who can still be brought back is not erased"


def enrol_with(store: Store, name: str, numbers: list[int], **fields: object) -> Speaker:
    return store.enrol(new_speaker(name, numbers, **fields))


def test_policies_combined_remove_exactly_whom_the_dry_run_names(config: StoreConfig) -> None:
    now = datetime.now(UTC) + timedelta(days=100)
    with Store.open(config) as store:
        speakers = {
            "kept": enrol_with(store, "kept", [1]),
            "idle": enrol_with(store, "idle", [2]),
            "twin": enrol_with(store, "twin", [1, 1]),
            "pinned twin": enrol_with(store, "pinned twin", [1], pinned=True),
            "poor": enrol_with(store, "poor", [3], report={"coherence": 0.4}),
            "odd": store.enrol(NewSpeaker("odd", "retired", (clip(4),))),
            "much": enrol_with(store, "much", list(range(10, 40))),
            "pinned poor": enrol_with(store, "pinned poor", [5], report={"coherence": 0.1}, pinned=True),
        }

        for age, name in enumerate(("kept", "twin", "poor", "odd", "much")):
            store.touch({speakers[name].id: (now - timedelta(hours=age), 1)})
        policy = PrunePolicy(
            unused_for_days=30,
            duplicates_above=0.98,
            coherence_below=0.5,
            retired_encoders=("retired",),
            keep_bytes=600,
        )
        dry = store.prune(policy, now, dry_run=True)
        real = store.prune(policy, now)
        assert replace(real, dry_run=True, receipt=None) == dry
        assert {name: reason for _, name, reason in real.victims} == {
            "kept": "duplicate", "twin": "duplicate", "idle": "unused", "poor": "low_quality", "odd": "retired_encoder",
            "much": "over_bytes",
        }  # fmt: skip
        assert {each.name for each in store.list().speakers} == {"pinned twin", "pinned poor"}
        assert real.receipt is not None and real.receipt.n_speakers == 6 and store.index_agrees()


def test_of_near_duplicates_the_one_used_last_stays(config: StoreConfig) -> None:
    with Store.open(config) as store:
        first, _second, stranger = (enrol_with(store, name, [n]) for name, n in (("a", 1), ("b", 1), ("c", 2)))
        store.touch({first.id: (LATER, 1)})
        report = store.prune(PrunePolicy(duplicates_above=0.99))
        assert [(name, reason) for _, name, reason in report.victims] == [("b", "duplicate")]
        assert {each.id for each in store.list().speakers} == {first.id, stranger.id}


def test_very_many_are_removed_as_a_few_are(config: StoreConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.speakers.MANY", 5)
    with Store.open(config) as store:
        speakers = [store.enrol(new_speaker(f"voice {n}", [n, n + 100])) for n in range(9)]
        kept = store.update(speakers[4].id, pinned=True)
        for _ in range(2):
            report = store.prune(PrunePolicy(keep_newest_used=0))
        assert report.victims == () and [each.id for each in store.list().speakers] == [kept.id]
        first = store.audit()[0]
        assert report.receipt is None and (first.action, first.n_speakers, first.n_clips) == ("prune", 8, 16)
        assert store.index_agrees() and store.stats().n_clips == 2
    with Store.open(config) as store:
        assert store.list().total == 1


@pytest.mark.parametrize("dies", [False, True])
def test_most_go_at_once_and_nothing_of_them_is_left_on_the_disk(
    dies: bool, sqlite_config: StoreConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from store.schema import migrate

    migrate(sqlite_config)
    monkeypatch.setattr("store.speakers.MANY", 5)
    with Store.open(sqlite_config) as store:
        speakers = [store.enrol(new_speaker(f"voice {n}", [n, n + 100], report={"x": n})) for n in range(60)]
        stay = {store.update(speakers[n].id, pinned=True).id for n in (4, 31, 59)}
        before = {each.id: each for each in store.list(limit=100).speakers if each.id in stay}
        if dies:
            monkeypatch.setattr(store._database, "overwrite_removed", lambda: None)
            monkeypatch.setattr(store._database, "rewrite_marked", lambda: None)
        receipt = store.prune(PrunePolicy(keep_newest_used=0)).receipt
        assert receipt is not None and (receipt.n_speakers, receipt.n_clips) == (57, 114)
        assert {each.id: each.vector.tobytes() for each in store.list().speakers} == {
            id_: each.vector.tobytes() for id_, each in before.items()
        }
        assert store.index_agrees() and store.stats().n_clips == 6
        left = bytes_everywhere(store, sqlite_config)
        gone = [bytes(unit_vector(n)) for n in range(60) if speakers[n].id not in stay]
        assert dies == any(vector in left for vector in gone)
        store.delete(speakers[4].id)
        with store._database.engine.connect() as connection:
            for table in ("usage", "clips"):
                assert connection.execute(text(f"SELECT count(DISTINCT speaker_id) FROM {table}")).scalar_one() == 2
            for setting, value in {"foreign_keys": 1, "secure_delete": 1, "cache_size": -2000}.items():
                assert connection.execute(text(f"PRAGMA {setting}")).scalar_one() == value
    with Store.open(sqlite_config) as store:
        left = bytes_everywhere(store, sqlite_config)
        assert not any(vector in left for vector in gone) and store.list().total == 2
        assert store.prune(PrunePolicy(orphans=True), dry_run=True).n_orphans == 0 and store.index_agrees()


def test_orphans_of_a_damaged_database_are_counted_and_removed(sqlite_store: Store) -> None:
    sqlite_store.enrol(new_speaker("Anna", [1, 2]))
    with sqlite_store._database.engine.connect() as connection:
        driver = connection.connection.driver_connection
        driver.rollback()
        driver.execute("PRAGMA foreign_keys=OFF")
        driver.execute("DELETE FROM speakers")
        driver.execute("PRAGMA foreign_keys=ON")
    assert sqlite_store.prune(PrunePolicy(orphans=True), dry_run=True).n_orphans == 3
    assert sqlite_store.prune(PrunePolicy(orphans=True)).n_orphans == 3
    assert sqlite_store.stats().n_clips == 0


def test_a_pruned_speaker_can_be_brought_back_too(grace: StoreConfig) -> None:
    with Store.open(grace) as store:
        speaker = store.enrol(new_speaker("Anna", [1]))
        report = store.prune(PrunePolicy(older_than_days=1), LATER)
        assert report.receipt is None and len(report.victims) == 1
        assert store.bring_back(speaker.id).name == "Anna"


@pytest.mark.parametrize(
    ("field", "value"),
    [("keep_bytes", -1), ("duplicates_above", 1.5), ("duplicates_above", 0.1), ("coherence_below", -0.1)],
)
def test_a_policy_outside_its_range_names_field_and_limit(field: str, value: float, sqlite_store: Store) -> None:
    with pytest.raises(BadArgument, match=rf"{field} is {value}: give") as caught:
        sqlite_store.prune(PrunePolicy(**{field: value}))
    assert "limit" in caught.value.details


def key(name: str, request: str = "request", valid_for_s: float = 60.0) -> RequestKey:
    return RequestKey(name, hashlib.sha256(request.encode()).hexdigest(), valid_for_s)


def test_a_key_enrols_once_and_answers_again(store: Store) -> None:
    first = store.enrol(new_speaker("Anna", [1]), key("k"))
    assert store.enrol(new_speaker("Anna", [1]), key("k")).id == first.id
    again = store.enrolled_before(key("k"))
    assert again is not None and again.id == first.id and store.list().total == 1
    assert store.enrolled_before(key("other")) is None
    with pytest.raises(KeyReused) as caught:
        store.enrol(new_speaker("Ben", [2]), key("k", "another request"))
    assert caught.value.code == "key_reused" and store.list().total == 1
    assert store.stats().index_size == 1


def test_twenty_requests_under_one_key_give_one_speaker(store: Store) -> None:
    with ThreadPoolExecutor(10) as threads:
        jobs = [threads.submit(store.enrol, new_speaker("Anna", [1]), key("k")) for _ in range(20)]
        assert len({job.result().id for job in jobs}) == 1
    assert store.list().total == 1


def test_a_key_is_forgotten_in_time_and_its_request_with_the_speaker(store: Store) -> None:
    store.enrol(new_speaker("Anna", [1]), key("short", valid_for_s=0.05))
    time.sleep(0.1)
    assert store.enrolled_before(key("short")) is None
    ben = store.enrol(new_speaker("Ben", [2]), key("k"))
    with store._database.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM request_keys")).scalar_one() == 1
    store.delete(ben.id)
    for request in ("request", "another"):
        with pytest.raises(SpeakerNotFound):
            store.enrol(new_speaker("Ben", [2]), key("k", request))
    assert store.list().total == 1


def test_a_failed_enrolment_leaves_its_key_unused(store: Store) -> None:
    store.enrol(new_speaker("Anna", [1]))
    with pytest.raises(NameTaken):
        store.enrol(new_speaker("Anna", [2]), key("k"))
    assert store.enrol(new_speaker("Ben", [2]), key("k")).name == "Ben"


def test_a_watched_store_forgets_in_an_idle_process_within_a_second(config: StoreConfig) -> None:
    with Store.open(config) as active, Store.open(replace(config, watch_every_s=0.3)) as idle:
        speaker = active.enrol(new_speaker("Anna", [1]))
        idle.d_vector(speaker.id)
        wait_until(lambda: len(idle._index) == 1)
        active.delete(speaker.id)
        wait_until(lambda: len(idle._index) == 0 and idle._pool.usage().n_vectors == 0)


def test_postgresql_gives_notice_long_before_the_interval(postgresql_url: str, sqlite_config: StoreConfig) -> None:
    from store.schema import migrate

    config = replace(sqlite_config, database_url=postgresql_url)
    migrate(config)
    with Store.open(replace(config, watch_every_s=5.0)) as idle, Store.open(config) as active:
        time.sleep(0.3)
        active.enrol(new_speaker("Anna", [1]))
        wait_until(lambda: len(idle._index) == 1)


def wait_until(happened: object, within_s: float = 1.0) -> None:
    until = time.monotonic() + within_s
    while not happened():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.01)
