"""Plans of the engine `tensorrt`: a voice's second phase, used only after a comparison with torch."""

import copy
import hashlib
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import torch

from cloning.bundle import load_info, load_model
from cloning.engines import plans
from cloning.engines.eager import EagerEngine
from cloning.engines.plans import Key, Plan
from cloning.engines.precision import Likeness, Verdict, at_all_shapes, compare, drawn_sentences, to_half, worst
from cloning.engines.tensorrt import PLAN, TensorRTEngine, shapes_of
from cloning.engines.tensorrt_build import Progress, build_engine, described, profiles
from cloning.engines.tensorrt_library import card, find_library, target
from cloning.errors import EngineError
from cloning.exporters.onnx import DECODE, OPSET, check, write_graphs
from cloning.model import YourTTS

Precision = Literal["float16", "float32"]
NAME = "tensorrt"
N_SENTENCES = 200
_CPU = torch.device("cpu")
# What rounding to float16 may move a sample by, as a share of the loudest: the gate judges it by what is heard.
_MOST_ROUNDED = 0.05
_CHECKED_ROUNDED = ((2, 3, 2), (17, 4, 1))


def key_of(bundle_dir: Path, device: torch.device) -> Key:
    """The key of a voice's plan for the TensorRT that is installed here and a device.

    Raises: BundleError; EngineError (`engine_unavailable`) without TensorRT, or without the card it needs.
    """
    info, library = load_info(bundle_dir), find_library()
    made_for = described(shapes_of(info.voice))
    return Key(info.model_id, NAME, OPSET, library.name, profiles=made_for, target=target(library, device))


def build(
    bundle_dir: Path, root: Path, device: torch.device, precision: Precision = "float16",
    progress: Progress | None = None,
) -> Plan:  # fmt: skip
    """Exports the graphs of a voice, compares them with torch, and builds the second; one of the same graph is kept.

    With TensorRT-RTX no card is needed. The plan cannot be used before `verify`.

    Raises: BundleError; EngineError (`engine_failed`, `engine_unavailable`), with what is missing or wrong.
    """
    key = replace(key_of(bundle_dir, device), precision=precision)
    model = load_model(bundle_dir, _CPU)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".graphs-") as scratch:
        graphs = Path(scratch)
        difference = export(model, graphs, precision)
        key = replace(key, graphs=_hash_of(graphs))
        built = plans.inspected(root / key.folder, key)
        if not built.problem and plans.key_in(built.folder) == key:
            return built
        times = root / f"timing-{hashlib.sha256(f'{key.library} {key.target}'.encode()).hexdigest()[:12]}.cache"

        def fill(folder: Path) -> float:
            build_into(folder, graphs, model, times, progress)
            return difference

        plans.keep(root, key, fill)
    return plans.read(root, key)


def export(model: YourTTS, folder: Path, precision: Precision) -> float:
    """Writes a voice's graphs in a precision, and says how far they are from torch's float32.

    Raises: EngineError (`engine_failed`) where that is too far.
    """
    if precision == "float32":
        write_graphs(model, folder)
        return check(model, folder).difference
    write_graphs(to_half(copy.deepcopy(model)), folder)
    return check(model, folder, _CHECKED_ROUNDED, _MOST_ROUNDED).difference


def build_into(folder: Path, graphs: Path, model: YourTTS, times: Path, progress: Progress | None = None) -> None:
    """Builds the second phase. Raises: EngineError (`engine_failed`, `engine_unavailable`)."""
    ranges = profiles(model.config, shapes_of(model.config))
    (folder / PLAN).write_bytes(build_engine(find_library(), graphs / DECODE, ranges, times, progress))


def read(bundle_dir: Path, root: Path, device: torch.device) -> Plan:
    """The plan of a voice, whole, made for this TensorRT and this device, and found to say there what torch says.

    Raises: BundleError; EngineError (`engine_unavailable`), with the command that mends it.
    """
    plan = plans.read(root, key_of(bundle_dir, device))
    return plans.usable(judged(plan, device), plan.model_id)


def verify(
    bundle_dir: Path, root: Path, device: torch.device, likeness: Likeness | None = None, n_sentences: int = N_SENTENCES
) -> Plan:
    """Compares a voice's plan with torch on the device, and writes into its record what was found.

    Raises: BundleError; EngineError (`engine_unavailable`) without a plan or a card, `engine_failed` where the graphs
        are no longer those that the plan was built from.
    """
    plan = plans.read(root, key_of(bundle_dir, device))
    if device.type != "cuda":
        raise EngineError("engine_unavailable", "a tensorrt plan is verified on a card: VOICEKIN_DEVICE=cuda")
    _check_graphs(bundle_dir, plan)
    model = load_model(bundle_dir, device)
    engine = TensorRTEngine(plan.folder, load_model(bundle_dir, device), device)
    try:
        verdict = gate(engine, model, device, likeness, n_sentences)
        if find_library().is_rtx:
            # It compiles a shape's kernels at its first run, for which no listener shall wait.
            engine.warm_up(shapes_of(model.config).sentences)
        engine.save_kernels()
    finally:
        engine.close()
    plans.keep_gate(plan, {"card": card(device), "passed": verdict.passed, **asdict(verdict)})
    return judged(plans.read(root, key_of(bundle_dir, device)), device)


def gate(
    engine: TensorRTEngine, model: YourTTS, device: torch.device, likeness: Likeness | None, n_sentences: int
) -> Verdict:
    """Compares an engine with torch in float32: at its least, a common, its largest and more than its largest shape.

    Then with sentences of all lengths.
    """
    oracle, shapes = EagerEngine(model, device), shapes_of(model.config)
    longest = shapes.frames[-1] - 2 * model.receptive_field_frames
    batches = [*at_all_shapes(model, oracle, engine.max_batch, longest), drawn_sentences(model, n_sentences)]
    rate_hz = model.config.audio.sample_rate
    return worst([compare(engine, oracle, batch, likeness, rate_hz) for batch in batches])


def judged(plan: Plan, device: torch.device) -> Plan:
    """The plan, with a problem where the gate has not let it pass on this card."""
    here, found = card(device), plan.gate
    if found is None or found["card"] != here:
        words = f"has not been compared with torch on {here or 'a card'}"
        return replace(plan, problem=words, remedy=plans.command("verify", NAME))
    if not found["passed"]:
        words = f"in {plan.precision} does not say what torch says"
        return replace(plan, problem=words, remedy=f"{plans.command('build', NAME)} --precision float32")
    return plan


def _check_graphs(bundle_dir: Path, plan: Plan) -> None:
    key = plans.key_in(plan.folder)
    precision: Any = plan.precision
    with tempfile.TemporaryDirectory() as scratch:
        export(load_model(bundle_dir, _CPU), Path(scratch), precision)
        if key is None or key.graphs != _hash_of(Path(scratch)):
            words = f"the tensorrt plan of {plan.model_id} was built from other graphs than are exported now"
            raise EngineError("engine_failed", f"{words}; mend it: {plans.command('build', NAME)}")


def _hash_of(graphs: Path) -> str:
    return plans.sha256(graphs / DECODE)
