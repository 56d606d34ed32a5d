"""The tables of docs/store.md, for `benchmarks.tables`."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def tables() -> dict[str, Callable[[], str]]:
    """What makes each table, by its mark."""
    return {
        "search": lambda: apart(search_table(read("store-search-1000000.json"))),
        "scale": lambda: apart(scale_table(read("store-scale-sqlite-1000000.json"))),
        "postgresql": lambda: apart(scale_table(read("store-scale-postgresql-100000.json"))),
        "audio-cache": lambda: apart(audio_table(read("store-audio.json"))),
        "verification": lambda: apart(verification_table(read("store-verification.json"))),
        "crowds": lambda: apart(crowd_table(read("store-verification.json"))),
    }


def apart(words: str) -> str:
    """The words with an empty line before and after them."""
    return f"\n{words}\n\n"


def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RESULTS / name).read_text())
    return document


def search_table(result: dict[str, Any]) -> str:
    head = ("first look", "lists scanned", "ranked exactly", "recall@10", "p50 ms", "p99 ms", "build s")
    ours = result["ours"]
    rows = [("**the store's own index**", "", "100", *_figures(ours), ours["build_s"])]
    rows += [
        (f"`{each['recipe']}`", each["probes"] or "all", each["ranked"], *_figures(each), each["build_s"])
        for each in result["trials"]
    ]
    note = f"The store's arrays take {ours['bytes_per_row']} bytes a voice; removing one takes {ours['removal_ms']} ms."
    return f"{_where(result)}\n\n{_table(head, rows)}\n\n{note}"


def scale_table(result: dict[str, Any]) -> str:
    def micro(name: str) -> str:
        unit, factor = ("ms", 1000) if result[name]["p50_us"] >= 100 else ("µs", 1)
        marks = (f"{result[name][mark] / factor:.2g}" for mark in ("p50_us", "p99_us"))
        return f"{' / '.join(marks)} {unit} (p50 / p99)"

    prune = result["prune"]
    rows = [
        ("rebuild from SQL, with codes and snapshot", f"{result['rebuild_from_sql_s']} s"),
        ("ready from the snapshot", f"{result['ready_from_snapshot_s']} s"),
        ("a vector from SQL", micro("lookup_sql")),
        ("a vector from the pool", micro("lookup_pool")),
        ("a vector from the pool, its revision asked of SQL", micro("lookup_pool_checked_by_sql")),
        ("ten nearest, confirmed by SQL", micro("search_top_10")),
        ("enrolments, one thread", f"{result['enrolments_per_s_one_thread']} a second"),
        ("enrolments, eight threads", f"{result['enrolments_per_s_eight_threads']} a second"),
        (f"prune {prune['removed']} of them", f"{prune['seconds']} s"),
        ("memory of the process", f"{result['resident_bytes'] / result['rows']:.0f} bytes a voice"),
        ("database", f"{result['database_bytes_per_row']} bytes a voice with one clip"),
    ]
    return f"{_where(result)}\n\n{_table(('what', 'measured'), rows)}"


def audio_table(result: dict[str, Any]) -> str:
    rows = [(f"`{name}`", f"{each['p50_ms']:.2f}", f"{each['p99_ms']:.2f}") for name, each in result["places"].items()]
    note = (
        f"A hit is {result['kept_bytes'] / 1000:.0f} kB of WAV, {result['audio_s']:.1f} s, from order to bytes: "
        "SQL is asked for the speaker, then the entry is read and checked; one request at a time, "
        f"{result['n']} each. Speaking it takes {result['made']['p50_ms']:.0f} ms (p50). S3 is moto's server here."
    )
    return f"{_where(result)}\n\n{_table(('kept in', 'p50 ms', 'p99 ms'), rows)}\n\n{note}"


def verification_table(result: dict[str, Any]) -> str:
    head = ("probe", "own clips", "equal error rate", "point", "threshold", "strangers accepted", "own refused")
    rows = []
    for length, found in result["probes"].items():
        probe = "whole clip" if length == "whole" else f"{length} s"
        for name, point in found["operating_points"].items():
            shares = (f"{point['false_accepts']:.2%}", f"{point['false_rejects']:.1%}")
            rate = f"{found['equal_error_rate']:.1%}"
            rows.append((probe, found["n_own"], rate, f"`{name}`", point["threshold"], *shares))
    return f"{result['n_speakers']} people, {result['date'][:10]}, `{result['encoder_id']}`.\n\n{_table(head, rows)}"


def crowd_table(result: dict[str, Any]) -> str:
    sizes = list(next(iter(result["duplicates"].values()))["strangers_flagged_of"])
    head = ("cosine", "pairs of strangers above", *(f"flagged among {size}" for size in sizes), "own clips above")
    rows = [
        (
            threshold,
            f"{found['pair_rate']:.2g}",
            *(f"{found['strangers_flagged_of'][size]:.1%}" for size in sizes),
            f"{found['own_found']:.0%}",
        )
        for threshold, found in result["duplicates"].items()
    ]
    return f"The flag is raised from a cosine of {result['duplicates_above']}.\n\n{_table(head, rows)}"


def _figures(found: dict[str, Any]) -> tuple[Any, ...]:
    return f"{found['recall_at_10']:.4f}", found["p50_ms"], found["p99_ms"]


def _where(result: dict[str, Any]) -> str:
    found = result["conditions"]
    nice = f", at niceness {result['niceness']}" if result["niceness"] else ""
    load = f"load {result['load_before']:.1f} to {result['load_after']:.1f}"
    versions = f"faiss {found['versions']['faiss-cpu']}, SQLAlchemy {found['versions']['sqlalchemy']}"
    where = f"{found['device']}, {found['cores']} cores shared with other work ({load}{nice})"
    size = f"{result['rows']:,} voice{'s' if result['rows'] > 1 else ''}. "
    return f"{size}{where}, Python {found['python']}, {versions}, {found['date'][:10]}."


def _table(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
