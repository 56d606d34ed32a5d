"""The scheduler against an engine that only does arithmetic."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait

import numpy as np
import pytest

from cloning.engines.base import Part, Planned
from cloning.engines.buckets import group_by_length
from cloning.errors import EngineError, Overloaded, SynthesisFailed
from cloning.scheduler import PATIENCE_S, Scheduler, Spoken, give_up
from cloning.synthesis import SpeechStream
from cloning.types import AudioConfig, FloatArray, Sentence, SpokenText

HOP = 4


class CountingEngine:
    """A sentence of n symbols lasts n frames, and its samples are its first token id; 99 in a sentence is poison."""

    name, device, first_part_frames = "counting", "cpu", 10

    def __init__(self, max_batch: int = 4) -> None:
        self.max_batch = max_batch
        self.batches: list[int] = []
        self.order: list[int] = []
        self.decoded: list[tuple[int, int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def prior(self, sentences: Sequence[Sentence]) -> list[Planned]:
        self.entered.set()
        assert self.gate.wait(20)
        self.batches.append(len(sentences))
        self.order += [int(s.token_ids[0]) for s in sentences]
        return [Planned(s, np.ones(len(s.token_ids), np.int64), None, i) for i, s in enumerate(sentences)]

    def decode(self, parts: Sequence[Part]) -> list[FloatArray]:
        if any(99 in p.plan.sentence.token_ids for p in parts):
            raise RuntimeError("poison")
        self.decoded += [(int(p.plan.sentence.token_ids[0]), p.span.start) for p in parts]
        return [np.full(p.span.n_frames * HOP, p.plan.sentence.token_ids[0], np.float32) for p in parts]

    def close(self) -> None:
        pass


def sentence(
    token: int, length: int = 3, deadline_s: float | None = None, priority: int = 0, tenant: str = ""
) -> Sentence:
    from cloning.types import SpeechOptions

    ids = np.full(length, token, np.int64)
    return Sentence(ids, np.zeros(2, np.float32), 0, SpeechOptions(), deadline_s, priority, tenant)


@pytest.fixture
def engine() -> CountingEngine:
    return CountingEngine()


def blocked(engine: CountingEngine, **settings: object) -> tuple[Scheduler, object]:
    """A scheduler whose engine is busy with a first sentence until the gate opens."""
    scheduler = Scheduler(engine, **settings)  # type: ignore[arg-type]  # each test passes its own
    engine.gate.clear()
    (first,) = scheduler.submit([sentence(1)])
    assert engine.entered.wait(20)
    return scheduler, first


def test_every_caller_gets_its_own_samples(engine: CountingEngine) -> None:
    scheduler = Scheduler(engine)
    lengths = [3, 50, 4, 7, 2, 90, 5, 6]
    futures = [scheduler.submit([sentence(10 + i, n)])[0] for i, n in enumerate(lengths)]
    for i, (future, n) in enumerate(zip(futures, lengths, strict=True)):
        spoken = future.result(20)
        assert spoken.samples.shape == (n * HOP,)
        assert (spoken.samples == 10 + i).all()
    scheduler.close()


def test_what_came_while_the_engine_worked_shares_the_next_batch(engine: CountingEngine) -> None:
    scheduler, first = blocked(engine)
    rest = scheduler.submit([sentence(i) for i in range(2, 8)])
    engine.gate.set()
    wait([first, *rest], 20)
    assert engine.batches == [1, 4, 2]
    scheduler.close()


def test_lower_priority_numbers_go_first(engine: CountingEngine) -> None:
    engine.max_batch = 1
    scheduler, first = blocked(engine)
    bulk = scheduler.submit([sentence(20 + i, priority=5) for i in range(3)])
    urgent = scheduler.submit([sentence(30, priority=0)])
    engine.gate.set()
    wait([first, *bulk, *urgent], 20)
    assert engine.order == [1, 30, 20, 21, 22]
    scheduler.close()


def test_what_is_not_urgent_is_urgent_once_it_has_waited() -> None:
    now, engine = [0.0], CountingEngine(max_batch=1)
    scheduler, first = blocked(engine, clock=lambda: now[0])
    bulk = scheduler.submit([sentence(20, priority=1)])
    now[0] = PATIENCE_S - 0.1
    before = scheduler.submit([sentence(30)])
    now[0] = PATIENCE_S + 0.1
    after = scheduler.submit([sentence(40)])
    engine.gate.set()
    wait([first, *bulk, *before, *after], 20)
    assert engine.order == [1, 30, 20, 40]
    scheduler.close()


def test_a_crowd_of_one_tenant_keeps_no_other_waiting(engine: CountingEngine) -> None:
    engine.max_batch = 2
    scheduler, first = blocked(engine, max_queue=1000)
    crowd = scheduler.submit([sentence(20, tenant="crowd") for _ in range(1000)])
    guest = scheduler.submit([sentence(i, tenant="guest") for i in (30, 31)], in_parts=True)
    engine.gate.set()
    wait([first, *crowd, *guest], 60)
    assert engine.order[:5] == [1, 20, 30, 20, 31]
    assert engine.batches[1:3] == [2, 2], "a batch is filled with what anybody has"
    scheduler.close()


def test_what_a_tenant_gave_up_costs_it_no_turn(engine: CountingEngine) -> None:
    engine.max_batch = 1
    scheduler, first = blocked(engine)
    crowd = scheduler.submit([sentence(20, tenant="crowd") for _ in range(3)])
    given_up = scheduler.submit([sentence(30, tenant="guest") for _ in range(50)])
    wanted = scheduler.submit([sentence(31, tenant="guest")])
    for future in given_up:
        give_up(future)
    engine.gate.set()
    wait([first, *crowd, *wanted], 20)
    assert engine.order == [1, 20, 31, 20, 20]
    assert scheduler.stats().cancelled == 50
    scheduler.close()


def test_long_sentences_cost_their_tenant_more_turns_than_short_ones(engine: CountingEngine) -> None:
    engine.max_batch = 1
    scheduler, first = blocked(engine)
    long = scheduler.submit([sentence(20, 60, tenant="long") for _ in range(3)])
    short = scheduler.submit([sentence(30, 20, tenant="short") for _ in range(6)])
    engine.gate.set()
    wait([first, *long, *short], 20)
    assert engine.order == [1, 20, 30, 30, 30, 20, 30, 30, 30, 20]
    scheduler.close()


def test_a_queue_that_one_tenant_filled_has_room_for_the_share_of_another(engine: CountingEngine) -> None:
    scheduler, _ = blocked(engine, max_queue=4)
    scheduler.submit([sentence(2, tenant="crowd") for _ in range(4)])
    scheduler.submit([sentence(3, tenant="guest") for _ in range(2)])
    for tenant in ("crowd", "guest"):
        with pytest.raises(Overloaded) as caught:
            scheduler.submit([sentence(4, tenant=tenant)])
        assert (caught.value.code, caught.value.details) == ("queue_full", {"waiting": 6, "limit": 4})
    engine.gate.set()
    scheduler.close()


def test_a_full_queue_refuses_all_of_a_request(engine: CountingEngine) -> None:
    scheduler, _ = blocked(engine, max_queue=3)
    scheduler.submit([sentence(2), sentence(3)])
    with pytest.raises(Overloaded) as caught:
        scheduler.submit([sentence(4), sentence(5)])
    assert caught.value.code == "queue_full"
    assert caught.value.details == {"waiting": 2, "limit": 3}
    assert scheduler.stats().waiting == 2
    scheduler.submit([sentence(6), sentence(7)], continuing=True)
    assert scheduler.stats().waiting == 4
    engine.gate.set()
    scheduler.close()


def test_a_cancelled_sentence_never_reaches_the_engine(engine: CountingEngine) -> None:
    scheduler, _ = blocked(engine)
    gone, kept = scheduler.submit([sentence(2), sentence(3)])
    assert gone.cancel()
    engine.gate.set()
    assert (kept.result(20).samples == 3).all()
    assert 2 not in engine.order
    assert scheduler.stats().cancelled == 1
    scheduler.close()


def test_a_missed_deadline_is_refused_and_the_rest_goes_on() -> None:
    now = [0.0]
    engine = CountingEngine()
    scheduler, _ = blocked(engine, clock=lambda: now[0])
    late, fine = scheduler.submit([sentence(2, deadline_s=1.0), sentence(3, deadline_s=60.0)])
    now[0] = 5.0
    engine.gate.set()
    with pytest.raises(Overloaded) as caught:
        late.result(20)
    assert caught.value.code == "deadline_missed"
    assert (fine.result(20).samples == 3).all()
    scheduler.close()


def test_a_listener_is_told_when_the_time_is_over_and_not_when_the_engine_is_free(engine: CountingEngine) -> None:
    scheduler, _ = blocked(engine)
    text = SpokenText(text="two", token_ids=(2, 2, 2), pause_after_s=0.0, skipped=(), words=())
    late = SpeechStream(scheduler, [text], [sentence(2, deadline_s=0.05)], AudioConfig(24000, 16, 16, HOP), 1, True)
    with pytest.raises(Overloaded) as caught:
        next(late)
    assert caught.value.code == "deadline_missed"
    assert not engine.gate.is_set(), "the engine is still busy"
    engine.gate.set()
    scheduler.submit([sentence(5)])[0].result(20)
    assert 2 not in engine.order and scheduler.stats().cancelled == 1
    scheduler.close()


def test_a_failed_batch_fails_alone(engine: CountingEngine) -> None:
    scheduler = Scheduler(engine)
    (poisoned,) = scheduler.submit([sentence(99)])
    with pytest.raises(EngineError) as caught:
        poisoned.result(20)
    assert (caught.value.code, caught.value.message) == ("engine_failed", "the engine failed; the log says why")
    (fine,) = scheduler.submit([sentence(5)])
    assert (fine.result(20).samples == 5).all()
    assert scheduler.stats().failed == 1
    scheduler.close()


def test_a_sentence_that_would_last_too_long_fails_without_its_neighbours(engine: CountingEngine) -> None:
    scheduler, _ = blocked(engine, max_frames=40)
    endless, fine = scheduler.submit([sentence(2, 41), sentence(3, 40)])
    engine.gate.set()
    with pytest.raises(SynthesisFailed):
        endless.result(20)
    assert len(fine.result(20).samples) == 40 * HOP
    scheduler.close()


def test_closing_finishes_what_runs_and_refuses_what_waits(engine: CountingEngine) -> None:
    scheduler, first = blocked(engine)
    (waiting,) = scheduler.submit([sentence(2)])
    closer = threading.Thread(target=scheduler.close)
    closer.start()
    with pytest.raises(Overloaded) as caught:
        waiting.result(20)
    assert caught.value.code == "closed"
    engine.gate.set()
    closer.join(20)
    assert (first.result(0).samples == 1).all()  # type: ignore[attr-defined]  # a future
    with pytest.raises(Overloaded):
        scheduler.submit([sentence(3)])


def parts_of(future: "Future[Spoken] | None") -> list[Spoken]:
    parts = []
    while future is not None:
        parts.append(future.result(20))
        future = parts[-1].rest
    return parts


def test_a_sentence_in_parts_is_all_of_it_and_begins_short(engine: CountingEngine) -> None:
    scheduler = Scheduler(engine)
    (future,) = scheduler.submit([sentence(2, 100)], in_parts=True)
    parts = parts_of(future)
    assert [len(part.samples) // HOP for part in parts] == [10, 20, 40, 30]
    assert all(len(part.durations) == 100 for part in parts)
    assert (scheduler.stats().sentences, engine.order) == (1, [2])
    scheduler.close()


def test_another_sentence_passes_between_the_parts_of_a_long_one(engine: CountingEngine) -> None:
    engine.max_batch = 1
    scheduler, _ = blocked(engine)
    (long,) = scheduler.submit([sentence(2, 200)], in_parts=True)
    (short,) = scheduler.submit([sentence(3, 5)], in_parts=True)
    engine.gate.set()
    assert len(parts_of(long)) > 2
    assert short.done()
    assert engine.decoded[1:4] == [(2, 0), (3, 0), (2, 10)]
    scheduler.close()


@pytest.mark.parametrize("in_engine", [False, True])
def test_what_is_given_up_is_followed_by_nothing(engine: CountingEngine, in_engine: bool) -> None:
    """While it waits in the queue, and while its first part is in the engine."""
    engine.max_batch = 1
    scheduler, _ = blocked(engine)
    (long,) = scheduler.submit([sentence(2, 4000)], in_parts=True)
    if in_engine:
        engine.entered.clear()
        engine.gate.set()
        engine.gate.clear()
        assert engine.entered.wait(20)
    give_up(long)
    engine.gate.set()
    scheduler.submit([sentence(5)])[0].result(20)
    assert [at for token, at in engine.decoded if token == 2] == ([0] if in_engine else [])
    assert scheduler.stats().cancelled == 1
    scheduler.close()


def test_groups_hold_every_index_once_and_waste_little() -> None:
    lengths = [5, 100, 6, 97, 50, 5, 5, 52, 300]
    groups = group_by_length(lengths, max_batch=3, max_waste=0.25)
    assert sorted(i for g in groups for i in g) == list(range(len(lengths)))
    for group in groups:
        area = max(lengths[i] for i in group) * len(group)
        assert len(group) <= 3
        assert area - sum(lengths[i] for i in group) <= 0.25 * area
