"""The engine of ONNX Runtime against torch: small voices of every kind, and voices of the sizes that are used."""

from pathlib import Path

import numpy as np
import pytest
import torch
from network_samples import D_VECTOR, DECODERS, DURATIONS, HOP, small_model

from benchmarks.voices_by_size import NAMES, open_model
from cloning.engines.base import Part
from cloning.engines.eager import EagerEngine
from cloning.engines.onnx import OnnxEngine
from cloning.engines.windows import Span
from cloning.errors import EngineError
from cloning.exporters import onnx as exporter
from cloning.exporters.onnx import DECODE, PRIOR, check, export
from cloning.types import Sentence, SpeechOptions

CPU = torch.device("cpu")


def sentence(n_symbols: int, seed: int = 0) -> Sentence:
    rng = np.random.default_rng(seed)
    vector = rng.standard_normal(D_VECTOR).astype(np.float32)
    options = SpeechOptions(seed=seed, length_scale=3.0)
    return Sentence(rng.integers(1, 10, n_symbols), vector / np.linalg.norm(vector), seed % 2, options)


@pytest.mark.parametrize(("durations", "decoder"), list(zip(DURATIONS, DECODERS, strict=True)))
def test_it_says_what_torch_says_whole_and_in_parts(tmp_path: Path, durations: str, decoder: str) -> None:
    model = small_model(DURATIONS[durations], DECODERS[decoder])
    export(model, tmp_path)
    engine, oracle = OnnxEngine(tmp_path, model.config, 1), EagerEngine(model, CPU)
    sentences = [sentence(n, n) for n in (1, 7, 40)]
    for plan, expected in zip(engine.prior(sentences), oracle.prior(sentences), strict=True):
        assert np.array_equal(plan.durations, expected.durations)
        (whole,) = oracle.decode([expected.whole()])
        assert len(whole) == plan.n_frames * HOP
        np.testing.assert_allclose(engine.decode([plan.whole()])[0], whole, rtol=0, atol=1e-4)
        middle = (plan.n_frames + 1) // 2
        spans = [Span(a, b) for a, b in ((0, middle), (middle, plan.n_frames)) if a < b]
        parts = np.concatenate([engine.decode([Part(plan, span)])[0] for span in spans])
        np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-4)
    engine.close()


@pytest.mark.parametrize("name", NAMES)
def test_voices_of_the_sizes_that_are_used_say_what_torch_says(tmp_path: Path, name: str, monkeypatch) -> None:
    """The default voice and one of YourTTS' size; few frames, since HiFi-GAN is slow on a CPU."""
    monkeypatch.setattr(exporter, "check", lambda model, folder: None)
    model = open_model(name, CPU)
    export(model, tmp_path)
    assert check(model, tmp_path, ((1, 2, 1), (9, 3, 2), (220, 1, 1))).difference < 1e-3


@pytest.mark.parametrize("content", [None, b"", b"not a graph"])
def test_graphs_that_cannot_be_loaded_are_refused_with_the_remedy(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        for name in (PRIOR, DECODE):
            (tmp_path / name).write_bytes(content)
    with pytest.raises(EngineError, match="voicekin voices export") as caught:
        OnnxEngine(tmp_path, small_model().config, 1)
    assert caught.value.code == "engine_unavailable"
