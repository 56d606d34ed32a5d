"""A voice with its second phase in TensorRT or TensorRT-RTX, at the shapes and in the graphs of `cuda_graph`."""

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cloning.config import VoiceConfig
from cloning.engines.bucketed import Shapes
from cloning.engines.cuda_graph import GraphEngine
from cloning.engines.memory import outline
from cloning.engines.tensorrt_library import Library, find_library
from cloning.errors import EngineError
from cloning.model import PriorInput, YourTTS

_log = logging.getLogger(__name__)
MAX_BATCH = 16
PLAN = "decode.plan"
_CACHE_SUFFIX = ".cache"
# Scratch memory is never empty, so that it always has an address.
_LEAST_SCRATCH_BYTES = 256


def shapes_of(config: VoiceConfig) -> Shapes:
    """The shapes that a voice's engines are built for and run at."""
    return Shapes.of(outline(config), MAX_BATCH)


class Network:
    """One engine: a context for each shape, all of them in one scratch memory, since only one runs at a time.

    Only one thread may call it, on one stream; what it gives is the caller's.
    """

    def __init__(self, library: Library, path: Path, device: torch.device, any_card: bool = False) -> None:
        """Raises: EngineError (`engine_unavailable`) where the engine cannot be loaded on the current device.

        With `any_card` TensorRT-RTX may run on one that it does not support: for tests, whose results are compared.
        """
        self._library, self._cache_path = library, path.with_suffix(_CACHE_SUFFIX)
        library.complaints.clear()
        # An engine needs the runtime that loaded it.
        self._runtime, plan = library.module.Runtime(library.logger), path.read_bytes()
        self.card_supported = not library.is_rtx or _supports_card(library, self._runtime, plan, path.name, any_card)
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise EngineError("engine_unavailable", library.failure(f"{path.name} cannot be loaded").message)
        self._open_context, self._kernels = self._opener()
        self._read_io()
        self._contexts: dict[tuple[tuple[int, ...], ...], Any] = {}
        n_bytes = max(_LEAST_SCRATCH_BYTES, self._engine.device_memory_size_v2)
        self._scratch = torch.empty(n_bytes, dtype=torch.uint8, device=device)

    def __call__(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Queues the network on the current stream; of what is given it takes what it reads.

        Raises: EngineError (`engine_failed`) for a shape that it was not built for, or where TensorRT fails.
        """
        inputs = {name: given[name].to(kind).contiguous() for name, kind in self.inputs.items()}
        context = self._context_at(inputs)
        outputs = {
            name: torch.empty(tuple(context.get_tensor_shape(name)), dtype=kind, device=self._scratch.device)
            for name, kind in self.outputs.items()
        }
        for name, tensor in (inputs | outputs).items():
            context.set_tensor_address(name, tensor.data_ptr())
        # Inputs may be freed as soon as this returns: torch gives their memory only to later work on this stream.
        if not context.execute_async_v3(torch.cuda.current_stream().cuda_stream):
            raise self._library.failure("the network failed")
        return outputs

    def save_kernels(self) -> None:
        """Keeps what TensorRT-RTX compiled for this card, which makes the next start quick."""
        if self._kernels is None:
            return
        fresh = self._cache_path.with_suffix(f"{_CACHE_SUFFIX}-{os.getpid()}")
        fresh.write_bytes(bytes(self._kernels.serialize()))
        fresh.replace(self._cache_path)

    def _opener(self) -> tuple[Callable[[], Any], Any]:
        """What opens a context, and the kernels that TensorRT-RTX compiles for its shapes."""
        trt, engine = self._library.module, self._engine
        lent = trt.ExecutionContextAllocationStrategy.USER_MANAGED
        if not self._library.is_rtx:
            return lambda: engine.create_execution_context(lent), None
        config = engine.create_runtime_config()
        config.set_execution_context_allocation_strategy(lent)
        # Each context has one shape: its kernels are compiled before its first run, not beside it.
        config.dynamic_shapes_kernel_specialization_strategy = trt.DynamicShapesKernelSpecializationStrategy.EAGER
        kernels = config.create_runtime_cache()
        if self._cache_path.is_file() and not kernels.deserialize(self._cache_path.read_bytes()):
            _log.info("%s is of another card or version and is made anew", self._cache_path.name)
        config.set_runtime_cache(kernels)
        return lambda: engine.create_execution_context(config), kernels

    def _read_io(self) -> None:
        trt, engine = self._library.module, self._engine
        kinds = {
            trt.float32: torch.float32, trt.float16: torch.float16, trt.int32: torch.int32, trt.int64: torch.int64,
            trt.bool: torch.bool,
        }  # fmt: skip
        names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        types = {name: kinds[engine.get_tensor_dtype(name)] for name in names}
        read = {name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT}
        self.inputs = {name: kind for name, kind in types.items() if name in read}
        self.outputs = {name: kind for name, kind in types.items() if name not in read}

    def _context_at(self, inputs: Mapping[str, Tensor]) -> Any:
        """A context of its own for each shape: a recorded graph must find all of it as it was."""
        shapes = {name: tuple(tensor.shape) for name, tensor in inputs.items()}
        key = tuple(shapes.values())
        if key not in self._contexts:
            self._contexts[key] = self._opened(shapes)
        return self._contexts[key]

    def _opened(self, shapes: Mapping[str, tuple[int, ...]]) -> Any:
        profile = self._profile_of(shapes)
        context = self._open_context()
        if context is None:
            raise self._library.failure("no context can be opened")
        context.set_device_memory(self._scratch.data_ptr(), self._scratch.numel())
        if not context.set_optimization_profile_async(profile, torch.cuda.current_stream().cuda_stream):
            raise self._library.failure(f"profile {profile} was refused")
        for name, shape in shapes.items():
            if not context.set_input_shape(name, shape):
                raise self._library.failure(f"shape {shape} of {name} was refused")
        return context

    def _profile_of(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """The first profile that holds the shapes. Raises: EngineError where none does."""
        for profile in range(self._engine.num_optimization_profiles):
            ranges = {name: self._engine.get_tensor_profile_shape(name, profile) for name in shapes}
            if all(_holds(ranges[name][0], shape, ranges[name][2]) for name, shape in shapes.items()):
                return profile
        raise EngineError(
            "engine_failed", f"{self._library.name}: no profile of this plan holds the shapes {dict(shapes)}"
        )


class Networks:
    """A voice whose first phase is torch's, in float32, and whose second is an engine of TensorRT.

    The first is little of the work, and all that follows hangs on how its durations are rounded: what TensorRT rounds
    on the way depends on its version, the card and the environment, and has moved them.
    """

    def __init__(self, folder: Path, model: YourTTS, device: torch.device, any_card: bool = False) -> None:
        """Takes the model, on the device, and leaves no weights in it that only the second phase reads.

        Raises: EngineError (`engine_unavailable`) where TensorRT or the engine cannot be loaded.
        """
        self.config, self.receptive_field_frames = model.config, model.receptive_field_frames
        with torch.cuda.device(device):
            self._decode = Network(find_library(), folder / PLAN, device, any_card)
        self._model = model
        for network in (model.flow, model.decoder):
            network.to("meta")

    @property
    def card_supported(self) -> bool:
        """Whether this TensorRT means its engines to run on this card."""
        return self._decode.card_supported

    def prior(self, batch: PriorInput) -> tuple[Tensor, Tensor, Tensor]:
        """First phase. Shapes: as `YourTTS.prior`."""
        return self._model.prior(batch)

    def decode(self, m_p: Tensor, logs_p: Tensor, durations: Tensor, d_vectors: Tensor, noise: Tensor) -> Tensor:
        """Second phase. Shapes: as `YourTTS.decode`."""
        given = {"m_p": m_p, "logs_p": logs_p, "durations": durations, "d_vectors": d_vectors, "noise": noise}
        return self._decode(given)["samples"]

    def save_kernels(self) -> None:
        """As `Network.save_kernels`."""
        self._decode.save_kernels()

    def close(self) -> None:
        """Lets the networks go, and their memory."""
        del self._decode
        self._model.to("meta")


class TensorRTEngine(GraphEngine):
    """A voice with a plan of TensorRT, recorded as graphs of fixed shapes; only one thread may call it."""

    name = "tensorrt"

    def __init__(self, folder: Path, model: YourTTS, device: torch.device, any_card: bool = False) -> None:
        """Takes the model, on the device. Raises: EngineError (`engine_unavailable`), as `Networks`."""
        self._plan = Networks(folder, model, device, any_card)
        self.card_supported = self._plan.card_supported
        super().__init__(self._plan, device, shapes_of(model.config))

    def save_kernels(self) -> None:
        """As `Network.save_kernels`."""
        self._plan.save_kernels()

    def close(self) -> None:
        """Gives the device's memory back."""
        super().close()
        self._plan.close()


def _supports_card(library: Library, runtime: Any, plan: bytes, name: str, any_card: bool) -> bool:
    """Whether TensorRT-RTX means this card to run the plan.

    Raises: EngineError (`engine_unavailable`) where it says no, or says so for another reason than the card's kind.
    """
    trt = library.module
    validity, why = runtime.get_engine_validity(plan)
    if validity != trt.EngineValidity.INVALID:
        return True
    faults = [fault for fault, bit in trt.EngineInvalidityDiagnostics.__members__.items() if int(why) & int(bit)]
    if any_card and faults == ["UNSUPPORTED_CC"]:
        _log.warning("%s does not support this card; its results need a comparison", library.name)
        return False
    words = ", ".join(faults) or "no usable card or driver"
    raise EngineError("engine_unavailable", f"{library.name} cannot run {name} here: {words}")


def _holds(least: Any, shape: tuple[int, ...], most: Any) -> bool:
    """Whether each size is within its range."""
    return all(a <= n <= b for a, n, b in zip(tuple(least), shape, tuple(most), strict=True))
