"""Voices built with TensorRT against the networks as they are written, on the same device.

TensorRT-RTX takes part also on a card that it does not support, such as an H200: what is judged is what it says.
"""

import copy
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.voices_by_size import NAMES, open_model
from cloning.engines.base import Part
from cloning.engines.devices import use_full_float32
from cloning.engines.eager import EagerEngine
from cloning.engines.precision import MOST_ERROR_DB, compare, drawn_sentences
from cloning.engines.tensorrt import MAX_BATCH, PLAN, Networks, TensorRTEngine, shapes_of
from cloning.engines.tensorrt_library import find_library
from cloning.engines.tensorrt_plans import build_into, export, gate
from cloning.engines.windows import Span
from cloning.errors import EngineError
from cloning.model import YourTTS
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


def error_db(said: object, expected: object) -> float:
    """The power of the difference against that of what was expected."""
    ours, theirs = (torch.as_tensor(x).double().cpu() for x in (said, expected))
    return float(10 * torch.log10((ours - theirs).square().mean() / theirs.square().mean() + 1e-14))


def decode_input(model: YourTTS, n: int, n_frames: int) -> tuple[torch.Tensor, ...]:
    """What the second phase reads, from a seed; the first row is as long as the batch and the others shorter."""
    generator, config = torch.Generator().manual_seed(n), model.config
    hidden, width = config.text_encoder.hidden, shapes_of(config).symbols[-1]
    durations = torch.zeros(n, width, dtype=torch.long)
    for row in range(n):
        durations[row, 0], durations[row, 1] = 1, n_frames - 1 - 3 * row
    m_p, noise = (torch.randn(n, hidden, size, generator=generator) for size in (width, n_frames))
    d_vectors = torch.nn.functional.normalize(torch.randn(n, config.speaker.d_vector, generator=generator))
    found = (m_p, torch.full_like(m_p, -1.0), durations, d_vectors, noise)
    return tuple(x.to(CUDA) for x in found)


@pytest.fixture(scope="module", params=list(zip(DURATIONS, DECODERS, strict=True)), ids="-".join)
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[YourTTS, Path]:
    """A voice on the device, and the folder of its plan."""
    durations, decoder = request.param
    folder = built(small_model(DURATIONS[durations], DECODERS[decoder]), tmp_path_factory.mktemp("small"))
    use_full_float32()
    return small_model(DURATIONS[durations], DECODERS[decoder]).to(CUDA), folder


def opened(model: YourTTS, folder: Path) -> TensorRTEngine:
    return TensorRTEngine(folder, copy.deepcopy(model), CUDA, any_card=True)


@pytest.fixture
def engine(small: tuple[YourTTS, Path]) -> Iterator[TensorRTEngine]:
    made = opened(*small)
    yield made
    made.close()


def test_a_network_says_what_torch_says_before_any_graph_is_recorded(small: tuple[YourTTS, Path]) -> None:
    """A shape of the first profile, one of the second, and the first again; what a caller was given stays as it was."""
    model, folder = small
    networks, frames = Networks(folder, copy.deepcopy(model), CUDA, any_card=True), shapes_of(model.config).frames
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream(CUDA)):
        inputs = [decode_input(model, n, n_frames) for n, n_frames in ((1, frames[0]), (3, frames[5]), (1, frames[0]))]
        said = [networks.decode(*values) for values in inputs]
        for values, ours in zip(inputs, said, strict=True):
            theirs, hop = model.decode(*values), model.config.audio.hop_length
            for row, n_frames in enumerate(values[2].sum(1)):
                apart = error_db(ours[row, : n_frames * hop], theirs[row, : n_frames * hop])
                print(f"{len(ours)} x {values[4].shape[2]}, row {row}: {apart:.1f} dB")
                assert apart < MOST_ERROR_DB
        assert torch.equal(said[0], said[2])


def test_a_shape_that_no_profile_holds_is_refused(small: tuple[YourTTS, Path]) -> None:
    model, folder = small
    networks = Networks(folder, copy.deepcopy(model), CUDA, any_card=True)
    for n, n_frames in ((MAX_BATCH + 1, 64), (1, 63), (1, shapes_of(model.config).frames[-1] + 1)):
        with pytest.raises(EngineError, match="no profile of this plan holds the shapes") as caught:
            networks.decode(*decode_input(model, n, n_frames))
        assert caught.value.code == "engine_failed"


def test_recorded_it_says_what_torch_says(small: tuple[YourTTS, Path], engine: TensorRTEngine) -> None:
    model, _ = small
    verdict = compare(engine, EagerEngine(model, CUDA), drawn_sentences(model, 6))
    print(verdict)
    assert verdict.passed, verdict


def test_parts_are_the_sentence(small: tuple[YourTTS, Path], engine: TensorRTEngine) -> None:
    (plan,) = engine.prior([drawn_sentences(small[0], 3)[1]])
    (whole,) = engine.decode([plan.whole()])
    borders = sorted({0, plan.n_frames // 5, plan.n_frames // 2, plan.n_frames})
    parts = [Part(plan, Span(a, b)) for a, b in pairwise(borders)]
    apart = error_db(np.concatenate(engine.decode(parts)), whole)
    print(f"{apart:.1f} dB")
    assert apart < MOST_ERROR_DB


def test_the_same_seed_gives_the_same_samples_and_neighbours_change_little(
    small: tuple[YourTTS, Path], engine: TensorRTEngine
) -> None:
    ours, *others = drawn_sentences(small[0], 4)[::-1]
    (alone,) = engine.prior([ours])
    (first,), (again,) = (engine.decode([plan.whole()]) for plan in (alone, engine.prior([ours])[0]))
    assert np.array_equal(first, again)
    plans = engine.prior([*others, ours])
    assert np.array_equal(plans[-1].durations, alone.durations)
    apart = error_db(engine.decode([plan.whole() for plan in plans])[-1], first)
    print(f"{apart:.1f} dB")
    assert apart < MOST_ERROR_DB


def test_what_was_compiled_is_kept_and_what_is_damaged_is_made_anew(small: tuple[YourTTS, Path]) -> None:
    model, folder = small
    if not find_library().is_rtx:
        pytest.skip("the full TensorRT compiles nothing where it runs")
    one, cache = drawn_sentences(model, 2)[:1], folder / "decode.cache"
    for content in (None, b"damaged"):
        if content:
            cache.write_bytes(content)
        engine = opened(model, folder)
        engine.decode([engine.prior(one)[0].whole()])
        engine.save_kernels()
        engine.close()
        assert [path.name for path in folder.glob("decode.cache*")] == ["decode.cache"]
        assert cache.stat().st_size > len(b"damaged")


@pytest.mark.parametrize("content", [b"", b"not a plan"])
def test_a_plan_that_cannot_be_loaded_is_refused(small: tuple[YourTTS, Path], tmp_path: Path, content: bytes) -> None:
    (tmp_path / PLAN).write_bytes(content)
    with pytest.raises(EngineError) as caught:
        opened(small[0], tmp_path)
    assert caught.value.code == "engine_unavailable"


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_passes_the_gate_at_every_kind_of_shape(name: str, tmp_path: Path) -> None:
    """The least, a common, the largest and more than the largest shape, then all lengths."""
    folder = built(open_model(name, CPU), tmp_path, "float16")
    model = open_model(name, CUDA)
    engine = opened(model, folder)
    verdict = gate(engine, model, CUDA, None, N_GATE)
    print(name, verdict)
    assert verdict.passed, verdict
    assert verdict.n_sentences == N_GATE + MAX_BATCH + 3
    engine.close()
