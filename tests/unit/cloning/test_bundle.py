"""Voice bundles: whole they come back as they were, damaged they are refused by the name of what is wrong."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from network_samples import DECODERS, DURATIONS, small_model, small_voice
from safetensors.torch import load_file, save_file

from cloning import bundle
from cloning.errors import BundleError

CPU = torch.device("cpu")
WEIGHTS = "weights-01-of-01.safetensors"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("voices") / "small"
    bundle.save(folder, small_voice(), small_model().state_dict(), "# small\n")
    return folder


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return shutil.copytree(pristine, tmp_path / "small")


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "model.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Other tensors under a checksum that is right, as a converter with a mistake would leave them."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)
    sign(folder)


def sign(folder: Path) -> None:
    digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    edit_manifest(folder, lambda data: data["files"].update({WEIGHTS: digest}))


def refused(folder: Path) -> BundleError:
    with pytest.raises(BundleError) as caught:
        bundle.load_model(folder, CPU)
    return caught.value


@pytest.mark.parametrize("durations", list(DURATIONS))
@pytest.mark.parametrize("decoder", list(DECODERS))
def test_a_bundle_comes_back_as_it_was_but_for_half_precision(tmp_path, durations, decoder):
    model = small_model(DURATIONS[durations], DECODERS[decoder])
    bundle.save(tmp_path, model.config, model.state_dict(), "# a voice\n")
    loaded = bundle.load_model(tmp_path, CPU)
    assert loaded.config == model.config
    assert not loaded.training
    weights = loaded.state_dict()
    assert weights.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert weights[name].dtype == torch.float32
        assert torch.equal(weights[name], tensor.half().float()), name
    assert (tmp_path / "card.md").read_text() == "# a voice\n"


def test_a_large_voice_is_split_and_joined_again(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "SHARD_BYTES", 1024)
    model = small_model()
    bundle.save(tmp_path, model.config, model.state_dict(), "")
    shards = sorted(p.name for p in tmp_path.glob("weights-*.safetensors"))
    assert len(shards) > 3
    assert shards[0] == f"weights-01-of-{len(shards):02d}.safetensors"
    assert bundle.load_model(tmp_path, CPU).state_dict().keys() == model.state_dict().keys()


def test_saving_again_leaves_no_shard_of_before(tmp_path, monkeypatch):
    model = small_model()
    with monkeypatch.context() as small_shards:
        small_shards.setattr(bundle, "SHARD_BYTES", 1024)
        bundle.save(tmp_path, model.config, model.state_dict(), "")
    bundle.save(tmp_path, model.config, model.state_dict(), "")
    assert [p.name for p in tmp_path.glob("*.safetensors")] == [WEIGHTS]
    bundle.verify(tmp_path)


def test_the_model_id_follows_the_weights(pristine, tmp_path):
    first = bundle.load_info(pristine)
    bundle.save(tmp_path, small_voice(), small_model(seed=1).state_dict(), "# small\n")
    assert first.model_id.startswith("small-")
    assert bundle.load_info(tmp_path).model_id != first.model_id
    assert bundle.verify(pristine) == first


def test_a_folder_without_a_manifest_is_not_a_voice(tmp_path):
    error = refused(tmp_path)
    assert error.code == "bundle_missing"
    assert "model.json" in error.message


@pytest.mark.parametrize(
    "text", ["", "{", "<html>404</html>", "[]", "{}", '{"voice": {}}', '{"voice": {}, "files": 3}']
)
def test_a_manifest_that_is_not_one_is_named(folder, text):
    (folder / "model.json").write_text(text)
    error = refused(folder)
    assert error.code == "bundle_corrupt"
    assert "model.json" in error.message


def test_a_manifest_in_another_encoding_is_named(folder):
    (folder / "model.json").write_bytes(b"\xff\xfe\x80\x81")
    assert refused(folder).code == "bundle_corrupt"


def test_an_unknown_field_of_the_manifest_is_named(folder):
    edit_manifest(folder, lambda data: data["voice"]["decoder"].update(colour="red"))
    error = refused(folder)
    assert error.code == "bundle_mismatch"
    assert "voice.decoder.colour" in error.message


def test_a_missing_file_is_named(folder):
    (folder / WEIGHTS).unlink()
    error = refused(folder)
    assert error.code == "bundle_missing"
    assert WEIGHTS in error.message


@pytest.mark.parametrize("name", ["../elsewhere.safetensors", "/elsewhere.safetensors", "sub/weights.safetensors"])
def test_a_manifest_opens_no_file_outside_its_folder(folder, name):
    for place in (folder.parent / "elsewhere.safetensors", folder / "sub" / "weights.safetensors"):
        place.parent.mkdir(exist_ok=True)
        shutil.copy(folder / WEIGHTS, place)
    edit_manifest(folder, lambda data: data["files"].update({name: data["files"][WEIGHTS]}))
    error = refused(folder)
    assert error.code == "bundle_missing"
    assert name in error.message


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[: len(content) * 9 // 10], lambda _: b"", lambda _: b"version https://git-lfs\n"],
    ids=["cut", "empty", "pointer"],
)
@pytest.mark.parametrize("signed", [False, True])
def test_a_damaged_file_is_named(folder, damage, signed):
    path = folder / WEIGHTS
    path.write_bytes(damage(path.read_bytes()))
    if signed:
        sign(folder)
    error = refused(folder)
    assert error.code == "bundle_corrupt"
    assert WEIGHTS in error.message


def test_a_flipped_bit_is_found_by_the_checksum(folder):
    path = folder / WEIGHTS
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    error = refused(folder)
    assert error.code == "bundle_corrupt"
    assert WEIGHTS in error.message


def test_a_missing_tensor_is_named(folder):
    edit_weights(folder, lambda tensors: tensors.pop("flow.couplings.0.pre.weight"))
    error = refused(folder)
    assert error.code == "bundle_mismatch"
    assert "missing tensors ['flow.couplings.0.pre.weight']" in error.message


def test_an_unknown_tensor_is_named(folder):
    edit_weights(folder, lambda tensors: tensors.update({"flow.extra": torch.zeros(2)}))
    error = refused(folder)
    assert error.code == "bundle_mismatch"
    assert "unknown ['flow.extra']" in error.message


def test_a_tensor_of_another_shape_is_named_with_both_shapes(folder):
    edit_weights(folder, lambda tensors: tensors.update({"decoder.pre.weight": torch.zeros(12, 10, 5)}))
    error = refused(folder)
    assert error.code == "bundle_mismatch"
    for part in ("decoder.pre.weight", "(12, 10, 5)", "(12, 10, 7)"):
        assert part in error.message


def test_a_manifest_of_other_widths_is_refused_by_the_tensors(folder):
    edit_manifest(folder, lambda data: data["voice"]["decoder"].update(hidden=14))
    error = refused(folder)
    assert error.code == "bundle_mismatch"
    assert "decoder." in error.message


def test_a_save_that_was_cut_short_leaves_no_voice(folder, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle, "save_file", full)
    with pytest.raises(OSError, match="No space"):
        bundle.save(folder, small_voice(), small_model().state_dict(), "")
    assert refused(folder).code == "bundle_missing"
