"""The commands for engines: what they need beside a voice is built ahead, listed and verified. All on this machine."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from api.command_line import AsJson, Model, settings_now, show

if TYPE_CHECKING:
    from cloning.engines.plans import Plan

app = typer.Typer(
    no_args_is_help=True,
    help="Build, list and verify what engines need beside a voice. VOICEKIN_ENGINE chooses the engine.",
)


@app.command()
def build(model: Model = None, as_json: AsJson = False) -> None:
    """Export a voice's graphs for ONNX Runtime, compare them with torch, and keep them in the state folder."""
    from api.report import show_facts
    from cloning.engines import plans

    settings = settings_now()
    shelf = settings.shelf()
    plan = plans.build(shelf.folder_of(model or shelf.in_use()), settings.plans_dir())
    show(_row(plan), as_json, show_facts)


@app.command("list")
def list_plans(as_json: AsJson = False) -> None:
    """List the graphs that were built, and what is wrong with those that cannot be used."""
    from cloning.engines import plans

    show({"plans": [_row(plan) for plan in plans.listed(settings_now().plans_dir())]}, as_json, _show_plans)


@app.command()
def verify(model: Model = None, as_json: AsJson = False) -> None:
    """Compare a voice's graphs with their checksums, and with torch over all shapes."""
    from api.report import show_facts
    from cloning.engines import plans

    settings = settings_now()
    shelf = settings.shelf()
    show(_row(plans.verified(shelf.folder_of(model or shelf.in_use()), settings.plans_dir())), as_json, show_facts)


@app.command()
def remove(name: Annotated[str, typer.Argument(metavar="PLAN", help="A folder's name; `list` shows them.")]) -> None:
    """Remove graphs that were built."""
    from api.errors import RequestRefused
    from cloning.engines import plans

    found = {plan.folder.name: plan for plan in plans.listed(settings_now().plans_dir())}
    if name not in found:
        raise RequestRefused("bad_field", f"no plan is named {name[:80]!r}; `voicekin engines list` shows them")
    plans.remove(found[name])


def _row(plan: "Plan") -> dict[str, Any]:
    return asdict(plan) | {"folder": plan.folder.name}


def _show_plans(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_rows

    columns = ("folder", "engine", "n_bytes", "problem")
    show_rows(console, columns, document["plans"], "Nothing is built; `voicekin engines build` does it.")
