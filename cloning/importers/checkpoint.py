"""Foreign checkpoints as plain values and tensors; nothing that they hold is ever executed."""

import json
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cloning.errors import BundleError

_LFS = b"version https://git-lfs"
_HEAD_BYTES = 512
# Trainers leave losses as NumPy numbers in their checkpoints, under the names of NumPy 1 and of NumPy 2. Building one
# runs nothing; those of other kinds than numbers are refused afterwards.
_BUILD_NUMBER = np.float64(0).__reduce__()[0]
_NUMPY_NUMBERS: list[Any] = [
    (_BUILD_NUMBER, "numpy.core.multiarray.scalar"),
    (_BUILD_NUMBER, "numpy._core.multiarray.scalar"),
    np.dtype,
    *(type(np.dtype(name)) for name in ("f2", "f4", "f8", "i4", "i8", "u1", "?")),
]
# What torch raises for files with wrong bytes in them, as found by changing bytes.
_DAMAGED = (RuntimeError, OSError, EOFError, ValueError, LookupError, AttributeError, TypeError, zipfile.BadZipFile)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object.

    Raises: BundleError `bundle_missing` where the file is not there, `bundle_corrupt` where it is something else.
    """
    head = _head(path)
    try:
        data = json.loads(path.read_bytes())
    except ValueError as error:
        raise BundleError("bundle_corrupt", f"{path.name} is {_kind(head) or 'not JSON'} ({error})") from None
    if not isinstance(data, dict):
        raise BundleError("bundle_corrupt", f"{path.name} holds a {type(data).__name__}, expected an object")
    return data


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The network's tensors of a training checkpoint: those under `model`, or the whole file where it is one table.

    Raises: BundleError `bundle_missing`, or `bundle_corrupt` for a file that is cut, is no checkpoint, or holds
        anything but tensors and plain containers.
    """
    data = read_pickle(path)
    table = data.get("model", data) if isinstance(data, Mapping) else data
    if not isinstance(table, Mapping) or not table:
        raise BundleError("bundle_corrupt", f"{path.name} holds no table of tensors under `model`")
    for name, value in table.items():
        if not isinstance(value, Tensor):
            raise BundleError("bundle_corrupt", f"{path.name}: {name} is a {type(value).__name__}, expected a tensor")
    _check_finite(path.name, table)
    return {str(name): tensor.detach() for name, tensor in table.items()}


def read_pickle(path: Path) -> Any:
    """Plain containers and tensors from a file that torch wrote. Raises: as `read_tensors`."""
    head = _head(path)
    try:
        with torch.serialization.safe_globals(_NUMPY_NUMBERS):
            data = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise BundleError("bundle_corrupt", f"{path.name} {_refused(error, path, head)}") from None
    except _DAMAGED as error:
        kind = _kind(head) or "cut short or damaged"
        raise BundleError("bundle_corrupt", f"{path.name} is {kind} ({path.stat().st_size} bytes): {error}") from None
    _check_plain(path.name, data)
    return data


def _head(path: Path) -> bytes:
    if not path.is_file():
        raise BundleError("bundle_missing", f"{path.parent.name}: the file {path.name} is missing", file=path.name)
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def _kind(head: bytes) -> str:
    """What a file is that should have been something else, as far as its first bytes say."""
    if head.startswith(_LFS):
        return "the pointer of Git LFS, not the file itself; fetch it with `git lfs pull`"
    if head.lstrip()[:1] == b"<":
        return "a web page saved under this name; download the file itself"
    return "" if head else "empty"


def _refused(error: pickle.UnpicklingError, path: Path, head: bytes) -> str:
    if kind := _kind(head):
        return f"is {kind}"
    words = str(error)
    if "Unsupported global" in words or "GLOBAL" in words:
        named = words.partition("GLOBAL ")[2].split(" ")[0] or "code"
        return f"holds {named}; only tensors and plain containers are read, so that nothing in it can run"
    return f"is cut short or damaged ({path.stat().st_size} bytes)"


def _check_plain(name: str, data: object) -> None:
    """Raises: BundleError for a value that is neither a tensor nor a plain container or value."""
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Tensor) or value is None or type(value) in (bool, int, float, str, bytes):
            continue
        if isinstance(value, np.number | np.bool_):
            continue
        if type(value) in (dict, OrderedDict):
            waiting += [*value.keys(), *value.values()]  # type: ignore[attr-defined]
        elif isinstance(value, Sequence | set | frozenset):
            waiting += list(value)
        elif not isinstance(value, Mapping | torch.dtype | torch.device | torch.Size):
            raise BundleError("bundle_corrupt", f"{name} holds a {type(value).__name__}; only plain values are read")


def _check_finite(name: str, table: Mapping[str, Tensor]) -> None:
    for key, tensor in table.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise BundleError("bundle_corrupt", f"{name}: {key} holds values that are not finite")
