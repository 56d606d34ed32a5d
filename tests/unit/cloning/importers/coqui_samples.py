"""The committed checkpoints that Coqui's own code made, and ways to change a copy of one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cloning.importers.coqui import Imported, read_voice
from cloning.importers.coqui_config import Listener

COQUI = Path(__file__).parents[3] / "data" / "coqui"
WIDTHS = {"single": 256, "table": 256, "multi": 12, "yourtts": 512}
SPEAKERS = {"table": "bob"}
Edit = Callable[[dict[str, Any]], object]


def read(folder: Path, d_vector: int | None = None, speaker: str | None = None) -> Imported:
    width = d_vector or WIDTHS[folder.name]
    return read_voice(folder, "brought", Listener("test-encoder", width), speaker)


def copied(tmp_path: Path, name: str) -> Path:
    return Path(shutil.copytree(COQUI / name, tmp_path / name))


def edit_json(path: Path, edit: Edit) -> None:
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


def edit_tensors(folder: Path, edit: Callable[[dict[str, Tensor]], object]) -> None:
    path = folder / "model_file.pth"
    data = torch.load(path, weights_only=True)
    edit(data["model"])
    torch.save(data, path)
