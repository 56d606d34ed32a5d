"""Installed voices: how they come, are chosen, checked and go, and that a half-written one never counts."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli import app
from api.errors import ModelUnknown, RequestRefused
from api.importing import check_speaks, import_coqui
from api.settings import Settings
from api.shelf import BUNDLED, Shelf
from cloning.errors import BundleError

COQUI = Path(__file__).parents[2] / "data" / "coqui"


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "voices", Settings().bundle_dir())


def names_on_disk(shelf: Shelf, tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "voices").iterdir())


def test_the_bundled_voice_is_there_and_in_use(shelf: Shelf) -> None:
    (voice,) = shelf.voices()
    assert (voice.name, voice.in_use, voice.problem) == (BUNDLED, True, "")


def test_a_yourtts_folder_becomes_a_voice_with_its_own_encoder(shelf: Shelf) -> None:
    brought = import_coqui(shelf, COQUI / "yourtts", "brought")
    voice = shelf.voice("brought")
    assert voice.info is not None
    assert voice.encoder_dir is not None
    assert voice.info.model_id == brought.model_id == check_speaks(voice.folder)
    assert brought.encoder_id == voice.info.voice.encoder_id
    assert brought.encoder_id.startswith("hasp-")
    assert brought.languages == ("en", "fr-fr", "pt-br")
    assert shelf.verify("brought") == voice.info
    card = (voice.folder / "card.md").read_text("utf-8")
    assert "licence" in card
    assert hashlib.sha256((COQUI / "yourtts" / "model_file.pth").read_bytes()).hexdigest() in card


def test_a_voice_of_one_speaker_takes_the_bundled_encoder(shelf: Shelf) -> None:
    brought = import_coqui(shelf, COQUI / "single")
    assert brought.name == "single"
    bundled = shelf.voice(BUNDLED).info
    assert bundled is not None
    assert brought.encoder_id == bundled.voice.encoder_id
    assert shelf.voice("single").encoder_dir is None


def test_a_voice_that_follows_d_vectors_needs_its_encoder(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"missing config_se\.json, model_se\.pth"):
        import_coqui(shelf, COQUI / "multi")
    assert names_on_disk(shelf, tmp_path) == []


def test_a_voice_that_cannot_be_spelt_to_here_is_not_installed(shelf: Shelf, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(COQUI / "single", tmp_path / "source"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"phoneme_language": "de", "languages": []}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(BundleError, match="none of the voice's languages can be read"):
        import_coqui(shelf, folder)
    assert shelf.names() == (BUNDLED,)


def cut(folder: Path) -> None:
    path = folder / "model_file.pth"
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 9 // 10])


def cut_encoder(folder: Path) -> None:
    path = folder / "model_se.pth"
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 9 // 10])


def other_encoder(folder: Path) -> None:
    path = folder / "config_se.json"
    data: dict[str, Any] = json.loads(path.read_text())
    data["model_params"]["proj_dim"] = 256
    path.write_text(json.dumps(data))


@pytest.mark.parametrize("spoil", [cut, cut_encoder, other_encoder, lambda folder: (folder / "config.json").unlink()])
def test_a_failed_import_leaves_nothing_and_the_voice_in_use_stays(shelf: Shelf, tmp_path: Path, spoil) -> None:
    folder = Path(shutil.copytree(COQUI / "yourtts", tmp_path / "source"))
    spoil(folder)
    with pytest.raises(BundleError):
        import_coqui(shelf, folder, "broken")
    assert shelf.names() == (BUNDLED,)
    assert shelf.in_use() == BUNDLED
    assert not (tmp_path / "voices").exists() or names_on_disk(shelf, tmp_path) == []


def test_a_process_that_died_while_writing_left_no_voice(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "voices" / ".brought-0123").mkdir(parents=True)
    assert shelf.names() == (BUNDLED,)


def test_a_voice_is_chosen_and_only_an_unused_one_goes(shelf: Shelf) -> None:
    import_coqui(shelf, COQUI / "single")
    shelf.use("single")
    assert shelf.in_use() == "single"
    with pytest.raises(RequestRefused, match="in use"):
        shelf.remove("single")
    shelf.use(BUNDLED)
    shelf.remove("single")
    assert shelf.names() == (BUNDLED,)
    with pytest.raises(RequestRefused, match="cannot be removed"):
        shelf.remove(BUNDLED)


def test_a_vanished_voice_gives_way_to_the_bundled_one(shelf: Shelf, tmp_path: Path) -> None:
    import_coqui(shelf, COQUI / "single")
    shelf.use("single")
    shutil.rmtree(tmp_path / "voices" / "single")
    assert shelf.in_use() == BUNDLED


@pytest.mark.parametrize("name", ["../x", "", "UPPER", ".hidden", "a" * 64, "default", "in-use"])
def test_names_that_cannot_be(shelf: Shelf, name: str) -> None:
    with pytest.raises(RequestRefused), shelf.installing(name):
        pytest.fail("a folder was given")


@pytest.mark.parametrize("name", ["../x", "nothing", "in-use", ""])
def test_unknown_voices_are_refused_with_those_that_there_are(shelf: Shelf, name: str) -> None:
    with pytest.raises(ModelUnknown, match="there are default"):
        shelf.folder_of(name)


def test_a_taken_name_is_refused(shelf: Shelf) -> None:
    import_coqui(shelf, COQUI / "single")
    with pytest.raises(RequestRefused, match="here already"):
        import_coqui(shelf, COQUI / "single")


@pytest.mark.parametrize("name", ["weights-01-of-01.safetensors", "encoder/encoder.safetensors"])
def test_changed_files_are_found(shelf: Shelf, name: str) -> None:
    import_coqui(shelf, COQUI / "yourtts", "brought")
    path = shelf.folder_of("brought") / name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(BundleError, match=r"has SHA-256 \w+, expected \w+"):
        shelf.verify("brought")


def test_a_voice_that_was_replaced_is_seen_at_once(shelf: Shelf) -> None:
    import_coqui(shelf, COQUI / "single", "mine")
    first = shelf.voice("mine").info
    shelf.remove("mine")
    import_coqui(shelf, COQUI / "yourtts", "mine")
    second = shelf.voice("mine").info
    assert first is not None
    assert second is not None
    assert first.model_id != second.model_id
    assert shelf.voice("mine").info is second, "an unchanged voice is read once"


def test_a_broken_voice_is_listed_with_its_problem(shelf: Shelf) -> None:
    import_coqui(shelf, COQUI / "single")
    (shelf.folder_of("single") / "model.json").write_text("{")
    voice = shelf.voice("single")
    assert voice.info is None
    assert "model.json" in voice.problem
    with pytest.raises(BundleError):
        shelf.use("single")


def test_the_commands_from_folder_to_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICEKIN_STATE_DIR", str(tmp_path / "state"))

    def voices(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["voices", *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    brought = json.loads(voices("import-coqui", str(COQUI / "single"), "--name", "mine", "--json"))
    assert brought["name"] == "mine"
    voices("use", "mine")
    rows = json.loads(voices("list", "--json"))["voices"]
    assert [(row["name"], row["in_use"]) for row in rows] == [(BUNDLED, False), ("mine", True)]
    assert json.loads(voices("show", "mine", "--json"))["model_id"] == brought["model_id"]
    assert json.loads(voices("verify", "mine", "--json"))["ok"] is True
    exported = json.loads(voices("export", "mine", "--onnx", str(tmp_path / "onnx"), "--json"))
    assert exported["largest_difference"] < 1e-3
    assert {path.name for path in (tmp_path / "onnx").iterdir()} == {"prior.onnx", "decode.onnx", "voice.json"}
    voices("use", BUNDLED)
    voices("remove", "mine")
    assert len(json.loads(voices("list", "--json"))["voices"]) == 1
