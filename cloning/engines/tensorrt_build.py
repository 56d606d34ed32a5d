"""ONNX graphs to engines of TensorRT, whose types are the graph's: nothing else is rounded."""

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cloning.config import VoiceConfig
from cloning.engines.bucketed import Shapes
from cloning.engines.tensorrt_library import Library
from cloning.errors import EngineError

Dims = tuple[int, ...]
# Smallest, commonest and largest shape of each input.
Profile = Mapping[str, tuple[Dims, Dims, Dims]]
# What is being done, how many steps of it are done, and of how many.
Progress = Callable[[str, int, int], None]


def profiles(config: VoiceConfig, shapes: Shapes) -> list[Profile]:
    """Of the second phase: a profile for one sentence and one for several."""
    batches = [(1, 1, 1)]
    if shapes.sentences[-1] > 1:
        batches.append((2, max(2, shapes.sentences[-1] // 2), shapes.sentences[-1]))
    return [_profile(config, shapes, sizes) for sizes in batches]


def described(shapes: Shapes) -> str:
    """The ranges in words, as a plan's record has them."""
    n, frames = shapes.sentences[-1], shapes.frames
    return f"1 and 2..{n} sentences, {shapes.symbols[-1]} symbols, {frames[0]}..{frames[-1]} frames"


def _profile(config: VoiceConfig, shapes: Shapes, batches: tuple[int, int, int]) -> Profile:
    hidden, d_vector = config.text_encoder.hidden, config.speaker.d_vector
    # Symbols are always at full width.
    symbols = shapes.symbols[-1]

    def at(n: int, n_frames: int) -> dict[str, Dims]:
        return {
            "m_p": (n, hidden, symbols), "logs_p": (n, hidden, symbols), "durations": (n, symbols),
            "d_vectors": (n, d_vector), "noise": (n, hidden, n_frames),
        }  # fmt: skip

    least, common, largest = (at(*sizes) for sizes in zip(batches, _three(shapes.frames), strict=True))
    return {name: (least[name], common[name], largest[name]) for name in least}


def _three(widths: tuple[int, ...]) -> tuple[int, int, int]:
    return widths[0], widths[len(widths) // 2], widths[-1]


def build_engine(
    library: Library, graph: Path, ranges: list[Profile], timing_cache: Path, progress: Progress | None = None
) -> bytes:
    """An engine in TensorRT's own form.

    The timing cache is read where it is there, and written; TensorRT-RTX, which times nothing here, has none.

    Raises: EngineError (`engine_failed`) where the graph cannot be read or built, in TensorRT's words.
    """
    trt = library.module
    library.complaints.clear()
    builder = trt.Builder(library.logger)
    network = _parsed(library, builder, graph)
    config = builder.create_builder_config()
    # By default it rounds what float32 layers read to 10 bits, more than torch does. TensorRT-RTX may do so even then,
    # unless the process forbids it (`api.settings.forbid_tf32`).
    config.clear_flag(trt.BuilderFlag.TF32)
    inputs = {network.get_input(i).name for i in range(network.num_inputs)}
    for profile in ranges:
        _add_profile(library, builder, config, {name: dims for name, dims in profile.items() if name in inputs})
    monitor = _monitor(trt, progress) if progress else None
    if monitor is not None:
        config.progress_monitor = monitor
    times = None if library.is_rtx else _open_timing_cache(config, timing_cache)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise library.failure(f"{graph.name} cannot be built")
    if times is not None:
        _replace(timing_cache, bytes(times.serialize()))
    return bytes(plan)


def _parsed(library: Library, builder: Any, graph: Path) -> Any:
    trt = library.module
    # From TensorRT 11 on it is the only way, and may lose its name.
    typed = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    network = builder.create_network(0 if typed is None else 1 << int(typed))
    parser = trt.OnnxParser(network, library.logger)
    if not parser.parse_from_file(str(graph)):
        faults = "; ".join(parser.get_error(i).desc() for i in range(parser.num_errors))
        raise EngineError("engine_failed", f"{library.name}: {graph.name} cannot be read: {faults}")
    return network


def _add_profile(library: Library, builder: Any, config: Any, profile: Profile) -> None:
    made = builder.create_optimization_profile()
    for name, dims in profile.items():
        made.set_shape(name, *dims)
    if config.add_optimization_profile(made) < 0:
        raise library.failure("a profile was refused")


def _open_timing_cache(config: Any, path: Path) -> Any:
    """What was timed before, or nothing where that is damaged or of another version."""
    times = config.create_timing_cache(path.read_bytes() if path.is_file() else b"")
    if times is None or not config.set_timing_cache(times, False):
        times = config.create_timing_cache(b"")
        config.set_timing_cache(times, False)
    return times


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all, whoever else writes it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)


def _monitor(trt: Any, progress: Progress) -> Any:
    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]  # the base is known only once the library is found
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            self.n_steps: dict[str, int] = {}

        def phase_start(self, name: str, parent: str | None, n_steps: int) -> None:
            self.n_steps[name] = n_steps

        def step_complete(self, name: str, step: int) -> bool:
            progress(name, step + 1, self.n_steps.get(name, step + 1))
            return True

        def phase_finish(self, name: str) -> None:
            progress(name, self.n_steps.get(name, 1), self.n_steps.pop(name, 1))

    return Monitor()
