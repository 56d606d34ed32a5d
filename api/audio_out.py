"""Samples to bytes: the one place where audio is encoded, as a whole or piece by piece."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, BinaryIO, Protocol, cast

import av
import numpy as np
import soxr
from numpy.typing import NDArray

from api.audio_lengths import flac_with_length, mp3_with_length, wav_head
from api.errors import FormatUnknown

FloatArray = NDArray[np.float32]
PCM_RATE_HZ = 24000
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


M4A = AudioFormat("m4a", "audio/mp4", "ipod", "aac", "fltp", 96_000, _LOSSY_RATES_HZ)


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of a recording."""

    title: str
    start_s: float
    stop_s: float


class StreamEncoder(Protocol):
    """Bytes for samples as they come; `finish` gives the tail."""

    def write(self, samples: FloatArray) -> bytes: ...
    def finish(self) -> bytes: ...


def encode(samples: FloatArray, sample_rate: int, audio_format: AudioFormat) -> bytes:
    """The whole of a file, with exact sizes in its header."""
    if not audio_format.codec:
        rate_hz = audio_format.rate_for(sample_rate)
        data = to_int16(_Rate(sample_rate, rate_hz).convert(samples, last=True)).tobytes()
        return (wav_head(rate_hz, len(data)) if audio_format.muxer else b"") + data
    sink = io.BytesIO()
    encoder = _open(sample_rate, audio_format, sink)
    encoder.write(samples)
    encoder.finish()
    return sink.getvalue()


def open_stream(sample_rate: int, audio_format: AudioFormat, n_samples: int | None = None) -> StreamEncoder:
    """An encoder for a stream; its head tells the length where that is known before."""
    return _open(sample_rate, audio_format, _Pipe(), n_samples)


def open_m4a(sample_rate: int, file: BinaryIO, chapters: Sequence[Chapter]) -> StreamEncoder:
    """An encoder into a file that can be read and sought: AAC in MP4 with chapters. It gives no bytes."""
    return _LibraryEncoder(sample_rate, M4A, file, chapters=chapters)


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
    """Raw s16le, after a WAV header where one is wanted."""

    def __init__(self, sample_rate: int, audio_format: AudioFormat, n_samples: int | None) -> None:
        rate = audio_format.rate_for(sample_rate)
        self._rate = _Rate(sample_rate, rate)
        n_bytes = None if n_samples is None else 2 * _n_written(n_samples, sample_rate, rate)
        self._header = wav_head(rate, n_bytes) if audio_format.muxer else b""

    def write(self, samples: FloatArray) -> bytes:
        header, self._header = self._header, b""
        return header + to_int16(self._rate.convert(samples, last=False)).tobytes()

    def finish(self) -> bytes:
        tail = self._rate.convert(np.zeros(0, np.float32), last=True)
        return self._header + to_int16(tail).tobytes()


class _LibraryEncoder:
    """A compressed stream through FFmpeg's libraries."""

    def __init__(
        self,
        sample_rate: int,
        audio_format: AudioFormat,
        sink: Any,
        n_samples: int | None = None,
        chapters: Sequence[Chapter] = (),
    ) -> None:
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
        if chapters:
            self._container.set_chapters(_marks(chapters))
        written = None if n_samples is None else _n_written(n_samples, sample_rate, self._rate_hz)
        self._head = None if written is None else _head_of(audio_format, written)
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
        data = self._sink.take() if isinstance(self._sink, _Pipe) else b""
        if data and self._head is not None:
            # The library gives its first bytes by the buffer, which holds every head.
            data, self._head = self._head(data), None
        return data


def _open(sample_rate: int, audio_format: AudioFormat, sink: Any, n_samples: int | None = None) -> StreamEncoder:
    if audio_format.codec:
        return _LibraryEncoder(sample_rate, audio_format, sink, n_samples)
    return _PcmEncoder(sample_rate, audio_format, n_samples)


def _n_written(n_samples: int, source_hz: int, target_hz: int) -> int:
    return round(n_samples * target_hz / source_hz)


def _head_of(audio_format: AudioFormat, n_written: int) -> Callable[[bytes], bytes] | None:
    """What puts the length into a stream's first bytes, where its container has a place for it."""
    heads = {"flac": flac_with_length, "mp3": mp3_with_length}
    head = heads.get(audio_format.muxer)
    return None if head is None else partial(head, n_samples=n_written)


def _marks(chapters: Sequence[Chapter]) -> list[Any]:
    return [
        {
            "id": number,
            "start": round(chapter.start_s * 1000),
            "end": round(chapter.stop_s * 1000),
            "time_base": Fraction(1, 1000),
            "metadata": {"title": chapter.title},
        }
        for number, chapter in enumerate(chapters)
    ]
