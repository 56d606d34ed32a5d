"""Many callers, one transaction: what waits for the disk waits for it together."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_MAX_GROUP = 64


@dataclass(slots=True)
class _Entry(Generic[Item, Result]):
    item: Item
    done: bool = False
    result: Result | None = None
    error: BaseException | None = None


class Group(Generic[Item, Result]):
    """Runs `work` on all items that arrived while the group before was at work, in the thread of one of the callers.

    `work` gives a result or an error for each item, or raises for all.
    """

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Result | Exception]]) -> None:
        self._work = work
        self._waiting: list[_Entry[Item, Result]] = []
        self._lock = threading.Lock()
        self._leading = threading.Lock()

    def submit(self, item: Item) -> Result:
        """The item's result. Raises: what `work` gave or raised for it."""
        entry: _Entry[Item, Result] = _Entry(item)
        with self._lock:
            self._waiting.append(entry)
        while not entry.done:
            with self._leading:
                if not entry.done:
                    self._lead()
        if entry.error is not None:
            raise entry.error
        return entry.result  # type: ignore[return-value]

    def _lead(self) -> None:
        with self._lock:
            group, self._waiting = self._waiting[:_MAX_GROUP], self._waiting[_MAX_GROUP:]
        try:
            results = self._work([entry.item for entry in group])
        except BaseException as error:
            for entry in group:
                entry.error, entry.done = error, True
            return
        for entry, result in zip(group, results, strict=True):
            if isinstance(result, Exception):
                entry.error = result
            else:
                entry.result = result
            entry.done = True
