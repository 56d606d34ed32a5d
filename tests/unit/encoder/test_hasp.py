"""The H/ASP encoder against what Coqui's own network made of the same weights; tests/fixtures_recipe/coqui.py."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoder.audio import SAMPLE_RATE
from encoder.bundle import load_encoder, read_encoder_info, save_encoder, verify_encoder
from encoder.networks.hasp import Hasp, read_coqui
from encoder.types import Waveform

COQUI = Path(__file__).parents[2] / "data" / "coqui" / "yourtts"
TOLERANCE = 1e-4


def description() -> dict[str, Any]:
    return dict(json.loads((COQUI / "config_se.json").read_text()))


def tensors() -> dict[str, torch.Tensor]:
    return dict(torch.load(COQUI / "model_se.pth", weights_only=True)["model"])


@pytest.fixture(scope="module")
def network() -> Hasp:
    return read_coqui(description(), tensors())


@pytest.fixture(scope="module")
def expected() -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array).float() for name, array in np.load(COQUI / "expected_se.npz").items()}


def test_mel_front_end(network: Hasp, expected: dict[str, torch.Tensor]) -> None:
    mels = network.mels(expected["waveform"][None])[:, :, ::25]
    torch.testing.assert_close(mels, expected["mel"], rtol=1e-4, atol=1e-4)


def test_embedding_of_a_whole_waveform(network: Hasp, expected: dict[str, torch.Tensor]) -> None:
    torch.testing.assert_close(network(expected["waveform"][None]), expected["whole"], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(("name", "n_samples"), [("embedding", 48_000), ("short", 20_000)])
def test_mean_of_the_windows(network: Hasp, expected: dict[str, torch.Tensor], name: str, n_samples: int) -> None:
    (windows,) = network.embed_clips([expected["waveform"][:n_samples]])
    torch.testing.assert_close(windows.mean(0)[None], expected[name], rtol=0, atol=TOLERANCE)


def test_other_sounds_have_other_vectors(network: Hasp, expected: dict[str, torch.Tensor]) -> None:
    other = network(torch.randn(1, 48_000, generator=torch.Generator().manual_seed(0)) * 0.1)
    assert float((other - expected["whole"]).abs().max()) > 50 * TOLERANCE, "the fixture would hide differences"


def test_clips_do_not_change_each_other(network: Hasp, expected: dict[str, torch.Tensor]) -> None:
    clips = [expected["waveform"][:20_000], expected["waveform"], expected["waveform"][:300]]
    together = network.embed_clips(clips)
    for clip, found in zip(clips, together, strict=True):
        torch.testing.assert_close(found, network.embed_clips([clip])[0])


def test_saved_encoder_hears_the_same(tmp_path, network: Hasp, expected: dict[str, torch.Tensor]) -> None:
    info = save_encoder(tmp_path, network)
    assert info.dim == 512
    assert info.encoder_id.startswith("hasp-")
    assert read_encoder_info(tmp_path) == info == verify_encoder(tmp_path)
    encoder = load_encoder(tmp_path)
    assert (encoder.encoder_id, encoder.dim) == (info.encoder_id, 512)
    samples = expected["waveform"].numpy()
    (heard,) = encoder.embed([Waveform(samples, SAMPLE_RATE)])
    assert heard.encoder_id == info.encoder_id
    direction = torch.nn.functional.normalize(expected["embedding"], dim=1)[0].numpy()
    assert float(heard.vector @ direction) == pytest.approx(1.0, abs=1e-3)  # the level is normalised first


def test_damaged_weights_are_refused_with_both_sums(tmp_path, network: Hasp) -> None:
    save_encoder(tmp_path, network)
    path = tmp_path / "encoder.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match=r"has SHA-256 \w+, expected \w+"):
        load_encoder(tmp_path)


@pytest.mark.parametrize(
    ("section", "field", "value", "words"),
    [
        ("model_params", "model_name", "lstm", "'lstm'"),
        ("model_params", "use_torch_spec", False, "use_torch_spec False"),
        ("model_params", "proj_dim", 256, r"fc\.\w+ has shape \(512.*asks for \(256"),
        ("audio", "num_mels", "many", "num_mels: 'many'"),
        ("audio", "fft_size", 10**9, "fft_size: 1000000000"),
        ("audio", "preemphasis", [1], r"preemphasis: \[1\]"),
    ],
)
def test_descriptions_at_odds_with_the_tensors(section: str, field: str, value: object, words: str) -> None:
    changed = description()
    changed[section][field] = value
    with pytest.raises(ValueError, match=words):
        read_coqui(changed, tensors())


def test_missing_tensors_are_named() -> None:
    fewer = tensors()
    del fewer["layer1.0.se.fc.0.weight"], fewer["bn1.running_mean"]
    with pytest.raises(ValueError, match=r"missing \['bn1.running_mean', 'layer1.0.se.fc.0.weight'\]"):
        read_coqui(description(), fewer)
