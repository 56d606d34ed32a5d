"""Ways to find the ten nearest of many d-vectors: recall against exact search, and time for one query.

python -m benchmarks.store_search --rows 1000000
"""

import argparse
import json
import os
import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import conditions
from benchmarks.store_vectors import VectorSource
from store.index import SpeakerIndex
from store.rows import Shelf, one_thread

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]
K = 10
N_QUERIES = 400
# FAISS recipes that were weighed: how many lists the first look scans (0: all), and how many vectors are ranked again.
TRIALS = (
    ("SQfp16", 0, 10),
    ("SQ8", 0, 100),
    ("PCA128,PQ64x4fs", 0, 400),
    ("PCA128,PQ64x4fs", 0, 1000),
    ("PCA96,IVF1024,SQ8", 128, 100),
    ("PCA96,IVF1024,SQ8", 205, 100),
    ("PCA96,IVF1024,SQ8", 256, 100),
    ("IVF1024,SQ8", 205, 100),
    ("PCA128,IVF1024,RaBitQfs", 205, 400),
    ("PCA128,IVF1024,RaBitQfs", 205, 1000),
    ("HNSW32_SQ8", 128, 100),
)


@dataclass(frozen=True, slots=True)
class Task:
    """Shapes: vectors float32 (n, d), queries float32 (q, d), truth int64 (q, K)."""

    vectors: FloatArray
    queries: FloatArray
    truth: IntArray


def main() -> None:
    """Measures, prints, and writes `benchmarks/results/store-search-ROWS.json`."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options.add_argument("--max-hnsw-rows", type=int, default=200_000, help="its graph takes minutes to build")
    options.add_argument("--only-ours", action="store_true")
    chosen = options.parse_args()
    faiss.omp_set_num_threads(chosen.threads)
    task = make_task(chosen.rows)
    result: dict[str, Any] = {"rows": chosen.rows, "k": K, "load_before": os.getloadavg()[0], "niceness": os.nice(0)}
    result["ours"] = measure_ours(task)
    trials = () if chosen.only_ours else TRIALS
    result["trials"] = []
    for recipe, probes, n_ranked in trials:
        if recipe.startswith("HNSW") and chosen.rows > chosen.max_hnsw_rows:
            continue
        result["trials"].append(measure_recipe(task, recipe, probes, n_ranked))
        print(json.dumps(result["trials"][-1]), flush=True)
    result |= {"load_after": os.getloadavg()[0], "conditions": conditions("cpu")}
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / f"store-search-{chosen.rows}.json").write_text(json.dumps(result, indent=1) + "\n")


def make_task(rows: int) -> Task:
    """Half of the queries are other clips of people who are stored, half are strangers."""
    source = VectorSource.load()
    vectors, strangers = source.draw(rows, 1), source.draw(N_QUERIES, 2)
    known = vectors[np.random.default_rng(3).integers(0, rows, N_QUERIES // 2)]
    queries = strangers.copy()
    # Two clips of one person have a cosine of about 0.9.
    queries[: N_QUERIES // 2] = 0.75 * known + 0.35 * strangers[N_QUERIES // 2 :]
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    _, truth = faiss.knn(queries, vectors, K, faiss.METRIC_INNER_PRODUCT)
    return Task(vectors, queries, truth)


def measure_ours(task: Task) -> dict[str, Any]:
    """The store's own index as it is built and searched in production."""
    index = SpeakerIndex()
    ids = tuple(str(uuid.UUID(int=number)) for number in range(len(task.vectors)))
    started = time.perf_counter()
    index.apply([Shelf("benchmark", ids, np.zeros(len(ids), np.int64), task.vectors)])
    appended_s = time.perf_counter() - started
    index.prepare()
    build_s = time.perf_counter() - started
    places = {name: number for number, name in enumerate(ids)}

    def search(query: FloatArray) -> list[int]:
        return [places[hit.speaker_id] for hit in index.search(query, "benchmark", K)]

    result = {"kind": index.kinds()["benchmark"], "append_s": round(appended_s, 2), "build_s": round(build_s, 1)}
    result |= {"bytes_per_row": round(index.n_bytes() / len(ids))}
    result |= measure(task, search)
    result["removal_ms"] = _removal_ms(index, ids)
    print(json.dumps(result), flush=True)
    return result


def measure_recipe(task: Task, recipe: str, probes: int, n_ranked: int) -> dict[str, Any]:
    """A FAISS recipe for the first look, re-ranked by the exact vectors."""
    started = time.perf_counter()
    index = faiss.index_factory(task.vectors.shape[1], recipe, faiss.METRIC_L2)
    lists = faiss.try_extract_index_ivf(index) if "IVF" in recipe else None
    if lists is not None:
        lists.cp.niter, lists.nprobe = 10, probes
    index.train(task.vectors[:65536])
    index.add(task.vectors)
    build_s = time.perf_counter() - started
    if recipe.startswith("HNSW"):
        index.hnsw.efSearch = probes

    def search(query: FloatArray) -> list[int]:
        with one_thread() if lists is not None else nullcontext():
            found = index.search(query[np.newaxis], n_ranked)[1][0]
        found = found[found >= 0]
        order = np.argsort(-(task.vectors[found] @ query))[:K]
        return list(found[order].tolist())

    figures = {"recipe": recipe, "probes": probes, "ranked": n_ranked, "build_s": round(build_s, 1)}
    return figures | measure(task, search)


def measure(task: Task, search: Callable[[FloatArray], list[int]]) -> dict[str, Any]:
    """Recall at K, and milliseconds for one query at a time."""
    search(task.queries[0])
    found, seconds = [], []
    for query in task.queries:
        started = time.perf_counter()
        found.append(search(query))
        seconds.append(time.perf_counter() - started)
    hits = sum(len(set(mine) & set(true)) for mine, true in zip(found, task.truth.tolist(), strict=True))
    ms = np.asarray(seconds) * 1000
    marks = {f"p{mark}_ms": round(float(np.percentile(ms, mark)), 2) for mark in (50, 95, 99)}
    return {"recall_at_10": round(hits / (len(found) * K), 4), **marks, "min_ms": round(float(ms.min()), 2)}


def _removal_ms(index: SpeakerIndex, ids: tuple[str, ...]) -> float:
    seconds = []
    for speaker_id in ids[:20]:
        started = time.perf_counter()
        index.apply([], [speaker_id])
        seconds.append(time.perf_counter() - started)
    return round(float(np.median(seconds)) * 1000, 2)


if __name__ == "__main__":
    main()
