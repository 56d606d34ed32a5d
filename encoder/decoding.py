"""The decoding process: bytes in, mono 16 kHz blocks and facts out, within the caps that come with the bytes."""

import json
import resource
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection

import numpy as np
import soxr
from numpy.typing import NDArray

from encoder.audio import AUDIO, ERROR, FACTS, SAMPLE_RATE, Order
from encoder.containers import open_source
from encoder.errors import AudioTooLong, EncoderError, UnreadableAudio
from encoder.types import AudioFacts, FloatArray

_HEADROOM_BYTES = 2**30
_MAX_SAMPLE = 1e6
_SILENT_CHANNEL = 1e-3  # of the loudest channel's power
_CANCELS_BELOW = 0.25  # of the power that unrelated channels would keep in their mean
_DIFFERS_ABOVE = 0.4  # share of the power that is not common to the channels


@dataclass(frozen=True, slots=True)
class Mix:
    """How channels become one. Shapes: weights float32 (C,)."""

    weights: FloatArray
    channels_differ: bool


class ClipMeter:
    """Counts samples at the ceiling, wherever that lies: a recording is often turned down after it was clipped."""

    def __init__(self) -> None:
        self._peak = 0.0
        self._at_peak = self._over = self._total = 0

    def add(self, block: FloatArray) -> None:
        size = np.abs(block)
        peak = float(size.max(initial=0.0))
        if peak > self._peak * 1.001:
            self._peak, self._at_peak = peak, 0
        self._at_peak += int(np.count_nonzero(size >= self._peak * 0.998))
        self._over += int(np.count_nonzero(size > 1.0))
        self._total += block.size

    @property
    def share(self) -> float:
        return max(self._at_peak, self._over) / max(1, self._total) if self._peak > 0.0 else 0.0


def choose_mix(power: NDArray[np.float64]) -> Mix:
    """The mean of the channels that sound; the loudest alone where the mean would cancel.

    Shapes: power float64 (C, C), the channels' covariance.
    """
    own = np.diagonal(power)
    active = own > own.max() * _SILENT_CHANNEL
    n_active = int(active.sum())
    if n_active == 0:
        return Mix(np.full(len(own), 1 / len(own), np.float32), False)
    weights = active / n_active
    mixed = float(weights @ power @ weights)
    total = float(own[active].sum())
    if mixed < _CANCELS_BELOW * total / n_active**2:
        weights = np.arange(len(own)) == int(own.argmax())
    return Mix(weights.astype(np.float32), 1.0 - mixed * n_active / total > _DIFFERS_ABOVE)


def measure_mix(data: bytes, max_duration_s: float) -> Mix:
    """A first pass over a clip of several channels, because a mix can only be chosen when all of it was heard."""
    source = open_source(data)
    if source.channels == 1:
        return Mix(np.ones(1, np.float32), False)
    total = np.zeros(source.channels)
    product = np.zeros((source.channels, source.channels))
    n = 0
    for block in source.blocks():
        n += len(block)
        _check_duration(n / source.sample_rate, max_duration_s)
        wide = _sane(block).astype(np.float64)
        total += wide.sum(axis=0)
        product += wide.T @ wide
    n = max(n, 1)
    return choose_mix(product / n - np.outer(total / n, total / n))


def transcode(data: bytes, order: Order, emit: Callable[[FloatArray], None]) -> AudioFacts:
    """Mono 16 kHz audio, block by block into `emit`, and what was learnt on the way.

    Shapes: emit takes float32 (n,), not yet limited to [-1, 1].
    Raises: UnreadableAudio (`no_audio`, `bad_container`, `unsupported_format`); AudioTooLong (`decoded_too_long`).
    """
    mix = measure_mix(data, order.max_duration_s) if order.channel is None else None
    source = open_source(data)
    weights = mix.weights if mix else np.eye(source.channels, dtype=np.float32)[order.channel]
    resampler = soxr.ResampleStream(source.sample_rate, SAMPLE_RATE, 1, dtype="float32")
    meter, n, finite = ClipMeter(), 0, True
    for block in source.blocks():
        n += len(block)
        _check_duration(n / source.sample_rate, order.max_duration_s)
        finite = finite and bool(np.isfinite(block).all())
        clean = _sane(block)
        meter.add(clean)
        mono = clean @ weights
        emit(mono if source.sample_rate == SAMPLE_RATE else resampler.resample_chunk(mono))
    if n == 0:
        raise UnreadableAudio("no_audio", "the file holds no sound: it has a header and no samples that can be decoded")
    if source.sample_rate != SAMPLE_RATE:
        emit(resampler.resample_chunk(np.zeros(0, np.float32), last=True))
    return AudioFacts(
        container=source.container,
        source_sample_rate=source.sample_rate,
        channels=source.channels,
        duration_s=n / source.sample_rate,
        clipped_share=meter.share,
        damaged=source.damaged or not finite,
        channels_differ=mix is None or mix.channels_differ,
    )


def serve(connection: Connection) -> None:
    """Answers one clip after another until the other side closes; anything unexpected ends the process."""
    _lock_down()
    while True:
        try:
            order = Order(**json.loads(connection.recv_bytes()))
            data = connection.recv_bytes()
        except EOFError:
            return
        try:
            facts = transcode(data, order, lambda block: connection.send_bytes(AUDIO + block.tobytes()))
        except EncoderError as error:
            reply = {"type": type(error).__name__, "code": error.code, "message": error.message, **error.details}
            connection.send_bytes(ERROR + json.dumps(reply).encode())
        else:
            connection.send_bytes(FACTS + json.dumps(asdict(facts)).encode())


def _lock_down() -> None:
    """A crafted file shall meet a small allowance of memory, no file to write and no core dump."""
    if sys.platform == "linux":
        _limit_memory()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_memory() -> None:
    with open("/proc/self/statm", encoding="ascii") as statm:
        in_use = int(statm.read().split()[0]) * resource.getpagesize()
    ceiling = in_use + _HEADROOM_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))


def _check_duration(decoded_s: float, max_duration_s: float) -> None:
    if decoded_s > max_duration_s:
        raise AudioTooLong(
            "decoded_too_long",
            f"the clip is longer than {max_duration_s:g} s: upload a shorter part, 5 to 30 s of speech is best",
            max_duration_s=max_duration_s,
        )


def _sane(block: FloatArray) -> FloatArray:
    return np.nan_to_num(block, nan=0.0, posinf=0.0, neginf=0.0).clip(-_MAX_SAMPLE, _MAX_SAMPLE)
