"""A store of many speakers: start, rebuild, lookup, search, enrolment and pruning, one after the other.

python -m benchmarks.store_scale --rows 1000000 [--database-url postgresql://...] [--filled FILE]

With `--filled` an SQLite file that was filled before is copied instead of filling one anew; where it is not there yet
it is made. Start and pruning are measured in seconds of the processor too, which a busy machine changes less.
"""

import argparse
import gc
import hashlib
import json
import os
import resource
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import insert, text

from benchmarks.machine import conditions
from benchmarks.store_vectors import VectorSource
from store.schema import migrate
from store.service import Store
from store.tables import ClipRow, EncoderRow, SpeakerRow, UsageRow
from store.types import ClipRecord, NewSpeaker, PrunePolicy, StoreConfig
from store.unit_of_work import Database

ENCODER = "benchmark"
ROWS_PER_INSERT = 20_000
N_LOOKUPS = 5_000
N_SEARCHES = 500
N_ENROLMENTS = 2_000
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FloatArray = NDArray[np.float32]


def main() -> None:
    """Measures, prints, and writes `benchmarks/results/store-scale-DATABASE-ROWS.json`."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--database-url", default="")
    options.add_argument("--keep", type=int, default=0, help="how many pruning leaves; by default a tenth")
    options.add_argument("--filled", type=Path, help="an SQLite database of so many rows, made if it is missing")
    options.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = chosen.database_url or f"sqlite:///{folder}/voices.db"
        config = StoreConfig(url, Path(folder))
        result: dict[str, Any] = {"rows": chosen.rows, "load_before": os.getloadavg()[0], "niceness": os.nice(0)}
        for name, figures in measure(config, chosen.rows, chosen.keep or chosen.rows // 10, chosen.filled):
            result[name] = figures
            print(name, json.dumps(figures), flush=True)
    result |= {"load_after": os.getloadavg()[0], "conditions": conditions("cpu")}
    chosen.out.mkdir(parents=True, exist_ok=True)
    name = f"store-scale-{url.split(':')[0]}-{chosen.rows}.json"
    (chosen.out / name).write_text(json.dumps(result, indent=1) + "\n")


def measure(config: StoreConfig, rows: int, keep: int, filled: Path | None = None) -> Any:
    """Pairs of a name and its figures, in the order in which they were measured."""
    if filled is not None and filled.exists():
        shutil.copyfile(filled, config.state_dir / "voices.db")
    else:
        yield "migrate_s", timed(lambda: migrate(config))[0]
        yield "fill_s", fill(config, rows)
        if filled is not None:
            shutil.copyfile(config.state_dir / "voices.db", filled)
    ids = [speaker_id(number) for number in range(rows)]
    open_s, store = timed(lambda: Store.open(config))
    yield "rebuild_from_sql_s", open_s
    stats = store.stats()
    yield "index", {"kinds": dict(stats.index_kinds), "bytes_per_row": round(stats.index_bytes / rows)}
    yield "save_and_close_s", timed(store.close)[0]
    del store
    # Its parts know each other, so that they would stay beside the next one's until the collector comes by.
    gc.collect()
    started_s = time.process_time()
    open_s, store = timed(lambda: Store.open(config))
    yield "ready_from_snapshot_s", open_s
    yield "ready_from_snapshot_cpu_s", round(time.process_time() - started_s, 2)
    yield "resident_bytes", resident_bytes()
    yield "database_bytes_per_row", round(store.stats().database_bytes / rows)
    with store:
        chosen = [ids[number] for number in np.random.default_rng(5).integers(0, rows, N_LOOKUPS)]
        yield "lookup_sql", spread(lambda name: store._database.read(lambda speakers: speakers.voice(name)), chosen)
        hot = [(name, store.d_vector(name)[2]) for name in chosen[:1000]]
        yield "lookup_pool", spread(store._pool.get, hot * 5)
        yield "lookup_pool_checked_by_sql", spread(store.d_vector, chosen[:1000])
        queries = VectorSource.load().draw(N_SEARCHES, 11)
        yield "search_top_10", spread(lambda query: store.similar(query, ENCODER, 10), list(queries))
        yield "enrolments_per_s_one_thread", enrolments(store, 1, "a")
        yield "enrolments_per_s_eight_threads", enrolments(store, 8, "b")
        yield "prune", pruning(store, PrunePolicy(keep_newest_used=keep), ids[-1])
        yield "index_agrees", store.index_agrees()


def pruning(store: Store, policy: PrunePolicy, spoken: str) -> dict[str, Any]:
    """How long a prune takes, and each look at a speaker who is spoken with meanwhile."""
    looks_s: list[float] = []
    done = threading.Event()

    def speak() -> None:
        while not done.wait(0.02):
            looks_s.append(timed(lambda: store.d_vector(spoken), 5)[0])

    speaking = threading.Thread(target=speak)
    speaking.start()
    started_s = time.process_time()
    prune_s, report = timed(lambda: store.prune(policy))
    cpu_s = round(time.process_time() - started_s, 2)
    done.set()
    speaking.join()
    looks = {"looks": len(looks_s), "longest_look_s": round(max(looks_s), 3)}
    return {"seconds": prune_s, "cpu_s": cpu_s, "removed": len(report.victims), "kept": report.kept} | looks


def speaker_id(number: int) -> str:
    """The id of a speaker that `fill` makes."""
    return str(uuid.UUID(int=(0xABCDEF << 100) + number))


def fill(config: StoreConfig, rows: int) -> float:
    """Speakers with one clip each, written past the repository because a million single enrolments take too long."""
    started = time.perf_counter()
    vectors = VectorSource.load().draw(rows, 1)
    database = Database(config)
    with database.write() as unit:
        unit.speakers._session.add(EncoderRow(id=ENCODER, width=vectors.shape[1]))
    for start in range(0, rows, ROWS_PER_INSERT):
        span = range(start, min(start + ROWS_PER_INSERT, rows))
        with database.write() as unit:
            rows_of_each = (as_rows(n, speaker_id(n), vectors[n], unit.revision) for n in span)
            speakers, clips, uses = zip(*rows_of_each, strict=True)
            for table, values in ((SpeakerRow, speakers), (ClipRow, clips), (UsageRow, uses)):
                unit.speakers._session.execute(insert(table), list(values))
    with database.engine.begin() as connection:
        # As the database does by itself after a while; its plans are those of an empty table before.
        connection.execute(text("ANALYZE"))
    database.close()
    return round(time.perf_counter() - started, 1)


def as_rows(number: int, speaker_id: str, vector: FloatArray, revision: int) -> tuple[dict[str, Any], ...]:
    """The rows of one speaker."""
    data, at = vector.tobytes(), EPOCH + timedelta(seconds=number)
    speaker = {"id": speaker_id, "name": f"Voice {number}", "name_key": f"voice {number}", "encoder_id": ENCODER}
    speaker |= {"vector": data, "labels": {}, "report": {"coherence": 0.9}, "pinned": False, "n_clips": 1}
    speaker |= {"speech_s": 8.0, "created_at": at, "updated_at": at, "revision": revision}
    clip = {"id": str(uuid.uuid4()), "speaker_id": speaker_id, "sha256": hashlib.sha256(data).hexdigest()}
    clip |= {"encoder_id": ENCODER, "vector": data, "duration_s": 10.0, "voiced_s": 8.0, "n_partials": 9}
    clip |= {"snr_db": 30.0, "created_at": at}
    return speaker, clip, {"speaker_id": speaker_id, "last_used_at": at, "uses": 1}


def enrolments(store: Store, n_threads: int, prefix: str) -> float:
    """Enrolments a second, each committed by itself."""
    vectors = VectorSource.load().draw(N_ENROLMENTS, 21 + n_threads)

    def enrol(number: int) -> None:
        digest = hashlib.sha256(vectors[number].tobytes()).hexdigest()
        clip = ClipRecord(digest, vectors[number], 10.0, 8.0, 9, 30.0)
        store.enrol(NewSpeaker(f"{prefix} {number}", ENCODER, (clip,), report={"coherence": 0.9}))

    started = time.perf_counter()
    with ThreadPoolExecutor(n_threads) as threads:
        list(threads.map(enrol, range(N_ENROLMENTS)))
    return round(N_ENROLMENTS / (time.perf_counter() - started), 1)


def spread(work: Callable[[Any], object], arguments: list[Any]) -> dict[str, float]:
    """Percentiles of single calls, in microseconds."""
    work(arguments[0])
    seconds = []
    for argument in arguments:
        started = time.perf_counter()
        work(argument)
        seconds.append(time.perf_counter() - started)
    marks = {f"p{mark}_us": round(float(np.percentile(seconds, mark)) * 1e6, 1) for mark in (50, 95, 99)}
    return marks | {"n": len(seconds)}


def timed(work: Callable[[], Any], digits: int = 2) -> tuple[float, Any]:
    """Seconds that a call took, and what it gave."""
    started = time.perf_counter()
    value = work()
    return round(time.perf_counter() - started, digits), value


def resident_bytes() -> int:
    """What this process holds of memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
