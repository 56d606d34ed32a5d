"""Equal requests share what is made, whoever comes, stays or goes."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest

from api.sharing import Flights


class _Maker:
    """Makes numbers, slowly; knows how often it was begun, how far it came and whether everything was given back."""

    def __init__(self, n_parts: int = 5, error: Exception | None = None) -> None:
        self.begun = self.made = self.released = 0
        self.is_unwanted: Callable[[], bool] = lambda: False
        self._n_parts, self._error = n_parts, error

    def __call__(self, unwanted: Callable[[], bool]) -> tuple[Iterator[int], Callable[[], None]]:
        self.begun += 1
        self.is_unwanted = unwanted
        return self._parts(), self._release

    def _parts(self) -> Iterator[int]:
        for number in range(self._n_parts):
            time.sleep(0.01)
            self.made += 1
            yield number
        if self._error:
            raise self._error

    def _release(self) -> None:
        self.released += 1


def never() -> bool:
    return False


def test_twenty_take_what_one_makes() -> None:
    flights, make, start = Flights[int](), _Maker(), threading.Barrier(20)

    def ask(_: int) -> list[tuple[int, bool]]:
        start.wait()
        return list(flights.listen("k", make, never))

    with ThreadPoolExecutor(20) as threads:
        found = list(threads.map(ask, range(20)))
    assert [[number for number, _ in each] for each in found] == [[0, 1, 2, 3, 4]] * 20
    assert sorted(each[0][1] for each in found) == [False] + [True] * 19
    assert (make.begun, make.made, make.released) == (1, 5, 1)


def test_the_first_may_leave_and_the_others_go_on() -> None:
    flights, make = Flights[int](), _Maker()
    first, second = flights.listen("k", make, never), flights.listen("k", make, never)
    assert next(first) == (0, False) and next(second) == (0, True)
    first.close()
    assert [number for number, _ in second] == [1, 2, 3, 4]
    assert (make.begun, make.made, make.released) == (1, 5, 1)


def test_who_comes_late_hears_it_from_the_start() -> None:
    flights, make = Flights[int](), _Maker()
    first = flights.listen("k", make, never)
    assert [number for number, _ in islice(first, 3)] == [0, 1, 2]
    assert [number for number, _ in flights.listen("k", make, never)] == [0, 1, 2, 3, 4]
    assert [number for number, _ in first] == [3, 4] and make.begun == 1


def test_after_the_last_has_left_nothing_more_is_made() -> None:
    flights, make = Flights[int](), _Maker(1000)
    listeners = [flights.listen("k", make, never) for _ in range(3)]
    for each in listeners:
        next(each)
    for each in listeners:
        each.close()
    assert (make.made, make.released) == (1, 1)
    assert next(flights.listen("k", make, never)) == (0, False) and make.begun == 2, "and who comes then begins anew"


def test_it_is_unwanted_when_nobody_wants_it() -> None:
    flights, make, gone = Flights[int](), _Maker(), [False, False]
    first = flights.listen("k", make, lambda: gone[0])
    second = flights.listen("k", make, lambda: gone[1])
    next(first), next(second)
    wants = []
    for left in ([True, False], [False, True], [True, True]):
        gone[:] = left
        wants.append(make.is_unwanted())
    assert wants == [False, False, True]
    first.close()
    gone[:] = [False, False]
    assert not make.is_unwanted()
    second.close()


def test_an_error_reaches_all_and_is_not_kept() -> None:
    flights, make = Flights[int](), _Maker(1, ValueError("broken"))
    first, second = flights.listen("k", make, never), flights.listen("k", make, never)
    assert next(first)[0] == 0 and next(second)[0] == 0
    for each in (first, second):
        with pytest.raises(ValueError, match="broken"):
            next(each)
    assert make.released == 1
    assert next(flights.listen("k", make, never)) == (0, False) and make.begun == 2


def test_different_keys_share_nothing() -> None:
    flights, make = Flights[int](), _Maker()
    assert list(flights.listen("a", make, never)) == list(flights.listen("b", make, never)) and make.begun == 2


def test_many_come_and_go_and_nothing_is_lost() -> None:
    flights, makers = Flights[int](), [_Maker(4) for _ in range(3)]

    def ask(number: int) -> list[int]:
        listener = flights.listen(str(number % 3), makers[number % 3], never)
        if number % 4 == 0:
            next(listener)
            listener.close()
            return [0, 1, 2, 3]
        return [part for part, _ in listener]

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(ask, range(90))) == [[0, 1, 2, 3]] * 90
    assert all(make.begun == make.released for make in makers) and flights._flights == {}
