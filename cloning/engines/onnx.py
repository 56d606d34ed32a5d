"""A voice's exported graphs, run by ONNX Runtime on a CPU."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from cloning.config import VoiceConfig
from cloning.engines import batches
from cloning.engines.base import Part, Planned
from cloning.engines.batches import DevicePrior
from cloning.engines.windows import first_part_frames, widened
from cloning.errors import EngineError
from cloning.exporters.onnx import DECODE, PRIOR, PRIOR_INPUTS
from cloning.model import YourTTS
from cloning.types import FloatArray, Sentence


class OnnxEngine:
    """The two graphs of a folder, one sentence at a time: alone it is as fast, and no neighbour pads it."""

    name, device, max_batch = "onnx", "cpu", 1

    def __init__(self, folder: Path, config: VoiceConfig, threads: int) -> None:
        """Raises: EngineError (`engine_unavailable`) where the graphs are missing or cannot be loaded."""
        self._config = config
        self.first_part_frames = first_part_frames(config.audio.frame_s)
        self._prior, self._decode = (_session(folder / name, threads) for name in (PRIOR, DECODE))
        # The networks say how far a sample reaches; built without weights, they cost nothing.
        with torch.device("meta"):
            self._reach = YourTTS(config).receptive_field_frames

    def prior(self, sentences: Sequence[Sentence]) -> list[Planned]:
        """First phase, in the order given."""
        with torch.inference_mode():
            batch = batches.prior_input(sentences, self._config)
            given = dict(zip(PRIOR_INPUTS, batch.tensors(), strict=True))
            # A graph has only the inputs that its voice reads.
            names = [each.name for each in self._prior.get_inputs()]
            found = self._prior.run(None, {name: given[name].numpy() for name in names})
            m_p, logs_p, durations = (torch.from_numpy(np.asarray(x)) for x in found)
            return DevicePrior(m_p, logs_p, batch.d_vectors).planned(sentences, durations)

    def decode(self, parts: Sequence[Part]) -> list[FloatArray]:
        """Second phase of parts of sentences that may come from several first phases."""
        windows = [widened(part.span, part.plan.n_frames, self._reach) for part in parts]
        with torch.inference_mode():
            durations = batches.durations_of(parts, windows)
            m_p, logs_p, d_vectors = batches.statistics(parts, durations.shape[1])
            n_frames = max(window.n_frames for window in windows)
            noise = batches.noise_of(parts, windows, self._config).drawn(m_p.shape[1], n_frames)
        given = {"m_p": m_p, "logs_p": logs_p, "durations": durations, "d_vectors": d_vectors, "noise": noise}
        (samples,) = self._decode.run(None, {name: np.ascontiguousarray(x.numpy()) for name, x in given.items()})
        return batches.cut(np.asarray(samples), parts, windows, self._config.audio.hop_length)

    def close(self) -> None:
        """Lets the graphs go."""
        del self._prior, self._decode


def _session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    # The library's errors have no base of their own.
    except Exception as error:
        words = f"the graph {path.name} cannot be loaded; export the voice again: voicekin voices export"
        raise EngineError("engine_unavailable", words) from error
