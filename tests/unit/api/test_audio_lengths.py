"""Streams whose length is known say it in their heads, and are as long as they say."""

import io
import struct
import tempfile
import wave

import av
import numpy as np
import pytest

from api.audio_lengths import wav_head, wav_size
from api.audio_out import FORMATS, Chapter, FloatArray, open_m4a, open_stream

HALF_S = 12000


def noise(n_samples: int) -> FloatArray:
    return (np.random.default_rng(1).standard_normal(n_samples) * 0.1).astype(np.float32)


def streamed(name: str, samples: FloatArray, rate: int, n_samples: int | None) -> bytes:
    encoder = open_stream(rate, FORMATS[name], n_samples)
    parts = [encoder.write(samples[at : at + HALF_S]) for at in range(0, len(samples), HALF_S)]
    return b"".join([*parts, encoder.finish()])


@pytest.mark.parametrize("rate", [16000, 22050, 24000])
@pytest.mark.parametrize("n_samples", [1000, 24000, 50001])
@pytest.mark.parametrize("name", ["wav", "flac", "mp3"])
def test_the_head_says_how_long_the_stream_is(name: str, n_samples: int, rate: int) -> None:
    data = streamed(name, noise(n_samples), rate, n_samples)
    with av.open(io.BytesIO(data)) as container:
        (stream,) = container.streams.audio
        assert stream.duration is not None and stream.time_base is not None
        said_s = float(stream.duration * stream.time_base)
        decoded_s = sum(frame.samples for frame in container.decode(stream)) / stream.rate
    assert said_s == pytest.approx(decoded_s, abs=1e-4)
    assert said_s == pytest.approx(n_samples / rate, abs=1e-4)


def test_a_flac_stream_of_unknown_length_says_nothing() -> None:
    with av.open(io.BytesIO(streamed("flac", noise(24000), 24000, None))) as container:
        assert container.streams.audio[0].duration is None


def test_a_whole_wav_is_as_large_as_it_says() -> None:
    data = streamed("wav", noise(5001), 24000, 5001)
    assert len(data) == wav_size(5001)
    with wave.open(io.BytesIO(data)) as file:
        assert file.getnframes() == 5001


def test_from_4_gib_on_the_sizes_stand_in_64_bits() -> None:
    limit = 2**32 - 1 - 36
    assert wav_head(24000, limit - 1)[:4] == b"RIFF"
    head = wav_head(24000, limit + 1)
    assert (head[:4], head[8:16], head[72:76]) == (b"RF64", b"WAVEds64", b"data")
    size, n_bytes, n_samples = struct.unpack_from("<QQQ", head, 20)
    assert (size, n_bytes, n_samples) == (len(head) - 8 + limit + 1, limit + 1, (limit + 1) // 2)
    # A reader that knows it finds the sound behind it.
    short = bytearray(wav_head(24000, limit + 1)) + noise(100).astype("<i2").tobytes()
    struct.pack_into("<QQQ", short, 20, len(short) - 8, 200, 100)
    with av.open(io.BytesIO(bytes(short))) as container:
        assert sum(frame.samples for frame in container.decode(audio=0)) == 100


def test_an_m4a_has_its_length_and_its_chapters() -> None:
    with tempfile.TemporaryFile() as file:
        encoder = open_m4a(24000, file, [Chapter("Öne", 0.0, 0.5), Chapter("Two", 0.5, 2.0)])
        for _ in range(4):
            encoder.write(noise(HALF_S))
        encoder.finish()
        file.seek(0)
        with av.open(file) as container:
            found = [(each["metadata"]["title"], each["start"], each["end"]) for each in container.chapters()]
            assert container.duration == pytest.approx(2_000_000, abs=1000)
    assert found == [("Öne", 0, 500), ("Two", 500, 2000)]
