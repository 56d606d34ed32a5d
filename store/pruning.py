"""Which speakers go. Pure: no clock, no database; `store.removing` applies the choice in one transaction."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from store.errors import BadArgument
from store.types import PrunePolicy, PruneReport, PurgeReceipt

# Beyond this `timedelta` overflows and nothing could be that old anyway.
MAX_DAYS = 1e6
Near = Mapping[str, Collection[str]]


class Candidate(NamedTuple):
    """What pruning knows of a speaker. A speaker that was never used counts as used when it was created.

    `coherence` is None where the enrolment did not report it. A tuple, because a store may have a million.
    """

    speaker_id: str
    name: str
    created_at: datetime
    last_used_at: datetime | None
    pinned: bool
    n_bytes: int
    encoder_id: str = ""
    speech_s: float = math.inf
    coherence: float | None = None

    @property
    def used_at(self) -> datetime:
        return self.last_used_at or self.created_at


@dataclass(frozen=True, slots=True)
class Victim:
    """A speaker to remove, and which condition says so.

    Reasons: unused, old, low_quality, retired_encoder, duplicate, over_count, over_bytes.
    """

    candidate: Candidate
    reason: str


def check_policy(policy: PrunePolicy) -> PrunePolicy:
    """The policy. Raises: BadArgument (bad_policy)."""
    bounds = {
        "unused_for_days": (policy.unused_for_days, 0.0, MAX_DAYS),
        "older_than_days": (policy.older_than_days, 0.0, MAX_DAYS),
        "keep_newest_used": (policy.keep_newest_used, 0.0, 1e12),
        "keep_bytes": (policy.keep_bytes, 0.0, 1e18),
        "speech_below_s": (policy.speech_below_s, 0.0, MAX_DAYS),
        "coherence_below": (policy.coherence_below, 0.0, 1.0),
        "duplicates_above": (policy.duplicates_above, 0.5, 1.0),
    }
    for field, (value, lowest, highest) in bounds.items():
        if value is not None and not lowest <= value <= highest:
            message = f"{field} is {value}: give {lowest:g} to {highest:g}"
            raise BadArgument("bad_policy", message, limit=highest if lowest <= value else lowest)
    if not (policy.retired_encoders or policy.orphans) and all(value is None for value, _, _ in bounds.values()):
        message = f"the policy sets no condition: give {', '.join(bounds)}, retired_encoders or orphans"
        raise BadArgument("bad_policy", message)
    return policy


def choose(
    candidates: Iterable[Candidate],
    policy: PrunePolicy,
    now: datetime,
    in_use: Set[str] = frozenset(),
    near: Near | None = None,
) -> tuple[Victim, ...]:
    """The victims, most recently used first. Pinned speakers and those in use never go, nor count to those kept.

    `near` gives, for a speaker, those that sound the same; of them the one used last stays.
    """
    fixed, loose = _parted(candidates, in_use)
    loose.sort(key=lambda each: (each.used_at, each.speaker_id), reverse=True)
    kept = {each.speaker_id for each in fixed}
    n_kept = n_bytes = 0
    victims = []
    own_reasons, near = _own_reasons(policy, now), near or {}
    for each in loose:
        reason = next((name for name, applies in own_reasons if applies(each)), None)
        reason = reason or _reason_beside(each, kept, near) or _reason_of_room(each, n_kept, n_bytes, policy)
        if reason is not None:
            victims.append(Victim(each, reason))
            continue
        kept.add(each.speaker_id)
        n_kept, n_bytes = n_kept + 1, n_bytes + each.n_bytes
    return tuple(victims)


def report(
    dry_run: bool,
    candidates: Sequence[Candidate],
    victims: Sequence[Victim],
    n_orphans: int = 0,
    receipt: PurgeReceipt | None = None,
) -> PruneReport:
    """What was removed, or would be."""
    return PruneReport(
        dry_run=dry_run,
        victims=tuple((victim.candidate.speaker_id, victim.candidate.name, victim.reason) for victim in victims),
        kept=len(candidates) - len(victims),
        freed_bytes=sum(victim.candidate.n_bytes for victim in victims),
        n_orphans=n_orphans,
        receipt=receipt,
    )


def _parted(candidates: Iterable[Candidate], in_use: Set[str]) -> tuple[list[Candidate], list[Candidate]]:
    fixed: list[Candidate] = []
    loose: list[Candidate] = []
    for each in candidates:
        (fixed if each.pinned or each.speaker_id in in_use else loose).append(each)
    return fixed, loose


def _own_reasons(policy: PrunePolicy, now: datetime) -> list[tuple[str, Callable[[Candidate], bool]]]:
    """Each condition that the policy sets on a speaker alone, by the reason that it gives."""
    found: list[tuple[str, Callable[[Candidate], bool]]] = []
    if (unused_days := policy.unused_for_days) is not None:
        unused = timedelta(days=unused_days)
        found.append(("unused", lambda each: now - each.used_at > unused))
    if (old_days := policy.older_than_days) is not None:
        old = timedelta(days=old_days)
        found.append(("old", lambda each: now - each.created_at > old))
    if retired := frozenset(policy.retired_encoders):
        found.append(("retired_encoder", lambda each: each.encoder_id in retired))
    if (least_s := policy.speech_below_s) is not None:
        found.append(("low_quality", lambda each: each.speech_s < least_s))
    if (least := policy.coherence_below) is not None:
        found.append(("low_quality", lambda each: (each.coherence or 1.0) < least))
    return found


def _reason_beside(candidate: Candidate, kept: Set[str], near: Near) -> str | None:
    if not near:
        return None
    return "duplicate" if any(other in kept for other in near.get(candidate.speaker_id, ())) else None


def _reason_of_room(candidate: Candidate, n_kept: int, n_bytes: int, policy: PrunePolicy) -> str | None:
    if policy.keep_newest_used is not None and n_kept >= policy.keep_newest_used:
        return "over_count"
    if policy.keep_bytes is not None and n_bytes + candidate.n_bytes > policy.keep_bytes:
        return "over_bytes"
    return None
