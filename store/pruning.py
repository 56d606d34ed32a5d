"""Which speakers go. Pure: no clock, no database; `store.removing` applies the choice in one transaction."""

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from store.errors import BadArgument
from store.ids import IdTable, IntArray, SpeakerIds
from store.types import PrunePolicy, PruneReport, PurgeReceipt

# Beyond this `timedelta` overflows and nothing could be that old anyway.
MAX_DAYS = 1e6
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Near = Mapping[str, Collection[str]]
Texts = NDArray[np.object_]
_REASONS = ("", "unused", "old", "retired_encoder", "low_quality", "duplicate", "over_count", "over_bytes")
_STAYS = 0


@dataclass(frozen=True, slots=True)
class Candidates:
    """What pruning knows of all speakers, a column for each fact, because a store may have a million.

    Times are microseconds since 1970; a speaker that was never used counts as used when it was created.
    `coherence` is NaN where the enrolment did not report it. A column that the policy does not ask for is empty.
    Shapes: each (n,); names and encoder_ids object, times and n_bytes int64, pinned bool, the others float64.
    """

    ids: SpeakerIds
    names: Texts
    created_us: IntArray
    used_us: IntArray
    pinned: NDArray[np.bool_]
    n_bytes: IntArray
    encoder_ids: Texts
    speech_s: NDArray[np.float64]
    coherence: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ids)

    def parted(self, victims: "Victims") -> tuple[list[str], list[str]]:
        """The ids of the victims, in order, and those of all others."""
        stays = np.ones(len(self), bool)
        stays[victims.rows] = False
        going = self.ids.keys[~stays]
        first, second = going.T
        return SpeakerIds(going[np.lexsort((second, first))]).spell(), SpeakerIds(self.ids.keys[stays]).spell()


@dataclass(frozen=True, slots=True)
class Victims:
    """The speakers to remove, most recently used first, and for each which condition says so.

    Reasons: unused, old, low_quality, retired_encoder, duplicate, over_count, over_bytes. Shapes: rows int64 (n,).
    """

    rows: IntArray
    reasons: list[str]


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
    candidates: Candidates,
    policy: PrunePolicy,
    now: datetime,
    in_use: Set[str] = frozenset(),
    near: Near | None = None,
) -> Victims:
    """The victims. Pinned speakers and those in use never go, nor count to those kept.

    `near` gives, for a speaker, those that sound the same; of them the one used last stays.
    """
    loose = ~candidates.pinned & (IdTable.of(SpeakerIds.of(in_use)).find(candidates.ids.keys) < 0)
    first, second = candidates.ids.keys.T
    order = np.lexsort((second, first, candidates.used_us))[::-1]
    order = order[loose[order]]
    reasons = _own_reasons(candidates, policy, now)
    rest = order[reasons[order] == _STAYS]
    if near or policy.keep_bytes is not None:
        _choose_one_by_one(candidates, policy, rest, ~loose, near or {}, reasons)
    elif policy.keep_newest_used is not None:
        reasons[rest[policy.keep_newest_used :]] = _REASONS.index("over_count")
    rows = order[reasons[order] != _STAYS]
    return Victims(rows, [_REASONS[code] for code in reasons[rows].tolist()])


def report(
    dry_run: bool,
    candidates: Candidates,
    victims: Victims,
    n_orphans: int = 0,
    receipt: PurgeReceipt | None = None,
) -> PruneReport:
    """What was removed, or would be."""
    ids = SpeakerIds(candidates.ids.keys[victims.rows]).spell()
    return PruneReport(
        dry_run=dry_run,
        victims=tuple(zip(ids, candidates.names[victims.rows].tolist(), victims.reasons, strict=True)),
        kept=len(candidates) - len(ids),
        freed_bytes=int(candidates.n_bytes[victims.rows].sum()),
        n_orphans=n_orphans,
        receipt=receipt,
    )


def microseconds(span: timedelta) -> int:
    """The span, in the unit of the columns."""
    return span // timedelta(microseconds=1)


def _own_reasons(candidates: Candidates, policy: PrunePolicy, now: datetime) -> NDArray[np.int8]:
    """For each speaker the first condition on it alone that applies."""
    now_us = microseconds(now - EPOCH)
    applies: list[tuple[str, NDArray[np.bool_]]] = []
    if policy.unused_for_days is not None:
        unused = microseconds(timedelta(days=policy.unused_for_days))
        applies.append(("unused", now_us - candidates.used_us > unused))
    if policy.older_than_days is not None:
        old = microseconds(timedelta(days=policy.older_than_days))
        applies.append(("old", now_us - candidates.created_us > old))
    if policy.retired_encoders:
        applies.append(("retired_encoder", np.isin(candidates.encoder_ids.astype(str), policy.retired_encoders)))
    if policy.speech_below_s is not None:
        applies.append(("low_quality", candidates.speech_s < policy.speech_below_s))
    if policy.coherence_below is not None:
        # One that was not reported is below nothing.
        applies.append(("low_quality", candidates.coherence < policy.coherence_below))
    reasons = np.full(len(candidates), _STAYS, np.int8)
    for name, rows in reversed(applies):
        reasons[rows] = _REASONS.index(name)
    return reasons


def _choose_one_by_one(
    candidates: Candidates,
    policy: PrunePolicy,
    rows: IntArray,
    fixed: NDArray[np.bool_],
    near: Near,
    reasons: NDArray[np.int8],
) -> None:
    """Writes the reasons of those who go because of others, used last first."""
    ids = candidates.ids.spell()
    kept = {ids[row] for row in np.flatnonzero(fixed).tolist()} if near else set()
    n_kept = n_bytes = 0
    for row in rows.tolist():
        own_bytes = int(candidates.n_bytes[row])
        reason = _reason_beside(ids[row], kept, near) or _reason_of_room(own_bytes, n_kept, n_bytes, policy)
        if reason is not None:
            reasons[row] = _REASONS.index(reason)
            continue
        kept.add(ids[row])
        n_kept, n_bytes = n_kept + 1, n_bytes + own_bytes


def _reason_beside(speaker_id: str, kept: Set[str], near: Near) -> str | None:
    return "duplicate" if any(other in kept for other in near.get(speaker_id, ())) else None


def _reason_of_room(own_bytes: int, n_kept: int, n_bytes: int, policy: PrunePolicy) -> str | None:
    if policy.keep_newest_used is not None and n_kept >= policy.keep_newest_used:
        return "over_count"
    if policy.keep_bytes is not None and n_bytes + own_bytes > policy.keep_bytes:
        return "over_bytes"
    return None
