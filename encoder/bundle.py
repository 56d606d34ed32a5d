"""A speaker encoder of a voice's own: a folder with `encoder.json` and `encoder.safetensors`.

`encoder.json` holds {"kind": "hasp", "network": its description, "sha256": of the weights}.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from encoder.activity import SpeechDetector
from encoder.engine import SpeakerEncoder, encoder_id_of
from encoder.networks.hasp import Hasp, build, describe

KIND = "hasp"
_DESCRIPTION, _WEIGHTS = "encoder.json", "encoder.safetensors"


@dataclass(frozen=True, slots=True)
class EncoderInfo:
    """What an encoder's folder says, without its weights."""

    encoder_id: str
    dim: int


def save_encoder(folder: Path, network: Hasp) -> EncoderInfo:
    """Writes an encoder; its description comes last, so a folder that was cut short is not one."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = save({name: tensor.contiguous() for name, tensor in network.state_dict().items()})
    sha256 = hashlib.sha256(weights).hexdigest()
    (folder / _WEIGHTS).write_bytes(weights)
    text = json.dumps({"kind": KIND, "network": describe(network), "sha256": sha256}, indent=1)
    (folder / _DESCRIPTION).write_text(text + "\n", encoding="utf-8")
    return EncoderInfo(encoder_id_of(sha256, KIND), network.dim)


def read_encoder_info(folder: Path) -> EncoderInfo:
    """What the folder says. Raises: FileNotFoundError; ValueError where it cannot be read."""
    sha256, network = _description(folder)
    return EncoderInfo(encoder_id_of(sha256, KIND), int(network["dim"]))  # type: ignore[call-overload]


def verify_encoder(folder: Path) -> EncoderInfo:
    """The same, after the weights were found to be those that it names. Raises: as `load_encoder`."""
    _checked_weights(folder)
    return read_encoder_info(folder)


def load_encoder(folder: Path, device: str = "cpu", detector: SpeechDetector | None = None) -> SpeakerEncoder:
    """The encoder, ready to listen.

    Raises: FileNotFoundError where a file is missing; ValueError where one is damaged or they do not fit.
    """
    sha256, network = _description(folder)
    try:
        tensors = load(_checked_weights(folder))
    except SafetensorError as error:
        raise ValueError(f"{_WEIGHTS} cannot be read: {error}") from None
    loaded = build(network, tensors)
    return SpeakerEncoder(loaded, detector or SpeechDetector.load(), encoder_id_of(sha256, KIND), torch.device(device))


def _description(folder: Path) -> tuple[str, dict[str, object]]:
    try:
        data = json.loads((folder / _DESCRIPTION).read_bytes())
        kind, sha256, network = data["kind"], str(data["sha256"]), dict(data["network"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{_DESCRIPTION} cannot be read: {error!r}") from None
    if kind != KIND:
        raise ValueError(f"{_DESCRIPTION} names the encoder {kind!r}; this program has {KIND!r}")
    return sha256, network


def _checked_weights(folder: Path) -> bytes:
    expected, _ = _description(folder)
    weights = (folder / _WEIGHTS).read_bytes()
    found = hashlib.sha256(weights).hexdigest()
    if found != expected:
        raise ValueError(f"{_WEIGHTS} has SHA-256 {found}, expected {expected}")
    return weights
