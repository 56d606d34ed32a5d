"""The second ear: what it hears, what it does not mind, that it learns, and that a voice is held to it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from api.training import app
from cloning.training.data import PackedCorpus
from cloning.training.ear import VECTOR, Ear, crops, equal_error_rate, load_ear, save_ear, speaker_means
from cloning.training.ear_lessons import EarConfig, Lessons, halves_told_apart
from cloning.training.prepare import prepare
from cloning.training.recipes import tiny_voice
from tests.unit.cloning.training.made_speakers import made_speakers, no_vectors

RATE = 24000


@pytest.fixture(scope="module")
def pack_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four speakers with formants of their own, three clips each; a fifth and a sixth are held out."""
    folder = tmp_path_factory.mktemp("people")
    learn = made_speakers(folder, range(4), 3)
    kept = made_speakers(folder, range(4, 6), 2)
    for utterances, out in ((learn, folder / "pack"), (kept, folder / "pack" / "held-out")):
        prepare(utterances, out, tiny_voice("ge2e-test-v1"), no_vectors, 1, lambda *_: None)
    return folder / "pack"


@pytest.fixture(scope="module")
def corpus(pack_dir: Path) -> PackedCorpus:
    return PackedCorpus([pack_dir], 256, torch.device("cpu"))


def test_vectors_have_norm_1_and_level_and_colour_do_not_change_them() -> None:
    torch.manual_seed(0)
    ear, audio = Ear().eval(), torch.randn(2, 24000) * 0.1
    vectors = ear(audio)
    assert vectors.shape == (2, VECTOR)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(2), atol=1e-5)
    assert torch.allclose(ear(audio * 0.1), vectors, atol=1e-3)
    coloured = torch.fft.irfft(torch.fft.rfft(audio) * torch.linspace(1.0, 0.5, 12001), 24000)
    assert (ear(coloured) * vectors).sum(1).min() > 0.98


def test_gradients_reach_the_samples() -> None:
    audio = (torch.randn(1, 16000) * 0.1).requires_grad_()
    Ear().eval().requires_grad_(False)(audio)[0, 0].backward()
    assert audio.grad is not None and audio.grad.abs().max() > 0


def test_a_short_utterance_is_repeated_and_a_long_one_cut(corpus: PackedCorpus) -> None:
    row = torch.tensor([0])
    n = int(corpus.table[0, 1]) * 256
    twice = crops(corpus, row, 2 * n, torch.zeros(1))[0]
    assert torch.equal(twice[:n], twice[n:])
    last = crops(corpus, row, n // 2, torch.ones(1))[0]
    assert torch.equal(last, twice[n - n // 2 : n])


def test_lessons_tell_the_speakers_apart_and_come_back_from_the_file(corpus: PackedCorpus, tmp_path: Path) -> None:
    lessons = Lessons(corpus, RATE, EarConfig(batch=8, crop_s=0.6, report_every=10))
    reports: list[dict[str, float]] = []
    lessons.learn(600, reports.append, max_steps=30)
    assert reports[-1]["loss"] < reports[0]["loss"]
    save_ear(tmp_path / "ear.safetensors", lessons.ear)
    ear = load_ear(tmp_path / "ear.safetensors", torch.device("cpu"))
    assert not ear.training and not any(p.requires_grad for p in ear.parameters())
    means = speaker_means(ear, corpus, RATE)
    assert torch.equal(means, speaker_means(lessons.ear, corpus, RATE))
    audio = lessons.resampler(crops(corpus, torch.arange(len(corpus)), RATE, torch.full((len(corpus),), 0.5)))
    found = (ear(audio) @ means.T).argmax(1)
    assert (found == corpus.table[:, 4]).float().mean() > 0.8


def test_the_command_writes_an_ear_and_says_how_it_hears_strangers(pack_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "ear.safetensors"
    options = ["--pack", str(pack_dir), "--out", str(out), "--steps", "2", "--batch", "4"]
    result = CliRunner().invoke(app, ["ear", *options])
    assert result.exit_code == 0, result.output
    assert out.is_file() and "equal_error_rate" in result.output


def test_halves_of_strangers_are_compared(pack_dir: Path) -> None:
    strangers = PackedCorpus([pack_dir / "held-out"], 256, torch.device("cpu"))
    figures = halves_told_apart(Ear().eval(), strangers, RATE)
    assert set(figures) == {"same", "different", "equal_error_rate"}
    assert 0 <= figures["equal_error_rate"] <= 1


@pytest.mark.parametrize(
    ("same", "different", "expected"),
    [([0.9, 0.8], [0.1, 0.2], 0.0), ([0.1, 0.2], [0.8, 0.9], 1.0), ([0.9, 0.4], [0.5, 0.1], 0.5)],
)
def test_equal_error_rates(same: list[float], different: list[float], expected: float) -> None:
    assert equal_error_rate(same, different) == pytest.approx(expected, abs=0.01)


def test_equal_error_rate_of_two_bells_is_their_overlap() -> None:
    rng = np.random.default_rng(0)
    rate = equal_error_rate(rng.normal(1, 1, 4000).tolist(), rng.normal(-1, 1, 4000).tolist())
    assert rate == pytest.approx(0.1587, abs=0.01)
