"""Tables of a server under load, made from what `benchmarks.server` wrote; `benchmarks.tables` writes them down."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


def tables() -> dict[str, Callable[[], str]]:
    """Each table's name and what makes it."""
    return {"server": _server, "server-engines": _engines}


def _server() -> str:
    """Each device that was measured, with the engine that a server takes by itself."""
    lines = _row("a server, asked over HTTP", "device", "p50", "p95", "p99", "all together") + _row(*["---"] * 6)
    notes = []
    for path in sorted(RESULTS.glob("server-*.json")):
        device = path.stem.removeprefix("server-")
        if "-" in device:
            continue  # an engine that was asked for: the table of engines has it
        result = json.loads(path.read_text())
        for title, run in _runs(result):
            lines += _row(title, device, *(f"{run[f'p{share}_ms']} ms" for share in (50, 95, 99)), _rates(run))
        notes.append(f"{device}: {_where(result)}")
    return lines + "\n" + "; ".join(notes) + "; `python -m benchmarks.server`.\n"


def _engines() -> str:
    """The engines of a GPU side by side."""
    found = {_engine(result): result for result in (_read("server-cuda.json"), _read("server-cuda-eager.json"))}
    heads = [head for name in found for head in (f"`{name}`: p50, p99", "all together")]
    lines = _row("a server, asked over HTTP", *heads) + _row(*["---"] * (1 + len(heads)))
    for rows in zip(*map(_runs, found.values()), strict=True):
        cells = [cell for _, run in rows for cell in (f"{run['p50_ms']} ms, {run['p99_ms']} ms", _rates(run))]
        lines += _row(rows[0][0], *cells)
    notes = "; ".join(f"`{name}`: {_where(result)}" for name, result in found.items())
    return lines + f"\n{notes}; `python -m benchmarks.server --device cuda`, and with `--engine eager`.\n"


def _runs(result: dict[str, Any]) -> Iterator[tuple[str, dict[str, float]]]:
    """(what was measured, its times)."""
    short = f"speech of {result['characters']} characters"
    job = result["beside_a_job"]
    yield f"first sound of a streamed {short}", result["first_sound"]
    for n, run in result["clients"].items():
        yield f"{short}, {n} client{'s' if n != '1' else ''} at once", run
    yield f"{short}, beside a job of {job['job_characters']:,} characters", job["speech"]
    yield "`/health/live` alone", result["alone"]["health"]
    yield "`/health/live` beside two long speeches and two searches", result["beside_speeches_and_searches"]["health"]


def _rates(run: dict[str, float]) -> str:
    return f"{run['speeches_per_s']} a second, {run['x_realtime']} x real time" if "x_realtime" in run else ""


def _where(result: dict[str, Any]) -> str:
    where = result["conditions"]
    # Results of before 2026-12-01 do not name the engine: it was `eager`.
    return (
        f"{where['date'][:10]}, {where['device']}, {result['threads']} threads, {result['model']}, "
        f"`{_engine(result)}`, the clients on the same machine"
    )


def _engine(result: dict[str, Any]) -> str:
    running: dict[str, str] = result.get("engines", {"default": "eager"})
    return running["default"].partition(" ")[0]


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / name).read_text())
    return found


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |\n"
