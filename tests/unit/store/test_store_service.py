"""The store's front on both databases."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text
from store_samples import ENCODER, clip, new_speaker, sha256, unit_vector

from store.errors import BadArgument, BadName, BadVector, NameTaken, SpeakerNotFound
from store.service import Store
from store.types import ClipRecord, Naming, NewSpeaker, PrunePolicy, StoreConfig

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def rows(store: Store, table: str) -> list[tuple[object, ...]]:
    with store._database.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(f"SELECT * FROM {table}"))]


def test_a_speaker_comes_back_as_it_was_enrolled(store: Store) -> None:
    labels, report = {"team": "a"}, {"voiced_s": 8.5, "notices": [{"code": "clipping"}]}
    enrolled = store.enrol(new_speaker("Anna", [1, 2], labels=labels, report=report, pinned=True))
    got = store.get(enrolled.id)
    mean = unit_vector(1).astype(np.float64) + unit_vector(2)
    np.testing.assert_allclose(got.vector, mean / np.linalg.norm(mean), atol=1e-6)
    assert got.vector.dtype == np.float32
    assert (got.name, got.encoder_id, got.labels, got.report, got.pinned) == ("Anna", ENCODER, labels, report, True)
    assert (got.n_clips, got.speech_s, got.uses, got.last_used_at) == (2, 8.5, 0, None)
    assert got.created_at == enrolled.created_at and got.created_at.utcoffset() == timedelta(0)
    assert got.revision == enrolled.revision == store.stats().revision


def test_one_clip_given_twice_counts_once(store: Store) -> None:
    speaker = store.enrol(new_speaker("Anna", [1, 1, 2, 1]))
    assert speaker.n_clips == 2 and speaker.speech_s == 8.5


@pytest.mark.parametrize("name", ["anna müller", "ANNA  MÜLLER ", "Anna Mu\u0308ller", "Anna\u200b Müller"])
def test_a_name_is_taken_in_any_case_and_form(store: Store, name: str) -> None:
    store.enrol(new_speaker("Anna Müller", [1]))
    with pytest.raises(NameTaken, match="another speaker"):
        store.enrol(new_speaker(name, [2]))
    assert store.stats().n_speakers == store.stats().index_size == 1


@pytest.mark.parametrize(
    "name", ["", " \n\t ", "\x00\x1f", "\u200b\u200d", "a" * 201, "0b9d3a50-7d0c-4d1e-9a53-1f0f6f9f1d11"]
)
def test_a_name_must_be_visible_short_and_no_id(store: Store, name: str) -> None:
    with pytest.raises(BadName) as caught:
        store.enrol(new_speaker(name, [1]))
    assert caught.value.code == "bad_name"
    assert store.stats().n_speakers == 0


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("a" * 200, "a" * 200),
        ("Zoë\x00\r\n\ud800 \u202eB", "Zoë B"),
        ("Zoe\u0308", "Zoë"),
        ("../../etc/passwd", "../../etc/passwd"),
        ("名前 👩‍🚀", "名前 👩‍🚀"),
    ],
)
def test_names_are_cleaned(store: Store, given: str, stored: str) -> None:
    speaker = store.enrol(new_speaker(given, [1]))
    assert store.get(speaker.id).name == stored
    assert store.find(given).id == speaker.id


def test_the_same_name_at_once_is_enrolled_once(store: Store) -> None:
    barrier = threading.Barrier(8)

    def enrol(number: int) -> str:
        barrier.wait()
        try:
            return store.enrol(new_speaker("Anna", [number])).id
        except NameTaken:
            return "taken"

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(enrol, range(8)))
    assert results.count("taken") == 7
    assert store.list().total == 1


def test_find_takes_a_name_or_an_id_in_any_case(store: Store) -> None:
    speaker = store.enrol(new_speaker("Anna", [1]))
    assert {store.find(text).id for text in ("ANNA", speaker.id, speaker.id.upper())} == {speaker.id}


@pytest.mark.parametrize(
    "speaker_id", ["", "nobody", "../x", "a\x00b", "00000000-0000-4000-8000-000000000000", "\ud800"]
)
def test_an_unknown_id_is_not_found_by_any_door(store: Store, speaker_id: str) -> None:
    doors = (store.get, store.find, store.delete, store.d_vector, store.update, lambda id_: store.similar_to(id_, 1))
    for door in doors:
        with pytest.raises(SpeakerNotFound):
            door(speaker_id)


def test_a_name_enrolled_again_never_speaks_with_the_old_voice(store: Store) -> None:
    old = store.enrol(new_speaker("Anna", [1]))
    store.d_vector(old.id)
    store.delete(old.id)
    new = store.enrol(new_speaker("Anna", [2]))
    vector, encoder_id, revision = store.d_vector(store.find("anna").id)
    assert new.id != old.id and revision == new.revision > old.revision and encoder_id == ENCODER
    np.testing.assert_allclose(vector, unit_vector(2), atol=1e-6)
    with pytest.raises(SpeakerNotFound):
        store.d_vector(old.id)


def test_more_clips_renew_the_mean_and_raise_the_revision(store: Store) -> None:
    speaker = store.enrol(new_speaker("Anna", [1]))
    before, _, _ = store.d_vector(speaker.id)
    grown = store.add_clips(speaker.id, ENCODER, [clip(1), clip(2), clip(3)], {"coherence": 0.9})
    after, _, revision = store.d_vector(speaker.id)
    mean = np.sum([unit_vector(number) for number in (1, 2, 3)], axis=0)
    np.testing.assert_allclose(after, mean / np.linalg.norm(mean), atol=1e-6)
    assert grown.n_clips == 3 and revision == grown.revision > speaker.revision and grown.report == {"coherence": 0.9}
    assert store.similar(after, ENCODER, 1)[0].cosine == pytest.approx(1.0, abs=1e-5)
    assert float(before @ after) < 0.99


def test_clips_it_already_has_change_nothing(store: Store) -> None:
    speaker = store.enrol(new_speaker("Anna", [1, 2]))
    again = store.add_clips(speaker.id, ENCODER, [clip(2), clip(1)])
    assert again.revision == speaker.revision and again.updated_at == speaker.updated_at
    np.testing.assert_array_equal(again.vector, speaker.vector)


def test_clips_and_a_name_are_taken_together_or_not_at_all(store: Store) -> None:
    anna, _ = store.enrol(new_speaker("Anna", [1])), store.enrol(new_speaker("Ben", [2]))
    for naming, error in ((Naming("ben"), NameTaken), (Naming(""), BadName)):
        with pytest.raises(error):
            store.add_clips(anna.id, ENCODER, [clip(3)], naming=naming)
        assert store.get(anna.id).updated_at == anna.updated_at and store.get(anna.id).n_clips == 1
    both = store.add_clips(anna.id, ENCODER, [clip(3)], naming=Naming("Ann", {"accent": "plain"}))
    assert (both.name, dict(both.labels), both.n_clips) == ("Ann", {"accent": "plain"}, 2)
    assert (store.get(anna.id).name, store.get(anna.id).n_clips) == ("Ann", 2)


def test_clips_of_another_encoder_or_width_are_refused(store: Store) -> None:
    speaker = store.enrol(new_speaker("Anna", [1]))
    with pytest.raises(BadVector) as caught:
        store.add_clips(speaker.id, "other", [clip(2)])
    assert caught.value.code == "wrong_encoder" and caught.value.details["expected"] == ENCODER
    for width in (31, 33):
        with pytest.raises(BadVector) as caught:
            store.enrol(NewSpeaker("Ben", ENCODER, (clip(2, width),)))
        assert caught.value.details == {"expected": 32, "measured": width}
    assert store.get(speaker.id).n_clips == 1 and store.stats().n_speakers == 1


def test_vectors_of_different_encoders_never_meet(store: Store) -> None:
    anna = store.enrol(new_speaker("Anna", [1]))
    ben = store.enrol(NewSpeaker("Ben", "wide", (clip(1, 64),)))
    same_width = store.enrol(NewSpeaker("Cleo", "other", (clip(1),)))
    assert [match.speaker_id for match in store.similar(unit_vector(1), ENCODER, 10)] == [anna.id]
    assert [match.speaker_id for match in store.similar(unit_vector(1, 64), "wide", 10)] == [ben.id]
    assert store.similar_to(same_width.id, 10) == ()
    assert store.similar(unit_vector(1), "unknown", 10) == ()
    assert store.stats().encoder_ids == (ENCODER, "other", "wide")


BAD_VECTORS = {
    "nan": np.full(32, np.nan, np.float32),
    "infinite": np.full(32, np.inf, np.float32),
    "zeros": np.zeros(32, np.float32),
    "not of norm 1": np.ones(32, np.float32),
    "integers": np.eye(32, dtype=np.int64)[0],
    "two axes": np.eye(32, dtype=np.float32)[:1],
    "objects": np.array([None] * 32),
    "empty": np.zeros(0, np.float32),
    "too wide": unit_vector(5, 33),
}


@pytest.mark.parametrize("vector", BAD_VECTORS.values(), ids=BAD_VECTORS)
def test_bad_vectors_are_refused_and_change_nothing(store: Store, vector: np.ndarray) -> None:
    speaker = store.enrol(new_speaker("Anna", [1]))
    bad = replace(clip(2), vector=vector)
    with pytest.raises(BadVector):
        store.enrol(NewSpeaker("Ben", ENCODER, (clip(3), bad)))
    with pytest.raises(BadVector):
        store.add_clips(speaker.id, ENCODER, [bad])
    with pytest.raises(BadVector):
        store.similar(vector, ENCODER, 1)
    assert store.list().total == store.stats().index_size == 1 and store.index_agrees()
    assert store.get(speaker.id).n_clips == 1


def test_double_precision_and_strided_vectors_are_taken(store: Store) -> None:
    wide = np.repeat(unit_vector(1).astype(np.float64), 2)[::2]
    speaker = store.enrol(NewSpeaker("Anna", ENCODER, (replace(clip(1), vector=wide),)))
    np.testing.assert_allclose(store.get(speaker.id).vector, unit_vector(1), atol=1e-6)


def test_clips_that_cancel_each_other_are_no_voice(store: Store) -> None:
    opposite = replace(clip(2), vector=-unit_vector(1))
    with pytest.raises(BadVector, match="cancel"):
        store.enrol(NewSpeaker("Anna", ENCODER, (clip(1), opposite)))


@pytest.mark.parametrize(
    "changes", [{"sha256": "A" * 64}, {"sha256": ""}, {"duration_s": math.nan}, {"voiced_s": -1.0}, {"n_partials": -1}]
)
def test_a_clip_with_bad_figures_is_refused_by_field(store: Store, changes: dict[str, object]) -> None:
    with pytest.raises(BadArgument, match=rf"clips\[1\]\.{next(iter(changes))}"):
        store.enrol(NewSpeaker("Anna", ENCODER, (clip(1), replace(clip(2), **changes))))  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="at least one"):
        store.enrol(NewSpeaker("Anna", ENCODER, ()))


def test_reports_hold_whatever_was_measured(store: Store) -> None:
    report = {"snr_db": math.nan, "level": np.float32(-3.5), "clips": ({"index": np.int64(1)},), "text": "a\x00\ud800"}
    speaker = store.enrol(new_speaker("Anna", [1], report=report))
    expected = {"snr_db": None, "level": -3.5, "clips": [{"index": 1}], "text": "a\x00\ud800"}
    assert store.get(speaker.id).report == expected


@pytest.mark.parametrize(
    "labels", [{"": "x"}, {"k": "v" * 501}, {"k" * 501: "v"}, {"k": 1}, {str(number): "v" for number in range(65)}]
)
def test_labels_have_limits(store: Store, labels: dict[str, str]) -> None:
    with pytest.raises(BadArgument) as caught:
        store.enrol(new_speaker("Anna", [1], labels=labels))
    assert caught.value.code == "bad_labels"


def test_pages_show_everyone_once_in_order(store: Store) -> None:
    ids = [store.enrol(new_speaker(f"voice {number}", [number])).id for number in range(7)]
    seen, cursor = [], None
    while True:
        page = store.list(cursor, limit=3)
        assert page.total == 7 and len(page.speakers) <= 3
        seen += [speaker.id for speaker in page.speakers]
        if (cursor := page.next_cursor) is None:
            break
    assert seen == ids


def test_a_page_goes_on_after_its_last_speaker_is_deleted(store: Store) -> None:
    ids = [store.enrol(new_speaker(f"voice {number}", [number])).id for number in range(4)]
    page = store.list(limit=2)
    store.delete(ids[1])
    assert [speaker.id for speaker in store.list(page.next_cursor, 2).speakers] == ids[2:]


def test_a_name_is_searched_as_text(store: Store) -> None:
    for number, name in enumerate(("Anna Müller", "100%", "a_b", "axb")):
        store.enrol(new_speaker(name, [number]))
    found = {
        part: [speaker.name for speaker in store.list(name_contains=part).speakers] for part in ("MÜL", "%", "A_B")
    }
    assert found == {"MÜL": ["Anna Müller"], "%": ["100%"], "A_B": ["a_b"]}
    assert store.list(name_contains="\x00\ud800").total == 4


@pytest.mark.parametrize("cursor", ["", "x", "é", "AAAA", "MjAyNi0wMS0wMSBhYg==", "=" * 9])
def test_a_bad_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(BadArgument) as caught:
        store.list(cursor)
    assert caught.value.code == "bad_cursor"


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_limits_are_bounded(store: Store, limit: int) -> None:
    for call in (lambda: store.list(limit=limit), lambda: store.similar(unit_vector(1), ENCODER, limit)):
        with pytest.raises(BadArgument) as caught:
            call()
        assert caught.value.code == "bad_limit" and caught.value.details["measured"] == limit


def test_an_update_replaces_what_is_given_and_keeps_the_voice(store: Store) -> None:
    speaker = store.enrol(new_speaker("Anna", [1], labels={"a": "1"}))
    store.enrol(new_speaker("Ben", [2]))
    assert store.update(speaker.id, pinned=True).labels == {"a": "1"}
    assert store.update(speaker.id, name="ANNA", labels={}).name == "ANNA"
    got = store.get(speaker.id)
    assert (got.name, got.labels, got.pinned, got.revision) == ("ANNA", {}, True, speaker.revision)
    with pytest.raises(NameTaken):
        store.update(speaker.id, name="ben")
    assert store.similar_to(speaker.id, 1)[0].name == "Ben"


def test_a_renamed_neighbour_has_its_new_name(store: Store) -> None:
    anna, ben = store.enrol(new_speaker("Anna", [1])), store.enrol(new_speaker("Ben", [2]))
    store.update(ben.id, name="Benno")
    (match,) = store.similar_to(anna.id.upper(), 5)
    assert (match.speaker_id, match.name) == (ben.id, "Benno")
    assert match.cosine == pytest.approx(float(unit_vector(1) @ unit_vector(2)), abs=1e-6)


def test_last_use_moves_forward_only_and_passes_over_the_gone(store: Store) -> None:
    speaker = store.enrol(new_speaker("Anna", [1]))
    gone = "00000000-0000-4000-8000-000000000000"
    store.touch({speaker.id: (NOW, 2), gone: (NOW, 1), "a\x00": (NOW, 1)})
    store.touch({speaker.id: (NOW - timedelta(days=1), 1)})
    got = store.get(speaker.id)
    assert (got.last_used_at, got.uses, got.revision) == (NOW, 3, speaker.revision)
    store.touch({})


def test_the_pool_gives_one_read_only_array(store: Store) -> None:
    speaker = store.enrol(new_speaker("Anna", [1]))
    first, second = store.d_vector(speaker.id)[0], store.d_vector(speaker.id)[0]
    assert first is second and not first.flags.writeable
    stats = store.stats()
    assert (stats.pool_vectors, stats.pool_bytes, stats.pool_hits, stats.pool_misses) == (1, 128, 1, 1)


def test_a_known_clip_needs_no_second_embedding(store: Store) -> None:
    speaker = store.enrol(new_speaker("Anna", [1]))
    cached = store.cached_embedding(sha256(1), ENCODER)
    assert isinstance(cached, ClipRecord) and (cached.duration_s, cached.voiced_s, cached.snr_db) == (5.5, 4.25, 21.5)
    np.testing.assert_array_equal(cached.vector, unit_vector(1))
    assert store.cached_embedding(sha256(1), "other") is None
    store.delete(speaker.id)
    assert store.cached_embedding(sha256(1), ENCODER) is None


def test_a_dry_run_names_exactly_whom_the_run_removes(store: Store) -> None:
    speakers = [store.enrol(new_speaker(f"voice {number}", [number, number + 100])) for number in range(6)]
    store.update(speakers[0].id, pinned=True)
    for age, speaker in enumerate(speakers):
        store.touch({speaker.id: (NOW - timedelta(days=age), 1)})
    policy = PrunePolicy(keep_newest_used=2)
    with store.hold(speakers[5].id) as held:
        dry = store.prune(policy, NOW, dry_run=True)
        assert store.list().total == 6
        real = store.prune(policy, NOW)
        np.testing.assert_array_equal(held.vector, speakers[5].vector)
    assert replace(dry, dry_run=False) == replace(real, receipt=None)
    assert real.receipt is not None and (real.receipt.n_speakers, real.receipt.n_clips) == (2, 4)
    assert [(id_, reason) for id_, _, reason in real.victims] == [(speakers[n].id, "over_count") for n in (3, 4)]
    assert real.kept == 4 and real.freed_bytes == 2 * 3 * 32 * 4
    assert {speaker.id for speaker in store.list().speakers} == {speakers[n].id for n in (0, 1, 2, 5)}
    assert store.index_agrees()


def test_many_are_pruned_in_one_transaction(store: Store) -> None:
    for number in range(3):
        store.enrol(new_speaker(f"voice {number}", [number]))
    before = store.stats().revision
    assert len(store.prune(PrunePolicy(older_than_days=0), datetime.now(UTC) + timedelta(days=1)).victims) == 3
    assert store.stats().revision == before + 1 and store.stats().index_size == 0


def test_erasure_leaves_an_id_and_a_count(store: Store, config: StoreConfig) -> None:
    speaker = store.enrol(new_speaker("Anna", [1, 2], labels={"mail": "anna@example.org"}))
    store.d_vector(speaker.id)
    store.delete(speaker.id, actor="admin key")
    assert [rows(store, table) for table in ("speakers", "clips", "usage")] == [[], [], []]
    ((tombstone_id, _),) = rows(store, "tombstones")
    assert tombstone_id == speaker.id
    last, first = store.audit()
    assert (last.actor, last.action, last.n_speakers, last.n_clips) == ("admin key", "delete", 1, 2)
    assert (first.actor, first.action, first.n_speakers, first.n_clips) == ("api", "enrol", 1, 2)
    assert not any(word in str(rows(store, "audit")) for word in (speaker.id, "Anna", "anna@example.org"))
    assert store.stats().pool_vectors == store.stats().index_size == 0
    with pytest.raises(SpeakerNotFound):
        store.delete(speaker.id)


def test_erasure_leaves_no_byte_of_the_voice_in_any_file(sqlite_store: Store, sqlite_config: StoreConfig) -> None:
    sqlite_store.enrol(new_speaker("Ben", [3]))
    speaker = sqlite_store.enrol(new_speaker("Anna Unmistakable", [1, 2]))
    secrets = [b"Anna Unmistakable", unit_vector(1).tobytes(), unit_vector(2).tobytes(), speaker.vector.tobytes()]
    sqlite_store._follower.save()

    def found(folder: Path) -> int:
        files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
        return sum(secret in data for secret in secrets for data in files)

    assert found(sqlite_config.state_dir) >= len(secrets)
    sqlite_store.delete(speaker.id)
    assert found(sqlite_config.state_dir) == 0
