"""How long a kept speech takes from the order to its bytes, for every place that the audio cache can be in.

python -m benchmarks.store_audio --redis unix:///PATH --s3 s3://BUCKET/PREFIX

A place whose URL is not given is left out. The default voice speaks once for each place; all else are hits.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from api.audio_out import FORMATS
from api.forms import AudioForm
from api.rendering import Rendering
from api.services import open_enrolment, open_speaking, open_store, open_voices
from api.settings import Settings
from api.speech import SpeechOrder
from benchmarks.machine import conditions
from store.schema import migrate

TEXT = "On the morning of the third day the rain had stopped, and from the window we could see the whole valley."
N_SPEECHES = 10
WAV = AudioForm(FORMATS["wav"])


def main() -> None:
    """Measures, prints, and writes `benchmarks/results/store-audio.json`."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--redis", default="")
    options.add_argument("--s3", default="")
    options.add_argument("--hits", type=int, default=2000)
    options.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    chosen = options.parse_args()
    result: dict[str, Any] = {"rows": 1, "n": chosen.hits, "load_before": os.getloadavg()[0], "niceness": os.nice(0)}
    urls = {"memory": "memory", "disk": "disk", "redis": chosen.redis, "s3": chosen.s3}
    result["places"] = {name: hits(url, chosen.hits, result) for name, url in urls.items() if url}
    result |= {"load_after": os.getloadavg()[0], "conditions": conditions("cpu")}
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "store-audio.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def hits(url: str, n: int, result: dict[str, Any]) -> dict[str, float]:
    """Percentiles of hits in one place; notes in the result what a hit is, and what speaking it took."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        settings = Settings(state_dir=Path(folder), audio_cache=url)
        migrate(settings.store_config())
        store = stack.enter_context(open_store(settings))
        voices = stack.enter_context(open_voices(settings))
        enrolment = stack.enter_context(open_enrolment(settings, store, voices))
        rendering = Rendering(stack.enter_context(open_speaking(settings, store, voices)))
        clip = (files("voices") / "demo" / "reference.flac").read_bytes()
        speaker_id = enrolment.enrol("Ada", [clip], {}).speaker.id
        orders = [SpeechOrder(speaker_id, TEXT, seed=seed) for seed in range(N_SPEECHES)]
        rendering.whole(SpeechOrder(speaker_id, TEXT, reuse=False), WAV)
        made = timed(lambda number: rendering.whole(orders[number], WAV), N_SPEECHES)
        found = rendering.whole(orders[0], WAV)
        if found.facts["cache"] != "hit":
            raise SystemExit(f"{url} keeps nothing")
        result |= {"made": spread(made), "kept_bytes": len(found.data), "audio_s": round(found.duration_s, 2)}
        seconds = timed(lambda number: rendering.whole(orders[number % N_SPEECHES], WAV), n)
        if store.stats().audio_misses != N_SPEECHES:
            raise SystemExit(f"some were no hits in {url}")
        store.delete(speaker_id)
        return spread(seconds)


def timed(work: Callable[[int], object], n: int) -> list[float]:
    """Seconds of each call."""
    seconds = []
    for number in range(n):
        started = time.perf_counter()
        work(number)
        seconds.append(time.perf_counter() - started)
    return seconds


def spread(seconds: list[float]) -> dict[str, float]:
    """Percentiles in milliseconds."""
    return {f"p{mark}_ms": round(float(np.percentile(seconds, mark)) * 1000, 3) for mark in (50, 95, 99)}


if __name__ == "__main__":
    main()
