"""Places among the requests under way."""

from contextlib import ExitStack

import pytest

from api.errors import TooBusy
from api.work import Workers


def test_one_caller_has_all_places_and_not_one_more() -> None:
    workers = Workers(1, 3)
    with ExitStack() as taken:
        for _ in range(3):
            taken.enter_context(workers.place("crowd"))
        with pytest.raises(TooBusy) as refused, workers.place("crowd"):
            pass
        assert refused.value.details == {"limit": 3} and workers.under_way == 3
    assert workers.under_way == 0


def test_who_took_all_places_left_another_its_share() -> None:
    workers = Workers(1, 4)
    with ExitStack() as taken:
        crowd = [taken.enter_context(ExitStack()) for _ in range(4)]
        for each in crowd:
            each.enter_context(workers.place("crowd"))
        for _ in range(2):
            taken.enter_context(workers.place("guest"))
        for share in ("crowd", "guest"):
            with pytest.raises(TooBusy), workers.place(share):
                pass
        crowd[0].close()
        with pytest.raises(TooBusy), workers.place("crowd"):
            pass
        assert workers.under_way == 5
    with ExitStack() as taken:
        for _ in range(4):
            taken.enter_context(workers.place("guest"))
