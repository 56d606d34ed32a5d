"""Whichever TensorRT is installed here: the full one (10 and 11) or TensorRT-RTX, whose interfaces are alike."""

import importlib
import logging
from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from cloning.errors import EngineError

# The full one first, where both are there. The last is TensorRT-RTX without the thin package in front of it.
MODULES = ("tensorrt", "tensorrt_rtx", "tensorrt_rtx_bindings")
INSTALL = "pip install 'voicekin[tensorrt,export]' (or 'voicekin[tensorrt-rtx,export]', see docs/gpu.md)"
_N_KEPT = 4
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Library:
    """A TensorRT: its module, and the logger that it was given, with what it last complained of."""

    module: Any
    logger: Any
    complaints: deque[str]

    @property
    def is_rtx(self) -> bool:
        """Whether engines are compiled for a card only where they run."""
        return "rtx" in self.module.__name__

    @property
    def name(self) -> str:
        return f"{'tensorrt_rtx' if self.is_rtx else 'tensorrt'} {self.module.__version__}"

    def failure(self, what: str) -> EngineError:
        """The error for something that the library refused, in its words."""
        return EngineError("engine_failed", f"{self.name}: {what}: {'; '.join(self.complaints) or 'no reason given'}")


@cache
def find_library() -> Library:
    """The installed library; one for the process, since TensorRT takes one logger only.

    Raises: EngineError (`engine_unavailable`) where there is none, with the command that installs it.
    """
    faults = []
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        except (ImportError, OSError) as error:
            faults.append(f"{name}: {error}")
            continue
        complaints: deque[str] = deque(maxlen=_N_KEPT)
        return Library(module, _logger(module, complaints), complaints)
    words = f"TensorRT cannot be loaded ({'; '.join(faults)})" if faults else "TensorRT is not installed"
    raise EngineError("engine_unavailable", f"{words}; {INSTALL}")


def card(device: torch.device) -> str:
    """A CUDA device as engines know it: model, compute capability, multiprocessors; empty for a CPU."""
    if device.type != "cuda":
        return ""
    found = torch.cuda.get_device_properties(device)
    return f"{found.name} sm_{found.major}{found.minor} x{found.multi_processor_count}"


def target(library: Library, device: torch.device) -> str:
    """What an engine that is built here is for: this very card, or with TensorRT-RTX any that it supports.

    Raises: EngineError (`engine_unavailable`) where a card is needed and there is none.
    """
    if library.is_rtx:
        return "any card"
    if device.type != "cuda":
        raise EngineError(
            "engine_unavailable", f"{library.name} builds on the card that it is for: VOICEKIN_DEVICE=cuda"
        )
    return card(device)


def _logger(module: Any, complaints: deque[str]) -> Any:
    severity = module.ILogger.Severity
    levels = {severity.INTERNAL_ERROR: logging.ERROR, severity.ERROR: logging.ERROR, severity.WARNING: logging.INFO}

    class Logger(module.ILogger):  # type: ignore[misc]  # the base is known only once the library is found
        def log(self, at: Any, message: str) -> None:
            level = levels.get(at, logging.DEBUG)
            if level >= logging.ERROR:
                complaints.append(message)
            # Its warnings are for those who write networks.
            _log.log(level, "%s", message)

    return Logger()
