"""Whose turn it is: a queue that is fair between tenants inside each priority. It knows no clock and no engine."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


def has_room(n_more: int, n_own: int, n_all: int, n_tenants: int, limit: int) -> bool:
    """Whether a tenant that has `n_own` of `n_all` may have more, where `n_tenants` have some, itself among them.

    All may fill the limit, also one alone. Beyond it, up to twice as many, there is room for those within an equal
    share of it: who fills the queue keeps nobody else out.
    """
    within_share = n_own + n_more <= limit // n_tenants and n_all + n_more <= 2 * limit
    return n_all + n_more <= limit or within_share


@dataclass(slots=True)
class _Line(Generic[T]):
    """What one tenant has waiting: when its turn comes, its number, and the thing. `mark` is what it was served."""

    tenant: str
    mark: float
    entries: deque[tuple[float, int, T]] = field(default_factory=deque)


class _Level(Generic[T]):
    """One priority. `mark` is that of the line which was served last; nobody who waits has less."""

    def __init__(self) -> None:
        self.mark = 0.0
        self.lines: dict[str, _Line[T]] = {}

    def waiting(self) -> list[_Line[T]]:
        return [line for line in self.lines.values() if line.entries]

    def first(self) -> tuple[float, int]:
        """When the turn of the first of all comes, and its number."""
        return min(line.entries[0][:2] for line in self.waiting())

    def line_of(self, tenant: str) -> _Line[T]:
        """The tenant's line. Who comes after a pause is owed nothing for it, and still owes what it was served last."""
        line = self.lines.setdefault(tenant, _Line(tenant, self.mark))
        if not line.entries:
            line.mark = max(line.mark, self.mark)
        return line

    def next_line(self) -> _Line[T]:
        """The line that was served least, of equal ones that whose first came first."""
        self.lines = {name: line for name, line in self.lines.items() if line.entries or line.mark > self.mark}
        line = min(self.waiting(), key=lambda line: (line.mark, *line.entries[0][:2]))
        self.mark = line.mark
        return line


class FairQueue(Generic[T]):
    """First come, first served within a tenant; between tenants of one priority, who was served least.

    The priority that is served is that of whoever's turn comes first of all. What a tenant is charged is measured in
    work, so that long sentences count for more than short ones: while two tenants always have something waiting, what
    they are served differs by no more than the largest charge of each.

    Source: start-time fair queueing (Goyal, Vin, Cheng 1996), section 2, with equal weights.
    """

    def __init__(self) -> None:
        self._levels: dict[int, _Level[T]] = {}
        self._waiting: Counter[str] = Counter()
        self._n = self._number = 0

    def __len__(self) -> int:
        return self._n

    def n_waiting(self, tenant: str) -> int:
        """How much of a tenant's waits."""
        return self._waiting[tenant]

    def n_tenants_with(self, tenant: str) -> int:
        """How many tenants have something waiting, this one counted in any case."""
        return len(self._waiting | Counter({tenant: 1}))

    def push(self, item: T, tenant: str, priority: int, turn_s: float) -> None:
        """Adds a thing whose turn comes at that time, which is no earlier than that of the tenant's one before."""
        level = self._levels.get(priority)
        if level is None or not level.waiting():
            # Where nobody waited, nobody was kept waiting: all begin anew.
            level = self._levels[priority] = _Level()
        self._number += 1
        level.line_of(tenant).entries.append((turn_s, self._number, item))
        self._waiting[tenant] += 1
        self._n += 1

    def pop(self) -> T:
        """The next thing; whoever wants it has its tenant charged at once.

        Raises: IndexError where nothing waits.
        """
        levels = [level for level in self._levels.values() if level.waiting()]
        if not levels:
            raise IndexError("nothing waits")
        line = min(levels, key=_Level.first).next_line()
        self._waiting -= Counter({line.tenant: 1})
        self._n -= 1
        return line.entries.popleft()[2]

    def charge(self, tenant: str, priority: int, work: float) -> None:
        """Counts the work of what was popped last."""
        self._levels[priority].lines[tenant].mark += work
