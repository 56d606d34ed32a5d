"""Which engine runs a voice."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from cloning.bundle import load_info, load_model
from cloning.engines import onnx_plans
from cloning.engines.base import Engine
from cloning.engines.buckets import Room
from cloning.engines.eager import EagerEngine
from cloning.engines.lanes import Lane, lane_of
from cloning.engines.memory import Bound, plan_of
from cloning.errors import EngineError

_log = logging.getLogger(__name__)

EngineName = Literal["eager", "cuda-graph", "onnx", "tensorrt"]


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """How networks run. With `falls_back` the engine `eager` takes the place of one that cannot be opened.

    `threads` None are all cores that this process may use. `plans_dir` is where `voicekin engines build` puts plans.
    `bound` is the device memory that there is, for CUDA devices.
    """

    name: EngineName = "eager"
    device: str = "cpu"
    threads: int | None = None
    falls_back: bool = True
    plans_dir: Path | None = None
    bound: Bound | None = None

    def lane(self) -> Lane:
        """The thread of this process in which the CPU computes the networks."""
        return lane_of(self.n_threads)

    @property
    def n_threads(self) -> int:
        """How many of the CPU's cores a network may use."""
        return self.threads or max(1, len(os.sched_getaffinity(0)))


def open_engine(bundle_dir: Path, choice: EngineChoice) -> Engine:
    """The engine of a voice.

    Raises: BundleError; EngineError (`engine_unavailable`) where the device is not there, or the engine cannot be
        opened or does not fit the bound, and nothing may take its place.
    """
    device_of(choice.device)
    try:
        return _open(bundle_dir, choice)
    except EngineError as error:
        if not choice.falls_back or choice.name == "eager":
            raise
        _log.warning("the engine eager takes the place of %s: %s", choice.name, error.message)
        return _eager(bundle_dir, choice)


def device_of(name: str) -> torch.device:
    """torch's device of a name, with its number. Raises: EngineError (`engine_unavailable`) where it is not there."""
    device = torch.device(name)
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise EngineError("engine_unavailable", f"no CUDA device was found for {name!r}; use `cpu`")
    n_devices, index = torch.cuda.device_count(), device.index or 0
    if index >= n_devices:
        found = ", ".join(f"cuda:{i}" for i in range(n_devices))
        raise EngineError("engine_unavailable", f"there is no device {name!r}; this machine has {found}")
    return torch.device("cuda", index)


def _open(bundle_dir: Path, choice: EngineChoice) -> Engine:
    if choice.name == "onnx":
        return _onnx(bundle_dir, choice)
    if choice.name == "cuda-graph":
        return _cuda_graph(bundle_dir, choice)
    if choice.name == "tensorrt":
        return _tensorrt(bundle_dir, choice)
    return _eager(bundle_dir, choice)


def _eager(bundle_dir: Path, choice: EngineChoice) -> Engine:
    device = torch.device(choice.device)
    room = _room(bundle_dir, choice, "eager")
    lane = choice.lane() if device.type == "cpu" else None
    return EagerEngine(load_model(bundle_dir, device), device, room, lane)


def _cuda_graph(bundle_dir: Path, choice: EngineChoice) -> Engine:
    from cloning.engines.cuda_graph import CudaGraphEngine

    device = _cuda_device(choice)
    room = _room(bundle_dir, choice)
    engine = CudaGraphEngine.gated(load_model(bundle_dir, device), device, room)
    engine.warm_up()
    return engine


def _tensorrt(bundle_dir: Path, choice: EngineChoice) -> Engine:
    from cloning.engines import tensorrt_plans
    from cloning.engines.tensorrt import TensorRTEngine

    device = _cuda_device(choice)
    _room(bundle_dir, choice)
    plan = tensorrt_plans.read(bundle_dir, _plans_dir(choice), device)
    engine = TensorRTEngine(plan.folder, load_model(bundle_dir, device), device)
    engine.warm_up()
    engine.save_kernels()
    return engine


def _room(bundle_dir: Path, choice: EngineChoice, name: EngineName | None = None) -> Room | None:
    """What fits the bound; None where there is none. Raises: EngineError where not even one sentence does."""
    if choice.bound is None:
        return None
    return plan_of(load_info(bundle_dir).voice, name or choice.name, choice.bound).room


def _cuda_device(choice: EngineChoice) -> torch.device:
    if not choice.device.startswith("cuda"):
        raise EngineError("engine_unavailable", f"the engine {choice.name} needs a CUDA device, not {choice.device!r}")
    return torch.device(choice.device)


def _plans_dir(choice: EngineChoice) -> Path:
    if choice.plans_dir is None:
        raise EngineError("engine_unavailable", f"the engine {choice.name} needs a folder of plans")
    return choice.plans_dir


def _onnx(bundle_dir: Path, choice: EngineChoice) -> Engine:
    from cloning.engines.onnx import OnnxEngine

    if choice.device != "cpu":
        raise EngineError("engine_unavailable", f"the engine onnx runs on `cpu`, not on {choice.device!r}")
    plan = onnx_plans.read(bundle_dir, _plans_dir(choice))
    return OnnxEngine(plan.folder, load_info(bundle_dir).voice, choice.n_threads)
