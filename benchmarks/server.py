"""A server under load, asked over HTTP: first sound, many clients at once, and what is answered beside heavy work.

python -m benchmarks.server --device cpu --threads 2
python -m benchmarks.server --device cuda --engine eager   # beside the engine that a server takes by itself
"""

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx

from benchmarks.machine import conditions, percentiles
from benchmarks.main_job import LONG, SHORT
from benchmarks.serving import running_server

CLIENTS = (1, 2, 4, 8, 16)
CHAPTER = "\n\n".join([" ".join([LONG, SHORT])] * 200)
_CLIP = ("reference.flac", (files("voices") / "demo" / "reference.flac").read_bytes())


def main() -> None:
    """Measures, prints, and writes `benchmarks/results/server-DEVICE.json`, or `-DEVICE-ENGINE` for one asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", default="cpu")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--engine")
    options.add_argument("--rounds", type=int, default=40)
    options.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    chosen = options.parse_args()
    with running_server(chosen.device, chosen.threads, chosen.engine) as (url, _):
        result = measure(url, chosen.rounds) | {"conditions": conditions(chosen.device), "threads": chosen.threads}
    chosen.out.mkdir(parents=True, exist_ok=True)
    asked = f"-{chosen.engine}" if chosen.engine else ""
    path = chosen.out / f"server-{chosen.device.split(':')[0]}{asked}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def measure(url: str, rounds: int) -> dict[str, Any]:
    """All figures of one server."""
    with httpx.Client(base_url=url, timeout=300) as client:
        enrolled = client.post("/v1/speakers", data={"name": "Ada"}, files={"clips": _CLIP}).raise_for_status().json()
        order = {"speaker_id": enrolled["speaker_id"], "text": SHORT, "format": "wav"}

        def speak() -> httpx.Headers:
            return client.post("/v1/speech", json=order).raise_for_status().headers

        def first_sound() -> float:
            start_s = time.perf_counter()
            with client.stream("POST", "/v1/speech", json=order | {"stream": True, "format": "pcm"}) as reply:
                chunks = reply.iter_raw()
                next(chunks)
                seconds = time.perf_counter() - start_s
                for _ in chunks:  # what is left over must not run into the next measurement
                    pass
            return seconds

        def alive() -> None:
            client.get("/health/live").raise_for_status()

        said = speak()
        audio_s = float(said["X-Voicekin-Audio-Seconds"])
        found: dict[str, Any] = {
            "model": said["X-Voicekin-Model"],
            "engines": client.get("/health/ready").raise_for_status().json()["engines"],
            "audio_s": round(audio_s, 2),
            "characters": len(SHORT),
            "first_sound": percentiles([first_sound() for _ in range(rounds)]),
            "clients": {str(n): together(url, order, n, rounds, audio_s) for n in CLIENTS},
            "alone": {"speech": repeated(speak, rounds), "health": repeated(alive, rounds * 5)},
        }
        with heavy_work(url, order):
            found["beside_speeches_and_searches"] = {"health": repeated(alive, rounds * 5, 0.02)}
        job = (
            client.post("/v1/jobs", json={"speaker_id": order["speaker_id"], "text": CHAPTER}).raise_for_status().json()
        )
        found["beside_a_job"] = {"speech": repeated(speak, rounds), "job_characters": len(CHAPTER)}
        client.post(f"/v1/jobs/{job['job_id']}/cancel").raise_for_status()
    return found


def repeated(work: Callable[[], object], rounds: int, pause_s: float = 0.0) -> dict[str, float]:
    """Times of one after another."""
    seconds = []
    for _ in range(rounds):
        start_s = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start_s)
        time.sleep(pause_s)
    return percentiles(seconds)


def together(url: str, order: dict[str, Any], n_clients: int, rounds: int, audio_s: float) -> dict[str, float]:
    """Times of speeches that so many clients ask for, each as soon as it has its last, and what they come to."""

    def asked(client: httpx.Client) -> list[float]:
        seconds = []
        for _ in range(rounds):
            start_s = time.perf_counter()
            client.post("/v1/speech", json=order).raise_for_status()
            seconds.append(time.perf_counter() - start_s)
        return seconds

    with ExitStack() as stack:
        # Before the clock starts: a client's own start takes tens of milliseconds.
        clients = [stack.enter_context(httpx.Client(base_url=url, timeout=300)) for _ in range(n_clients)]
        pool = stack.enter_context(ThreadPoolExecutor(n_clients))
        start_s = time.perf_counter()
        times = [s for found in pool.map(asked, clients) for s in found]
        wall_s = time.perf_counter() - start_s
    rates = {"speeches_per_s": round(len(times) / wall_s, 2), "x_realtime": round(len(times) * audio_s / wall_s, 1)}
    return percentiles(times) | rates


@contextmanager
def heavy_work(url: str, order: dict[str, Any]) -> Iterator[None]:
    """Two long speeches and two searches by clip, again and again until the block is left."""
    over = threading.Event()

    def again(ask: Callable[[httpx.Client], httpx.Response]) -> None:
        with httpx.Client(base_url=url, timeout=300) as own:
            while not over.is_set():
                ask(own).raise_for_status()

    with ThreadPoolExecutor(4) as pool:
        long = order | {"text": CHAPTER[:1900]}
        for _ in range(2):
            pool.submit(again, lambda own: own.post("/v1/speech", json=long))
            pool.submit(again, lambda own: own.post("/v1/speakers/search", files={"clip": _CLIP}))
        time.sleep(1.0)
        try:
            yield
        finally:
            over.set()


if __name__ == "__main__":
    main()
