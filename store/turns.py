"""Many readers or one writer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SharedTurn:
    """Readers go together; a writer goes alone, and readers that come after it wait for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._writers = threading.Lock()
        self._n_readers = 0
        self._writing = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """A turn beside other readers."""
        with self._changed:
            while self._writing:
                self._changed.wait()
            self._n_readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._n_readers -= 1
                if self._n_readers == 0:
                    self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A turn beside nobody."""
        with self._writers:
            with self._changed:
                self._writing = True
                while self._n_readers:
                    self._changed.wait()
            try:
                yield
            finally:
                with self._changed:
                    self._writing = False
                    self._changed.notify_all()
