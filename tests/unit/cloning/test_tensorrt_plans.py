"""Plans of TensorRT without a GPU: what they are keyed by, and that none is used which was not compared there.

The engines themselves are built in `test_tensorrt_build` and run in `tests/gpu`; here a plan's files are stand-ins.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from network_samples import small_model

from cloning import bundle
from cloning.engines import plans, tensorrt_plans
from cloning.engines.choice import EngineChoice, open_engine
from cloning.engines.eager import EagerEngine
from cloning.engines.precision import MOST_ERROR_DB, Verdict, at_all_shapes, compare, drawn_sentences, worst
from cloning.engines.tensorrt_library import find_library, target
from cloning.errors import EngineError
from cloning.model import YourTTS
from cloning.training.recipes import tiny_voice

CPU = torch.device("cpu")
BUILT = "mend it: voicekin engines build --engine tensorrt"


@pytest.fixture(scope="module")
def voice_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(3)
    path, config = tmp_path_factory.mktemp("tiny"), tiny_voice("ge2e-test-v1")
    bundle.save(path, config, YourTTS(config).state_dict(), "# tiny\n")
    return path


@pytest.fixture
def with_library() -> None:
    try:
        found = find_library()
    except EngineError as error:
        pytest.skip(error.message)
    if not found.is_rtx:
        pytest.skip(f"{found.name} is installed, which has plans for the card of a machine only")


def stand_in(voice_dir: Path, root: Path) -> plans.Plan:
    """A plan as `build` leaves it, its engines aside."""

    def fill(folder: Path) -> float:
        (folder / "decode.plan").write_bytes(b"decode")
        return 0.001

    key = dataclasses.replace(tensorrt_plans.key_of(voice_dir, CPU), precision="float16", graphs="0" * 64)
    plans.keep(root, key, fill)
    return plans.read(root, key)


@pytest.mark.usefixtures("with_library")
def test_a_plan_is_not_used_before_it_was_compared_on_the_card(voice_dir: Path, tmp_path: Path) -> None:
    plan = stand_in(voice_dir, tmp_path)
    assert plan.problem == ""
    verify = "mend it: voicekin engines verify --engine tensorrt"
    with pytest.raises(EngineError, match=f"has not been compared with torch.*{verify}") as caught:
        tensorrt_plans.read(voice_dir, tmp_path, CPU)
    assert caught.value.code == "engine_unavailable"
    plans.keep_gate(plan, {"card": "another card sm_99 x1", "passed": True})
    with pytest.raises(EngineError, match="has not been compared with torch"):
        tensorrt_plans.read(voice_dir, tmp_path, CPU)


@pytest.mark.usefixtures("with_library")
def test_what_failed_its_comparison_is_refused_and_what_passed_is_given(voice_dir: Path, tmp_path: Path) -> None:
    plan = stand_in(voice_dir, tmp_path)
    plans.keep_gate(plan, {"card": "", "passed": False})
    remedy = "--engine tensorrt --precision float32"
    with pytest.raises(EngineError, match=f"in float16 does not say what torch says.*{remedy}"):
        tensorrt_plans.read(voice_dir, tmp_path, CPU)
    plans.keep_gate(plan, {"card": "", "passed": True})
    assert tensorrt_plans.read(voice_dir, tmp_path, CPU).folder == plan.folder


@pytest.mark.usefixtures("with_library")
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("library", "tensorrt_rtx 1.0.0", "another library, tensorrt_rtx 1.0.0 and not"),
        ("target", "NVIDIA H200 sm_90 x132", "another target, NVIDIA H200 sm_90 x132 and not"),
        ("profiles", "1..2 sentences", "another profiles"),
        ("opset", 1, "another opset"),
    ],
)
def test_a_stale_or_foreign_plan_is_refused_with_the_command_that_mends_it(
    voice_dir: Path, tmp_path: Path, name: str, value: object, words: str
) -> None:
    record = stand_in(voice_dir, tmp_path).folder / plans.RECORD
    content = json.loads(record.read_text())
    content["key"][name] = value
    record.write_text(json.dumps(content))
    with pytest.raises(EngineError, match=f"{words}.*{BUILT}"):
        tensorrt_plans.read(voice_dir, tmp_path, CPU)


@pytest.mark.usefixtures("with_library")
def test_a_damaged_or_missing_plan_is_refused(voice_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=f"is missing.*{BUILT}"):
        tensorrt_plans.read(voice_dir, tmp_path, CPU)
    plan = stand_in(voice_dir, tmp_path)
    (plan.folder / "decode.plan").write_bytes(b"x")
    with pytest.raises(EngineError, match=rf"damaged file, decode\.plan.*{BUILT}"):
        tensorrt_plans.read(voice_dir, tmp_path, CPU)
    assert [found.problem for found in plans.listed(tmp_path)] == ["has a damaged file, decode.plan"]


@pytest.mark.engines
@pytest.mark.usefixtures("with_library")
def test_a_plan_is_built_once_for_the_same_graphs(voice_dir: Path, tmp_path: Path) -> None:
    told: list[str] = []
    plan = tensorrt_plans.build(voice_dir, tmp_path, CPU, "float16", lambda what, *_: told.append(what))
    assert (plan.precision, plan.problem, plan.gate) == ("float16", "", None)
    assert told
    made = (plan.folder / "decode.plan").stat().st_mtime_ns
    assert tensorrt_plans.build(voice_dir, tmp_path, CPU, "float16") == plan
    assert (plan.folder / "decode.plan").stat().st_mtime_ns == made
    assert tensorrt_plans.build(voice_dir, tmp_path, CPU, "float32").precision == "float32"
    assert (plan.folder / "decode.plan").stat().st_mtime_ns != made
    assert [path.name for path in tmp_path.iterdir()] == [plan.folder.name]


@pytest.mark.usefixtures("with_library")
def test_it_is_verified_on_a_card_only(voice_dir: Path, tmp_path: Path) -> None:
    stand_in(voice_dir, tmp_path)
    with pytest.raises(EngineError, match="VOICEKIN_DEVICE=cuda"):
        tensorrt_plans.verify(voice_dir, tmp_path, CPU)


def test_eager_takes_its_place_without_a_card_if_it_may(voice_dir: Path, tmp_path: Path) -> None:
    assert open_engine(voice_dir, EngineChoice("tensorrt", threads=1, plans_dir=tmp_path)).name == "eager"
    with pytest.raises(EngineError, match="needs a CUDA device"):
        open_engine(voice_dir, EngineChoice("tensorrt", threads=1, falls_back=False, plans_dir=tmp_path))


class Full:
    is_rtx, name = False, "tensorrt 11.4.0"


def test_the_full_library_builds_beside_its_card_only() -> None:
    with pytest.raises(EngineError, match="VOICEKIN_DEVICE=cuda"):
        target(Full(), CPU)  # type: ignore[arg-type]


def test_the_gate_sees_the_least_and_the_largest_shape_and_one_beyond_it() -> None:
    model = small_model()
    oracle, most = EagerEngine(model, CPU), 2000
    least, common, largest, beyond = at_all_shapes(model, oracle, 4, most)
    assert (len(least), len(common), len(largest), len(beyond)) == (1, 1, 4, 1)
    assert len(least[0].token_ids) == 1
    lengths = [plan.n_frames for plan in oracle.prior(largest)]
    assert 0.8 * most < max(lengths) <= most
    assert oracle.prior(beyond)[0].n_frames > most


class Off:
    """torch's networks with durations that are off by one frame in one place."""

    name, device, max_batch, first_part_frames = "off", "cpu", 1, 1

    def __init__(self, model: YourTTS, by: int) -> None:
        self._engine, self._by = EagerEngine(model, CPU), by

    def prior(self, sentences):
        found = []
        for plan in self._engine.prior(sentences):
            durations = plan.durations.copy()
            durations[0] += self._by
            found.append(dataclasses.replace(plan, durations=durations))
        return found

    def decode(self, parts):
        return self._engine.decode(parts)

    def close(self) -> None:
        pass


def test_durations_are_torchs_unless_they_lie_on_a_border() -> None:
    model = small_model()
    oracle, (sentence,) = EagerEngine(model, CPU), drawn_sentences(model, 2)[1:]
    assert not compare(Off(model, 1), oracle, [sentence]).same_durations
    # Looks for a length at which the first duration is just rounded down, by halves.
    low, high = 1.0, 16.0
    first = oracle.prior([sentence])[0].durations[0]

    def at(scale: float):
        return dataclasses.replace(sentence, options=dataclasses.replace(sentence.options, length_scale=scale))

    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if oracle.prior([at(middle)])[0].durations[0] == first else (low, middle)
    verdict = compare(Off(model, 1), oracle, [at(low)])
    assert verdict.same_durations
    assert verdict.n_on_border == 1
    assert verdict.passed, "the rest is compared at the durations of the engine that is judged"
    assert not compare(Off(model, -1), oracle, [at(low)]).same_durations


def test_a_voice_that_is_not_alike_fails() -> None:
    model = small_model()
    oracle, sentences = EagerEngine(model, CPU), drawn_sentences(model, 2)
    heard: list[int] = []

    def likeness(ours: np.ndarray, theirs: np.ndarray, rate_hz: int) -> float:
        assert ours.shape == theirs.shape
        heard.append(rate_hz)
        return 0.5

    verdict = compare(oracle, oracle, sentences, likeness, 8000)
    assert heard == [8000, 8000]
    assert not verdict.passed
    assert verdict.likeness == 0.5


def test_the_worst_of_all_sentences_counts() -> None:
    good, bad = Verdict(True, True, 0.1, -50.0), Verdict(True, True, 0.2, MOST_ERROR_DB + 1, n_on_border=2)
    together = worst([good, bad])
    assert (together.passed, together.error_db, together.n_on_border, together.n_sentences) == (False, -29.0, 2, 2)
