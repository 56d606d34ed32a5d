"""The commands for engines: what they need beside a voice is built ahead, listed and verified. All on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from api.command_line import AsJson, Model, settings_now, show

if TYPE_CHECKING:
    from api.settings import Settings
    from cloning.engines.plans import Plan
    from cloning.engines.precision import Likeness
    from cloning.engines.tensorrt_build import Progress
    from cloning.types import FloatArray

Planned = Annotated[
    Literal["onnx", "tensorrt"] | None,
    typer.Option("--engine", help="By default the one of VOICEKIN_ENGINE, or else onnx."),
]
_MOST_SENTENCES = 2000

app = typer.Typer(
    no_args_is_help=True,
    help="Build, list and verify what engines need beside a voice. VOICEKIN_ENGINE chooses the engine.",
)


@app.command()
def build(
    model: Model = None,
    engine: Planned = None,
    precision: Annotated[
        Literal["float16", "float32"], typer.Option(help="Of tensorrt: of flow and decoder; the rest is float32.")
    ] = "float16",
    as_json: AsJson = False,
) -> None:
    """Export a voice's graphs, compare them with torch, and keep them (onnx) or what is built of them (tensorrt)."""
    from api.report import show_facts

    settings = settings_now()
    folder, root = _folder_of(settings, model), settings.plans_dir()
    if _engine(settings, engine) == "onnx":
        from cloning.engines import onnx_plans

        plan = onnx_plans.build(folder, root)
    else:
        from cloning.engines import tensorrt_plans

        with _progress() as progress:
            plan = tensorrt_plans.build(folder, root, _device_for_tensorrt(settings), precision, progress)
    show(_row(_judged(plan, settings)), as_json, show_facts)


@app.command("list")
def list_plans(as_json: AsJson = False) -> None:
    """List the plans that were built, and what is wrong with those that cannot be used."""
    from cloning.engines import plans

    settings = settings_now()
    rows = [_row(_judged(plan, settings)) for plan in plans.listed(settings.plans_dir())]
    show({"plans": rows}, as_json, _show_plans)


@app.command()
def verify(
    model: Model = None,
    engine: Planned = None,
    sentences: Annotated[
        int, typer.Option(min=1, max=_MOST_SENTENCES, help="Of tensorrt: how many are spoken by it and by torch.")
    ] = 200,
    as_json: AsJson = False,
) -> None:
    """Compare a voice's plan with its checksums, and with torch; tensorrt may be used only afterwards.

    For onnx the graphs are compared over all shapes. A plan of tensorrt speaks sentences of all lengths on the device,
    and its speech must have torch's durations, spectra and voice.
    """
    from api.report import show_facts

    settings = settings_now()
    folder, root = _folder_of(settings, model), settings.plans_dir()
    if _engine(settings, engine) == "onnx":
        from cloning.engines import onnx_plans

        show(_row(onnx_plans.verified(folder, root)), as_json, show_facts)
        return
    from cloning.engines import plans, tensorrt_plans

    device = _device_for_tensorrt(settings)
    plan = tensorrt_plans.verify(folder, root, device, _likeness(settings), sentences)
    show(_row(plan), as_json, show_facts)
    plans.usable(plan, plan.model_id)


@app.command()
def remove(name: Annotated[str, typer.Argument(metavar="PLAN", help="A folder's name; `list` shows them.")]) -> None:
    """Remove a plan that was built."""
    from api.errors import RequestRefused
    from cloning.engines import plans

    found = {plan.folder.name: plan for plan in plans.listed(settings_now().plans_dir())}
    if name not in found:
        raise RequestRefused("bad_field", f"no plan is named {name[:80]!r}; `voicekin engines list` shows them")
    plans.remove(found[name])


def _folder_of(settings: "Settings", model: str | None) -> Any:
    shelf = settings.shelf()
    return shelf.folder_of(model or shelf.in_use())


def _engine(settings: "Settings", asked: str | None) -> str:
    return asked or ("tensorrt" if settings.engine == "tensorrt" else "onnx")


def _device_for_tensorrt(settings: "Settings") -> Any:
    """The device of the settings, before TensorRT is loaded."""
    from api.settings import forbid_tf32
    from cloning.engines.choice import device_of

    forbid_tf32()
    return device_of(settings.device)


def _judged(plan: "Plan", settings: "Settings") -> "Plan":
    """A plan of TensorRT as the device of the settings sees it, or as a machine without one does."""
    if plan.engine != "tensorrt" or plan.problem:
        return plan
    from cloning.engines.choice import device_of
    from cloning.engines.tensorrt_plans import judged
    from cloning.errors import EngineError

    try:
        return judged(plan, device_of(settings.device))
    except EngineError:
        return judged(plan, device_of("cpu"))


def _likeness(settings: "Settings") -> "Likeness":
    """How alike two speeches are, by the speaker encoder."""
    from encoder.engine import SpeakerEncoder
    from encoder.errors import UnusableSpeech
    from encoder.types import Waveform

    encoder = SpeakerEncoder.load(settings.device)

    def likeness(ours: "FloatArray", theirs: "FloatArray", rate_hz: int) -> float:
        try:
            a, b = encoder.embed([Waveform(ours, rate_hz), Waveform(theirs, rate_hz)])
        except UnusableSpeech:
            # What nobody speaks in, such as one symbol, is judged by its samples alone.
            return 1.0
        return float(a.vector @ b.vector)

    return likeness


@contextmanager
def _progress() -> "Iterator[Progress]":
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("exporting the graphs", total=None)
        yield lambda what, done, total: bars.update(bar, description=what, completed=done, total=total)


def _row(plan: "Plan") -> dict[str, Any]:
    return asdict(plan) | {"folder": plan.folder.name}


def _show_plans(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_rows

    columns = ("folder", "engine", "precision", "n_bytes", "problem", "remedy")
    show_rows(console, columns, document["plans"], "Nothing is built; `voicekin engines build` does it.")
