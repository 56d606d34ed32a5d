"""However a text is cut on its way, its slices are the same, and put together they are the text."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cloning.text.growing import LONGEST, GrowingText

_WORDS = ["Hello", "there", "Dr", "etc", "J", "The", "he", "3", "14", "I", "U.S.A", "名前", "é", "😀", "x" * 120]
_WRAPPED = "a wrapped line of an old mail program that goes on"
_MARKS = [
    "…",
    ". ",
    ".",
    "?",
    "!",
    "...",
    ", ",
    " ",
    " ",
    "  ",
    "\n",
    "\n\n",
    "\r\n",
    '"',
    "”",
    ")",
    "(",
    ":",
    ";",
    "—",
]
_MARKDOWN = ["**", "`", "```\n", "[", "](", "] ", "1. ", "- ", "# ", "|"]
_TAGS = ["<b>", "</b>", "<sub alias='x'>", "</sub>", "<break/>", "< ", "<!--", "-->"]
_FRAGMENT = st.sampled_from([*_WORDS, _WRAPPED, *_MARKS, *_MARKDOWN, *_TAGS])
_TEXT = st.lists(_FRAGMENT, max_size=60).map("".join)


def _slices(pieces: list[str]) -> list[str]:
    text, found = GrowingText(), list[str]()
    for piece in pieces:
        text.push(piece)
        while slice_ := text.sure():
            found.append(slice_)
    return [*found, text.rest()]


@given(_TEXT, st.lists(st.integers(0, 400), max_size=12))
def test_slices_do_not_depend_on_how_the_text_comes(text: str, places: list[int]) -> None:
    borders = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    pieces = [text[start:stop] for start, stop in pairwise(borders)]
    whole = _slices([text])
    assert "".join(whole) == text
    assert _slices(pieces) == whole
    assert _slices(list(text)) == whole


@given(_TEXT)
def test_a_clause_is_the_beginning_and_the_rest_stays(text: str) -> None:
    growing = GrowingText()
    growing.push(text)
    assert growing.clause() + growing.rest() == text
    assert len(growing) == 0


@given(st.text(alphabet=" abcdeé,", max_size=3 * LONGEST))
def test_words_without_an_end_do_not_wait_for_ever(text: str) -> None:
    assert all(len(slice_) <= LONGEST for slice_ in _slices([text]))
