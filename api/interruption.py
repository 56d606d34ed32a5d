"""The end of a speech that somebody no longer wants to hear."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interruption:
    """The end of a speech before its time, by any thread: also of one that is only about to begin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._give_up: Callable[[], None] | None = None
        self.is_set = False

    def set(self) -> None:
        """Gives up what is under way, and whatever begins later."""
        with self._lock:
            self.is_set, give_up = True, self._give_up
        if give_up is not None:
            give_up()

    @contextmanager
    def ends(self, give_up: Callable[[], None]) -> Iterator[None]:
        """Calls `give_up` when it is set while the block runs, at once where it is set before."""
        with self._lock:
            self._give_up = give_up
            is_late = self.is_set
        if is_late:
            give_up()
        try:
            yield
        finally:
            with self._lock:
                self._give_up = None
