"""Exact search of many d-vectors on a GPU, by faiss-gpu: one query at a time, and in batches.

    python -m benchmarks.store_gpu --rows 1000000 --device cuda

Needs faiss-gpu in the place of faiss-cpu. The store itself searches on the CPU; this says what a GPU would give.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from benchmarks.machine import conditions
from benchmarks.store_search import K, make_task

BATCHES = (1, 64, 1024, 16384)
N_ROUNDS = 50


def main() -> None:
    """Measures, prints, and writes `benchmarks/results/store-gpu-ROWS.json`."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--device", choices=["cuda"], default="cuda")
    options.add_argument("--half", action="store_true", help="keep the vectors in 16 bits")
    options.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    chosen = options.parse_args()
    if not getattr(faiss, "get_num_gpus", int)():
        raise SystemExit("this FAISS sees no GPU: install faiss-gpu in the place of faiss-cpu, on a machine with one")
    task = make_task(chosen.rows)
    config = faiss.GpuIndexFlatConfig()
    config.useFloat16 = chosen.half
    index = faiss.GpuIndexFlatIP(faiss.StandardGpuResources(), task.vectors.shape[1], config)
    started = time.perf_counter()
    index.add(task.vectors)
    result: dict[str, Any] = {"rows": chosen.rows, "half": chosen.half, "add_s": time.perf_counter() - started}
    _, found = index.search(task.queries, K)
    hits = sum(len(set(mine) & set(true)) for mine, true in zip(found.tolist(), task.truth.tolist(), strict=True))
    result["recall_at_10"] = hits / found.size
    result["batches"] = {str(size): batch(index, task.queries, size) for size in BATCHES}
    result["conditions"] = conditions(chosen.device)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / f"store-gpu-{chosen.rows}.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def batch(index: Any, queries: "np.ndarray[Any, Any]", size: int) -> dict[str, float]:
    """Milliseconds of a batch, host to host, and queries a second."""
    block = np.resize(queries, (size, queries.shape[1]))
    index.search(block, K)
    seconds = []
    for _ in range(N_ROUNDS):
        started = time.perf_counter()
        index.search(block, K)
        seconds.append(time.perf_counter() - started)
    marks = {f"p{mark}_ms": round(float(np.percentile(seconds, mark)) * 1000, 3) for mark in (50, 95, 99)}
    return marks | {"queries_per_s": round(size / float(np.median(seconds)))}


if __name__ == "__main__":
    main()
