"""Protected voices on both databases: no way leads to a speaker who sounds like one."""

from dataclasses import replace
from pathlib import Path

import pytest
from store_samples import ENCODER, clip, new_speaker, unit_vector
from test_store_consents import near

from store.backup import back_up, restore
from store.errors import BadName, ProtectedNotFound, VoiceProtected
from store.schema import migrate
from store.service import Store
from store.types import ClipRecord, FloatArray, Owner, StoreConfig


def refused(code: str) -> "pytest.RaisesExc[VoiceProtected]":
    return pytest.raises(VoiceProtected, check=lambda error: error.code == code)


def heard(number: int, cosine: float) -> ClipRecord:
    return replace(clip(number), vector=near(number, cosine), sha256=clip(number + 500).sha256)


def test_who_sounds_like_a_protected_voice_is_not_enrolled_by_any_tenant(store: Store) -> None:
    voice = store.protect("A public person", {ENCODER: [unit_vector(1)]})
    assert store.protected() == (voice,) and voice.encoder_ids == (ENCODER,)
    for view in (store, store.seen_by(Owner(None, "acme"))):
        for clips in ([heard(1, 0.85)], [clip(2), heard(1, 0.85)]):
            with refused("voice_protected") as caught:
                view.enrol(replace(new_speaker("Ada", [2]), clips=tuple(clips)))
            told = f"{caught.value.message} {caught.value.details}"
            assert "public" not in told.lower() and voice.id not in told and not caught.value.details
    assert store.list().total == 0 and store.similar(unit_vector(1), ENCODER, 5) == ()
    ben = store.enrol(replace(new_speaker("Ben", [2]), clips=(heard(1, 0.75),)))
    with refused("voice_protected"):
        store.add_clips(ben.id, ENCODER, [clip(1)])
    assert store.get(ben.id).n_clips == 1, "nothing of a refused clip is kept"
    store.unprotect(voice.id, actor="http")
    store.add_clips(ben.id, ENCODER, [clip(1)])
    with pytest.raises(ProtectedNotFound):
        store.unprotect(voice.id)
    last = store.audit(1)[0]
    assert (last.action, last.receipt) == ("unprotect", {"protected_id": voice.id})


def test_clips_that_each_are_far_enough_may_not_be_it_together(store: Store) -> None:
    parts = [near(1, 0.75), (2 * 0.75 * unit_vector(1) - near(1, 0.75)).astype("float32")]
    clips = tuple(replace(clip(10 + n), vector=part) for n, part in enumerate(parts))
    assert all(float(part @ unit_vector(1)) < 0.8 for part in parts)
    store.protect("A public person", {ENCODER: [unit_vector(1)]})
    with refused("voice_protected"):
        store.enrol(replace(new_speaker("Ada", [2]), clips=clips))


@pytest.mark.parametrize("heard_by", [{"another": [unit_vector(1)]}, {ENCODER: [unit_vector(1, 16)]}])
def test_an_encoder_that_never_heard_a_protected_voice_enrols_nobody(
    store: Store, heard_by: dict[str, list[FloatArray]]
) -> None:
    store.protect("A public person", heard_by)
    with refused("protected_unheard"):
        store.enrol(new_speaker("Ada", [2]))


def test_neither_the_trash_nor_an_archive_nor_another_encoder_goes_round_it(
    config: StoreConfig, tmp_path: Path
) -> None:
    with Store.open(replace(config, grace_s=3600)) as store:
        ada = store.enrol(new_speaker("Ada", [1]))
        store.export(tmp_path / "speakers.zip")
        store.protect("A public person", {ENCODER: [unit_vector(1)], "another": [unit_vector(1)]})
        with refused("voice_protected"):
            store.reembed(ada.id, "another", [clip(1)])
        assert store.get(ada.id).encoder_id == ENCODER
        store.delete(ada.id)
        with refused("voice_protected"):
            store.bring_back(ada.id)
        assert [each.id for each in store.deleted()] == [ada.id]
        assert store.purge([ada.id]).n_speakers == 1
    fresh = replace(config, database_url=f"sqlite:///{tmp_path}/fresh/v.db", state_dir=tmp_path / "fresh")
    migrate(fresh)
    with Store.open(fresh) as store:
        store.protect("A public person", {ENCODER: [unit_vector(1)]})
        report = store.import_speakers(tmp_path / "speakers.zip")
        assert (report.imported, report.refused) == (0, ((ada.id, "Ada", "voice_protected"),))


def test_the_list_is_in_a_backup_and_who_was_let_go_stays_so(config: StoreConfig, tmp_path: Path) -> None:
    with Store.open(config) as store:
        kept, gone = (store.protect(name, {ENCODER: [unit_vector(1)]}) for name in ("Kept", "Gone"))
        back_up(config, tmp_path / "backup.zip")
        store.unprotect(gone.id)
    fresh = replace(config, database_url=f"sqlite:///{tmp_path}/fresh.db")
    migrate(fresh)
    restore(fresh, tmp_path / "backup.zip")
    with Store.open(fresh) as store:
        assert store.protected() == (kept,)


def test_a_protected_voice_needs_a_name(sqlite_store: Store) -> None:
    with pytest.raises(BadName):
        sqlite_store.protect(" ", {ENCODER: [unit_vector(1)]})
