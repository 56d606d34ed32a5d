"""Exported graphs against torch, for each kind of network, over the range of shapes."""

import json

import numpy as np
import onnxruntime
import pytest
import torch
from network_samples import BY_LANGUAGE, DECODERS, DURATIONS, small_model

from cloning.decoders.istft import InverseTransform
from cloning.errors import EngineError
from cloning.exporters import onnx as exporter
from cloning.exporters.onnx import DECODE, DESCRIPTION, PRIOR, GatheredShifts, MatrixInverse, check, export
from cloning.layers.attention import Shifts


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("durations", DURATIONS)
def test_graphs_say_what_torch_says(tmp_path, durations: str, decoder: str) -> None:
    model = small_model(DURATIONS[durations], DECODERS[decoder])
    found = export(model, tmp_path)
    assert found.n_shapes == len(exporter.CHECKED)
    assert found.difference < 1e-4


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_length_and_batch_up_to_a_sentence(tmp_path, decoder: str) -> None:
    model = small_model(BY_LANGUAGE, DECODERS[decoder])
    export(model, tmp_path)
    shapes = [(n, 1 + n % 5, 1 + n % 4) for n in range(1, 65)]
    assert check(model, tmp_path, shapes).difference < 1e-4


def test_all_lengths_are_dynamic(tmp_path) -> None:
    export(small_model(), tmp_path)
    for name in (PRIOR, DECODE):
        session = onnxruntime.InferenceSession(tmp_path / name)
        for each in session.get_inputs():
            assert each.shape[0] == "batch"
            assert isinstance(each.shape[-1], str) or each.name == "d_vectors" or len(each.shape) == 1


def test_description_says_what_a_caller_needs(tmp_path) -> None:
    model = small_model()
    export(model, tmp_path)
    said = json.loads((tmp_path / DESCRIPTION).read_text("utf-8"))
    assert said["d_vector"] == model.config.speaker.d_vector
    assert tuple(said["text"]["symbols"]) == model.config.text.symbols
    assert said["encoder_id"] == model.config.encoder_id


def test_graphs_of_another_voice_are_told_apart(tmp_path) -> None:
    export(small_model(), tmp_path)
    with pytest.raises(EngineError, match="differ by"):
        check(small_model(seed=1), tmp_path)


@pytest.mark.parametrize("width", [1, 2, 4, 5, 9, 30])
def test_gathered_shifts_are_the_padded_ones(width: int) -> None:
    by_distance, by_position = torch.randn(2, 3, width, 9), torch.randn(2, 3, width, width)
    padded, gathered = Shifts(4), GatheredShifts(4)
    torch.testing.assert_close(gathered.to_positions(by_distance), padded.to_positions(by_distance))
    torch.testing.assert_close(gathered.to_distances(by_position), padded.to_distances(by_position))


@pytest.mark.parametrize("n_fft", [16, 64, 1024])
def test_matrices_undo_the_fourier_transform(n_fft: int) -> None:
    samples = np.random.default_rng(0).standard_normal((1, 3, n_fft)).astype(np.float32)
    spectrum = torch.fft.rfft(torch.from_numpy(samples))
    for inverse in (MatrixInverse(n_fft), InverseTransform(n_fft)):
        torch.testing.assert_close(inverse(spectrum.real, spectrum.imag).numpy(), samples, rtol=1e-4, atol=1e-4)
