"""Voices built with TensorRT against the networks as they are written, on the same device.

TensorRT-RTX takes part also on a card that it does not support, such as an H200: what is judged is what it says.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.voices_by_size import NAMES, open_model
from cloning.engines.base import Part
from cloning.engines.eager import EagerEngine
from cloning.engines.precision import compare, drawn_sentences
from cloning.engines.tensorrt import MAX_BATCH, Networks, TensorRTEngine, shapes_of
from cloning.engines.tensorrt_library import find_library
from cloning.engines.tensorrt_plans import build_into, export, gate
from cloning.engines.windows import Span
from cloning.errors import EngineError
from cloning.model import PriorInput, YourTTS
from tests.unit.cloning.network_samples import DECODERS, DURATIONS, small_model


def without_tensorrt() -> str:
    try:
        find_library()
    except EngineError as error:
        return error.message
    return ""


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device"),
    pytest.mark.skipif(bool(without_tensorrt()), reason=without_tensorrt()),
]
CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
N_GATE = 24


def built(model: YourTTS, folder: Path, precision: str = "float32") -> Path:
    """The plans of a voice that lies on the CPU."""
    graphs = folder / "graphs"
    export(model, graphs, precision)  # type: ignore[arg-type]
    build_into(folder, graphs, model, folder / "timing.cache")
    return folder


def batch_of(model: YourTTS, n: int, width: int, seed: int = 0) -> PriorInput:
    rng, config = torch.Generator().manual_seed(seed), model.config
    lengths = torch.tensor([width - i for i in range(n)])
    ids = torch.randint(1, config.text.n_symbols, (n, width), generator=rng)
    vectors = torch.nn.functional.normalize(torch.randn(n, config.speaker.d_vector, generator=rng))
    noise = torch.randn(n, 2, width, generator=rng)
    ids = ids * (torch.arange(width)[None] < lengths[:, None])
    return PriorInput(ids, lengths, vectors, torch.arange(n) % 2, torch.ones(n), noise).to(CUDA)


@pytest.fixture(scope="module", params=[(d, k) for d, k in zip(DURATIONS, DECODERS, strict=True)], ids=str)
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[YourTTS, Path]:
    durations, decoder = request.param
    folder = tmp_path_factory.mktemp("small")
    return small_model(DURATIONS[durations], DECODERS[decoder]).to(CUDA), built(
        small_model(DURATIONS[durations], DECODERS[decoder]), folder
    )


def test_networks_say_what_torch_says_before_any_graph_is_recorded(small: tuple[YourTTS, Path]) -> None:
    """A shape of the first profile, one of the second, and the first again; what a caller was given stays as it was."""
    model, folder = small
    networks, shapes = Networks(folder, model.config, CUDA, any_card=True), shapes_of(model.config)
    least, most = shapes.symbols[0], shapes.symbols[-1]
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream(CUDA)):
        given = []
        for n, width, n_frames in ((1, least, shapes.frames[0]), (3, most, shapes.frames[5]), (1, least, 64)):
            batch = batch_of(model, n, width)
            ours, theirs = networks.prior(batch), model.prior(batch)
            for a, b in zip(ours[:2], theirs[:2], strict=True):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
            assert torch.equal(ours[2], theirs[2])
            pad = (0, most - width)
            m_p, logs_p, durations = (torch.nn.functional.pad(x, pad) for x in theirs)
            noise = torch.randn(n, m_p.shape[1], n_frames, generator=torch.Generator().manual_seed(n)).to(CUDA)
            said = networks.decode(m_p, logs_p, durations, batch.d_vectors, noise)
            expected = model.decode(m_p, logs_p, durations, batch.d_vectors, noise)
            given.append((said, expected))
        for said, expected in given:
            torch.testing.assert_close(said, expected, rtol=1e-3, atol=1e-4)
        assert torch.equal(given[0][0], given[2][0])


def test_a_shape_that_no_profile_holds_is_refused(small: tuple[YourTTS, Path]) -> None:
    model, folder = small
    networks = Networks(folder, model.config, CUDA, any_card=True)
    for n, width in ((MAX_BATCH + 1, 32), (1, 3)):
        with pytest.raises(EngineError, match="no profile of this plan holds the shapes") as caught:
            networks.prior(batch_of(model, n, width))
        assert caught.value.code == "engine_failed"


def test_recorded_it_says_what_torch_says_whole_and_in_parts(small: tuple[YourTTS, Path]) -> None:
    model, folder = small
    engine, oracle = TensorRTEngine(folder, model.config, CUDA, any_card=True), EagerEngine(model, CUDA)
    verdict = compare(engine, oracle, drawn_sentences(model, 6))
    assert verdict.passed, verdict
    assert verdict.error_db < -60, "it was built in full precision"
    (plan,) = engine.prior([drawn_sentences(model, 3)[1]])
    (whole,) = engine.decode([plan.whole()])
    borders = sorted({0, plan.n_frames // 5, plan.n_frames // 2, plan.n_frames})
    parts = [Part(plan, Span(a, b)) for a, b in pairwise(borders)]
    np.testing.assert_allclose(np.concatenate(engine.decode(parts)), whole, rtol=0, atol=1e-4)
    engine.close()


def test_the_same_seed_gives_the_same_samples_and_neighbours_change_little(small: tuple[YourTTS, Path]) -> None:
    model, folder = small
    engine = TensorRTEngine(folder, model.config, CUDA, any_card=True)
    ours, *others = drawn_sentences(model, 4)[::-1]
    (first,), (again,) = (engine.decode([engine.prior([ours])[0].whole()]) for _ in range(2))
    assert np.array_equal(first, again)
    plans = engine.prior([*others, ours])
    together = engine.decode([plan.whole() for plan in plans])[-1]
    np.testing.assert_allclose(together, first, rtol=0, atol=1e-4)
    engine.close()


def test_what_was_compiled_is_kept_and_what_is_damaged_is_made_anew(small: tuple[YourTTS, Path]) -> None:
    model, folder = small
    if not find_library().is_rtx:
        pytest.skip("the full TensorRT compiles nothing where it runs")
    one = drawn_sentences(model, 2)[:1]
    for content in (None, b"damaged"):
        if content:
            for cache in folder.glob("*.cache"):
                cache.write_bytes(content)
        engine = TensorRTEngine(folder, model.config, CUDA, any_card=True)
        engine.decode([engine.prior(one)[0].whole()])
        engine.save_kernels()
        engine.close()
        assert {path.name for path in folder.glob("*.cache")} == {"prior.cache", "decode.cache"}
        assert all(path.stat().st_size > len(b"damaged") for path in folder.glob("*.cache"))


@pytest.mark.parametrize("content", [b"", b"not a plan"])
def test_a_plan_that_cannot_be_loaded_is_refused(small: tuple[YourTTS, Path], tmp_path: Path, content: bytes) -> None:
    model, _ = small
    for name in ("prior.plan", "decode.plan"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(EngineError) as caught:
        TensorRTEngine(tmp_path, model.config, CUDA, any_card=True)
    assert caught.value.code == "engine_unavailable"


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_passes_the_gate_at_every_kind_of_shape(name: str, tmp_path: Path) -> None:
    """The least, a common, the largest and more than the largest shape, then all lengths."""
    folder = built(open_model(name, CPU), tmp_path, "float16")
    model = open_model(name, CUDA)
    engine = TensorRTEngine(folder, model.config, CUDA, any_card=True)
    verdict = gate(engine, model, CUDA, None, N_GATE)
    print(name, verdict)
    assert verdict.passed, verdict
    assert verdict.n_sentences == N_GATE + MAX_BATCH + 3
    engine.close()
