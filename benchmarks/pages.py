"""What all makers of tables need: results read, and rows of Markdown."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


def result_of(name: str) -> dict[str, Any]:
    """What a benchmark wrote into a file of `benchmarks/results`."""
    found: dict[str, Any] = json.loads((RESULTS / name).read_text())
    return found


def by_device(prefix: str) -> dict[str, dict[str, Any]]:
    """The results of a benchmark by device, in the devices' order; those of one engine among several are none."""
    paths = sorted(RESULTS.glob(f"{prefix}-*.json"))
    named = {path.stem.removeprefix(f"{prefix}-"): path.name for path in paths}
    return {device: result_of(name) for device, name in named.items() if "-" not in device}


def row(*cells: str) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |\n"


def head(*cells: str) -> str:
    """The first two lines of a table."""
    return row(*cells) + row(*["---"] * len(cells))
