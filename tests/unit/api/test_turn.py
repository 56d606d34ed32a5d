"""One text of a conversation while it comes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from api.audio_out import FORMATS
from api.conversing import Begin
from api.speech import SpeechOrder
from api.turn import Manner, Turn


def _turn(wait_s: float) -> Turn:
    order = SpeechOrder("x", "")
    return Turn(1, Manner(Begin(lambda _: order, FORMATS["pcm"], wait_s), order, None))


def _in_a_loop(work: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(work(), 60))


def test_slices_come_in_order_and_end_with_the_text() -> None:
    async def talk() -> list[str | None]:
        turn = _turn(60)
        turn.push("One. Two. Th")
        turn.push("ree")
        turn.flush(last=True)
        assert turn.n_waiting == len("One. Two. Three")
        return [await turn.next_slice() for _ in range(4)]

    assert _in_a_loop(talk) == ["One.", " Two.", " Three", None]


def test_after_the_wait_a_clause_is_given_and_then_only_what_comes() -> None:
    async def talk() -> list[str | None]:
        turn = _turn(0.01)
        turn.push("Well, I th")
        found = [await turn.next_slice()]
        later = asyncio.create_task(turn.next_slice())
        done, _ = await asyncio.wait((later,), timeout=0.1)
        assert not done
        turn.push("ink so. ")
        return [*found, await later]

    assert _in_a_loop(talk) == ["Well,", " I think so."]


def test_what_has_waited_while_another_slice_was_spoken_waits_no_longer() -> None:
    async def talk() -> str | None:
        turn = _turn(60)
        turn.push("Well, I th")
        turn._came_at_s -= 60
        return await turn.next_slice()

    assert _in_a_loop(talk) == "Well,"


def test_a_flush_in_the_middle_gives_what_waits_and_the_text_goes_on() -> None:
    async def talk() -> list[str | None]:
        turn = _turn(60)
        turn.push("half of")
        turn.flush(last=False)
        found = [await turn.next_slice()]
        turn.push(" it. ")
        turn.flush(last=True)
        return [*found, *[await turn.next_slice() for _ in range(3)]]

    assert _in_a_loop(talk) == ["half of", " it.", " ", None]


def test_a_cancelled_text_gives_nothing_more_to_whoever_waits() -> None:
    async def talk() -> str | None:
        turn = _turn(60)
        waiting = asyncio.create_task(turn.next_slice())
        await asyncio.sleep(0)
        turn.push("half")
        turn.cancel()
        assert turn.interruption.is_set and turn.n_waiting == 0
        return await waiting

    assert _in_a_loop(talk) is None
