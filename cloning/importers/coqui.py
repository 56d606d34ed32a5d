"""Coqui's VITS and YourTTS checkpoints, made into voice bundles."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cloning.config import VoiceConfig
from cloning.errors import BundleError
from cloning.importers.checkpoint import read_json, read_pickle, read_tensors
from cloning.importers.coqui_config import CoquiConfig, Listener, refused, voice_config, whole_number
from cloning.importers.coqui_names import their_name
from cloning.importers.mapping import Tensors
from cloning.model import YourTTS

MODEL_FILES = ("model_file.pth", "best_model.pth", "model_file.pth.tar", "best_model.pth.tar", "model.pth")
SPEAKER_FILES = ("speakers.pth", "speakers.json", "speaker_ids.json", "speaker_ids.pth")
_UNSPOKEN = (
    "disc.", "discriminator.", "posterior_encoder.", "speaker_encoder.", "audio_transform.", "audio_resampler.",
)  # fmt: skip
_NAMED = 10


@dataclass(frozen=True, slots=True)
class Imported:
    """A foreign voice in our form. `n_unspoken` tensors were left out: only training and conversion read them."""

    config: VoiceConfig
    weights: Mapping[str, Tensor]
    n_unspoken: int
    source: Path


def takes_d_vectors(folder: Path) -> bool:
    """Whether a checkpoint's voice follows a d-vector. Raises: BundleError as `read_voice`."""
    return CoquiConfig(folder).takes_d_vectors


def read_voice(folder: Path, name: str, listener: Listener, speaker: str | None = None) -> Imported:
    """The voice of a checkpoint folder.

    A voice of one speaker, or with a table of speakers of which `speaker` names one, speaks alike for all d-vectors
    of the listener; one that was trained on d-vectors needs a listener of its own width.

    Raises: BundleError (`bundle_missing`, `bundle_corrupt`, `bundle_mismatch`), naming file, field or tensors.
    """
    read = CoquiConfig(folder)
    source = _model_file(folder)
    tensors = Tensors(read_tensors(source))
    fixed = _speaker_vector(folder, read, tensors, speaker)
    voice = voice_config(folder, name, read, tensors, listener)
    with torch.device("meta"):
        wanted = YourTTS(voice).state_dict()
    weights = _Weights(read, voice, tensors, fixed)
    taken = {ours: weights.take(ours, tuple(tensor.shape)) for ours, tensor in wanted.items()}
    n_unspoken = tensors.leave(*_UNSPOKEN)
    tensors.close()
    return Imported(voice, taken, n_unspoken, source)


class _Weights:
    """Our tensors, each from those of the checkpoint that amount to it.

    `fixed` is the condition of a voice that takes no d-vectors, of width 0 where there is only one speaker.
    """

    def __init__(self, read: CoquiConfig, voice: VoiceConfig, tensors: Tensors, fixed: Tensor | None) -> None:
        self._voice, self._tensors, self._fixed = voice, tensors, fixed
        self._paced_by_speaker = read.flag("condition_dp_on_speaker", True)
        if not self._paced_by_speaker:
            tensors.leave("duration_predictor.cond.")

    def take(self, ours: str, shape: tuple[int, ...]) -> Tensor:
        if ours.startswith("speaker."):
            return torch.zeros(shape)
        if ours.startswith("durations.condition."):
            return self._pace(ours.rpartition(".")[2], shape)
        name = their_name(ours, self._voice)
        return self._condition(name, shape) if ".cond_layer." in name else self._tensors.take(name, shape)

    def _condition(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A layer that reads the condition; where that is fixed, the bias that the layer amounts to."""
        if self._fixed is None:
            return self._tensors.take(name, shape)
        stem, _, kind = name.rpartition(".")
        if kind == "weight" or not len(self._fixed):
            return torch.zeros(shape)
        weight = self._tensors.take(f"{stem}.weight", (shape[0], len(self._fixed)))
        return self._tensors.take(name, shape) + weight @ self._fixed

    def _pace(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        """Their durations have a layer for the speaker and one for the language; ours have one for both, joined."""
        width = self._voice.text_encoder.language_width if self._voice.durations.language_conditioned else 0
        own = shape if kind == "bias" else (shape[0], shape[1] - width)
        name = f"duration_predictor.cond.{kind}"
        speaker = self._condition(name, own) if self._paced_by_speaker else torch.zeros(own)
        if not width:
            return speaker
        language = f"duration_predictor.cond_lang.{kind}"
        if kind == "bias":
            return speaker + self._tensors.take(language, shape)
        return torch.cat([speaker, self._tensors.take(language, (shape[0], width))], 1)


def _model_file(folder: Path) -> Path:
    found = next((folder / name for name in MODEL_FILES if (folder / name).is_file()), None)
    if found is None:
        message = f"{folder.name} holds no checkpoint; expected {' or '.join(MODEL_FILES[:2])}"
        raise BundleError("bundle_missing", message)
    return found


def _speaker_vector(folder: Path, read: CoquiConfig, tensors: Tensors, speaker: str | None) -> Tensor | None:
    """The condition of a voice that takes no d-vectors: none, or a row of its table of speakers."""
    if read.takes_d_vectors:
        _check_vectors(folder, read.d_vector)
        return None
    if not read.flag("use_speaker_embedding", False):
        return torch.zeros(0)
    names = _speaker_ids(folder, read)
    if speaker is None or speaker not in names:
        listed = ", ".join(list(names)[:_NAMED])
        message = f"this voice has a table of {len(names)} speakers; choose one with --speaker: {listed}"
        raise BundleError("bundle_mismatch", message, field="speaker", speakers=list(names))
    rows, width = (*tensors.shape("emb_g.weight"), 0, 0)[:2]
    if rows != len(names):
        raise refused("speakers", f"{len(names)} speakers are named, the checkpoint's table has {rows} rows")
    return tensors.take("emb_g.weight", (rows, width))[names[speaker]]


def _speaker_ids(folder: Path, read: CoquiConfig) -> dict[str, int]:
    if named := read.value("speakers"):
        return {str(name): i for i, name in enumerate(named)}
    path, table = _speaker_table(folder)
    return {str(name): whole_number(f"{path.name}: {name}", index) for name, index in table.items()}


def _check_vectors(folder: Path, width: int) -> None:
    """Raises: BundleError where the speakers' file is missing, or holds d-vectors of another width."""
    path, table = _speaker_table(folder)
    for clip, entry in table.items():
        vector = entry.get("embedding") if isinstance(entry, Mapping) else None
        n_found = len(vector) if isinstance(vector, list | tuple | Tensor) else 0
        if n_found != width:
            message = f"{path.name}: {clip} has a d-vector of {n_found} numbers, config.json asks for {width}"
            raise BundleError("bundle_mismatch", message, field=path.name)


def _speaker_table(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    path = next((folder / name for name in SPEAKER_FILES if (folder / name).is_file()), None)
    if path is None:
        message = f"{folder.name}: the file of speakers is missing; expected {' or '.join(SPEAKER_FILES[:2])}"
        raise BundleError("bundle_missing", message)
    table = read_json(path) if path.suffix == ".json" else read_pickle(path)
    if not isinstance(table, Mapping):
        raise BundleError("bundle_corrupt", f"{path.name} holds a {type(table).__name__}, expected a table of speakers")
    return path, table
