"""`voicekin engines`, run in this process with a small voice."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from typer.testing import CliRunner

from api.cli import app
from api.engines_cli import _likeness
from api.errors import RequestRefused
from api.settings import Settings
from cloning import bundle
from cloning.engines.tensorrt_library import find_library
from cloning.errors import EngineError
from cloning.model import YourTTS
from cloning.training.recipes import tiny_voice


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    torch.manual_seed(3)
    voice_dir, config = tmp_path_factory.mktemp("tiny"), tiny_voice("ge2e-test-v1")
    bundle.save(voice_dir, config, YourTTS(config).state_dict(), "# tiny\n")
    return {"VOICEKIN_VOICE_DIR": str(voice_dir), "VOICEKIN_STATE_DIR": str(tmp_path_factory.mktemp("state"))}


def engines(environment: dict[str, str], *arguments: str) -> Any:
    done = CliRunner().invoke(app, ["engines", *arguments], env=environment)
    if done.exception is not None:
        raise done.exception
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def test_graphs_are_built_listed_verified_and_removed(environment: dict[str, str]) -> None:
    assert "Nothing is built" in engines(environment, "list")
    built = engines(environment, "build", "--json")
    assert (built["engine"], built["precision"], built["problem"], built["remedy"]) == ("onnx", "float32", "", "")
    assert engines(environment, "list", "--json") == {"plans": [built]}
    assert engines(environment, "verify", "--engine", "onnx", "--json")["difference"] < 1e-3
    (Path(environment["VOICEKIN_STATE_DIR"]) / "engines" / built["folder"] / "decode.onnx").write_bytes(b"x")
    (found,) = engines(environment, "list", "--json")["plans"]
    assert (found["problem"], found["remedy"]) == (
        "has a damaged file, decode.onnx",
        "voicekin engines build --engine onnx",
    )
    with pytest.raises(RequestRefused, match="no plan is named 'another'"):
        engines(environment, "remove", "another")
    engines(environment, "remove", built["folder"])
    assert engines(environment, "list", "--json") == {"plans": []}


def test_the_engine_of_the_settings_is_the_one_that_is_meant(environment: dict[str, str]) -> None:
    """Without TensorRT its package is missing, without a card it cannot be verified: in either case it was meant."""
    with pytest.raises(EngineError, match=r"(?i)tensorrt") as caught:
        engines({**environment, "VOICEKIN_ENGINE": "tensorrt"}, "verify")
    assert caught.value.code == "engine_unavailable"


def test_a_device_that_is_not_there_is_refused_and_hinders_no_list(environment: dict[str, str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    ours = {**environment, "VOICEKIN_DEVICE": "cuda"}
    with pytest.raises(EngineError, match="no CUDA device was found"):
        engines(ours, "build", "--engine", "tensorrt")
    assert "Nothing is built" in engines(ours, "list")


@pytest.mark.engines
def test_a_plan_of_tensorrt_is_built_here_and_waits_for_its_comparison(environment: dict[str, str]) -> None:
    try:
        if not find_library().is_rtx:
            pytest.skip("the full TensorRT builds only beside a GPU")
    except EngineError as error:
        pytest.skip(error.message)
    built = engines(environment, "build", "--engine", "tensorrt", "--json")
    assert (built["precision"], built["remedy"]) == ("float16", "voicekin engines verify --engine tensorrt")
    assert engines({**environment, "VOICEKIN_DEVICE": "cuda"}, "list", "--json") == {"plans": [built]}
    engines(environment, "remove", built["folder"])


def test_speakers_are_alike_by_the_speaker_encoder() -> None:
    recording, rate_hz = soundfile.read(str(files("voices") / "demo" / "reference.flac"), dtype="float32")
    likeness = _likeness(Settings())
    other = np.random.default_rng(0).standard_normal(len(recording)).astype(np.float32) * 0.1
    assert likeness(recording, recording + 1e-4 * other, rate_hz) > 0.999
    assert likeness(recording, other, rate_hz) < 0.9
    assert likeness(np.zeros(100, np.float32), recording, rate_hz) == 1.0, "what is silent is judged by its samples"
