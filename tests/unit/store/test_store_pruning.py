"""The choice of victims, which knows neither clock nor database."""

import math
import uuid
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import pytest

from store.errors import BadArgument
from store.ids import SpeakerIds
from store.pruning import EPOCH, Candidates, check_policy, choose, microseconds
from store.types import PrunePolicy

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Candidate(NamedTuple):
    name: str
    created_at: datetime
    used_at: datetime
    pinned: bool


def candidate(name: str, age_days: float, unused_days: float | None = None, pinned: bool = False) -> Candidate:
    used = age_days if unused_days is None else unused_days
    return Candidate(name, NOW - timedelta(days=age_days), NOW - timedelta(days=used), pinned)


def id_of(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def columns(candidates: list[Candidate]) -> Candidates:
    names, created_at, used_at, pinned = zip(*candidates, strict=True)
    return Candidates(
        SpeakerIds.of(list(map(id_of, names))),
        np.array(names, np.object_),
        np.array([microseconds(at - EPOCH) for at in created_at]),
        np.array([microseconds(at - EPOCH) for at in used_at]),
        np.array(pinned),
        np.full(len(names), 100),
        np.empty(0, np.object_),
        np.empty(0),
        np.empty(0),
    )


def chosen(candidates: list[Candidate], **policy: float) -> list[tuple[str, str]]:
    victims = choose(columns(candidates), PrunePolicy(**policy), NOW)  # type: ignore[arg-type]
    return sorted((candidates[row].name, reason) for row, reason in zip(victims.rows, victims.reasons, strict=True))


def test_unused_counts_from_the_last_use_or_else_from_creation() -> None:
    voices = [candidate("used", 90, 1), candidate("idle", 90, 31), candidate("never", 31), candidate("new", 29)]
    assert chosen(voices, unused_for_days=30) == [("idle", "unused"), ("never", "unused")]


def test_exactly_the_limit_stays() -> None:
    assert chosen([candidate("edge", 30)], unused_for_days=30, older_than_days=30) == []


def test_age_takes_even_what_is_used() -> None:
    assert chosen([candidate("old", 31, 0), candidate("young", 1, 0)], older_than_days=30) == [("old", "old")]


def test_the_newest_used_are_kept_beside_the_pinned() -> None:
    voices = [candidate(f"v{n}", 100, n, pinned=n == 0) for n in range(5)]
    assert chosen(voices, keep_newest_used=2) == [("v3", "over_count"), ("v4", "over_count")]
    assert chosen(voices, keep_newest_used=0) == [(f"v{n}", "over_count") for n in range(1, 5)]


def test_conditions_are_united_and_each_victim_is_named_once() -> None:
    voices = [candidate("a", 100, 50), candidate("b", 100, 1), candidate("c", 1, 0), candidate("d", 1, 0.5)]
    assert chosen(voices, unused_for_days=30, older_than_days=60, keep_newest_used=1) == [
        ("a", "unused"),
        ("b", "old"),
        ("d", "over_count"),
    ]


def test_pinned_and_held_never_go() -> None:
    voices = [candidate("pinned", 1000, pinned=True), candidate("held", 1000)]
    policy = PrunePolicy(unused_for_days=0, older_than_days=0, keep_newest_used=0)
    assert choose(columns(voices), policy, NOW, in_use={id_of("held")}).reasons == []


def test_all_at_once_and_one_by_one_keep_the_same() -> None:
    """A bound in bytes that bounds nothing has each speaker looked at by itself."""
    random = np.random.default_rng(3)
    days = random.integers(0, 9, (200, 2)).tolist()
    voices = [candidate(f"v{n}", 9 + age, used, pinned=n % 7 == 0) for n, (age, used) in enumerate(days)]
    policy = {"keep_newest_used": 50, "unused_for_days": 7, "older_than_days": 16}
    found = chosen(voices, **policy)
    assert found == chosen(voices, **policy, keep_bytes=10**9)
    assert {reason for _, reason in found} == {"unused", "old", "over_count"}


@pytest.mark.parametrize(
    "policy",
    [
        PrunePolicy(),
        PrunePolicy(unused_for_days=-1),
        PrunePolicy(older_than_days=math.nan),
        PrunePolicy(unused_for_days=math.inf),
        PrunePolicy(older_than_days=1e300),
        PrunePolicy(keep_newest_used=-1),
    ],
)
def test_a_policy_without_sense_is_refused(policy: PrunePolicy) -> None:
    with pytest.raises(BadArgument) as caught:
        check_policy(policy)
    assert caught.value.code == "bad_policy"
