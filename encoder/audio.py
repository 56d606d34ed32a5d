"""Uploaded bytes to mono 16 kHz audio: decoded by content, in processes of their own that may be killed."""

import json
import math
import queue
import socket
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

import numpy as np
import soxr

from encoder.errors import AudioTooLong, EncoderError, UnreadableAudio
from encoder.types import DEFAULT_LIMITS, AudioFacts, AudioLimits, FloatArray, Waveform

SAMPLE_RATE = 16_000
QUIETEST_DBFS, LOUDEST_DBFS = -30.0, -24.0
RUMBLE_HZ = (60.0, 80.0)
FLOOR_DBFS = -120.0

# What the decoding process sends, told apart by the first byte.
AUDIO, FACTS, ERROR = b"A", b"F", b"E"

_SERVE = (
    "import sys; from multiprocessing.connection import Connection; sys.path.insert(0, sys.argv[1]); "
    "from encoder.decoding import serve; serve(Connection(int(sys.argv[2])))"
)
_ERRORS: dict[str, type[EncoderError]] = {kind.__name__: kind for kind in (UnreadableAudio, AudioTooLong)}


@dataclass(frozen=True, slots=True)
class Order:
    """What a decoding process is told beside the bytes; a `channel` of None is the best mix of all."""

    max_duration_s: float
    channel: int | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """A clip as audio and what its container told."""

    waveform: Waveform
    facts: AudioFacts


class Decoder:
    """Decodes clips in child processes, so that a hanging or crashing decoder costs one clip and nothing else.

    Many threads may call `decode`; at most `workers` clips are decoded at a time. Close it, or use it as a context.
    """

    def __init__(self, workers: int = 2) -> None:
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._workers = [_Worker() for _ in range(workers)]
        for worker in self._workers:
            self._idle.put(worker)

    def decode(self, data: bytes, limits: AudioLimits = DEFAULT_LIMITS, channel: int | None = None) -> Decoded:
        """The clip as mono 16 kHz audio without offset, its peak at most 1; of one channel alone where one is named.

        Raises: UnreadableAudio (`empty`, `no_audio`, `bad_container`, `unsupported_format`, `decode_timeout`);
        AudioTooLong (`too_many_bytes`, `decoded_too_long`); RuntimeError once closed.
        """
        if not data:
            raise UnreadableAudio("empty", "the clip has 0 bytes: choose a recording of speech")
        if len(data) > limits.max_bytes:
            raise AudioTooLong(
                "too_many_bytes",
                f"the clip has {len(data)} bytes, the limit is {limits.max_bytes}: upload a shorter part",
                n_bytes=len(data),
                max_bytes=limits.max_bytes,
            )
        samples, facts = self._in_worker(data, limits, channel)
        _centre(samples)
        return Decoded(Waveform(samples, SAMPLE_RATE), facts)

    def close(self) -> None:
        """Ends the child processes; clips that are being decoded fail."""
        with self._lock:
            self._closed = True
            for worker in self._workers:
                worker.kill()

    def _in_worker(self, data: bytes, limits: AudioLimits, channel: int | None) -> tuple[FloatArray, AudioFacts]:
        worker = self._idle.get()
        try:
            return self._twice(worker, data, limits, channel)
        except _ProcessDied as error:
            raise _breaks_decoders() from error
        finally:
            self._idle.put(worker)

    def _twice(
        self, worker: "_Worker", data: bytes, limits: AudioLimits, channel: int | None
    ) -> tuple[FloatArray, AudioFacts]:
        """One process may die of something else, such as a machine short of memory; a clip that breaks two is bad."""
        try:
            return self._usable(worker).decode(data, limits, channel)
        except _ProcessDied:
            return self._usable(worker).decode(data, limits, channel)

    def _usable(self, worker: "_Worker") -> "_Worker":
        with self._lock:
            if self._closed:
                raise RuntimeError("this decoder is closed")
            worker.start_if_ended()
            return worker

    def __enter__(self) -> "Decoder":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class _ProcessDied(Exception):
    """A decoding process ended in the middle of a clip."""


class _Worker:
    """One child process and the socket to it; used by one thread at a time, but killed from any."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        root = str(Path(__file__).resolve().parent.parent)
        with theirs:
            # A session of its own: Ctrl-C in a terminal must not end a decoder before the server has drained.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _SERVE, root, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._connection = Connection(ours.detach())

    def start_if_ended(self) -> None:
        if self._process.poll() is not None:
            self._connection.close()
            self._start()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def decode(self, data: bytes, limits: AudioLimits, channel: int | None) -> tuple[FloatArray, AudioFacts]:
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self.kill()

        timer = threading.Timer(limits.max_decode_s, expire)
        timer.daemon = True
        timer.start()
        try:
            return self._exchange(data, Order(limits.max_duration_s, channel))
        except (EOFError, OSError) as error:
            self.kill()
            raise (_too_slow(limits.max_decode_s) if expired.is_set() else _ProcessDied()) from error
        finally:
            timer.cancel()
            timer.join()  # an expiry under way must not hit the next clip

    def _exchange(self, data: bytes, order: Order) -> tuple[FloatArray, AudioFacts]:
        self._connection.send_bytes(json.dumps(asdict(order)).encode())
        self._connection.send_bytes(data)
        samples = bytearray()  # grows by what was really decoded: no header decides how much is allocated
        while (message := self._connection.recv_bytes())[:1] == AUDIO:
            samples += memoryview(message)[1:]
        content = json.loads(message[1:])
        if message[:1] == FACTS:
            return np.frombuffer(samples, np.float32), AudioFacts(**content)
        raise _ERRORS[content.pop("type")](content.pop("code"), content.pop("message"), **content)


def resample(samples: FloatArray, from_hz: int, to_hz: int) -> FloatArray:
    """Band-limited resampling. Shapes: float32 (n,) -> float32 (about n * to_hz / from_hz,)."""
    return samples if from_hz == to_hz else np.asarray(soxr.resample(samples, from_hz, to_hz), np.float32)


def level_dbfs(samples: FloatArray) -> float:
    """Root mean square in dB below full scale, never under -120. Shapes: samples float32 (n,)."""
    power = float(np.dot(samples, samples)) / len(samples) if len(samples) else 0.0
    return max(FLOOR_DBFS, 10.0 * float(np.log10(power))) if power > 0.0 else FLOOR_DBFS


def normalise_level(samples: FloatArray, loudest_dbfs: float = math.inf) -> FloatArray:
    """Speech raised to -30 dBFS where it is quieter, as Resemblyzer does, and lowered where it is louder than asked.

    Shapes: float32 (n,) -> float32 (n,).
    """
    level = level_dbfs(samples)
    gain_db = min(max(level, QUIETEST_DBFS), loudest_dbfs) - level
    return samples * np.float32(10.0 ** (gain_db / 20.0)) if gain_db else samples


def condition_speech(samples: FloatArray) -> FloatArray:
    """Speech as the speaker encoder knows it from training: free of mains hum, its level from -30 to -24 dBFS.

    The encoder hears power on a linear scale: without this, ten times the gain costs a voice 0.3 of its cosine to
    itself, and a hum of -43 dBFS 0.07. Shapes: float32 (n,) at 16 kHz -> float32 (n,).
    """
    spectrum = np.fft.rfft(samples)
    frequency = np.fft.rfftfreq(len(samples), 1.0 / SAMPLE_RATE)
    spectrum *= np.interp(frequency, RUMBLE_HZ, (0.0, 1.0))
    clean = np.fft.irfft(spectrum, len(samples)).astype(np.float32)
    return normalise_level(clean, LOUDEST_DBFS)


def _centre(samples: FloatArray) -> None:
    """Removes the offset and scales peaks above 1 down, in place: half an hour of audio must not be copied."""
    samples -= np.float32(samples.mean(dtype=np.float64))
    peak = max(float(samples.max()), -float(samples.min()))
    if peak > 1.0:
        samples /= np.float32(peak)


def _breaks_decoders() -> UnreadableAudio:
    return UnreadableAudio("bad_container", "the clip breaks its decoder: record or export it again")


def _too_slow(limit_s: float) -> UnreadableAudio:
    return UnreadableAudio(
        "decode_timeout",
        f"the clip could not be decoded within {limit_s:g} s: export it again as WAV or FLAC",
        max_decode_s=limit_s,
    )
