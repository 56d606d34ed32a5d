"""The networks on a CUDA device against the same networks on the CPU."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from cloning import bundle
from cloning.engines.eager import EagerEngine
from cloning.model import YourTTS
from cloning.synthesis import Synthesiser
from cloning.training.recipes import tiny_voice
from cloning.types import Sentence, SpeechOptions, SpeechRequest
from encoder.engine import SpeakerEncoder
from encoder.types import Waveform

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device"),
]
ENCODER = "ge2e-test-v1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("tiny")
    config = tiny_voice(ENCODER)
    bundle.save(path, config, YourTTS(config).state_dict(), "# tiny\n")
    return path


@pytest.fixture(scope="module")
def engines(folder: Path) -> Iterator[tuple[EagerEngine, EagerEngine]]:
    on_cpu, on_gpu = (EagerEngine(bundle.load_model(folder, torch.device(d)), torch.device(d)) for d in ("cpu", "cuda"))
    yield on_cpu, on_gpu
    on_cpu.close()
    on_gpu.close()


def sentence(length: int) -> Sentence:
    rng = np.random.default_rng(length)
    vector = rng.standard_normal(256).astype(np.float32)
    return Sentence(rng.integers(1, 82, length), vector / np.linalg.norm(vector), 0, SpeechOptions(seed=length))


def test_durations_are_equal_and_samples_agree(engines: tuple[EagerEngine, EagerEngine]) -> None:
    on_cpu, on_gpu = engines
    for length in (1, 7, 60, 200):
        planned = [engine.prior([sentence(length)])[0] for engine in (on_cpu, on_gpu)]
        assert np.array_equal(planned[0].durations, planned[1].durations)
        ours, oracle = on_gpu.decode([planned[1].whole()])[0], on_cpu.decode([planned[0].whole()])[0]
        assert ours.shape == oracle.shape
        assert np.abs(ours - oracle).max() < 2e-3


def test_a_sentence_sounds_the_same_alone_and_in_company(engines: tuple[EagerEngine, EagerEngine]) -> None:
    _, on_gpu = engines
    sentences = [sentence(n) for n in (3, 150, 40, 90)]
    alone = [on_gpu.decode([on_gpu.prior([s])[0].whole()])[0] for s in sentences]
    together = on_gpu.decode([plan.whole() for plan in on_gpu.prior(sentences)])
    for one, other in zip(alone, together, strict=True):
        assert one.shape == other.shape
        assert np.abs(one - other).max() < 2e-3


def test_the_encoder_agrees_with_the_cpu() -> None:
    rng = np.random.default_rng(0)
    clips = [Waveform((0.1 * rng.standard_normal(n)).astype(np.float32), 16000) for n in (16000, 90000)]
    on_cpu, on_gpu = (SpeakerEncoder.load(d).embed(clips) for d in ("cpu", "cuda"))
    for ours, oracle in zip(on_gpu, on_cpu, strict=True):
        assert float(ours.vector @ oracle.vector) > 0.999


def test_enrolment_goes_on_beside_a_long_reading(folder: Path) -> None:
    encoder = SpeakerEncoder.load("cuda")
    clip = Waveform((0.1 * np.random.default_rng(1).standard_normal(48000)).astype(np.float32), 16000)
    (expected,) = encoder.embed([clip])
    vector = expected.vector
    with Synthesiser.open(folder, device="cuda") as voice:
        stream = voice.stream(SpeechRequest("One sentence after another. " * 40, vector, ENCODER))
        next(stream)
        (during,) = encoder.embed([clip])
        assert sum(1 for _ in stream) == 39
    assert np.allclose(during.vector, vector, atol=1e-5)
