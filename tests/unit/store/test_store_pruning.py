"""The choice of victims, which knows neither clock nor database."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from store.errors import BadArgument
from store.pruning import Candidate, check_policy, choose
from store.types import PrunePolicy

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def candidate(name: str, age_days: float, unused_days: float | None = None, pinned: bool = False) -> Candidate:
    used = None if unused_days is None else NOW - timedelta(days=unused_days)
    return Candidate(name, name, NOW - timedelta(days=age_days), used, pinned, 100)


def chosen(candidates: list[Candidate], **policy: float) -> list[tuple[str, str]]:
    victims = choose(candidates, PrunePolicy(**policy), NOW)  # type: ignore[arg-type]
    return sorted((victim.candidate.name, victim.reason) for victim in victims)


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
    assert choose(voices, policy, NOW, in_use={"held"}) == ()


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
