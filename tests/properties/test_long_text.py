"""Whatever a text repeats, and whatever it never closes: eight times the text takes about eight times the work."""

from collections.abc import Callable
from contextlib import suppress
from time import process_time

import pytest

from cloning.errors import TextRefused
from cloning.text.markdown import plain
from cloning.text.markup import lexicon_of, parse, unread_as_spaces

N_CHARS = 2000
TIMES = 8
# What grows with the square of the length takes 64 times as long; what grows with the length eight times.
MOST_GROWTH = 24

_READERS: tuple[Callable[[str], object], ...] = (parse, lexicon_of, unread_as_spaces, plain)
_REPEATED = (
    *("<!--", "<?", "<!DOCTYPE ", "<script>", "<style>", "<lexicon>", "<?xml ", "</script>"),
    *("`", "``` ", "~~~~", "```a\n", "`````\n```\n", "~~~\n````a\n"),
    *("[^", "[^a", "_a ", "__a ", "_a_a ", "# ", "*a ", "**", "~~a", "![", "[a](", "[a][", "- ", "|", " |", " ", "#"),
)


def _work_s(read: Callable[[str], object], text: str) -> float:
    """Processor time, which others on the machine do not lengthen."""
    start = process_time()
    with suppress(TextRefused):
        read(text)
    return process_time() - start


def _growth(read: Callable[[str], object], unit: str) -> float:
    short, long = (unit * (n_chars // len(unit)) + "x|" for n_chars in (N_CHARS, TIMES * N_CHARS))
    return _work_s(read, long) / _work_s(read, short)


@pytest.mark.parametrize("unit", _REPEATED)
def test_reading_takes_time_in_proportion_to_the_text(unit: str) -> None:
    for read in _READERS:
        # Only what is slow each time is slow; a first run may fill caches.
        growth = next((each for each in (_growth(read, unit) for _ in range(3)) if each < MOST_GROWTH), None)
        assert growth, f"{read.__name__} of {unit!r} takes over {MOST_GROWTH} times as long for {TIMES} times the text"
