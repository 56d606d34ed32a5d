"""The networks as they are written, run by torch: the oracle of all other engines, and the default on a CPU."""

from collections.abc import Sequence

import torch

from cloning.engines import batches
from cloning.engines.base import Part, Planned
from cloning.engines.batches import DevicePrior
from cloning.engines.devices import use_full_float32
from cloning.engines.windows import Span, first_part_frames, widened
from cloning.model import YourTTS
from cloning.types import FloatArray, Sentence

GPU_BATCH = 16
# torch runs a convolution of no more input values than this by another algorithm, whose sums differ in the last bit.
_SHORT_VALUES = 20480


class EagerEngine:
    """One call of torch for each operation.

    On a CPU each sentence runs alone, which is as fast there and makes a sentence bit for bit the same whatever
    shares its batch; on a GPU sentences are padded together.
    """

    name = "eager"

    def __init__(self, model: YourTTS, device: torch.device) -> None:
        if device.type == "cuda":
            use_full_float32()
        self.device = str(device)
        self.max_batch = GPU_BATCH if device.type == "cuda" else 1
        self._model, self._device, self._config = model, device, model.config
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._first = first_part_frames(model.config.audio.frame_s)
        channels = model.config.text_encoder.hidden
        self._least = 0 if device.type == "cuda" else _SHORT_VALUES // channels + 1

    def prior(self, sentences: Sequence[Sentence]) -> list[Planned]:
        """First phase; the host waits for the durations, which shape the second."""
        with torch.inference_mode(), torch.cuda.stream(self._stream):
            batch = batches.prior_input(sentences, self._config).to(self._device)
            m_p, logs_p, durations = self._model.prior(batch)
            return DevicePrior(m_p, logs_p, batch.d_vectors).planned(sentences, durations)

    def decode(self, parts: Sequence[Part]) -> list[FloatArray]:
        """Second phase of parts of sentences that may come from several first phases."""
        windows = [self._window(part) for part in parts]
        n_frames = max(window.n_frames for window in windows)
        with torch.inference_mode(), torch.cuda.stream(self._stream):
            durations = batches.durations_of(parts, windows).to(self._device)
            m_p, logs_p, d_vectors = batches.statistics(parts, durations.shape[1])
            noise = batches.noise_of(parts, windows, self._config).to(self._device).drawn(m_p.shape[1], n_frames)
            samples = self._model.decode(m_p, logs_p, durations, d_vectors, noise)
            on_host = samples.cpu().numpy()
        return batches.cut(on_host, parts, windows, self._config.audio.hop_length)

    def first_part_frames(self, n_frames: int) -> int:
        """A quarter of a second, or more where that costs nothing."""
        return max(self._first, self._least_of(n_frames) - self._model.receptive_field_frames)

    def close(self) -> None:
        """Gives the device's memory back."""
        self._model.to("meta")

    def _window(self, part: Part) -> Span:
        n_frames = part.plan.n_frames
        return widened(part.span, n_frames, self._model.receptive_field_frames, self._least_of(n_frames))

    def _least_of(self, n_frames: int) -> int:
        """The narrowest window in which a sentence's convolutions run by the same algorithm as in the whole."""
        return self._least if n_frames >= self._least else 0
