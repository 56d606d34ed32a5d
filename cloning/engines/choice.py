"""Which engine runs a voice."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from cloning.bundle import load_info, load_model
from cloning.engines import plans
from cloning.engines.base import Engine
from cloning.engines.eager import EagerEngine
from cloning.errors import EngineError

_log = logging.getLogger(__name__)

EngineName = Literal["eager", "cuda-graph", "onnx"]


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """How networks run. With `falls_back` the engine `eager` takes the place of one that cannot be opened.

    `threads` None are all cores that this process may use. `plans_dir` is where `voicekin engines build` puts graphs.
    """

    name: EngineName = "eager"
    device: str = "cpu"
    threads: int | None = None
    falls_back: bool = True
    plans_dir: Path | None = None


def open_engine(bundle_dir: Path, choice: EngineChoice) -> Engine:
    """The engine of a voice.

    Raises: BundleError; EngineError (`engine_unavailable`) where the device is not there, or the engine cannot be
        opened and nothing may take its place.
    """
    if choice.device.startswith("cuda") and not torch.cuda.is_available():
        raise EngineError("engine_unavailable", f"no CUDA device was found for {choice.device!r}; use `cpu`")
    threads = choice.threads or max(1, len(os.sched_getaffinity(0)))
    if choice.device == "cpu":
        torch.set_num_threads(threads)
    try:
        return _open(bundle_dir, choice, threads)
    except EngineError as error:
        if not choice.falls_back or choice.name == "eager":
            raise
        _log.warning("the engine eager takes the place of %s: %s", choice.name, error.message)
        return _eager(bundle_dir, choice)


def _open(bundle_dir: Path, choice: EngineChoice, threads: int) -> Engine:
    if choice.name == "onnx":
        return _onnx(bundle_dir, choice, threads)
    if choice.name == "cuda-graph":
        return _cuda_graph(bundle_dir, choice)
    return _eager(bundle_dir, choice)


def _eager(bundle_dir: Path, choice: EngineChoice) -> Engine:
    device = torch.device(choice.device)
    return EagerEngine(load_model(bundle_dir, device), device)


def _cuda_graph(bundle_dir: Path, choice: EngineChoice) -> Engine:
    from cloning.engines.cuda_graph import CudaGraphEngine

    if not choice.device.startswith("cuda"):
        raise EngineError("engine_unavailable", f"the engine cuda-graph needs a CUDA device, not {choice.device!r}")
    device = torch.device(choice.device)
    engine = CudaGraphEngine.gated(load_model(bundle_dir, device), device)
    engine.warm_up()
    return engine


def _onnx(bundle_dir: Path, choice: EngineChoice, threads: int) -> Engine:
    from cloning.engines.onnx import OnnxEngine

    if choice.device != "cpu":
        raise EngineError("engine_unavailable", f"the engine onnx runs on `cpu`, not on {choice.device!r}")
    if choice.plans_dir is None:
        raise EngineError("engine_unavailable", "the engine onnx needs a folder of plans")
    return OnnxEngine(plans.read(bundle_dir, choice.plans_dir).folder, load_info(bundle_dir).voice, threads)
