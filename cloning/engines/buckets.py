"""Which sentences share a batch, and at which fixed shape it runs: pure arithmetic on lengths."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """How much an engine does at once: sentences, and frames of all of them, padding counted."""

    max_batch: int
    most_area: int


def group_by_length(lengths: Sequence[int], max_batch: int, max_waste: float = 0.25) -> list[list[int]]:
    """Indices grouped so that no group holds more than `max_batch` and padding is at most a share of its area.

    Groups come in order of their shortest member; every index is in exactly one.
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if groups and len(groups[-1]) < max_batch:
            members = [*groups[-1], index]
            area = lengths[index] * len(members)
            if area - sum(lengths[i] for i in members) <= max_waste * area:
                groups[-1] = members
                continue
        groups.append([index])
    return groups


def group_within(room: Room, lengths: Sequence[int]) -> Iterator[list[int]]:
    """As `group_by_length`, no group larger than the room; one alone may be."""
    for group in group_by_length(lengths, room.max_batch):
        fits = max(1, room.most_area // max(lengths[i] for i in group))
        yield from (group[i : i + fits] for i in range(0, len(group), fits))


def ladder(least: int, most: int) -> tuple[int, ...]:
    """Widths from `least` to at least `most`, four to each doubling: padding is at most a fifth of a bucket.

    `least` is a multiple of 4.
    """
    steps = [least]
    while steps[-1] < most:
        doublings = (len(steps) - 1) // 4
        steps.append(steps[-1] + (least >> 2 << doublings))
    return tuple(steps)


def bucket(size: int, buckets: Sequence[int]) -> int:
    """The smallest of ascending buckets that holds a size. Raises: ValueError where none does."""
    at = bisect_left(buckets, size)
    if at == len(buckets):
        raise ValueError(f"{size} is more than the largest bucket, {buckets[-1]}")
    return buckets[at]
