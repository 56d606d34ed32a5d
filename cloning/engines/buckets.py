"""Which sentences share a batch: pure arithmetic on lengths."""

from collections.abc import Sequence


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
