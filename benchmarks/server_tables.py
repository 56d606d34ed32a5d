"""Tables of a server under load, made from what `benchmarks.server` wrote; `benchmarks.tables` writes them down."""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.pages import by_device, head, result_of, row


def tables() -> dict[str, Callable[[], str]]:
    """Each table's name and what makes it."""
    return {"server": _server, "server-engines": _engines}


def _server() -> str:
    """Each device that was measured, with the engine that a server takes by itself."""
    lines, notes = head("a server, asked over HTTP", "device", "p50", "p95", "p99", "all together"), []
    for device, result in by_device("server").items():
        for title, run in _runs(result):
            lines += row(title, device, *(f"{run[f'p{share}_ms']} ms" for share in (50, 95, 99)), _rates(run))
        notes.append(f"{device}: {_where(result)}")
    return lines + "\n" + "; ".join(notes) + "; `python -m benchmarks.server`.\n"


def _engines() -> str:
    """The engines of a GPU side by side."""
    found = {_engine(result): result for result in map(result_of, ("server-cuda.json", "server-cuda-eager.json"))}
    lines = head(
        "a server, asked over HTTP", *(cell for name in found for cell in (f"`{name}`: p50, p99", "all together"))
    )
    for rows in zip(*map(_runs, found.values()), strict=True):
        cells = [cell for _, run in rows for cell in (f"{run['p50_ms']} ms, {run['p99_ms']} ms", _rates(run))]
        lines += row(rows[0][0], *cells)
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
    return (
        f"{where['date'][:10]}, {where['device']}, {result['threads']} threads, {result['model']}, "
        f"`{_engine(result)}`, the clients on the same machine"
    )


def _engine(result: dict[str, Any]) -> str:
    running: str = result["engines"]["default"]
    return running.partition(" ")[0]
