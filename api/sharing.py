"""Equal requests at the same time: one makes the parts, all take them."""

import threading
from collections.abc import Callable, Generator, Iterator
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")
Unwanted = Callable[[], bool]
# Gives the parts and what must be called at their end; is told whether anybody still wants them.
Begin = Callable[[Unwanted], tuple[Iterator[T], Callable[[], None]]]


class _Flight(Generic[T]):
    """Parts under way. Whoever is first to want the next one makes it, so nobody needs to stay for the others."""

    def __init__(self, begin: Begin[T], on_end: Callable[["_Flight[T]"], None]) -> None:
        self.listeners: list[Unwanted] = []
        self._turn = threading.Lock()
        self._made: list[T] = []
        self._error: BaseException | None = None
        self._ended = False
        self._on_end = on_end
        self._parts, self._release = begin(self._is_unwanted)

    def part(self, number: int) -> T | None:
        """One part, made now if it is the next; None after the last. Raises: what making it raised."""
        if number < len(self._made):
            return self._made[number]
        with self._turn:
            if number == len(self._made) and not self._ended:
                self._make()
            if number < len(self._made):
                return self._made[number]
            if self._error is not None:
                raise self._error
            return None

    def close(self) -> None:
        """Gives up what is not made yet."""
        with self._turn:
            self._end()

    def _make(self) -> None:
        try:
            self._made.append(next(self._parts))
        except StopIteration:
            self._end()
        except BaseException as error:
            self._error = error
            self._end()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._on_end(self)
        try:
            close = getattr(self._parts, "close", None)
            if close is not None:
                close()
        finally:
            self._release()

    def _is_unwanted(self) -> bool:
        listeners = list(self.listeners)
        return all(unwanted() for unwanted in listeners)


class Flights(Generic[T]):
    """What is under way, by key; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight[T]] = {}

    def listen(self, key: str, begin: Begin[T], unwanted: Unwanted) -> Generator[tuple[T, bool], None, None]:
        """The parts of the key from the first on, and whether another request began them.

        Closing it leaves the making to the other listeners; after the last has left nothing more is made.
        Raises: what making them raises.
        """
        flight, is_first = self._join(key, begin, unwanted)
        try:
            for number in count():
                part = flight.part(number)
                if part is None:
                    return
                yield part, not is_first
        finally:
            self._leave(key, flight, unwanted)

    def _join(self, key: str, begin: Begin[T], unwanted: Unwanted) -> tuple[_Flight[T], bool]:
        with self._lock:
            flight = self._flights.get(key)
            is_first = flight is None
            if flight is None:
                flight = self._flights[key] = _Flight(begin, lambda ended: self._forget(key, ended))
            flight.listeners.append(unwanted)
            return flight, is_first

    def _leave(self, key: str, flight: _Flight[T], unwanted: Unwanted) -> None:
        with self._lock:
            flight.listeners.remove(unwanted)
            is_last = not flight.listeners
            if is_last:
                # In the same turn, so that nobody joins what is about to be given up.
                self._drop(key, flight)
        if is_last:
            flight.close()

    def _forget(self, key: str, flight: _Flight[T]) -> None:
        with self._lock:
            self._drop(key, flight)

    def _drop(self, key: str, flight: _Flight[T]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
