"""What a second thread that computes costs a sentence on a CPU, and what one lane for all networks saves.

python -m benchmarks.lanes
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.machine import conditions, percentiles
from benchmarks.pages import RESULTS
from cloning.bundle import load_model
from cloning.engines.eager import EagerEngine
from cloning.engines.lanes import Lane
from cloning.engines.precision import drawn_sentences
from cloning.model import YourTTS
from cloning.types import Sentence

N_SYMBOLS, N_WARM_UP = 40, 5
# Whether the networks have a lane, and whether another thread has computed.
CASES = {
    "alone": (False, False),
    "beside a thread that has computed": (False, True),
    "in a lane": (True, False),
    "in a lane, beside a thread that has computed": (True, True),
}


def main() -> None:
    """Measures, prints, and writes `benchmarks/results/lanes-cpu.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=100)
    chosen = options.parse_args()
    result = {"conditions": conditions("cpu"), "symbols": len(_sentence(_model()).token_ids)}
    # A process each: a thread that has once had helpers keeps them.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        result["spoken"] = {case: processes.submit(spoken, case, chosen.rounds).result() for case in CASES}
    RESULTS.joinpath("lanes-cpu.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def spoken(case: str, rounds: int) -> dict[str, float]:
    """Times of one sentence, in this process."""
    in_lane, is_beside = CASES[case]
    # Before the voice is loaded, as a service does it: that is work which a thread with helpers shares out.
    lane = Lane(torch.get_num_threads()) if in_lane else None
    model = _model()
    engine, sentence = EagerEngine(model, torch.device("cpu"), lane=lane), _sentence(model)
    seconds = []
    with thread_that_computed() if is_beside else nullcontext():
        for _ in range(rounds + N_WARM_UP):
            start_s = time.perf_counter()
            (plan,) = engine.prior([sentence])
            engine.decode([plan.whole()])
            seconds.append(time.perf_counter() - start_s)
    return percentiles(seconds[N_WARM_UP:])


@contextmanager
def thread_that_computed() -> Iterator[None]:
    """Another thread of the process, which has computed once and waits."""
    computed, over = threading.Event(), threading.Event()

    def work() -> None:
        # Large enough that torch shares it out.
        torch.rand(2_000_000).relu().sum()
        computed.set()
        over.wait()

    thread = threading.Thread(target=work)
    thread.start()
    computed.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _model() -> YourTTS:
    return load_model(Path(str(files("voices") / "default")), torch.device("cpu"))


def _sentence(model: YourTTS) -> Sentence:
    return next(s for s in drawn_sentences(model, 12) if len(s.token_ids) >= N_SYMBOLS)


if __name__ == "__main__":
    main()
