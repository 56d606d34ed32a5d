"""Samples to bytes: the one place where audio is encoded, as a whole or piece by piece."""

import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, cast

import av
import numpy as np
import soxr
from numpy.typing import NDArray

from api.errors import FormatUnknown

FloatArray = NDArray[np.float32]
PCM_RATE_HZ = 24000
UNKNOWN_SIZE = 0xFFFFFFFF
# At these rates a frame is short enough that the codec's own delay and padding stay under 60 ms.
_LOSSY_RATES_HZ = (44100, 48000)


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """One format: its names on the wire, and the library's where it encodes. A `muxer` without a `codec` is ours."""

    name: str
    media_type: str
    muxer: str = ""
    codec: str = ""
    sample_format: str = "s16"
    bit_rate: int = 0
    rates_hz: tuple[int, ...] = ()

    def rate_for(self, sample_rate: int) -> int:
        """The rate that is written for audio of this rate: its own where the format allows it, else a multiple."""
        if not self.rates_hz or sample_rate in self.rates_hz:
            return sample_rate
        return min(self.rates_hz, key=lambda rate: (rate < sample_rate, rate % sample_rate != 0, rate))


FORMATS = {
    item.name: item
    for item in (
        AudioFormat("wav", "audio/wav", "wav"),
        AudioFormat("mp3", "audio/mpeg", "mp3", "libmp3lame", "s16p", 128_000, _LOSSY_RATES_HZ),
        AudioFormat("opus", "audio/ogg", "ogg", "libopus", "s16", 48_000, (48000,)),
        AudioFormat("aac", "audio/aac", "adts", "aac", "fltp", 96_000, _LOSSY_RATES_HZ),
        AudioFormat("flac", "audio/flac", "flac", "flac", "s16"),
        AudioFormat("pcm", "audio/pcm", rates_hz=(PCM_RATE_HZ,)),
    )
}


def _with_rate(kind: str, rate_hz: int, kbits: int = 0) -> AudioFormat:
    name = f"{kind}_{rate_hz}_{kbits}" if kbits else f"{kind}_{rate_hz}"
    return replace(FORMATS[kind], name=name, bit_rate=kbits * 1000, rates_hz=(rate_hz,))


_PCM_RATES_HZ = (8000, 16000, 22050, 24000, 32000, 44100, 48000)
_MP3_KBITS = ((22050, 32), (24000, 48), (44100, 32), (44100, 64), (44100, 96), (44100, 128), (44100, 192))
# Source: ITU-T G.711, the two laws of telephones.
_TELEPHONE = (
    AudioFormat("ulaw_8000", "audio/basic", "mulaw", "pcm_mulaw", "s16", rates_hz=(8000,)),
    AudioFormat("alaw_8000", "audio/x-alaw-basic", "alaw", "pcm_alaw", "s16", rates_hz=(8000,)),
)
# Formats with their rate, and bit rate, in their names, as ElevenLabs' clients ask for them.
RATED_FORMATS = {
    item.name: item
    for item in (
        *(_with_rate("mp3", rate_hz, kbits) for rate_hz, kbits in _MP3_KBITS),
        *(_with_rate(kind, rate_hz) for kind in ("pcm", "wav") for rate_hz in _PCM_RATES_HZ),
        *(_with_rate("opus", 48000, kbits) for kbits in (32, 64, 96, 128, 192)),
        *_TELEPHONE,
    )
}


def find_format(name: str, formats: Mapping[str, AudioFormat] = FORMATS) -> AudioFormat:
    """The format of this name.

    Raises: FormatUnknown.
    """
    try:
        return formats[name.lower()]
    except KeyError:
        known = ", ".join(formats)
        raise FormatUnknown(
            "format_unknown", f"format {name[:40]!r} is unknown; ask for one of: {known}", field="format"
        ) from None


class StreamEncoder(Protocol):
    """Bytes for samples as they come; `finish` gives the tail."""

    def write(self, samples: FloatArray) -> bytes: ...
    def finish(self) -> bytes: ...


def encode(samples: FloatArray, sample_rate: int, audio_format: AudioFormat) -> bytes:
    """The whole of a file, with exact sizes in its header."""
    if not audio_format.codec:
        rate_hz = audio_format.rate_for(sample_rate)
        data = to_int16(_Rate(sample_rate, rate_hz).convert(samples, last=True)).tobytes()
        return (_wav_header(rate_hz, len(data)) if audio_format.muxer else b"") + data
    sink = io.BytesIO()
    encoder = _open(sample_rate, audio_format, sink)
    encoder.write(samples)
    encoder.finish()
    return sink.getvalue()


def open_stream(sample_rate: int, audio_format: AudioFormat) -> StreamEncoder:
    """An encoder for a stream whose length nobody knows yet."""
    return _open(sample_rate, audio_format, _Pipe())


def to_int16(samples: FloatArray) -> NDArray[np.int16]:
    """Samples clamped to 16 bits, little endian: full scale never wraps."""
    clamped: NDArray[np.int16] = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2")
    return clamped


class _Pipe(io.RawIOBase):
    """A sink that cannot seek, so that headers are written for a stream, and that hands its bytes on."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def write(self, data: Any, /) -> int:
        self._chunks.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        data = b"".join(self._chunks)
        self._chunks.clear()
        return data


class _Rate:
    """Resampling that keeps its state from piece to piece."""

    def __init__(self, source_hz: int, target_hz: int) -> None:
        self._stream = None if source_hz == target_hz else soxr.ResampleStream(source_hz, target_hz, 1)

    def convert(self, samples: FloatArray, last: bool) -> FloatArray:
        if self._stream is None:
            return samples
        return cast(FloatArray, self._stream.resample_chunk(np.ascontiguousarray(samples, np.float32), last))


class _PcmEncoder:
    """Raw s16le, after a WAV header of unknown size where one is wanted."""

    def __init__(self, sample_rate: int, audio_format: AudioFormat) -> None:
        rate = audio_format.rate_for(sample_rate)
        self._rate = _Rate(sample_rate, rate)
        self._header = _wav_header(rate, None) if audio_format.muxer else b""

    def write(self, samples: FloatArray) -> bytes:
        header, self._header = self._header, b""
        return header + to_int16(self._rate.convert(samples, last=False)).tobytes()

    def finish(self) -> bytes:
        tail = self._rate.convert(np.zeros(0, np.float32), last=True)
        return self._header + to_int16(tail).tobytes()


class _LibraryEncoder:
    """A compressed stream through FFmpeg's libraries."""

    def __init__(self, sample_rate: int, audio_format: AudioFormat, sink: Any) -> None:
        self._rate_hz = audio_format.rate_for(sample_rate)
        self._rate = _Rate(sample_rate, self._rate_hz)
        self._sink = sink
        self._container = av.open(sink, mode="w", format=audio_format.muxer)
        self._stream = cast(
            av.AudioStream, self._container.add_stream(cast(Any, audio_format.codec), rate=self._rate_hz)
        )
        self._stream.codec_context.layout = "mono"
        self._stream.codec_context.format = audio_format.sample_format
        if audio_format.bit_rate:
            self._stream.bit_rate = audio_format.bit_rate
        self._adapter = av.AudioResampler(format=audio_format.sample_format, layout="mono", rate=self._rate_hz)
        self._position = 0

    def write(self, samples: FloatArray) -> bytes:
        self._mux(self._rate.convert(samples, last=False))
        return self._take()

    def finish(self) -> bytes:
        self._mux(self._rate.convert(np.zeros(0, np.float32), last=True))
        for packet in self._stream.encode(None):
            self._container.mux(packet)
        self._container.close()
        return self._take()

    def _mux(self, samples: FloatArray) -> None:
        if not len(samples):
            return
        frame = av.AudioFrame.from_ndarray(to_int16(samples)[None], format="s16", layout="mono")
        frame.sample_rate = self._rate_hz
        frame.pts, frame.time_base = self._position, Fraction(1, self._rate_hz)
        self._position += len(samples)
        for converted in self._adapter.resample(frame):
            for packet in self._stream.encode(converted):
                self._container.mux(packet)

    def _take(self) -> bytes:
        return self._sink.take() if isinstance(self._sink, _Pipe) else b""


def _open(sample_rate: int, audio_format: AudioFormat, sink: Any) -> StreamEncoder:
    if audio_format.codec:
        return _LibraryEncoder(sample_rate, audio_format, sink)
    return _PcmEncoder(sample_rate, audio_format)


def _wav_header(sample_rate: int, n_bytes: int | None) -> bytes:
    """Source: Microsoft, Multimedia Programming Interface and Data Specifications 1.0, RIFF WAVE."""
    riff, data = (UNKNOWN_SIZE, UNKNOWN_SIZE) if n_bytes is None else (36 + n_bytes, n_bytes)
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate, sample_rate * 2, 2, 16)
    return struct.pack("<4sI4s", b"RIFF", riff, b"WAVE") + fmt + struct.pack("<4sI", b"data", data)
