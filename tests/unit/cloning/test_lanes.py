"""One thread computes with helpers, the others without."""

import threading
from collections.abc import Iterator

import pytest
import torch

from cloning.engines.eager import EagerEngine
from cloning.engines.lanes import Lane, lane_of
from cloning.engines.precision import drawn_sentences
from cloning.model import YourTTS
from cloning.training.recipes import tiny_voice


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    n_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(n_threads)


def threads_of_a_new_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


def test_only_the_lane_has_helpers() -> None:
    lane = Lane(3)
    assert lane.run(torch.get_num_threads) == 3
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (1, 1)


def test_all_calls_are_computed_in_one_thread_and_errors_reach_the_caller() -> None:
    lane = Lane(1)
    idents: set[int] = {lane.run(threading.get_ident) for _ in range(3)}
    others = [threading.Thread(target=lambda: idents.add(lane.run(threading.get_ident))) for _ in range(4)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    assert len(idents) == 1 and threading.get_ident() not in idents
    with pytest.raises(ZeroDivisionError):
        lane.run(lambda: 1 / 0)


def test_voices_of_a_process_share_their_lane() -> None:
    assert lane_of(1) is lane_of(1)


def test_a_sentence_in_the_lane_is_the_same_bit_for_bit() -> None:
    torch.set_num_threads(1)
    model = YourTTS(tiny_voice("ge2e-test-v1")).eval()
    here, there = EagerEngine(model, torch.device("cpu")), EagerEngine(model, torch.device("cpu"), lane=Lane(1))
    for sentence in drawn_sentences(model, 3):
        (plan,), (same) = here.prior([sentence]), there.prior([sentence])[0]
        assert (plan.durations == same.durations).all()
        assert (here.decode([plan.whole()])[0] == there.decode([same.whole()])[0]).all()
