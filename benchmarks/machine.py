"""Where a figure was measured: written into every result, so that no figure stands alone."""

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

PACKAGES = (
    "torch",
    "numpy",
    "faiss-cpu",
    "faiss-gpu",
    "sqlalchemy",
    "fastapi",
    "av",
    "soundfile",
    "hibari-tts",
    "onnxruntime",
)


def conditions(device: str) -> dict[str, Any]:
    """Date, device, cores and versions."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name(0) if device.startswith("cuda") else _processor(),
        "cores": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Median, 95th and 99th percentile and extremes, in milliseconds."""
    ms = np.asarray(seconds) * 1000
    named = {f"p{share}": np.percentile(ms, share) for share in (50, 95, 99)}
    named |= {"min": ms.min(), "max": ms.max()}
    return {f"{name}_ms": round(float(value), 2) for name, value in named.items()} | {"n": len(ms)}


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except ModuleNotFoundError:
        return "not installed"
