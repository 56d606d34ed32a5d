import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from encoder_media import at_rate

from encoder.engine import SpeakerEncoder
from encoder.errors import UnusableSpeech
from encoder.types import Waveform


def test_encoder_id_names_weights_and_preprocessing(encoder):
    assert re.fullmatch(r"ge2e-[0-9a-f]{12}-v\d+", encoder.encoder_id)
    assert encoder.dim == 256


def test_many_clips_at_once_equal_each_alone(encoder, man, woman, man_again):
    waveforms = [Waveform(samples, 16_000) for samples in (man, woman[:9_000], man_again)]
    together = encoder.embed(waveforms)
    for waveform, embedding in zip(waveforms, together, strict=True):
        alone = encoder.embed([waveform])[0]
        np.testing.assert_allclose(embedding.vector, alone.vector, atol=1e-6)
        assert (embedding.n_partials, embedding.speech_s) == (alone.n_partials, alone.speech_s)
        assert embedding.encoder_id == encoder.encoder_id
        assert np.linalg.norm(embedding.vector) == pytest.approx(1, abs=1e-5)
        assert 0.5 < embedding.coherence <= 1.00001


def test_no_waveform_gives_no_embedding(encoder):
    assert encoder.embed([]) == []
    with pytest.raises(ValueError, match="at least one"):
        encoder.embed_async([])


def test_any_sample_rate_gives_the_same_voice(encoder, man):
    vectors = [
        encoder.embed([Waveform(at_rate(man, rate), rate)])[0].vector for rate in (16_000, 22_050, 24_000, 48_000)
    ]
    assert min(float(vectors[0] @ vector) for vector in vectors) > 0.995


def test_speakers_are_told_apart(encoder, man, man_again, woman):
    first, again, other = (e.vector for e in encoder.embed([Waveform(s, 16_000) for s in (man, man_again, woman)]))
    assert first @ again > 0.8
    assert first @ other < 0.7


@pytest.mark.parametrize(
    "samples", [np.zeros(0), np.zeros(16_000), np.full(16_000, np.nan)], ids=["empty", "silent", "not finite"]
)
def test_what_holds_no_sound_is_refused_with_its_index(encoder, man, samples):
    with pytest.raises(UnusableSpeech) as refused:
        encoder.embed([Waveform(man, 16_000), Waveform(samples.astype(np.float32), 16_000)])
    assert refused.value.code == "no_speech"
    assert refused.value.details["clip"] == 1


def test_handover_on_the_cpu_is_ready_and_equal(encoder, man, woman):
    waveforms = [Waveform(man, 16_000), Waveform(woman, 16_000)]
    handover = encoder.embed_async(waveforms)
    assert handover.event is None
    expected = np.stack([embedding.vector for embedding in encoder.embed(waveforms)])
    np.testing.assert_allclose(handover.vectors.numpy(), expected, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: only there is a side stream")
def test_handover_on_cuda_meets_the_cpu_on_another_stream(encoder, man, woman):
    waveforms = [Waveform(man, 16_000), Waveform(woman, 16_000)]
    on_device = SpeakerEncoder.load("cuda")
    expected = np.stack([embedding.vector for embedding in encoder.embed(waveforms)])
    other = torch.cuda.Stream()
    handover = on_device.embed_async(waveforms)
    vectors = handover.join(other)
    with torch.cuda.stream(other):
        doubled = (vectors * 2).cpu()
    assert handover.event is not None
    # cuDNN multiplies in TF32 unless it is told otherwise.
    np.testing.assert_allclose(doubled.numpy() / 2, expected, atol=5e-3)
    found = np.stack([embedding.vector for embedding in on_device.embed(waveforms)])
    np.testing.assert_allclose(found, expected, atol=5e-3)


def test_threads_get_their_own_results(encoder, man, woman):
    clips = {name: [Waveform(samples, 16_000)] for name, samples in (("man", man), ("woman", woman))}
    alone = {name: encoder.embed(clip)[0].vector for name, clip in clips.items()}
    names = ["man", "woman"] * 8
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda name: encoder.embed(clips[name])[0].vector, names))
    for name, vector in zip(names, found, strict=True):
        np.testing.assert_allclose(vector, alone[name], atol=1e-6)
