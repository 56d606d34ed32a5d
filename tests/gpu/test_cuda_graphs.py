"""The engine of CUDA graphs against the networks as they are written, on the same device."""

import copy
import gc
import threading
from itertools import pairwise

import numpy as np
import pytest
import torch

from cloning.engines.base import Part
from cloning.engines.bucketed import Shapes
from cloning.engines.eager import EagerEngine
from cloning.engines.precision import compare, drawn_sentences, to_half
from cloning.engines.windows import Span
from cloning.model import YourTTS
from cloning.training.recipes import default_voice
from cloning.types import Sentence, SpeechOptions
from tests.unit.cloning.network_samples import DECODERS, DURATIONS, restless, small_model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device"),
]
CUDA = torch.device("cuda")


def on_gpu(model: YourTTS) -> YourTTS:
    return model.to(CUDA)


def engine_of(model: YourTTS, shapes: Shapes | None = None):
    from cloning.engines.cuda_graph import CudaGraphEngine

    return CudaGraphEngine(model, CUDA, shapes)


def sentence(model: YourTTS, n_symbols: int, seed: int = 0, length_scale: float = 3.0) -> Sentence:
    rng, config = np.random.default_rng(seed), model.config
    vector = rng.standard_normal(config.speaker.d_vector).astype(np.float32)
    options = SpeechOptions(seed=seed, length_scale=length_scale)
    ids = rng.integers(1, config.text.n_symbols, n_symbols)
    return Sentence(ids, vector / np.linalg.norm(vector), 0, options)


@pytest.fixture(scope="module")
def default_size() -> YourTTS:
    torch.manual_seed(0)
    return on_gpu(restless(YourTTS(default_voice("test-v1")), spread=0.7))


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("durations", DURATIONS)
def test_graphs_say_what_the_networks_say(durations: str, decoder: str) -> None:
    model = on_gpu(small_model(DURATIONS[durations], DECODERS[decoder]))
    engine, oracle = engine_of(model), EagerEngine(model, CUDA)
    sentences = [sentence(model, n, n, 1.0 if durations != "plain" else 3.0) for n in (1, 8, 9, 60, 200)]
    for some in (sentences, sentences[:3], sentences[3:]):
        plans = engine.prior(some)
        for plan, one, samples in zip(plans, some, engine.decode([p.whole() for p in plans]), strict=True):
            (expected,) = oracle.prior([one])
            assert np.array_equal(plan.durations, expected.durations)
            np.testing.assert_allclose(samples, oracle.decode([expected.whole()])[0], rtol=0, atol=1e-4)


def test_half_precision_of_the_default_size_passes_the_gate(default_size: YourTTS) -> None:
    half = engine_of(to_half(copy.deepcopy(default_size)))
    verdict = compare(half, EagerEngine(default_size, CUDA), drawn_sentences(default_size, 12))
    assert verdict.passed, verdict


def test_a_network_that_overflows_in_half_precision_runs_in_full(caplog: pytest.LogCaptureFixture) -> None:
    from cloning.engines.cuda_graph import CudaGraphEngine

    loud = on_gpu(small_model())
    # The first layer gives values beyond float16's 65504; the norm after it brings them back.
    loud.decoder.pre.weight.data *= 1e6
    engine = CudaGraphEngine.gated(loud, CUDA)
    assert "full precision" in caplog.text
    assert compare(engine, EagerEngine(loud, CUDA), drawn_sentences(loud, 4)).passed


def test_parts_are_the_sentence(default_size: YourTTS) -> None:
    """In full precision to rounding, in half precision to the last bit of 16."""
    for model, most in ((default_size, 2e-6), (to_half(copy.deepcopy(default_size)), 1 / 32768)):
        engine = engine_of(model)
        (plan,) = engine.prior([sentence(model, 60)])
        (whole,) = engine.decode([plan.whole()])
        borders = [0, 23, 69, 161, plan.n_frames]
        parts = [Part(plan, Span(a, b)) for a, b in pairwise(borders) if a < b]
        found = np.concatenate(engine.decode(parts))
        assert np.abs(found - whole).max() <= most * max(1.0, float(np.abs(whole).max()))
        engine_in_order = np.concatenate([engine.decode([part])[0] for part in parts])
        assert np.abs(engine_in_order - whole).max() <= most * max(1.0, float(np.abs(whole).max()))


def test_the_same_seed_gives_the_same_samples_and_neighbours_change_little(default_size: YourTTS) -> None:
    engine = engine_of(default_size)
    ours, others = sentence(default_size, 40, 1), [sentence(default_size, n, n) for n in (3, 90, 41)]
    (first,), (again,) = (engine.decode([engine.prior([ours])[0].whole()]) for _ in range(2))
    assert np.array_equal(first, again)
    plans = engine.prior([others[0], ours, *others[1:]])
    together = engine.decode([p.whole() for p in plans])[1]
    np.testing.assert_allclose(together, first, rtol=0, atol=1e-5)


def test_a_sentence_longer_than_the_longest_bucket_is_whole(default_size: YourTTS) -> None:
    engine, oracle = engine_of(default_size), EagerEngine(default_size, CUDA)
    long = sentence(default_size, 220, 2, length_scale=10.0)
    (plan,), (expected,) = engine.prior([long]), oracle.prior([long])
    assert plan.n_frames > 1024
    np.testing.assert_allclose(
        engine.decode([plan.whole()])[0], oracle.decode([expected.whole()])[0], rtol=0, atol=1e-5
    )


def test_recording_goes_on_while_another_thread_uses_the_device(default_size: YourTTS) -> None:
    engine, oracle = engine_of(default_size), EagerEngine(default_size, CUDA)
    stop, faults = threading.Event(), []

    def busy() -> None:
        stream = torch.cuda.Stream(CUDA)
        x = torch.randn(512, 512).pin_memory()
        try:
            with torch.cuda.stream(stream):
                while not stop.is_set():
                    y = x.to(CUDA, non_blocking=True)
                    assert torch.isfinite((y @ y).cpu()).all()
        except Exception as error:  # shown by the test that waits for it
            faults.append(error)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for n in (3, 20, 45, 70, 130, 200):
            one = sentence(default_size, n, n)
            (plan,), (expected,) = engine.prior([one]), oracle.prior([one])
            (samples,) = engine.decode([plan.whole()])
            np.testing.assert_allclose(samples, oracle.decode([expected.whole()])[0], rtol=0, atol=1e-5)
    finally:
        stop.set()
        thread.join()
    assert not faults


def test_memory_is_flat_once_the_shapes_are_recorded(default_size: YourTTS) -> None:
    engine, rng = engine_of(default_size), np.random.default_rng(0)
    engine.warm_up((1, 16))
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for _ in range(200):
        lengths = rng.integers(1, 220, rng.choice([1, 16]))
        plans = engine.prior([sentence(default_size, int(n), int(n), 1.0) for n in lengths])
        engine.decode([plan.whole() for plan in plans])
    assert torch.cuda.memory_reserved() <= 1.05 * before


def test_a_closed_engine_gives_its_memory_back() -> None:
    # What earlier tests left in reference cycles would otherwise be freed somewhere between the two readings.
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.manual_seed(0)
    engine = engine_of(on_gpu(restless(YourTTS(default_voice("test-v1")))))
    engine.warm_up((1, 4))
    assert torch.cuda.memory_allocated() > before + 2**26
    engine.close()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before + 2**24
