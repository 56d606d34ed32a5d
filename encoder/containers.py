"""Encoded audio opened by its content, given as blocks of float samples; runs in a decoding process."""

import io
import logging
from collections.abc import Iterator
from typing import Protocol

import av
import numpy as np
import soundfile

from encoder.errors import UnreadableAudio
from encoder.types import FloatArray

ACCEPTED = "wav, flac, mp3, ogg, opus, m4a/aac, webm, aiff, au, caf, amr and wma"
BLOCK_FRAMES = 65_536
MAX_CHANNELS = 32
MIN_RATE_HZ, MAX_RATE_HZ = 4_000, 768_000

_PLAIN = {"WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF"}
# FFmpeg has demuxers that open further files or addresses (playlists): only plain containers may be tried.
_DEMUXERS = "wav,w64,flac,mp3,ogg,matroska,webm,mov,mp4,aac,aiff,au,caf,amr,asf,mpegts,flv,avi"
MAGIC = (b"RIFF", b"RIFX", b"RF64", b"fLaC", b"OggS", b"ID3", b"FORM", b"caff", b".snd", b"#!AMR", b"\x1aE\xdf\xa3")
_SHORTFALL_S = 0.5


class Source(Protocol):
    """An opened clip. `blocks` gives float32 (n, channels) and may be read once; `damaged` is final after that."""

    container: str
    sample_rate: int
    channels: int
    damaged: bool

    def blocks(self) -> Iterator[FloatArray]: ...


class SoundfileSource:
    """PCM of any depth, floats, A-law and the like, by libsndfile; there is no damage that it could notice."""

    def __init__(self, file: soundfile.SoundFile) -> None:
        self._file = file
        self.container = file.format.lower()
        self.sample_rate = file.samplerate
        self.channels = file.channels
        self.damaged = False

    def blocks(self) -> Iterator[FloatArray]:
        while len(block := self._file.read(BLOCK_FRAMES, dtype="float32", always_2d=True)):
            yield block


class AvSource:
    """Everything else, by FFmpeg's libraries; the first audio stream counts, pictures and video are passed over."""

    def __init__(self, container: av.container.InputContainer, stream: av.AudioStream) -> None:
        self._input, self._stream = container, stream
        self.container = f"{container.format.name.split(',')[0]}/{stream.codec_context.name}"
        self.sample_rate = stream.codec_context.sample_rate
        self.channels = stream.codec_context.channels
        self.damaged = False

    def blocks(self) -> Iterator[FloatArray]:
        n_read = 0
        resampler: av.AudioResampler | None = None
        shape: tuple[object, ...] = ()
        for frame in self._frames():
            if (frame.format.name, frame.layout.name, frame.sample_rate) != shape:
                shape = (frame.format.name, frame.layout.name, frame.sample_rate)
                resampler = av.AudioResampler("fltp", self._stream.layout, self.sample_rate)
            for converted in resampler.resample(frame) if resampler else ():
                n_read += converted.samples
                yield np.ascontiguousarray(converted.to_ndarray().T)
        self.damaged |= self._falls_short(n_read / self.sample_rate)

    def _frames(self) -> Iterator[av.AudioFrame]:
        expected = None
        try:
            for packet in self._input.demux(self._stream):
                if expected is not None and self._skips(packet, expected):
                    self.damaged = True
                expected = (packet.pos or 0) + packet.size
                try:
                    yield from packet.decode()
                except av.FFmpegError:
                    self.damaged = True
        except av.FFmpegError:
            self.damaged = True

    def _skips(self, packet: "av.Packet[av.AudioStream]", expected: int) -> bool:
        """MP3 has no index of its packets: a gap between two is rubbish that the parser stepped over."""
        return self.container.startswith("mp3") and bool(packet.size) and (packet.pos or expected) != expected

    def _falls_short(self, decoded_s: float) -> bool:
        """A cut file still promises its whole length, where the container states one."""
        declared = self._stream.duration
        if declared is None or self._stream.time_base is None or self.container.startswith("wav"):
            return False
        return float(declared * self._stream.time_base) - decoded_s > _SHORTFALL_S


def open_source(data: bytes) -> Source:
    """The clip, opened by what its bytes say; names and declared types play no part.

    Raises: UnreadableAudio (`no_audio`, `bad_container`, `unsupported_format`).
    """
    source = _try_soundfile(data) or _open_av(data)
    if not MIN_RATE_HZ <= source.sample_rate <= MAX_RATE_HZ:
        raise UnreadableAudio(
            "unsupported_format",
            f"the sample rate of {source.sample_rate} Hz is outside {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz",
            sample_rate_hz=source.sample_rate,
        )
    if not 1 <= source.channels <= MAX_CHANNELS:
        raise UnreadableAudio(
            "unsupported_format",
            f"the clip has {source.channels} channels, 1 to {MAX_CHANNELS} are read",
            channels=source.channels,
        )
    return source


def _try_soundfile(data: bytes) -> Source | None:
    try:
        file = soundfile.SoundFile(io.BytesIO(data))
    except (soundfile.LibsndfileError, ValueError):
        return None
    # A length of 0 in the header is what streaming writers leave behind: FFmpeg then reads to the end.
    return SoundfileSource(file) if file.format in _PLAIN and file.frames else None


def _open_av(data: bytes) -> Source:
    logging.getLogger("libav").setLevel(logging.CRITICAL)
    options = {"format_whitelist": _DEMUXERS, "protocol_whitelist": "none"}
    try:
        container = av.open(io.BytesIO(data), mode="r", options=options)
    except (av.FFmpegError, ValueError) as error:
        raise _unreadable(data) from error
    if not container.streams.audio:
        raise UnreadableAudio("no_audio", "the file holds no sound track: upload a recording of speech")
    stream = container.streams.audio[0]
    if stream.codec_context is None:
        raise _unreadable(data)
    try:
        stream.codec_context.open(strict=False)
    except (av.FFmpegError, ValueError) as error:
        raise _unreadable(data) from error
    return AvSource(container, stream)


def _unreadable(data: bytes) -> UnreadableAudio:
    if data.startswith(MAGIC) or data[4:8] == b"ftyp":
        return UnreadableAudio(
            "bad_container", "the file starts like audio but is damaged or incomplete: record or export it again"
        )
    return UnreadableAudio(
        "unsupported_format",
        f"this is not an audio format that can be read; accepted are {ACCEPTED}; "
        "raw PCM needs a container, such as WAV, or its rate and channels in the file part's type",
    )
