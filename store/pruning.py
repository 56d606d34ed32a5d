"""Which speakers go. Pure: no clock, no database; `store.service` applies the choice in one transaction."""

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from store.errors import BadArgument
from store.types import PrunePolicy, PruneReport

# Beyond this `timedelta` overflows and nothing could be that old anyway.
MAX_DAYS = 1e6


@dataclass(frozen=True, slots=True)
class Candidate:
    """What pruning knows of a speaker. A speaker that was never used counts as used when it was created."""

    speaker_id: str
    name: str
    created_at: datetime
    last_used_at: datetime | None
    pinned: bool
    n_bytes: int

    @property
    def used_at(self) -> datetime:
        return self.last_used_at or self.created_at


@dataclass(frozen=True, slots=True)
class Victim:
    """A speaker to remove, and which condition says so: unused, old or over_count."""

    candidate: Candidate
    reason: str


def check_policy(policy: PrunePolicy) -> PrunePolicy:
    """The policy. Raises: BadArgument (bad_policy)."""
    days = {"unused_for_days": policy.unused_for_days, "older_than_days": policy.older_than_days}
    for field, value in days.items():
        if value is not None and not (math.isfinite(value) and 0 <= value <= MAX_DAYS):
            raise BadArgument("bad_policy", f"{field} is {value}: give 0 to {MAX_DAYS:g} days", limit=MAX_DAYS)
    if policy.keep_newest_used is not None and policy.keep_newest_used < 0:
        raise BadArgument("bad_policy", f"keep_newest_used is {policy.keep_newest_used}: give 0 or more", limit=0)
    if policy.keep_newest_used is None and all(value is None for value in days.values()):
        message = "the policy sets no condition: give unused_for_days, older_than_days or keep_newest_used"
        raise BadArgument("bad_policy", message)
    return policy


def choose(
    candidates: Iterable[Candidate], policy: PrunePolicy, now: datetime, in_use: Set[str] = frozenset()
) -> tuple[Victim, ...]:
    """The victims, most recently used first. Pinned speakers and those in use never go, nor count to those kept."""
    loose = [each for each in candidates if not each.pinned and each.speaker_id not in in_use]
    loose.sort(key=lambda each: (each.used_at, each.speaker_id), reverse=True)
    reasons = ((each, _reason(each, rank, policy, now)) for rank, each in enumerate(loose))
    return tuple(Victim(each, reason) for each, reason in reasons if reason is not None)


def report(dry_run: bool, candidates: Sequence[Candidate], victims: Sequence[Victim]) -> PruneReport:
    """What was removed, or would be."""
    return PruneReport(
        dry_run=dry_run,
        victims=tuple((victim.candidate.speaker_id, victim.candidate.name, victim.reason) for victim in victims),
        kept=len(candidates) - len(victims),
        freed_bytes=sum(victim.candidate.n_bytes for victim in victims),
    )


def _reason(candidate: Candidate, rank: int, policy: PrunePolicy, now: datetime) -> str | None:
    if _longer_ago(candidate.used_at, policy.unused_for_days, now):
        return "unused"
    if _longer_ago(candidate.created_at, policy.older_than_days, now):
        return "old"
    if policy.keep_newest_used is not None and rank >= policy.keep_newest_used:
        return "over_count"
    return None


def _longer_ago(when: datetime, days: float | None, now: datetime) -> bool:
    return days is not None and now - when > timedelta(days=days)
