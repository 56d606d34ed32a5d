"""Both phases at fixed shapes: batches are padded to buckets, in buffers that never move.

What is recorded at a shape and how it is run again is for others to say: `cloning.engines.cuda_graph` does it on a GPU.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from cloning.config import VoiceConfig
from cloning.engines import batches
from cloning.engines.base import Part, Planned
from cloning.engines.batches import DevicePrior, NoiseInput
from cloning.engines.buckets import bucket, group_by_length, ladder
from cloning.engines.windows import Span, first_part_frames, widened
from cloning.model import PriorInput
from cloning.types import FloatArray, Sentence

_LEAST_SYMBOLS = 64

# Something to run, and the same made so that it can be run again on the same memory.
Run = Callable[[], None]
Record = Callable[[Run], Run]


class Networks(Protocol):
    """The two phases of a voice, as `cloning.model.YourTTS` has them, by whatever runs them."""

    config: VoiceConfig
    receptive_field_frames: int

    def prior(self, batch: PriorInput) -> tuple[Tensor, Tensor, Tensor]:
        """Shapes: as `YourTTS.prior`."""

    def decode(self, m_p: Tensor, logs_p: Tensor, durations: Tensor, d_vectors: Tensor, noise: Tensor) -> Tensor:
        """Shapes: as `YourTTS.decode`."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """The fixed shapes of one voice: numbers of sentences, of symbols, and of frames of a window.

    No batch has more than `most_area` frames, padding counted.
    """

    sentences: tuple[int, ...]
    symbols: tuple[int, ...]
    frames: tuple[int, ...]
    most_area: int

    @classmethod
    def of(cls, networks: Networks, max_batch: int = 32, most_frames: int = 1024, most_area: int = 16384) -> "Shapes":
        """Shapes for all sentences that the voice's front end makes; `max_batch` is a power of two."""
        # A window must hold more than what is computed only to be cut away.
        frames = ladder(64, max(most_frames, 4 * networks.receptive_field_frames))
        symbols = ladder(32, max(_LEAST_SYMBOLS, networks.config.text.max_symbols))
        return cls(tuple(1 << i for i in range(max_batch.bit_length())), symbols, frames, max(most_area, frames[-1]))


class Memory:
    """Buffers of one purpose at every shape, all in the same place, each as large as the largest."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._flat: dict[str, Tensor] = {}

    def reserve(self, name: str, n_values: int, dtype: torch.dtype) -> None:
        self._flat[name] = torch.zeros(n_values, dtype=dtype, device=self._device)

    def at(self, name: str, *shape: int) -> Tensor:
        """The buffer of a name at a shape; of three axes the second, which is the channels', is the innermost."""
        flat = self._flat[name][: math.prod(shape)]
        if len(shape) == 3:
            return flat.view(shape[0], shape[2], shape[1]).transpose(1, 2)
        return flat.view(shape)

    @property
    def n_bytes(self) -> int:
        return sum(flat.numel() * flat.element_size() for flat in self._flat.values())


@dataclass(frozen=True, slots=True)
class Buffer:
    """What one buffer holds."""

    name: str
    n_values: int
    dtype: torch.dtype = torch.float32

    @property
    def n_bytes(self) -> int:
        return self.n_values * self.dtype.itemsize


def buffers(config: VoiceConfig, shapes: Shapes) -> list[Buffer]:
    """All buffers of a voice's engine, each as large as the largest shape needs it."""
    n, symbols, area = shapes.sentences[-1], shapes.symbols[-1], shapes.most_area
    statistics = n * symbols * config.text_encoder.hidden
    return [
        *(Buffer(name, n * symbols, torch.long) for name in ("token_ids", "durations", "durations_out")),
        *(Buffer(name, n, torch.long) for name in ("n_symbols", "language_ids", "seeds", "first")),
        *(Buffer(name, statistics) for name in ("m_p", "logs_p", "m_p_out", "logs_p_out")),
        Buffer("d_vectors", n * config.speaker.d_vector),
        *(Buffer(name, n) for name in ("scale", "length_scale")),
        Buffer("noise_dp", n * 2 * symbols),
        Buffer("samples", area * config.audio.hop_length),
    ]


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A network at one shape, with the buffers that it reads and those that it writes."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    again: Run

    def run(self, values: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Values may be smaller than their buffers; the rest is zero. The next run overwrites what this one gives."""
        for buffer, value in zip(self.inputs, values, strict=True):
            missing = [n - m for n, m in zip(buffer.shape, value.shape, strict=True)]
            padding = [width for n in reversed(missing) for width in (0, n)]
            padded = F.pad(value, padding) if any(missing) else value
            # From pinned memory a copy does not hold the host up.
            sent = padded.pin_memory() if buffer.is_cuda and not padded.is_cuda else padded
            buffer.copy_(sent, non_blocking=True)
        self.again()
        return self.outputs


class BucketedEngine:
    """An engine whose every call has one of few shapes; a part longer than the longest takes several windows."""

    name = "bucketed"

    def __init__(
        self, networks: Networks, device: torch.device, shapes: Shapes, record: Record,
        on_stream: Callable[[], AbstractContextManager[object]],
    ) -> None:  # fmt: skip
        self.device, self.max_batch = str(device), shapes.sentences[-1]
        self._networks, self._device, self._shapes, self._config = networks, device, shapes, networks.config
        self._record, self._on_stream = record, on_stream
        self._recorded: dict[tuple[str, int, int], _Recorded] = {}
        self._reach = networks.receptive_field_frames
        first = first_part_frames(networks.config.audio.frame_s)
        # More is for nothing where it needs no larger bucket.
        self.first_part_frames = bucket(min(first + self._reach, shapes.frames[-1]), shapes.frames) - self._reach
        with torch.inference_mode():
            self._memory = self._reserved()

    def warm_up(self, n_sentences: Sequence[int] = (1,)) -> int:
        """Records the shapes of so many sentences ahead of their first use; how many there are now."""
        with torch.inference_mode(), self._on_stream():
            for n in n_sentences:
                for width in self._shapes.symbols:
                    self._prior_at(n, width)
                for width in self._widths(n):
                    self._decode_at(n, width)
        return len(self._recorded)

    def prior(self, sentences: Sequence[Sentence]) -> list[Planned]:
        """First phase; the host waits for the durations, which shape the second."""
        with torch.inference_mode(), self._on_stream():
            batch, n = batches.prior_input(sentences, self._config), len(sentences)
            width, most = bucket(batch.token_ids.shape[1], self._shapes.symbols), self._shapes.symbols[-1]
            recorded = self._prior_at(bucket(n, self._shapes.sentences), width)
            m_p, logs_p, durations = recorded.run(batch.tensors())
            # Copies at full width, channels innermost, as the second phase reads them.
            rows = [F.pad(x[:n].transpose(1, 2), (0, 0, 0, most - width)).transpose(1, 2) for x in (m_p, logs_p)]
            held = DevicePrior(rows[0], rows[1], recorded.inputs[2][:n].clone())
            return held.planned(sentences, durations)

    def decode(self, parts: Sequence[Part]) -> list[FloatArray]:
        """Second phase of parts of sentences that may come from several first phases."""
        most = self._shapes.frames[-1] - 2 * self._reach
        return batches.in_pieces(parts, most, self._groups, self._decode)

    def close(self) -> None:
        """Gives the device's memory back."""
        self._recorded.clear()
        self._memory = Memory(self._device)

    def _groups(self, parts: Sequence[Part]) -> Iterator[list[int]]:
        """Indices of parts that share a batch, which is no larger than the largest shape."""
        widths = [bucket(self._window(part).n_frames, self._shapes.frames) for part in parts]
        for group in group_by_length(widths, self.max_batch):
            fits = max(n for n in self._shapes.sentences if n * max(widths[i] for i in group) <= self._shapes.most_area)
            yield from (group[i : i + fits] for i in range(0, len(group), fits))

    def _decode(self, parts: Sequence[Part]) -> list[FloatArray]:
        windows, n = [self._window(part) for part in parts], len(parts)
        width = bucket(max(window.n_frames for window in windows), self._shapes.frames)
        with torch.inference_mode(), self._on_stream():
            recorded = self._decode_at(bucket(n, self._shapes.sentences), width)
            noise = batches.noise_of(parts, windows, self._config)
            from_host = (batches.durations_of(parts, windows), noise.seeds, noise.first, noise.scale)
            statistics = batches.statistics(parts, self._shapes.symbols[-1])
            (samples,) = recorded.run([*statistics, *from_host])
            on_host = samples[:n].to("cpu", non_blocking=True, copy=True)
            if self._device.type == "cuda":
                torch.cuda.current_stream(self._device).synchronize()
        return batches.cut(on_host.numpy(), parts, windows, self._config.audio.hop_length)

    def _window(self, part: Part) -> Span:
        return widened(part.span, part.plan.n_frames, self._reach)

    def _widths(self, n: int) -> list[int]:
        return [width for width in self._shapes.frames if n * width <= self._shapes.most_area]

    def _reserved(self) -> Memory:
        memory = Memory(self._device)
        for buffer in buffers(self._config, self._shapes):
            memory.reserve(buffer.name, buffer.n_values, buffer.dtype)
        return memory

    def _prior_at(self, n: int, width: int) -> _Recorded:
        at, channels = self._memory.at, self._config.text_encoder.hidden
        inputs = (
            at("token_ids", n, width), at("n_symbols", n), at("d_vectors", n, self._config.speaker.d_vector),
            at("language_ids", n), at("length_scale", n), at("noise_dp", n, 2, width),
        )  # fmt: skip
        outputs = (
            at("m_p_out", n, channels, width),
            at("logs_p_out", n, channels, width),
            at("durations_out", n, width),
        )
        return self._at(("prior", n, width), inputs, outputs, lambda: self._networks.prior(PriorInput(*inputs)))

    def _decode_at(self, n: int, width: int) -> _Recorded:
        at, channels, symbols = self._memory.at, self._config.text_encoder.hidden, self._shapes.symbols[-1]
        sentence = (
            at("m_p", n, channels, symbols), at("logs_p", n, channels, symbols),
            at("d_vectors", n, self._config.speaker.d_vector), at("durations", n, symbols),
        )  # fmt: skip
        noise = (at("seeds", n), at("first", n), at("scale", n))

        def network() -> tuple[Tensor, ...]:
            m_p, logs_p, d_vectors, durations = sentence
            drawn = NoiseInput(*noise).drawn(channels, width)
            return (self._networks.decode(m_p, logs_p, durations, d_vectors, drawn),)

        samples = at("samples", n, width * self._config.audio.hop_length)
        return self._at(("decode", n, width), (*sentence, *noise), (samples,), network)

    def _at(
        self, key: tuple[str, int, int], inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...],
        network: Callable[[], tuple[Tensor, ...]],
    ) -> _Recorded:  # fmt: skip
        """The recording of a phase at a shape, made when it is first asked for."""

        def run() -> None:
            for buffer, value in zip(outputs, network(), strict=True):
                buffer.copy_(value)

        if key not in self._recorded:
            self._recorded[key] = _Recorded(inputs, outputs, self._record(run))
        return self._recorded[key]
