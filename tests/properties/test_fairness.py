"""The fair queue against plain models: alone it is the old order, together nobody is passed over for long."""

import heapq
from collections import Counter, deque

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloning.fairness import FairQueue, has_room

PATIENCE_S = 5.0
# A busy machine is no fault of the queue.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
TENANTS = ("a", "b", "c", "d")
WORK = st.integers(1, 400)
# What happens next: something of a tenant comes, or (None) whoever has waited longest by the rules is served.
EVENTS = st.lists(st.one_of(st.none(), st.tuples(st.sampled_from(TENANTS), WORK)), max_size=80)


@UNHURRIED
@given(st.lists(st.one_of(st.none(), st.tuples(st.sampled_from([0, 1, 10]), st.integers(0, 20))), max_size=80))
def test_one_tenant_alone_is_served_by_priority_and_then_by_arrival(events) -> None:
    """Against the heap of turns that the queue was before there were tenants."""
    queue: FairQueue[int] = FairQueue()
    model: list[tuple[float, int]] = []
    now_s = 0.0
    for number, event in enumerate(events):
        if event is None:
            if model:
                assert queue.pop() == heapq.heappop(model)[1]
            continue
        priority, passed_s = event
        now_s += passed_s
        queue.push(number, "alone", priority, now_s + priority * PATIENCE_S)
        heapq.heappush(model, (now_s + priority * PATIENCE_S, number))
        assert len(queue) == queue.n_waiting("alone") == len(model)
    assert [queue.pop() for _ in range(len(queue))] == [heapq.heappop(model)[1] for _ in range(len(model))]


@UNHURRIED
@given(EVENTS)
def test_no_tenant_with_work_is_passed_over_by_another_more_than_twice(events) -> None:
    """Where all things cost the same; each is served once, those of a tenant in their order."""
    queue: FairQueue[tuple[str, int]] = FairQueue()
    waiting: dict[str, deque[int]] = {tenant: deque() for tenant in TENANTS}
    # How often each tenant was passed over by each other since it was last served, or came.
    passed: Counter[tuple[str, str]] = Counter()
    for number, event in enumerate([*events, *[None] * len(events)]):
        if event is not None:
            tenant = event[0]
            queue.push((tenant, number), tenant, 0, float(number))
            waiting[tenant].append(number)
        elif queue:
            tenant, served = queue.pop()
            queue.charge(tenant, 0, 1)
            assert served == waiting[tenant].popleft()
            passed = Counter({pair: n for pair, n in passed.items() if pair[0] != tenant})
            passed.update((other, tenant) for other in TENANTS if other != tenant and waiting[other])
            assert max(passed.values(), default=0) <= 2
    assert not any(waiting.values()) and len(queue) == 0


@UNHURRIED
@given(st.lists(WORK, min_size=2, max_size=60), st.lists(WORK, min_size=2, max_size=60))
def test_two_who_always_wait_are_served_alike_whatever_their_sentences_cost(ours, theirs) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for tenant, costs in (("ours", ours), ("theirs", theirs)):
        for number, work in enumerate(costs):
            queue.push((tenant, work), tenant, 0, float(number))
    served: Counter[str] = Counter()
    while queue.n_waiting("ours") and queue.n_waiting("theirs"):
        tenant, work = queue.pop()
        queue.charge(tenant, 0, work)
        served[tenant] += work
        assert abs(served["ours"] - served["theirs"]) <= max(ours) + max(theirs)


@UNHURRIED
@given(st.integers(1, 1000), st.integers(0, 400))
def test_who_comes_last_is_served_next_but_one_behind_any_crowd(n_crowd: int, n_before: int) -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(n_crowd):
        queue.push("crowd", "crowd", 0, float(number))
    for _ in range(min(n_before, n_crowd - 1)):
        queue.charge(queue.pop(), 0, 300)
    queue.push("guest", "guest", 0, 1e6)
    served = []
    while "guest" not in served:
        served.append(queue.pop())
        queue.charge(served[-1], 0, 300)
    assert len(served) <= 2


@UNHURRIED
@given(st.integers(0, 50), st.integers(1, 50))
def test_bulk_of_all_tenants_waits_for_what_is_urgent_of_any(n_bulk: int, n_urgent: int) -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(n_bulk):
        queue.push(10, TENANTS[number % 4], 10, 50.0)
    for _ in range(n_urgent):
        queue.push(0, "a", 0, 1.0)
    assert [queue.pop() for _ in range(len(queue))] == [0] * n_urgent + [10] * n_bulk


@UNHURRIED
@given(st.lists(st.tuples(st.sampled_from(TENANTS), st.integers(1, 40)), max_size=60), st.integers(1, 64))
def test_a_limit_is_one_tenants_alone_and_at_most_doubled_by_all(wishes, limit: int) -> None:
    own: Counter[str] = Counter()
    for tenant, n_more in wishes:
        n_all, n_tenants = own.total(), len(own.keys() | {tenant})
        fits = has_room(n_more, own[tenant], n_all, n_tenants, limit)
        assert fits or n_all + n_more > limit
        if n_tenants == 1:
            assert fits == (n_all + n_more <= limit)
        if fits:
            own[tenant] += n_more
    assert own.total() <= 2 * limit


def test_a_crowd_that_fills_the_queue_leaves_room_for_another() -> None:
    assert not has_room(1, 256, 256, 1, 256)
    assert not has_room(1, 256, 256, 2, 256)
    assert has_room(64, 0, 256, 2, 256)
    assert not has_room(129, 0, 256, 2, 256)
