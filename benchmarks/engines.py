"""The engines side by side in one process: the same sentences, speakers and weights, from token ids to samples.

python -m benchmarks.engines --device cpu --threads 2 --voices default --runs 10
python -m benchmarks.engines --device cuda --runs 50 --out benchmarks/results

TensorRT takes part where it is installed; TensorRT-RTX also on a card that it does not support, which the result says.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.machine import conditions
from benchmarks.voices_by_size import NAMES, open_model
from cloning.engines.base import Engine, Part, Planned
from cloning.engines.eager import EagerEngine
from cloning.engines.precision import compare
from cloning.engines.windows import next_span
from cloning.errors import EngineError
from cloning.layers.convolutions import Conv1d
from cloning.model import YourTTS
from cloning.scheduler import MOST_FRAMES
from cloning.types import Sentence, SpeechOptions

SECONDS = (3.0, 8.0)
SYMBOLS_PER_S = 14
# Lengths of the sentences of a batch: all kinds, 4 s in the mean.
MIXED_S = (2.0, 3.0, 3.5, 4.0, 4.0, 4.5, 5.0, 6.0)


def main() -> None:
    """Measures all engines of a device for each voice, prints, and writes `engines-DEVICE.json`."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--device", default="cpu")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--voices", nargs="+", default=list(NAMES), choices=NAMES)
    options.add_argument("--engines", nargs="+", help="by default all that the device has")
    options.add_argument("--runs", type=int, default=0, help="of each figure; by default 200 on a GPU, 15 on a CPU")
    options.add_argument("--tuned", action="store_true", help="let cuDNN try its algorithms for each shape")
    options.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    chosen = options.parse_args()
    device = torch.device(chosen.device)
    # As in a server with TensorRT: float32 is not rounded. It must stand before the libraries are loaded.
    os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")
    torch.set_num_threads(chosen.threads)
    torch.backends.cudnn.benchmark = chosen.tuned
    runs = chosen.runs or (200 if device.type == "cuda" else 15)
    voices: dict[str, Any] = {}
    result = {
        "conditions": conditions(chosen.device),
        "runs": runs,
        "tuned": chosen.tuned,
        "symbols_per_s": SYMBOLS_PER_S,
        "voices": voices,
    }
    for name in chosen.voices:
        voices[name] = measure_voice(name, device, runs, chosen.engines)
    # What the machine was doing in the last minute, in busy cores: ours are among them.
    result["load"] = round(os.getloadavg()[0], 1)
    chosen.out.mkdir(parents=True, exist_ok=True)
    path = chosen.out / f"engines-{device.type}{'-tuned' if chosen.tuned else ''}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def measure_voice(name: str, device: torch.device, runs: int, chosen: list[str] | None = None) -> dict[str, Any]:
    """All engines of one voice, or those that are chosen."""
    model = open_model(name, device)
    gflop = gflop_per_audio_s(model)
    found: dict[str, Any] = {"model": model.config.name, "gflop_per_audio_s": round(gflop, 2)}
    for engine_name, make in makers(device).items():
        if chosen and engine_name not in chosen:
            continue
        started = time.perf_counter()
        engine, facts = make(name, device)
        opened_s = time.perf_counter() - started
        figures = measure_engine(engine, model, runs, gflop) | {"open_s": round(opened_s, 2)} | facts
        if engine_name != "eager":
            figures["against_eager"] = likened(engine, model, device)
        found[engine_name] = figures
        print(name, engine_name, json.dumps(figures), flush=True)
        engine.close()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return found


def likened(engine: Engine, model: YourTTS, device: torch.device) -> dict[str, Any]:
    """How far two sentences are from torch's."""
    sentences = [sentence(model, seconds, i) for i, seconds in enumerate(SECONDS)]
    verdict = compare(engine, EagerEngine(model, device), sentences)
    return {
        "passed": verdict.passed,
        "same_durations": verdict.same_durations,
        "spectral_db": round(verdict.spectral_db, 3),
        "error_db": round(verdict.error_db, 1),
    }


Made = tuple[Engine, dict[str, Any]]


def makers(device: torch.device) -> dict[str, Callable[[str, torch.device], Made]]:
    """What makes each engine that runs on a device, with facts about how it was made."""
    if device.type != "cuda":
        return {"eager": eager, "onnx": onnx_engine}
    from cloning.engines.tensorrt_library import find_library

    found = {"eager": eager, "cuda-graph": cuda_graphs}
    try:
        find_library()
    except EngineError as error:
        print(f"without TensorRT: {error.message}", flush=True)
        return found
    return found | {"tensorrt": tensorrt}


def eager(name: str, device: torch.device) -> Made:
    """The networks as they are written."""
    return EagerEngine(open_model(name, device), device), {}


def cuda_graphs(name: str, device: torch.device) -> Made:
    """As a server opens them."""
    from cloning.engines.cuda_graph import CudaGraphEngine

    return CudaGraphEngine.gated(open_model(name, device), device), {}


def onnx_engine(name: str, device: torch.device) -> Made:
    """A voice exported anew."""
    from cloning.engines.onnx import OnnxEngine
    from cloning.exporters.onnx import write_graphs

    model = open_model(name, device)
    with tempfile.TemporaryDirectory() as folder:
        write_graphs(model, Path(folder))
        return OnnxEngine(Path(folder), model.config, torch.get_num_threads()), {}


def tensorrt(name: str, device: torch.device) -> Made:
    """A voice exported and built anew in half precision."""
    from cloning.engines.tensorrt import TensorRTEngine
    from cloning.engines.tensorrt_library import find_library
    from cloning.engines.tensorrt_plans import build_into, export

    model, started = open_model(name, torch.device("cpu")), time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        export(model, folder, "float16")
        exported = time.perf_counter()
        build_into(folder, folder, model, folder / "timing.cache")
        built = time.perf_counter()
        engine = TensorRTEngine(folder, open_model(name, device), device, any_card=True)
    facts = {"library": find_library().name, "card_supported": engine.card_supported}
    return engine, facts | {"export_s": round(exported - started, 1), "build_s": round(built - exported, 1)}


def measure_engine(engine: Engine, model: YourTTS, runs: int, gflop: float) -> dict[str, Any]:
    """Latency of single sentences, first audio, and throughput at the engine's full batch.

    `gflop` is what a second of audio costs.
    """
    figures: dict[str, Any] = {"max_batch": engine.max_batch}
    for seconds in SECONDS:
        one = [sentence(model, seconds, 0)]
        key = f"{seconds:g}_s"
        figures[f"whole_{key}"] = timed(lambda one=one: speak(engine, model, one), runs, seconds)
        figures[f"first_part_{key}"] = timed(lambda one=one: speak_first(engine, model, one), runs)
    mixed = [MIXED_S[i % len(MIXED_S)] for i in range(max(engine.max_batch, len(MIXED_S)))]
    batch = [sentence(model, seconds, i) for i, seconds in enumerate(mixed)]
    n_runs = max(1, runs // 5)
    total_s = sum(mixed)
    figures["throughput"] = timed(lambda: speak(engine, model, batch), n_runs, total_s) | {
        "sentences": len(batch), "audio_s": total_s,
    }  # fmt: skip
    rate = figures["throughput"]["x_realtime"]
    figures["throughput"]["tflop_per_s"] = round(rate * gflop / 1000, 4)
    if torch.cuda.is_available():
        figures["reserved_mib"] = round(torch.cuda.memory_reserved() / 2**20)
        figures["peak_allocated_mib"] = round(torch.cuda.max_memory_allocated() / 2**20)
        torch.cuda.reset_peak_memory_stats()
    return figures


def sentence(model: YourTTS, seconds: float, seed: int) -> Sentence:
    """Random symbols of a speaker of its own, as many as are spoken in so many seconds."""
    rng, config = np.random.default_rng(seed), model.config
    vector = rng.standard_normal(config.speaker.d_vector).astype(np.float32)
    ids = rng.integers(1, config.text.n_symbols, round(seconds * SYMBOLS_PER_S))
    # The seconds ride along as the deadline, which no engine reads.
    return Sentence(ids, vector / np.linalg.norm(vector), 0, SpeechOptions(seed=seed), deadline_s=seconds)


def lasting(plan: Planned, frame_s: float) -> Planned:
    """A plan of the length that is wanted, whatever the voice has learned: its symbols share the frames evenly."""
    n_frames, n = round((plan.sentence.deadline_s or 1.0) / frame_s), len(plan.durations)
    borders = np.arange(n + 1) * n_frames // n
    return Planned(plan.sentence, np.diff(borders), plan.prior, plan.row)


def speak(engine: Engine, model: YourTTS, sentences: list[Sentence]) -> None:
    """Both phases of all sentences, in batches of the engine's size."""
    for first in range(0, len(sentences), engine.max_batch):
        plans = engine.prior(sentences[first : first + engine.max_batch])
        engine.decode([lasting(plan, model.config.audio.frame_s).whole() for plan in plans])


def speak_first(engine: Engine, model: YourTTS, sentences: list[Sentence]) -> None:
    """The first part of a streamed sentence."""
    (plan,) = engine.prior(sentences)
    plan = lasting(plan, model.config.audio.frame_s)
    span = next_span(None, plan.n_frames, engine.first_part_frames, MOST_FRAMES)
    engine.decode([Part(plan, span)])


def timed(work: Callable[[], None], runs: int, audio_s: float | None = None) -> dict[str, float]:
    """Percentiles of the host's clock, after runs that are not counted."""
    for _ in range(min(3, runs)):
        work()
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    p50, p99 = (float(np.percentile(seconds, q)) for q in (50, 99))
    found = {"p50_ms": round(1000 * p50, 3), "p99_ms": round(1000 * p99, 3), "n": runs}
    return found if audio_s is None else found | {"x_realtime": round(audio_s / p50, 1)}


def gflop_per_audio_s(model: YourTTS) -> float:
    """Counted over both phases of a sentence of 8 s; a multiplication with its addition is two."""
    engine = EagerEngine(model, next(model.parameters()).device)
    # Only torch's own convolutions are counted, and not those that the engine asks a library for by its name.
    convolutions = [module for module in model.modules() if isinstance(module, Conv1d)]
    by_one_algorithm = [convolution.by_one_algorithm for convolution in convolutions]
    for convolution in convolutions:
        convolution.by_one_algorithm = False
    with FlopCounterMode(display=False) as counter:
        speak(engine, model, [sentence(model, 8.0, 0)])
    for convolution, before in zip(convolutions, by_one_algorithm, strict=True):
        convolution.by_one_algorithm = before
    return counter.get_total_flops() / 8.0 / 1e9


if __name__ == "__main__":
    main()
