"""Every network built with TensorRT-RTX, which needs no GPU for that, in both precisions and with all shapes open."""

import copy
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from network_samples import BY_LANGUAGE, DECODERS, DURATIONS, small_model, small_voice

from benchmarks.voices_by_size import NAMES, open_model
from cloning.engines.bucketed import Shapes
from cloning.engines.precision import to_half
from cloning.engines.tensorrt import MAX_BATCH, shapes_of
from cloning.engines.tensorrt_build import Profile, build_engine, described, profiles
from cloning.engines.tensorrt_library import Library, find_library
from cloning.errors import EngineError
from cloning.exporters.onnx import DECODE, PRIOR, check, write_graphs
from cloning.model import YourTTS

CPU = torch.device("cpu")
LEAST_BYTES = 10_000
# What rounding may move a sample by, as a share of the loudest.
MOST_ROUNDED = 0.05


@pytest.fixture(scope="module")
def library() -> Library:
    """TensorRT-RTX; the full TensorRT builds only beside a GPU."""
    try:
        found = find_library()
    except EngineError as error:
        pytest.skip(error.message)
    if not found.is_rtx:
        pytest.skip(f"{found.name} is installed, which builds nothing without a GPU")
    return found


def ranges_of(model: YourTTS, graph: str) -> list[Profile]:
    """Those of the second phase; the first, which TensorRT does not run in service, is built over the same sizes."""
    config, shapes = model.config, shapes_of(model.config)
    if graph == DECODE:
        return profiles(config, shapes)

    def at(n: int, width: int) -> dict[str, tuple[int, ...]]:
        sizes = {"token_ids": (n, width), "d_vectors": (n, config.speaker.d_vector), "noise_dp": (n, 2, width)}
        return sizes | dict.fromkeys(("n_symbols", "language_ids", "length_scale"), (n,))

    least, common, most = at(1, shapes.symbols[0]), at(8, shapes.symbols[4]), at(MAX_BATCH, shapes.symbols[-1])
    return [{name: (least[name], common[name], most[name]) for name in least}]


def build(library: Library, model: YourTTS, folder: Path, name: str) -> bytes:
    return build_engine(library, folder / name, ranges_of(model, name), folder / "timing.cache")


@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
@pytest.mark.parametrize("decoder", ["istft", "hifigan-1"])
def test_decoders_are_built(library: Library, tmp_path: Path, decoder: str, half: bool) -> None:
    model = small_model(decoder=DECODERS[decoder])
    write_graphs(to_half(copy.deepcopy(model)) if half else model, tmp_path)
    check(model, tmp_path, ((1, 2, 1), (9, 3, 2)), MOST_ROUNDED if half else 1e-4)
    assert len(build(library, model, tmp_path, DECODE)) > LEAST_BYTES
    assert not (tmp_path / "timing.cache").exists(), "TensorRT-RTX times nothing"


# Splines make graphs of thousands of steps.
@pytest.mark.parametrize(
    "durations", [pytest.param(kind, marks=() if kind == "plain" else pytest.mark.engines) for kind in DURATIONS]
)
def test_texts_and_durations_are_built(library: Library, tmp_path: Path, durations: str) -> None:
    model = small_model(DURATIONS[durations])
    write_graphs(model, tmp_path)
    assert len(build(library, model, tmp_path, PRIOR)) > LEAST_BYTES


@pytest.mark.engines
@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
@pytest.mark.parametrize("name", NAMES)
def test_every_network_of_the_voices_that_are_used_is_built(
    library: Library, tmp_path: Path, name: str, half: bool
) -> None:
    """And its graph says in ONNX Runtime what torch says in float32."""
    model = open_model(name, CPU)
    write_graphs(to_half(copy.deepcopy(model)) if half else model, tmp_path)
    check(model, tmp_path, ((1, 2, 1), (9, 3, 2)), MOST_ROUNDED if half else 1e-3)
    # Text and durations are the same graph in both precisions.
    for graph in (DECODE,) if half else (PRIOR, DECODE):
        assert len(build(library, model, tmp_path, graph)) > LEAST_BYTES


def test_half_precision_is_in_flow_and_decoder_only(tmp_path: Path) -> None:
    write_graphs(to_half(small_model(BY_LANGUAGE, DECODERS["hifigan-1"])), tmp_path)
    kinds = {
        name: {onnx.TensorProto.DataType.Name(t.data_type) for t in onnx.load(tmp_path / name).graph.initializer}
        for name in (PRIOR, DECODE)
    }
    assert "FLOAT16" not in kinds[PRIOR]
    assert "FLOAT16" in kinds[DECODE]
    for name in (PRIOR, DECODE):
        graph = onnx.load(tmp_path / name).graph
        kept = {value.name: value.type.tensor_type.elem_type for value in [*graph.input, *graph.output]}
        assert onnx.TensorProto.FLOAT16 not in kept.values(), "what goes in and out is float32"


def test_each_step_is_told(library: Library, tmp_path: Path) -> None:
    model, told = small_model(), []
    write_graphs(model, tmp_path)
    ranges = ranges_of(model, PRIOR)
    build_engine(library, tmp_path / PRIOR, ranges, tmp_path / "x", lambda *step: told.append(step))
    assert told
    assert all(name and 0 < done <= total for name, done, total in told)


def test_what_is_no_graph_is_refused_in_the_librarys_words(library: Library, tmp_path: Path) -> None:
    (tmp_path / PRIOR).write_bytes(b"not a graph")
    with pytest.raises(EngineError, match=r"prior\.onnx cannot be read: .*parse") as caught:
        build_engine(library, tmp_path / PRIOR, [], tmp_path / "x")
    assert caught.value.code == "engine_failed"


def test_a_graph_that_no_profile_fits_is_refused(library: Library, tmp_path: Path) -> None:
    model = small_model()
    write_graphs(model, tmp_path)
    (wrong, *_) = ranges_of(model, PRIOR)
    backwards: Profile = {name: (dims[2], dims[1], tuple(0 for _ in dims[0])) for name, dims in wrong.items()}
    with pytest.raises((EngineError, ValueError)):
        build_engine(library, tmp_path / PRIOR, [backwards], tmp_path / "x")


def test_one_profile_holds_each_shape_that_the_engine_runs_at() -> None:
    config = small_voice()
    shapes = shapes_of(config)
    for n in shapes.sentences:
        for width in shapes.frames:
            noise = (n, config.text_encoder.hidden, width)
            bounds = [(np.array(dims[0]), np.array(dims[2])) for dims in (r["noise"] for r in profiles(config, shapes))]
            assert sum(bool(np.all((least <= noise) & (noise <= most))) for least, most in bounds) == 1, noise
    assert shapes.sentences[-1] == MAX_BATCH
    assert described(shapes).startswith("1 and 2..16 sentences, ")


def test_a_voice_that_runs_alone_has_one_profile() -> None:
    config = small_voice()
    assert len(profiles(config, Shapes.of(YourTTS(config), 1))) == 1
