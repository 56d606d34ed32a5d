import numpy as np
import pytest
from encoder_media import wav

from encoder.errors import UnreadableAudio
from encoder.raw_pcm import in_container


def raw(samples: np.ndarray, order: str = "<i2") -> bytes:
    return np.rint(samples * 32767).astype(order).tobytes()


@pytest.mark.parametrize("order", ["<i2", ">i2"])
@pytest.mark.parametrize("declared", ["audio/L16;rate=16000;channels=1", 'Audio/PCM; Channels="1" ; Rate=16000'])
def test_raw_samples_of_a_stated_shape_are_heard_in_either_byte_order(decoder, man, order, declared):
    decoded = decoder.decode(in_container(raw(man, order), declared))
    assert (decoded.facts.source_sample_rate, decoded.facts.channels) == (16_000, 1)
    np.testing.assert_allclose(decoded.waveform.samples, man - man.mean(), atol=1e-4)


def test_channels_and_odd_tails_are_kept_apart(decoder, man):
    stereo = np.stack([man, man], axis=1)
    decoded = decoder.decode(in_container(raw(stereo) + b"\x01\x02\x03", "audio/L16;rate=48000;channels=2"))
    assert (decoded.facts.source_sample_rate, decoded.facts.channels) == (48_000, 2)
    assert decoded.facts.duration_s == pytest.approx(len(man) / 48_000)


@pytest.mark.parametrize(
    ("declared", "missing"),
    [
        ("audio/L16", "rate"),
        ("audio/pcm", "rate"),
        ("audio/L16;rate=16000", "channels"),
        ("audio/L16;channels=1", "rate"),
        ("audio/L16;rate=0;channels=1", "rate"),
        ("audio/L16;rate=16000;channels=0", "channels"),
        ("audio/L16;rate=16000;channels=-1", "channels"),
        ("audio/L16;rate=1e4;channels=1", "rate"),
        ("audio/L16;rate=99999999999;channels=1", "rate"),
        ("audio/L16;rate=١٦٠٠٠;channels=1", "rate"),
    ],
)
def test_what_is_missing_is_named_with_its_limits(man, declared, missing):
    with pytest.raises(UnreadableAudio) as refused:
        in_container(raw(man), declared)
    assert (refused.value.code, refused.value.details["missing"]) == ("unsupported_format", missing)
    assert f"their {missing}" in refused.value.message and "channels=1" in refused.value.message


def test_a_declared_type_never_outweighs_the_content(man):
    for data in (wav(man), wav(man, container="FLAC"), b""):
        assert in_container(data, "audio/L16") == data
    assert in_container(b"anything", "text/plain") == b"anything"
