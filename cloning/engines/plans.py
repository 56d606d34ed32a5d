"""What an engine needs beside a voice, built once and kept: the exported graphs of ONNX Runtime.

A plan is a folder of files with a record beside them. The record says what the plan was made of and what its files are;
a plan that does not fit, or is not whole, is refused with the command that mends it.
"""

import hashlib
import json
import shutil
import tempfile
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

import torch

from cloning.bundle import load_info, load_model
from cloning.errors import EngineError

RECORD = "record.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Key:
    """What a plan is made of: with any other value it is another plan."""

    model_id: str
    engine: str
    opset: int
    library: str
    format: int = FORMAT

    @property
    def folder(self) -> str:
        return f"{self.model_id}-{self.engine}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan on the disk. `problem` says why it cannot be used, empty where it can."""

    folder: Path
    model_id: str
    engine: str
    n_bytes: int
    difference: float
    problem: str = ""


def key_of(bundle_dir: Path) -> Key:
    """The key of a voice's plan for the programs that are installed here. Raises: BundleError."""
    from cloning.exporters.onnx import OPSET

    return Key(load_info(bundle_dir).model_id, "onnx", OPSET, f"onnxruntime {version('onnxruntime')}")


def build(bundle_dir: Path, root: Path) -> Plan:
    """Exports the graphs of a voice, compares them with torch, and puts them in place of older ones at once.

    Raises: BundleError; EngineError (`engine_failed`) where they differ from torch, `engine_unavailable` without the
        package onnx.
    """
    from cloning.exporters.onnx import export_bundle

    key = key_of(bundle_dir)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".building-") as scratch:
        fresh = Path(scratch) / "plan"
        checked = export_bundle(bundle_dir, fresh)
        files = {path.name: _sha256(path) for path in sorted(fresh.iterdir())}
        record = {"key": asdict(key), "files": files, "difference": checked.difference}
        (fresh / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        place = root / key.folder
        if place.exists():
            place.rename(Path(scratch) / "old")
        fresh.rename(place)
    return read(bundle_dir, root)


def read(bundle_dir: Path, root: Path) -> Plan:
    """The plan of a voice, whole and made for the programs that are installed here.

    Raises: BundleError; EngineError (`engine_unavailable`), with the command that mends it.
    """
    key = key_of(bundle_dir)
    plan = _inspected(root / key.folder, key)
    if plan.problem:
        words = f"the {key.engine} plan of {load_info(bundle_dir).voice.name} {plan.problem}"
        raise EngineError("engine_unavailable", f"{words}; build it: voicekin engines build")
    return plan


def verified(bundle_dir: Path, root: Path) -> Plan:
    """As `read`, after the graphs were compared with torch anew. Raises: also EngineError (`engine_failed`)."""
    from cloning.exporters.onnx import check

    plan = read(bundle_dir, root)
    checked = check(load_model(bundle_dir, torch.device("cpu")), plan.folder)
    return replace(plan, difference=checked.difference)


def listed(root: Path) -> list[Plan]:
    """All plans of a folder, with what is wrong with each."""
    folders = sorted(path for path in root.glob("*") if path.is_dir() and not path.name.startswith("."))
    return [_inspected(folder, None) for folder in folders]


def remove(plan: Plan) -> None:
    """Takes a plan away; it can be built again."""
    shutil.rmtree(plan.folder)


def _inspected(folder: Path, key: Key | None) -> Plan:
    try:
        record = json.loads((folder / RECORD).read_bytes())
        found, files, difference = Key(**record["key"]), dict(record["files"]), float(record["difference"])
    except FileNotFoundError:
        return Plan(folder, "", "", 0, 0.0, "is missing")
    except (ValueError, KeyError, TypeError):
        return Plan(folder, "", "", 0, 0.0, "has a damaged record")
    paths = [folder / name for name in files]
    n_bytes = sum(path.stat().st_size for path in paths if path.is_file())
    return Plan(folder, found.model_id, found.engine, n_bytes, difference, _problem(found, key, folder, files))


def _problem(found: Key, key: Key | None, folder: Path, files: dict[str, str]) -> str:
    ours = key or Key(**{**asdict(found), "library": f"onnxruntime {version('onnxruntime')}", "format": FORMAT})
    stale = [name for name, value in asdict(ours).items() if value != asdict(found)[name]]
    if stale:
        return f"was made for another {stale[0]}, {asdict(found)[stale[0]]} and not {asdict(ours)[stale[0]]}"
    for name, expected in files.items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            return f"lacks the file {name}"
        if _sha256(path) != expected:
            return f"has a damaged file, {name}"
    return ""


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
