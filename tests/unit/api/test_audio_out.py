import io
import itertools
import struct
import wave
from collections.abc import Iterable, Iterator

import av
import numpy as np
import pytest

from api.audio_out import FORMATS, RATED_FORMATS, AudioFormat, FloatArray, encode, find_format, open_stream, to_int16
from api.errors import FormatUnknown

RATE = 22050
N_SAMPLES = RATE * 2 + 777


@pytest.fixture(scope="module")
def tone() -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * 220 * np.arange(N_SAMPLES) / RATE)).astype(np.float32)


def _decode(data: bytes, audio_format: AudioFormat) -> tuple[np.ndarray, int]:
    if not audio_format.muxer:
        return np.frombuffer(data, "<i2") / 32768, audio_format.rates_hz[0]
    is_bare = audio_format.muxer in ("mulaw", "alaw")
    shape = {"format": audio_format.muxer, "options": {"sample_rate": "8000", "ch_layout": "mono"}} if is_bare else {}
    with av.open(io.BytesIO(data), **shape) as container:
        stream = container.streams.audio[0]
        resampler = av.AudioResampler(format="flt", layout="mono", rate=stream.rate)
        frames = [out.to_ndarray()[0] for frame in container.decode(stream) for out in resampler.resample(frame)]
    return np.concatenate(frames), stream.rate


def encode_pieces(pieces: Iterable[FloatArray], sample_rate: int, audio_format: AudioFormat) -> Iterator[bytes]:
    """What is sent, chunk by chunk."""
    encoder = open_stream(sample_rate, audio_format)
    yield from (encoder.write(piece) for piece in pieces)
    yield encoder.finish()


@pytest.mark.parametrize("item", [*FORMATS.values(), *RATED_FORMATS.values()], ids=lambda item: item.name)
@pytest.mark.parametrize("streamed", [False, True])
def test_each_format_holds_the_whole_tone_within_60_ms(tone: np.ndarray, item: AudioFormat, streamed: bool) -> None:
    data = b"".join(encode_pieces(np.array_split(tone, 7), RATE, item)) if streamed else encode(tone, RATE, item)
    samples, rate = _decode(data, item)
    assert abs(len(samples) / rate - N_SAMPLES / RATE) < 0.06
    middle = samples[len(samples) // 4 : -len(samples) // 4]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert np.argmax(spectrum) * rate / len(middle) == pytest.approx(220, abs=2)
    # LAME turns everything down by 5 % so that its own ringing is not clipped.
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.06)


@pytest.mark.parametrize("name", ["wav", "flac", "pcm", "pcm_16000", "wav_8000", "ulaw_8000"])
def test_pieces_make_the_same_samples_as_the_whole(tone: np.ndarray, name: str) -> None:
    item = {**FORMATS, **RATED_FORMATS}[name]
    whole, _ = _decode(encode(tone, RATE, item), item)
    for sizes in ([1, 2, 3, 500], [11025, 7]):
        pieces = np.split(tone, list(itertools.accumulate(sizes)))
        joined, _ = _decode(b"".join(encode_pieces(pieces, RATE, item)), item)
        np.testing.assert_array_equal(joined, whole)


@pytest.mark.parametrize("name", ["mp3_22050_32", "mp3_44100_192", "opus_48000_32", "pcm_8000", "alaw_8000"])
def test_a_format_with_a_rate_in_its_name_has_that_rate_and_bit_rate(tone: np.ndarray, name: str) -> None:
    kind, rate_hz, *kbits = name.split("_")
    data = encode(tone, RATE, find_format(name, RATED_FORMATS))
    assert _decode(data, RATED_FORMATS[name])[1] == int(rate_hz)
    expected_bits = int(kbits[0]) * 1000 if kbits else int(rate_hz) * {"pcm": 16, "alaw": 8}[kind]
    assert len(data) * 8 / (N_SAMPLES / RATE) == pytest.approx(expected_bits, rel=0.25)


def test_a_whole_wav_has_exact_sizes(tone: np.ndarray) -> None:
    data = encode(tone, RATE, FORMATS["wav"])
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnframes(), file.getframerate(), file.getnchannels()) == (N_SAMPLES, RATE, 1)
    assert struct.unpack_from("<I", data, 4)[0] == len(data) - 8


def test_a_streamed_wav_has_one_header_of_unknown_size(tone: np.ndarray) -> None:
    data = b"".join(encode_pieces(np.array_split(tone, 3), RATE, FORMATS["wav"]))
    assert struct.unpack_from("<I", data, 4)[0] == struct.unpack_from("<I", data, 40)[0] == 0xFFFFFFFF
    assert data.count(b"RIFF") == 1
    assert len(data) == 44 + 2 * N_SAMPLES


def test_full_scale_is_clamped_and_never_wraps() -> None:
    samples = np.array([1.0, 1.0154, -1.0, -1.2, 0.0, 100.0], np.float32)
    assert to_int16(samples).tolist() == [32767, 32767, -32768, -32768, 0, 32767]


def test_pcm_is_24_khz_whatever_the_voice_has() -> None:
    silence = np.zeros(16000, np.float32)
    chunks = list(encode_pieces([silence[:5001], silence[5001:]], 16000, FORMATS["pcm"]))
    assert all(len(chunk) % 2 == 0 for chunk in chunks)
    assert sum(map(len, chunks)) == pytest.approx(48000, abs=4)


def test_every_chunk_of_pcm_holds_whole_samples() -> None:
    odd = [np.full(n, 0.1, np.float32) for n in (1, 333, 5512, 7)]
    chunks = list(encode_pieces(odd, 22050, FORMATS["pcm"]))
    assert chunks and all(len(chunk) % 2 == 0 for chunk in chunks)
    assert sum(map(len, chunks)) // 2 == pytest.approx(sum(map(len, odd)) * 24000 / 22050, abs=2)


def test_no_samples_at_all_still_make_a_file() -> None:
    for item in FORMATS.values():
        data = encode(np.zeros(0, np.float32), RATE, item)
        assert isinstance(data, bytes)
    assert encode(np.zeros(0, np.float32), RATE, FORMATS["wav"])[40:44] == b"\0\0\0\0"


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    assert find_format("MP3").name == "mp3"
    with pytest.raises(FormatUnknown, match="wav, mp3, opus, aac, flac, pcm"):
        find_format("wma")
