"""Consents on both databases: what they are worth, that they end at once, and that they go with their speaker."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from store_samples import ENCODER, clip, new_speaker, unit_vector

from store.backup import back_up, restore
from store.consent_types import NewConsent, Recording, VoiceCheck, WordsCheck
from store.errors import BadArgument, ConsentNotFound, ConsentRefused, SpeakerNotFound
from store.jobs_types import JobBounds, NewJob, NewPiece
from store.schema import migrate
from store.service import Store
from store.types import (
    OFF,
    RECORDING,
    STATEMENT,
    ConsentPolicy,
    FloatArray,
    KeptSpeech,
    Owner,
    PrunePolicy,
    StoreConfig,
)

BOUNDS = JobBounds(10, 10**9)
AUDIO = b"a statement that somebody recorded"
GRANTED = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def policy(level: str = STATEMENT, words: bool = False) -> ConsentPolicy:
    return ConsentPolicy(level, words, 0.7)


def near(number: int, cosine: float) -> FloatArray:
    """A vector at this cosine to that of the clip of this number."""
    own, other = unit_vector(number).astype(np.float64), unit_vector(number + 1000).astype(np.float64)
    aside = other - own * (own @ other)
    found: FloatArray = (cosine * own + np.sqrt(1 - cosine**2) * aside / np.linalg.norm(aside)).astype(np.float32)
    return found


def consent(number: int | None = None, words: WordsCheck | None = None, **fields: object) -> NewConsent:
    """With a number, one whose recording sounds much like that clip."""
    recording = None if number is None else Recording(AUDIO, near(number, 0.8), ENCODER)
    new = NewConsent("Ada Lovelace", "Ada", "I agree.", "en", GRANTED, recording, words)
    return replace(new, **fields)  # type: ignore[arg-type]


@pytest.fixture
def strict(config: StoreConfig) -> Iterator[Store]:
    """A store that wants a consent, and keeps speeches."""
    with Store.open(replace(config, consent=policy(), audio_cache="memory")) as opened:
        yield opened


def refused(code: str) -> "pytest.RaisesExc[ConsentRefused]":
    return pytest.raises(ConsentRefused, check=lambda error: error.code == code)


def test_nobody_is_enrolled_without_a_consent_where_one_is_needed(strict: Store) -> None:
    with refused("consent_missing"):
        strict.enrol(new_speaker("Ada", [1]))
    with refused("consent_missing"):
        strict.check_consent(None)
    assert strict.list().total == 0
    given = strict.add_consent(consent())
    assert (given.state, given.voice, given.words, given.recording_sha256) == ("unused", None, None, None)
    ada = strict.enrol(new_speaker("Ada", [1]), consent_id=given.id)
    found = strict.consent(given.id)
    assert (found.state, found.speaker_id, found.granted_at) == ("in_use", ada.id, GRANTED)
    with strict.hold(ada.id) as voice:
        assert voice.speaker_id == ada.id
    assert [line.action for line in strict.audit()] == ["enrol", "consent_use", "consent_add"]


def test_a_consent_is_one_speakers_and_one_tenants(strict: Store) -> None:
    given = strict.add_consent(consent())
    strict.enrol(new_speaker("Ada", [1]), consent_id=given.id)
    with refused("consent_used"):
        strict.enrol(new_speaker("Ben", [2]), consent_id=given.id)
    acme, other = strict.seen_by(Owner(None, "acme")), strict.seen_by(Owner(None, "other"))
    theirs = acme.add_consent(consent())
    for call in (
        lambda: other.enrol(new_speaker("Cleo", [3]), consent_id=theirs.id),
        lambda: other.check_consent(theirs.id),
        lambda: other.consent(theirs.id),
        lambda: other.export_consent(theirs.id),
        lambda: other.revoke_consent(theirs.id),
        lambda: other.rename_consent(theirs.id, "x"),
        lambda: other.delete_consent(theirs.id),
        lambda: strict.consent("../consents"),
    ):
        with pytest.raises(ConsentNotFound):
            call()  # type: ignore[no-untyped-call]
    assert other.consents().total == 0 and [each.id for each in acme.consents().consents] == [theirs.id]
    assert acme.enrol(new_speaker("Ada", [3]), consent_id=theirs.id).tenant == "acme"


def test_a_recording_must_sound_like_every_clip(strict: Store) -> None:
    given = strict.add_consent(consent(1))
    with refused("consent_voice_differs") as caught:
        strict.enrol(new_speaker("Ada", [1, 2]), consent_id=given.id)
    assert caught.value.details["limit"] == 0.7
    assert strict.list().total == 0 and strict.consent(given.id).state == "unused"
    ada = strict.enrol(new_speaker("Ada", [1]), consent_id=given.id)
    voice = strict.consent(given.id).voice
    assert voice == VoiceCheck(pytest.approx(0.8, abs=1e-3), 0.7)  # type: ignore[arg-type]
    revision = strict.get(ada.id).revision
    with refused("consent_voice_differs"):
        strict.add_clips(ada.id, ENCODER, [clip(2)])
    assert strict.get(ada.id).revision == revision, "nothing of a refused clip is kept"
    assert strict.get(ada.id).n_clips == 1


def test_another_encoders_recording_is_heard_again_before_it_is_compared(strict: Store) -> None:
    given = strict.add_consent(consent(recording=Recording(AUDIO, near(1, 0.8), "another")))
    wide = strict.add_consent(consent(recording=Recording(AUDIO, unit_vector(1, 64), ENCODER)))
    for each in (given, wide):
        with refused("consent_insufficient"):
            strict.enrol(new_speaker("Ada", [1]), consent_id=each.id)
    assert strict.consent_recording(given.id) == AUDIO
    strict.rehear_consent(given.id, near(1, 0.9), ENCODER)
    strict.enrol(new_speaker("Ada", [1]), consent_id=given.id)
    assert strict.consent(given.id).voice == VoiceCheck(pytest.approx(0.9, abs=1e-3), 0.7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "new", "is_enough"),
    [
        (policy(STATEMENT), consent(), True),
        (policy(RECORDING), consent(), False),
        (policy(RECORDING), consent(1), True),
        (policy(STATEMENT, words=True), consent(1), False),
        (policy(RECORDING, words=True), consent(1, WordsCheck(0.1, 0.3)), True),
        (policy(OFF, words=True), consent(), True),
    ],
)
def test_a_consent_must_be_worth_what_the_policy_asks_for(
    config: StoreConfig, asked: ConsentPolicy, new: NewConsent, is_enough: bool
) -> None:
    with Store.open(config) as lax:
        ids = [lax.add_consent(new).id for _ in range(2)]
        ada = lax.enrol(new_speaker("Ada", [1]), consent_id=ids[0])
    with Store.open(replace(config, consent=asked)) as store:
        if is_enough:
            store.d_vector(ada.id)
            store.enrol(new_speaker("Ben", [1]), consent_id=ids[1])
            return
        with refused("consent_insufficient"):
            store.d_vector(ada.id)
        with refused("consent_insufficient"):
            store.enrol(new_speaker("Ben", [1]), consent_id=ids[1])
        assert store.list().total == 1


def test_speakers_of_before_need_a_consent_when_it_is_switched_on(config: StoreConfig) -> None:
    with Store.open(config) as lax:
        ada = lax.enrol(new_speaker("Ada", [1, 3])).id
    with Store.open(replace(config, consent=policy())) as store:
        for call in (
            lambda: store.d_vector(ada),
            lambda: store.add_clips(ada, ENCODER, [clip(2)]),
            lambda: store.jobs.add(NewJob("t", "Hi.", {}, (), (NewPiece(ada, 0, 3, 0.0),), 10), BOUNDS),
        ):
            with refused("consent_missing"):
                call()  # type: ignore[no-untyped-call]
        with refused("consent_voice_differs"):
            store.add_consent(consent(1), ada)
        assert store.consents().total == 0, "a consent that is not for the speaker is not kept either"
        given = store.add_consent(consent(), ada)
        assert given.state == "in_use"
        with refused("consent_used"):
            store.add_consent(consent(), ada)
        store.d_vector(ada)
        with pytest.raises(SpeakerNotFound):
            store.add_consent(consent(), "0b9d3a50-7d0c-4d1e-9a53-1f0f6f9f1d11")


@pytest.mark.parametrize("level", [OFF, STATEMENT])
def test_a_revoked_consent_stops_speech_jobs_and_kept_speeches_in_every_process(
    config: StoreConfig, level: str
) -> None:
    cached = replace(config, consent=policy(level), audio_cache="disk")
    with Store.open(cached) as revoking, Store.open(cached) as speaking:
        given = revoking.add_consent(consent())
        ada = revoking.enrol(new_speaker("Ada", [1]), consent_id=given.id)
        speaking.d_vector(ada.id)
        speaking.keep_speech(ada.id, ada.revision, "key", KeptSpeech(b"speech", 1.0))
        job = speaking.jobs.add(NewJob("t", "Hi.", {}, (), (NewPiece(ada.id, 0, 3, 0.0),), 10), BOUNDS)
        assert revoking.revoke_consent(given.id).state == "revoked"
        for store in (revoking, speaking):
            with refused("consent_revoked"):
                store.d_vector(ada.id)
            with refused("consent_revoked"):
                store.add_clips(ada.id, ENCODER, [clip(1)])
            assert store.kept_speech(ada.id, "key") is None
            assert (store.jobs.get(job.id).state, store.jobs.text(job.id)) == ("speaker_gone", "")
        assert [line.action for line in revoking.audit(2)] == ["consent_revoke", "enrol"]
        at = revoking.revoke_consent(given.id).revoked_at
        assert revoking.audit(1)[0].action == "consent_revoke" and speaking.consent(given.id).revoked_at == at
        unused = revoking.revoke_consent(revoking.add_consent(consent()).id)
        with refused("consent_revoked"):
            revoking.enrol(new_speaker("Ben", [2]), consent_id=unused.id)
        revoking.add_consent(consent(), ada.id)
        speaking.d_vector(ada.id)


def test_a_consent_goes_with_its_speaker_and_its_recording_too(config: StoreConfig) -> None:
    with Store.open(replace(config, consent=policy(RECORDING), grace_s=3600)) as store:
        given = [store.add_consent(consent(number)) for number in (1, 2, 3)]
        ids = [store.enrol(new_speaker(f"n{n}", [n]), consent_id=each.id).id for n, each in enumerate(given, 1)]
        with refused("consent_used"):
            store.delete_consent(given[0].id)
        store.delete(ids[0])
        assert store.consent(given[0].id).state == "in_use", "who can be brought back keeps it"
        store.bring_back(ids[0])
        store.d_vector(ids[0])
        store.delete(ids[0], at_once=True)
        store.delete(ids[1])
        store.purge(ids[1:2])
        store.prune(PrunePolicy(keep_newest_used=0))
        store.purge(ids[2:])
        assert store.consents().total == 0
        erased = [line.receipt for line in store.audit() if line.action == "consent_erase"]
        assert erased == [{"consent_id": each.id} for each in reversed(given)]
    assert not [path for path in config.state_dir.rglob("*") if path.is_file() and AUDIO in path.read_bytes()]
    with Store.open(config) as store, store._database.reading_session() as session:
        assert session.execute(text("SELECT count(*) FROM consent_recordings")).scalar_one() == 0


def test_a_restored_backup_brings_no_ended_consent_back(config: StoreConfig, tmp_path: Path) -> None:
    with Store.open(config) as store:
        revoked, deleted, used, late = (store.add_consent(consent(1)) for _ in range(4))
        ada = store.enrol(new_speaker("Ada", [1]), consent_id=used.id)
        back_up(config, tmp_path / "backup.zip")
        ben = store.enrol(new_speaker("Ben", [1]), consent_id=late.id)
        store.revoke_consent(revoked.id)
        store.delete_consent(deleted.id)
        store.delete(ada.id)
        store.delete(ben.id)
    fresh = replace(config, database_url=f"sqlite:///{tmp_path}/fresh.db")
    migrate(fresh)
    restore(fresh, tmp_path / "backup.zip")
    with Store.open(fresh) as store:
        assert [(each.id, each.state) for each in store.consents().consents] == [(revoked.id, "revoked")]
        assert store.list().total == 0


def test_a_backup_keeps_consents_and_an_archive_cannot_go_round_them(config: StoreConfig, tmp_path: Path) -> None:
    asked = replace(config, consent=policy(RECORDING))
    with Store.open(asked) as store:
        given = store.add_consent(consent(1))
        ada = store.enrol(new_speaker("Ada", [1]), consent_id=given.id)
        back_up(asked, tmp_path / "backup.zip")
        store.export(tmp_path / "speakers.zip")
    for number in range(2):
        state = tmp_path / f"fresh-{number}"
        fresh = replace(asked, database_url=f"sqlite:///{state}/voices.db", state_dir=state)
        migrate(fresh)
        if number == 0:
            restore(fresh, tmp_path / "backup.zip")
        with Store.open(fresh) as store:
            if number == 0:
                store.d_vector(ada.id)
                assert store.consent_recording(given.id) == AUDIO
            else:
                report = store.import_speakers(tmp_path / "speakers.zip")
                assert (report.imported, report.refused) == (0, ((ada.id, "Ada", "consent_missing"),))


def test_a_consent_that_nobody_uses_is_forgotten_in_time(config: StoreConfig) -> None:
    with Store.open(config) as store:
        used, unused = (store.add_consent(consent(1)) for _ in range(2))
        store.enrol(new_speaker("Ada", [1]), consent_id=used.id)
        later = datetime.now(UTC) + timedelta(days=31)
        assert store.expire_consents() == 0
        assert (store.expire_consents(later, "schedule"), store.expire_consents(later)) == (1, 0)
        assert [each.id for each in store.consents().consents] == [used.id]
        line = store.audit(1)[0]
        assert (line.action, line.actor, line.receipt) == ("consent_expire", "schedule", {"consent_id": unused.id})
        assert unused.id in store._erasures.read(), "nor does a backup bring it back"


def test_an_export_holds_the_record_the_recording_and_who_did_what(strict: Store) -> None:
    view = strict.seen_by(Owner(None, "", "key vk_12345678"))
    given = view.add_consent(consent(1, WordsCheck(0.1, 0.3)))
    strict.rename_consent(given.id, "Countess", actor="http")
    found = strict.export_consent(given.id, actor="command line")
    assert (found.consent.person, found.consent.name, found.recording) == ("Ada Lovelace", "Countess", AUDIO)
    assert found.consent.words == WordsCheck(0.1, 0.3)
    assert [(line.action, line.actor) for line in found.audit] == [
        ("consent_add", "key vk_12345678"), ("consent_rename", "http"), ("consent_export", "command line"),
    ]  # fmt: skip
    assert not any("Ada" in str(line) or "agree" in str(line) for line in strict.audit())


def test_the_database_refuses_to_change_the_audit(strict: Store) -> None:
    strict.add_consent(consent())
    for statement in ("UPDATE audit SET actor = 'nobody'", "DELETE FROM audit"):
        with pytest.raises(DBAPIError, match="only added to"), strict._database.writing_session() as session:
            session.execute(text(statement))
    assert [line.actor for line in strict.audit()] == ["api"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("person", " "), ("person", "x" * 201), ("statement", "x" * 2001), ("language", ""), ("name", "\u200b"),
        ("granted_at", datetime(2026, 1, 1)), ("granted_at", datetime.now(UTC) + timedelta(days=1)),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(sqlite_store: Store, field: str, value: object) -> None:
    with pytest.raises(BadArgument, check=lambda error: error.details["field"] == field) as caught:
        sqlite_store.add_consent(consent(**{field: value}))
    assert caught.value.code == "bad_consent"
    assert sqlite_store.consents().total == 0


def test_pages_give_each_once(sqlite_store: Store) -> None:
    ids = [sqlite_store.add_consent(consent()).id for _ in range(5)]
    seen, cursor = list[str](), None
    while True:
        page = sqlite_store.consents(cursor, 2)
        seen += [each.id for each in page.consents]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == ids and page.total == 5
    ada = sqlite_store.enrol(new_speaker("Ada", [1]), consent_id=ids[3])
    for asked, found in ((ada.id.upper(), [ids[3]]), ("nobody", []), (ids[0], [])):
        own = sqlite_store.consents(speaker_id=asked)
        assert [each.id for each in own.consents] == found and own.total == len(found)
