"""Graphs that are kept on the disk: built, found, refused when they do not fit, and the engine that is chosen."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from cloning import bundle
from cloning.engines import onnx_plans, plans
from cloning.engines.choice import EngineChoice, open_engine
from cloning.errors import EngineError
from cloning.exporters.onnx import DECODE
from cloning.model import YourTTS
from cloning.synthesis import Synthesiser
from cloning.training.recipes import tiny_voice
from cloning.types import SpeechOptions, SpeechRequest

ENCODER = "ge2e-test-v1"


@pytest.fixture(scope="module")
def voice_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("tiny")
    config = tiny_voice(ENCODER)
    bundle.save(path, config, YourTTS(config).state_dict(), "# tiny\n")
    return path


@pytest.fixture(scope="module")
def built(voice_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("plans")
    onnx_plans.build(voice_dir, root)
    return root


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "plans"))


def test_a_plan_says_what_it_is(voice_dir: Path, root: Path) -> None:
    (plan,) = plans.listed(root)
    assert plan == onnx_plans.read(voice_dir, root)
    assert (plan.model_id, plan.engine, plan.problem) == (bundle.load_info(voice_dir).model_id, "onnx", "")
    assert plan.n_bytes > 10_000
    assert 0 < plan.difference < 1e-3
    assert onnx_plans.verified(voice_dir, root).difference == pytest.approx(plan.difference)


def test_building_again_replaces_a_plan_and_leaves_nothing_else(voice_dir: Path, root: Path) -> None:
    (old,) = plans.listed(root)
    (old.folder / DECODE).write_bytes(b"damaged")
    assert onnx_plans.build(voice_dir, root).problem == ""
    assert [path.name for path in root.iterdir()] == [old.folder.name]


def edit_record(folder: Path, change: Callable[[dict], object]) -> None:
    record = json.loads((folder / plans.RECORD).read_text())
    change(record)
    (folder / plans.RECORD).write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (shutil.rmtree, "is missing"),
        (lambda folder: (folder / plans.RECORD).unlink(), "is missing"),
        (lambda folder: (folder / plans.RECORD).write_text("{"), "damaged record"),
        (lambda folder: edit_record(folder, lambda r: r.pop("key")), "damaged record"),
        (lambda folder: edit_record(folder, lambda r: r["key"].update(library="onnxruntime 0.1")), "another library"),
        (lambda folder: edit_record(folder, lambda r: r["key"].update(opset=1)), "another opset"),
        (lambda folder: edit_record(folder, lambda r: r["key"].update(format=0)), "another format"),
        (lambda folder: edit_record(folder, lambda r: r["key"].update(model_id="x")), "another model_id"),
        (lambda folder: edit_record(folder, lambda r: r["files"].update({"../x": "0"})), "lacks the file ../x"),
        (lambda folder: (folder / DECODE).unlink(), "lacks the file decode.onnx"),
        (lambda folder: (folder / DECODE).write_bytes(b"x"), "damaged file, decode.onnx"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_with_the_command_that_mends_it(
    voice_dir: Path, root: Path, damage: Callable[[Path], object], words: str
) -> None:
    (plan,) = plans.listed(root)
    damage(plan.folder)
    with pytest.raises(EngineError, match=words) as caught:
        onnx_plans.read(voice_dir, root)
    assert caught.value.code == "engine_unavailable"
    assert caught.value.message.endswith("mend it: voicekin engines build --engine onnx")


def test_a_voice_that_was_trained_on_needs_a_plan_of_its_own(voice_dir: Path, root: Path, tmp_path: Path) -> None:
    torch.manual_seed(4)
    config = tiny_voice(ENCODER)
    bundle.save(tmp_path / "tiny", config, YourTTS(config).state_dict(), "# tiny\n")
    with pytest.raises(EngineError, match="is missing"):
        onnx_plans.read(tmp_path / "tiny", root)


def test_the_engine_onnx_speaks_as_eager_does(voice_dir: Path, root: Path) -> None:
    vector = np.full(256, 1 / 16, np.float32)
    request = SpeechRequest("One sentence. And another one.", vector, ENCODER, options=SpeechOptions(seed=2))
    with Synthesiser.open(voice_dir, threads=1) as eager:
        expected = eager.speak(request)
    choice = EngineChoice("onnx", threads=1, plans_dir=root)
    with Synthesiser.open(voice_dir, choice=choice) as voice:
        assert (voice.voice.engine, voice.voice.device) == ("onnx", "cpu")
        spoken = voice.speak(request)
    assert np.array_equal(spoken.durations, expected.durations)
    np.testing.assert_allclose(spoken.samples, expected.samples, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["onnx", "cuda-graph"])
def test_eager_takes_the_place_of_an_engine_that_cannot_be_opened_if_it_may(
    voice_dir: Path, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = open_engine(voice_dir, EngineChoice(name, threads=1, plans_dir=tmp_path))  # type: ignore[arg-type]
    assert engine.name == "eager"
    assert f"takes the place of {name}" in caplog.text
    with pytest.raises(EngineError) as caught:
        open_engine(voice_dir, EngineChoice(name, threads=1, falls_back=False, plans_dir=tmp_path))  # type: ignore[arg-type]
    assert caught.value.code == "engine_unavailable"
