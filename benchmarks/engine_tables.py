"""The table of the engines, made from what `benchmarks.engines` wrote; written into pages by `benchmarks.tables`."""

from collections.abc import Callable
from typing import Any

from benchmarks.pages import by_device, head, result_of, row


def tables() -> dict[str, Callable[[], str]]:
    """Each table's name and what makes it."""
    return {"engines": _engines, "lanes": _lanes}


def _engines() -> str:
    """The engines side by side, for each device and voice that was measured."""
    columns = ("voice", "engine", "device", "3 s: p50, p99", "8 s: p50, p99", "first part", "x real time", "TFLOP/s")
    lines, notes = head(*columns), []
    for device, result in by_device("engines").items():
        for voice, found in result["voices"].items():
            for engine, run in found.items():
                if isinstance(run, dict):
                    lines += row(voice, _library(engine, run), device, *_engine_figures(run))
        where = result["conditions"]
        notes.append(
            f"{device}: {where['date'][:10]}, {where['device']}, {where['cores']} threads, "
            f"torch {where['versions']['torch']}, {result['runs']} runs of a sentence, "
            f"load {result['load']} at the end"
        )
    return lines + "\n" + "; ".join(notes) + "; `python -m benchmarks.engines`.\n"


def _lanes() -> str:
    """A sentence on a CPU with and without a lane."""
    result = result_of("lanes-cpu.json")
    lines = head(f"a sentence of {result['symbols']} symbols, the networks", "p50", "p95")
    for case, run in result["spoken"].items():
        lines += row(case, f"{run['p50_ms']} ms", f"{run['p95_ms']} ms")
    where = result["conditions"]
    return lines + (
        f"\n{where['date'][:10]}, {where['device']}, {where['cores']} cores, torch {where['versions']['torch']}; "
        "`python -m benchmarks.lanes`.\n"
    )


def _library(engine: str, run: dict[str, Any]) -> str:
    if "library" not in run:
        return f"`{engine}`"
    return f"`{engine}` ({run['library']}{'' if run['card_supported'] else ', which does not support this card'})"


def _engine_figures(run: dict[str, Any]) -> tuple[str, ...]:
    three, eight, whole = run["whole_3_s"], run["whole_8_s"], run["throughput"]
    return (
        *(f"{each['p50_ms']:.4g} ms, {each['p99_ms']:.4g} ms" for each in (three, eight)),
        f"{run['first_part_3_s']['p50_ms']:.4g} ms",
        f"{whole['x_realtime']:,} ({whole['sentences']} sentences)",
        f"{whole['tflop_per_s']:.3g}",
    )
