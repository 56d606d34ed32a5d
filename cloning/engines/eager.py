"""The networks as they are written, run by torch: the oracle of all other engines, and the default on a CPU."""

from collections.abc import Iterator, Sequence

import torch

from cloning.engines import batches
from cloning.engines.base import Part, Planned
from cloning.engines.batches import DevicePrior
from cloning.engines.buckets import Room, group_within
from cloning.engines.devices import use_full_float32
from cloning.engines.lanes import Lane
from cloning.engines.windows import first_part_frames, widened
from cloning.layers.convolutions import Conv1d
from cloning.model import YourTTS
from cloning.types import FloatArray, Sentence

GPU_BATCH = 16


class EagerEngine:
    """One call of torch for each operation.

    On a CPU each sentence runs alone, which is as fast there and makes a sentence bit for bit the same whatever
    shares its batch; on a GPU sentences are padded together. With a `room` no call is larger, and what is longer
    takes several windows. With a `lane` it computes there, else in the thread that calls.
    """

    name = "eager"

    def __init__(
        self, model: YourTTS, device: torch.device, room: Room | None = None, lane: Lane | None = None
    ) -> None:
        if device.type == "cuda":
            use_full_float32()
        self.device = str(device)
        self.max_batch = room.max_batch if room else GPU_BATCH if device.type == "cuda" else 1
        self._room, self._lane = room, lane
        self._model, self._device, self._config = model, device, model.config
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self.first_part_frames = first_part_frames(model.config.audio.frame_s)
        if device.type == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            _use_one_algorithm(model)

    def prior(self, sentences: Sequence[Sentence]) -> list[Planned]:
        """First phase; the host waits for the durations, which shape the second."""
        return self._lane.run(self._prior, sentences) if self._lane else self._prior(sentences)

    def decode(self, parts: Sequence[Part]) -> list[FloatArray]:
        """Second phase of parts of sentences that may come from several first phases."""
        return self._lane.run(self._parts, parts) if self._lane else self._parts(parts)

    def close(self) -> None:
        """Gives the device's memory back."""
        self._model.to("meta")

    def _prior(self, sentences: Sequence[Sentence]) -> list[Planned]:
        with torch.inference_mode(), torch.cuda.stream(self._stream):
            batch = batches.prior_input(sentences, self._config).to(self._device)
            m_p, logs_p, durations = self._model.prior(batch)
            return DevicePrior(m_p, logs_p, batch.d_vectors).planned(sentences, durations)

    def _parts(self, parts: Sequence[Part]) -> list[FloatArray]:
        room, reach = self._room, self._model.receptive_field_frames
        if room is None:
            return self._decode(parts)

        def groups(pieces: Sequence[Part]) -> Iterator[list[int]]:
            return group_within(room, [widened(p.span, p.plan.n_frames, reach).n_frames for p in pieces])

        return batches.in_pieces(parts, room.most_area - 2 * reach, groups, self._decode)

    def _decode(self, parts: Sequence[Part]) -> list[FloatArray]:
        reach = self._model.receptive_field_frames
        windows = [widened(part.span, part.plan.n_frames, reach) for part in parts]
        n_frames = max(window.n_frames for window in windows)
        with torch.inference_mode(), torch.cuda.stream(self._stream):
            durations = batches.durations_of(parts, windows).to(self._device)
            m_p, logs_p, d_vectors = batches.statistics(parts, durations.shape[1])
            noise = batches.noise_of(parts, windows, self._config).to(self._device).drawn(m_p.shape[1], n_frames)
            samples = self._model.decode(m_p, logs_p, durations, d_vectors, noise)
            on_host = samples.cpu().numpy()
        return batches.cut(on_host, parts, windows, self._config.audio.hop_length)


def _use_one_algorithm(model: YourTTS) -> None:
    """What is computed in windows then has the bits of the whole sentence."""
    for network in (model.flow, model.decoder):
        for module in network.modules():
            if isinstance(module, Conv1d) and module.weight.dtype == torch.float32:
                module.by_one_algorithm = True
