"""Whatever a text repeats, and whatever it never closes: eight times the text takes about eight times the work."""

from collections.abc import Callable
from contextlib import suppress
from time import process_time

import pytest

from api.jobs_text import read_script
from cloning.errors import TextRefused
from cloning.text.growing import GrowingText
from cloning.text.markdown import plain
from cloning.text.markup import lexicon_of, parse, unread_as_spaces
from cloning.text.normalise import normalise
from cloning.text.phonemes import EnglishPhonemes, Word
from cloning.text.split import parts, split

N_CHARS = 2000
TIMES = 8
# What grows with the square of the length takes 64 times as long; what grows with the length eight times.
MOST_GROWTH = 24


def grow(text: str) -> None:
    """As it comes, and then whole: the slices that are sure, and clauses of the rest."""
    for n_chars in (20, len(text)):
        growing = GrowingText()
        for at in range(0, len(text), n_chars):
            growing.push(text[at : at + n_chars])
            while growing.sure():
                pass
        while growing.clause():
            pass


_READERS: tuple[Callable[[str], object], ...] = (
    parse,
    lexicon_of,
    unread_as_spaces,
    plain,
    split,
    normalise,
    grow,
    read_script,
)
_REPEATED = (
    *("<!--", "<?", "<!DOCTYPE ", "<script>", "<style>", "<lexicon>", "<?xml ", "</script>"),
    *("`", "``` ", "~~~~", "```a\n", "`````\n```\n", "~~~\n````a\n"),
    *("[^", "[^a", "_a ", "__a ", "_a_a ", "# ", "*a ", "**", "~~a", "![", "[a](", "[a][", "- ", "|", " |", " ", "#"),
    *("Dr. ", "e.g. ", "U.S. ", "J. ", "1. ", ".", "?!", '."', ". ", "...\n", "\n", " \n", "a\n", "word ", "word, "),
    *("<lexicon>a.\n", "<!-- So. ", "<sub alias='x'>So. ", "`So. ", "[So. ", "<b", "<b. ", "</voice>", "> 1. "),
    *(
        "<speak>",
        "<speak></speak>",
        "<sub alias='a'>b</sub>",
        "<prosody rate='slow'>",
        "<voice name='x'>y</voice>",
        "[speaker: A] b\n",
        "[a",
        "<break time='1ms'/>",
    ),
)


def _work_s(read: Callable[[str], object], text: str) -> float:
    """Processor time, which others on the machine do not lengthen."""
    start = process_time()
    with suppress(TextRefused):
        read(text)
    return process_time() - start


def _is_linear(read: Callable[[str], object], of: Callable[[int], str]) -> bool:
    """Only what is slow each time is slow: a first run fills caches, and others use the machine."""
    short, long = of(N_CHARS), of(TIMES * N_CHARS)
    return any(_work_s(read, long) < MOST_GROWTH * _work_s(read, short) for _ in range(3))


@pytest.mark.parametrize("unit", _REPEATED)
def test_reading_takes_time_in_proportion_to_the_text(unit: str) -> None:
    slow = [read.__name__ for read in _READERS if not _is_linear(read, lambda n: unit * (n // len(unit)) + "X|")]
    assert not slow


@pytest.mark.parametrize("begins", ["[speaker:", "[a", "# "])
@pytest.mark.parametrize("unit", [" ", "a", "#"])
def test_a_tag_that_is_not_closed_is_read_in_proportion_to_it(begins: str, unit: str) -> None:
    assert _is_linear(read_script, lambda n: begins + unit * n + "X")


def test_marks_that_stand_apart_are_read_in_proportion_to_them() -> None:
    english = EnglishPhonemes()
    units = ("| ", ".,", "a ,", "1 ,", "? ", "a :")
    assert not [unit for unit in units if not _is_linear(english.words, lambda n, u=unit: u * (n // len(u)))]


def test_a_sentence_is_cut_in_proportion_to_its_words() -> None:
    assert _is_linear(lambda text: parts([Word(letter, (letter,)) for letter in text], cap=32), "a".__mul__)


def test_a_lexicon_whose_elements_are_not_closed_is_read_in_proportion_to_it() -> None:
    word, end = "<grapheme>a", "</grapheme><alias>b</alias></lexeme></lexicon>"
    assert _is_linear(parse, lambda n: f"<lexicon><lexeme>{word * (n // len(word))}{end}")
