"""What an engine needs beside a voice, built once and kept on the disk.

A plan is a folder of files with a record beside them. The record says what the plan was made of and what its files are;
a plan that does not fit, or is not whole, is refused with the command that mends it.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cloning.errors import EngineError

RECORD = "record.json"
FORMAT = 1
# What a plan may be, and nobody knows of it before it is made.
_FREE = ("precision", "graphs")


@dataclass(frozen=True, slots=True)
class Key:
    """What a plan is made of: with any other value it is another plan.

    `profiles` are the shapes it is made for, `target` the card, `graphs` the SHA-256 of the graph it was built from.
    """

    model_id: str
    engine: str
    opset: int
    library: str
    format: int = FORMAT
    precision: str = "float32"
    profiles: str = ""
    target: str = ""
    graphs: str = ""

    @property
    def folder(self) -> str:
        return f"{self.model_id}-{self.engine}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan on the disk. `problem` says why it cannot be used, empty where it can, and `remedy` is the command.

    `difference` is that of the graphs to torch's samples, `gate` what was found when the engine was compared.
    """

    folder: Path
    model_id: str
    engine: str
    precision: str
    n_bytes: int
    difference: float
    gate: dict[str, Any] | None = None
    problem: str = ""
    remedy: str = ""


def command(verb: str, engine: str) -> str:
    """The command that mends a plan of an engine."""
    return f"voicekin engines {verb} --engine {engine}"


def keep(root: Path, key: Key, fill: Callable[[Path], float]) -> None:
    """Puts a plan in place of an older one at once; `fill` writes its files and says how far its graphs are off."""
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".building-") as scratch:
        fresh = Path(scratch) / "plan"
        fresh.mkdir()
        difference = fill(fresh)
        files = {path.name: sha256(path) for path in sorted(fresh.iterdir())}
        _write_record(fresh, {"key": asdict(key), "files": files, "difference": difference, "gate": None})
        place = root / key.folder
        if place.exists():
            place.rename(Path(scratch) / "old")
        fresh.rename(place)


def keep_gate(plan: Plan, gate: dict[str, Any]) -> None:
    """Writes what a comparison found into a plan's record."""
    _write_record(plan.folder, json.loads((plan.folder / RECORD).read_bytes()) | {"gate": gate})


def read(root: Path, key: Key) -> Plan:
    """The plan of a key, whole and made for the programs and the device of here.

    Raises: EngineError (`engine_unavailable`), with the command that mends it.
    """
    return usable(inspected(root / key.folder, key), key.model_id)


def usable(plan: Plan, model_id: str) -> Plan:
    """The plan. Raises: EngineError (`engine_unavailable`) where it has a problem, with the command that mends it."""
    if plan.problem:
        words = f"the {plan.engine} plan of {model_id} {plan.problem}"
        raise EngineError("engine_unavailable", f"{words}; mend it: {plan.remedy}")
    return plan


def listed(root: Path) -> list[Plan]:
    """All plans of a folder, with what is wrong with each."""
    folders = sorted(path for path in root.glob("*") if path.is_dir() and not path.name.startswith("."))
    return [inspected(folder) for folder in folders]


def remove(plan: Plan) -> None:
    """Takes a plan away; it can be built again."""
    shutil.rmtree(plan.folder)


def key_in(folder: Path) -> Key | None:
    """The key of the plan in a folder, None where there is none that can be read."""
    try:
        return Key(**json.loads((folder / RECORD).read_bytes())["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def inspected(folder: Path, key: Key | None = None) -> Plan:
    """The plan of a folder, judged by a key or else by what is installed here."""
    engine = key.engine if key else "onnx"
    lost = Plan(folder, "", engine, "", 0, 0.0, None, "is missing", command("build", engine))
    try:
        record = json.loads((folder / RECORD).read_bytes())
        found, files, difference = Key(**record["key"]), dict(record["files"]), float(record["difference"])
    except FileNotFoundError:
        return lost
    except (ValueError, KeyError, TypeError):
        return replace(lost, problem="has a damaged record")
    paths = [folder / name for name in files]
    n_bytes = sum(path.stat().st_size for path in paths if path.is_file())
    problem = _problem(found, key or _as_of_here(found), folder, files)
    remedy = command("build", found.engine) if problem else ""
    gate = record.get("gate")
    return Plan(folder, found.model_id, found.engine, found.precision, n_bytes, difference, gate, problem, remedy)


def sha256(path: Path) -> str:
    """The hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _as_of_here(found: Key) -> Key:
    """The same plan as the programs of here would make it."""
    if found.engine == "tensorrt":
        from cloning.engines.tensorrt_library import find_library

        try:
            library = find_library().name
        except EngineError:
            library = "none, since TensorRT is not installed"
        return replace(found, library=library, format=FORMAT)
    return replace(found, library=f"onnxruntime {version('onnxruntime')}", format=FORMAT)


def _problem(found: Key, key: Key, folder: Path, files: dict[str, str]) -> str:
    theirs, ours = asdict(found), asdict(key)
    stale = [name for name in ours if name not in _FREE and ours[name] != theirs[name]]
    if stale:
        return f"was made for another {stale[0]}, {theirs[stale[0]]} and not {ours[stale[0]]}"
    for name, expected in files.items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            return f"lacks the file {name}"
        if sha256(path) != expected:
            return f"has a damaged file, {name}"
    return ""


def _write_record(folder: Path, record: dict[str, Any]) -> None:
    fresh = folder / f".{RECORD}-{os.getpid()}"
    fresh.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    fresh.replace(folder / RECORD)
