"""A voice as two ONNX graphs: text to durations, and those to samples; the host reads the durations between the two.

`prior.onnx` and `decode.onnx` take any number of sentences of any length; `voice.json` says the symbols, the languages,
the rates and what a d-vector must be.
"""

import copy
import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cloning.bundle import load_model
from cloning.decoders.istft import InverseTransform, IstftDecoder
from cloning.errors import EngineError
from cloning.layers.attention import RelativeAttention, Shifts
from cloning.layers.convolutions import Conv1d
from cloning.model import PriorInput, YourTTS

OPSET = 17
PRIOR_INPUTS = ("token_ids", "n_symbols", "d_vectors", "language_ids", "length_scale", "noise_dp")
PRIOR, DECODE, DESCRIPTION = "prior.onnx", "decode.onnx", "voice.json"
# The lengths (symbols, frames for each) and batches that a fresh export is compared over.
CHECKED = ((1, 1, 1), (2, 3, 2), (5, 2, 1), (17, 4, 3), (60, 5, 1), (220, 3, 2))
TOLERANCE = 1e-3
_MOST_ON_A_BORDER = 0.01
_PRIOR_AXES = {
    "token_ids": {0: "batch", 1: "symbols"}, "n_symbols": {0: "batch"}, "d_vectors": {0: "batch"},
    "language_ids": {0: "batch"}, "length_scale": {0: "batch"}, "noise_dp": {0: "batch", 2: "symbols"},
    "m_p": {0: "batch", 2: "symbols"}, "logs_p": {0: "batch", 2: "symbols"}, "durations": {0: "batch", 1: "symbols"},
}  # fmt: skip
_DECODE_AXES = {
    "m_p": {0: "batch", 2: "symbols"}, "logs_p": {0: "batch", 2: "symbols"}, "durations": {0: "batch", 1: "symbols"},
    "d_vectors": {0: "batch"}, "noise": {0: "batch", 2: "frames"}, "samples": {0: "batch", 1: "samples"},
}  # fmt: skip
Arrays = dict[str, NDArray[Any]]


class GatheredShifts(Shifts):
    """As `cloning.layers.attention.Shifts`, by indices: the same graph for texts shorter and longer than the window."""

    def to_positions(self, by_distance: Tensor) -> Tensor:
        b, h, t, _ = by_distance.shape
        steps = torch.arange(t)
        index = steps[None] - steps[:, None] + self.window
        near = ((index >= 0) & (index <= 2 * self.window)).to(by_distance.dtype)
        return by_distance.gather(3, index.clamp(0, 2 * self.window).expand(b, h, t, t)) * near

    def to_distances(self, by_position: Tensor) -> Tensor:
        b, h, t, _ = by_position.shape
        index = torch.arange(t)[:, None] + torch.arange(2 * self.window + 1)[None] - self.window
        inside = ((index >= 0) & (index < t)).to(by_position.dtype)
        return (
            by_position.gather(3, index.clamp(min=0).minimum(t - torch.ones_like(index)).expand(b, h, t, -1)) * inside
        )


class MatrixInverse(InverseTransform):
    """As `cloning.decoders.istft.InverseTransform`, as two matrix products.

    Source: the definition of the inverse discrete Fourier transform of a real signal.
    """

    cosines: Tensor
    sines: Tensor

    def __init__(self, n_fft: int) -> None:
        super().__init__(n_fft)
        angles = 2 * math.pi / n_fft * np.outer(np.arange(n_fft // 2 + 1), np.arange(n_fft))
        twice = np.full((n_fft // 2 + 1, 1), 2.0)
        twice[[0, -1]] = 1.0
        for name, waves in (("cosines", np.cos(angles)), ("sines", -np.sin(angles))):
            self.register_buffer(name, torch.from_numpy((twice / n_fft * waves).astype(np.float32)), persistent=False)

    def forward(self, real: Tensor, imaginary: Tensor) -> Tensor:
        return real @ self.cosines + imaginary @ self.sines


class _Prior(nn.Module):
    def __init__(self, model: YourTTS) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.model.prior(PriorInput(*inputs))


class _Decode(nn.Module):
    def __init__(self, model: YourTTS) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.model.decode(*inputs)


@dataclass(frozen=True, slots=True)
class Checked:
    """The largest difference of the graphs' samples to torch's, over all shapes that were compared."""

    n_shapes: int
    difference: float


def export_bundle(bundle_dir: Path, folder: Path) -> Checked:
    """As `export`, of an installed voice. Raises: BundleError and what `export` raises."""
    return export(load_model(bundle_dir, torch.device("cpu")), folder)


def export(model: YourTTS, folder: Path) -> Checked:
    """Writes the graphs of a voice and its description, and compares them with torch.

    Raises: EngineError `engine_failed` where the graphs differ; `engine_unavailable` without the package onnx.
    """
    write_graphs(model, folder)
    (folder / DESCRIPTION).write_text(_description(model), encoding="utf-8")
    return check(model, folder)


def write_graphs(model: YourTTS, folder: Path) -> None:
    """Writes the graphs of a voice, in the types that its weights have.

    Raises: EngineError `engine_unavailable` without the package onnx, `engine_failed` where it cannot be exported.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plain = _plain(model)
    prior, decode = _examples(model, 7, 3, 2)
    _write(_Prior(plain), folder / PRIOR, prior, ("m_p", "logs_p", "durations"), _PRIOR_AXES)
    _write(_Decode(plain), folder / DECODE, decode, ("samples",), _DECODE_AXES)


def check(
    model: YourTTS, folder: Path, shapes: Sequence[tuple[int, int, int]] = CHECKED, tolerance: float = TOLERANCE
) -> Checked:
    """The graphs against torch, over shapes (symbols, most frames of each, sentences).

    Raises: EngineError `engine_failed`, with the shape and the difference.
    """
    options = onnxruntime.SessionOptions()
    # Between two shapes torch works: threads that wait awake would take its cores.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    graphs = {name: onnxruntime.InferenceSession(folder / name, options, providers=["CPUExecutionProvider"])
              for name in (PRIOR, DECODE)}  # fmt: skip
    worst = 0.0
    for shape in shapes:
        prior, decode = _examples(model, *shape)
        with torch.inference_mode():
            expected = (*model.prior(PriorInput(*prior.values())), model.decode(*decode.values()))
        found = (*_run(graphs[PRIOR], prior), *_run(graphs[DECODE], decode))
        for ours, theirs in zip(expected, found, strict=True):
            difference = _difference(ours.numpy(), theirs)
            worst = max(worst, difference)
            if not difference <= tolerance:
                words = f"the exported graphs differ by {difference:.2g} for (symbols, frames, sentences) {shape}"
                raise EngineError("engine_failed", f"{words}; the limit is {tolerance:g}")
    return Checked(len(shapes), worst)


def _difference(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The largest difference, as a share of the largest value where that is above 1.

    A duration may lie so near a border that one library rounds it up and the other down: one in a hundred may.
    """
    apart = np.abs(ours.astype(np.float64) - theirs)
    if ours.dtype.kind == "i" and apart.max() <= 1 and (apart > 0).mean() <= _MOST_ON_A_BORDER:
        return 0.0
    return float(apart.max() / max(1.0, float(np.abs(ours).max())))


def _plain(model: YourTTS) -> YourTTS:
    """A copy whose every step is an operation that ONNX has."""
    plain = copy.deepcopy(model)
    for module in plain.modules():
        if isinstance(module, Conv1d):
            module.by_one_algorithm = False
        if isinstance(module, RelativeAttention):
            module.shifts = GatheredShifts(module.window)
    if isinstance(plain.decoder, IstftDecoder):
        plain.decoder.to_frames = MatrixInverse(model.config.audio.n_fft)
    return plain


def _write(graph: nn.Module, path: Path, example: dict[str, Tensor], outputs: tuple[str, ...], axes: Any) -> None:
    names = [*example, *outputs]
    try:
        with warnings.catch_warnings():
            # The exporter warns of each Python number; what follows from their being fixed is compared in `check`.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                graph, tuple(example.values()), path, input_names=list(example), output_names=list(outputs),
                dynamic_axes={name: axes[name] for name in names}, opset_version=OPSET, dynamo=False,
            )  # fmt: skip
    except torch.onnx.errors.OnnxExporterError as error:
        if "onnx is not installed" not in str(error):
            raise EngineError("engine_failed", f"this voice cannot be exported: {error}") from error
        raise EngineError(
            "engine_unavailable", "the package onnx is missing: pip install 'voicekin[export]'"
        ) from error


def _examples(
    model: YourTTS, n_symbols: int, n_frames: int, n_sentences: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Inputs of both graphs, from a fixed seed; all sentences but the first are shorter than the batch."""
    config, generator = model.config, torch.Generator().manual_seed(n_symbols)
    hidden, lengths = config.text_encoder.hidden, torch.tensor([max(1, n_symbols - i) for i in range(n_sentences)])
    inside = torch.arange(n_symbols)[None] < lengths[:, None]

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    d_vectors = nn.functional.normalize(normal(n_sentences, config.speaker.d_vector))
    durations = torch.randint(1, n_frames + 1, inside.shape, generator=generator) * inside
    prior = {
        "token_ids": torch.randint(0, config.text.n_symbols, inside.shape, generator=generator) * inside,
        "n_symbols": lengths,
        "d_vectors": d_vectors,
        "language_ids": torch.arange(n_sentences) % max(1, len(config.text.languages)),
        "length_scale": torch.ones(n_sentences),
        "noise_dp": normal(n_sentences, 2, n_symbols) * config.speech.noise_scale_dp,
    }
    decode = {
        "m_p": normal(n_sentences, hidden, n_symbols),
        "logs_p": normal(n_sentences, hidden, n_symbols) * 0.1 - 1,
        "durations": durations,
        "d_vectors": d_vectors,
        "noise": normal(n_sentences, hidden, int(durations.sum(1).max())) * config.speech.noise_scale,
    }
    return prior, decode


def _run(graph: onnxruntime.InferenceSession, inputs: dict[str, Tensor]) -> list[NDArray[Any]]:
    """A graph has only the inputs that its voice reads."""
    given: Arrays = {each.name: inputs[each.name].numpy() for each in graph.get_inputs()}
    return list(graph.run(None, given))


def _description(model: YourTTS) -> str:
    config = model.config
    spoken = {
        "name": config.name,
        "encoder_id": config.encoder_id,
        "d_vector": config.speaker.d_vector,
        "channels": config.text_encoder.hidden,
        "sample_rate": config.audio.sample_rate,
        "hop_length": config.audio.hop_length,
        **{name: config.to_json()[name] for name in ("text", "speech")},
    }
    return json.dumps(spoken, ensure_ascii=False, indent=1) + "\n"
