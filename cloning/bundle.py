"""A voice bundle: a folder with `model.json`, weights in shards, and `card.md`.

`model.json` holds {"voice": VoiceConfig, "files": {name: SHA-256}}; a bundle says everything about itself.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from cloning.config import VoiceConfig
from cloning.errors import BundleError
from cloning.model import YourTTS

SHARD_BYTES = 15 * 2**20


@dataclass(frozen=True, slots=True)
class BundleInfo:
    """What a bundle says of itself, without its weights; `model_id` changes with any of its files."""

    voice: VoiceConfig
    files: Mapping[str, str]
    model_id: str


def load_info(folder: Path) -> BundleInfo:
    """The bundle's own description.

    Raises: BundleError (`bundle_missing`, `bundle_corrupt`, `bundle_version`, `bundle_mismatch`).
    """
    path = folder / "model.json"
    if not path.is_file():
        raise BundleError("bundle_missing", f"{folder} is not a voice: it holds no model.json")
    try:
        data = json.loads(path.read_bytes())
        voice, files = data["voice"], dict(data["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError("bundle_corrupt", f"{path} cannot be read: {error}") from error
    config = VoiceConfig.from_json(voice)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return BundleInfo(config, files, f"{config.name}-{digest}")


def verify(folder: Path) -> BundleInfo:
    """The description, after every file was found to be what `model.json` says.

    Raises: BundleError, naming the file that is missing or differs.
    """
    info = load_info(folder)
    for name, expected in info.files.items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            raise BundleError("bundle_missing", f"{folder.name}: the file {name} is missing")
        found = _sha256(path)
        if found != expected:
            raise BundleError("bundle_corrupt", f"{folder.name}/{name} has SHA-256 {found}, expected {expected}")
    return info


def read_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of a bundle, on the CPU, in the precision they are stored in.

    Raises: BundleError where a file is missing, damaged or not a safetensors file.
    """
    tensors: dict[str, Tensor] = {}
    for name in verify(folder).files:
        try:
            tensors |= load_file(folder / name)
        except (SafetensorError, OSError) as error:
            raise BundleError("bundle_corrupt", f"{folder.name}/{name}: {error}") from error
    return tensors


def load_model(folder: Path, device: torch.device) -> YourTTS:
    """The networks of a voice, ready to speak.

    Raises: BundleError where the weights do not fit `model.json`; the message names the tensors.
    """
    info = load_info(folder)
    model, weights = YourTTS(info.voice), read_weights(folder)
    wanted = model.state_dict()
    missing, extra = sorted(wanted.keys() - weights.keys()), sorted(weights.keys() - wanted.keys())
    if missing or extra:
        raise BundleError("bundle_mismatch", f"{folder.name}: missing tensors {missing[:5]}, unknown {extra[:5]}")
    for name, tensor in weights.items():
        found, asked = tuple(tensor.shape), tuple(wanted[name].shape)
        if found != asked:
            raise BundleError(
                "bundle_mismatch", f"{folder.name}: {name} has shape {found}, model.json asks for {asked}"
            )
    model.load_state_dict(weights)
    return model.float().to(device).eval().requires_grad_(False)


def save(folder: Path, config: VoiceConfig, weights: Mapping[str, Tensor], card: str, half: bool = True) -> None:
    """Writes a bundle, in half precision or as the weights are.

    `model.json` comes last, so a bundle that was cut short is not one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").unlink(missing_ok=True)
    for old in folder.glob("weights-*.safetensors"):
        old.unlink()
    files = {}
    shards = list(_shards(weights, half))
    for i, shard in enumerate(shards, 1):
        name = f"weights-{i:02d}-of-{len(shards):02d}.safetensors"
        save_file(shard, folder / name)
        files[name] = _sha256(folder / name)
    (folder / "card.md").write_text(card, encoding="utf-8")
    text = json.dumps({"voice": config.to_json(), "files": files}, ensure_ascii=False, indent=1)
    (folder / "model.json").write_text(text + "\n", encoding="utf-8")


def _shards(weights: Mapping[str, Tensor], half: bool) -> Iterator[dict[str, Tensor]]:
    shard: dict[str, Tensor] = {}
    size = 0
    for name, tensor in weights.items():
        stored = (tensor.detach().half() if half else tensor.detach()).cpu().contiguous()
        n_bytes = stored.numel() * stored.element_size()
        if shard and size + n_bytes > SHARD_BYTES:
            yield shard
            shard, size = {}, 0
        shard[name] = stored
        size += n_bytes
    yield shard


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
