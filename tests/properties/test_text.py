"""Whatever is sent, the front end answers with ids that the voice has, or with a refusal that has a code."""

import contextlib
import functools
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cloning.errors import LanguageUnsupported, TextRefused
from cloning.text.folding import fold, purge
from cloning.text.frontend import TextFrontEnd
from cloning.text.markup import parse
from cloning.text.phonemes import Word
from cloning.text.split import parts, split
from cloning.text.symbols import ENGLISH_SYMBOLS, default_symbols

MAX_SYMBOLS = 100
TABLE = default_symbols()
START_ID, END_ID = TABLE.ids(["^", "$"])
FRAGMENTS = (
    *("<b>", "</b>", "<speak>", "</speak>", "<break time='1s'/>", "<sub alias='x'>", "</sub>", "&lt;", "&#x1F600;"),
    *("http://a.b/c", "a@b.co", "**", "*", "_", "`", "```", "#", "[a](b)", "|", "10:30", "1/2", "am", "km", "kg", "%"),
    *("$", "€", "²", "½", "①", "°", "-", "–", "—", "Dr. ", "No. ", "e.g. ", " II", " XIV", "1,000", "007", "1e6"),
    *(
        "<prosody rate='80%'>",
        "</prosody>",
        "<voice name='A'>",
        "</voice>",
        "<say-as interpret-as='digits'>",
        "</say-as>",
    ),
    *("<lexicon>", "</lexicon>", "<lexeme>", "<grapheme>", "</grapheme>", "<alias>"),
    *("v1.2.3", "Jan ", "st", "th", "我", "Щ", "π", "é", "😀"),
)
any_text = st.text(max_size=80) | st.text(st.characters(max_codepoint=0x17F), max_size=80)
written = st.lists(st.sampled_from([*FRAGMENTS, " ", "\n", ".", "?", ",", "word", "5", "A"]) | any_text, max_size=20)


@functools.cache
def front() -> TextFrontEnd:
    return TextFrontEnd(TABLE, {"en": 0}, MAX_SYMBOLS)


@settings(max_examples=250, deadline=None)
@given(written.map("".join), st.booleans())
@example("=`a@b.co10:30**ßAİ<b>", False)
def test_any_text_is_said_within_the_cap_or_refused_with_a_code(text: str, markup: bool) -> None:
    try:
        spoken = front().encode(text, markup=markup)
    except (TextRefused, LanguageUnsupported) as refused:
        assert refused.code in ("nothing_to_say", "bad_markup", "language_unsupported")
        return
    for part in spoken:
        ids = part.token_ids
        assert 3 <= len(ids) <= MAX_SYMBOLS
        assert (ids[0], ids[-1]) == (START_ID, END_ID)
        assert all(START_ID < index < len(ENGLISH_SYMBOLS) for index in ids[1:-1])
        assert 0 <= part.pause_after_s <= 10


@settings(max_examples=200, deadline=None)
@given(any_text)
def test_folding_twice_changes_nothing_more(text: str) -> None:
    once = fold(purge(text))
    assert fold(once) == once


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text("abcdefghij", min_size=1, max_size=8), min_size=1, max_size=40))
def test_plain_words_survive_markup_and_splitting_in_order(words: list[str]) -> None:
    text = " ".join(words)
    assert [word for piece in split(parse(text).text) for word in piece.text.split()] == words


sizes = st.integers(min_value=1, max_value=60)
words_of_any_size = st.lists(
    st.builds(lambda n, mark: Word("w", ("b",) * n, mark), sizes, st.sampled_from(["", ",", ";"]))
)


@settings(max_examples=200, deadline=None)
@given(words_of_any_size, st.integers(min_value=4, max_value=80))
def test_parts_keep_every_symbol_in_order_under_the_cap(words: list[Word], cap: int) -> None:
    cut = parts(words, cap)
    for part in cut:
        assert sum(len(word.symbols) + len(word.mark) for word in part) + len(part) - 1 <= cap
    said = [symbol for part in cut for word in part for symbol in (*word.symbols, *word.mark)]
    assert said == [symbol for word in words for symbol in (*word.symbols, *word.mark)]


@pytest.mark.parametrize(
    "unit",
    [
        "a.",
        "a@",
        "1-",
        "a1",
        "a-",
        "9",
        "9,",
        "<",
        "<a ",
        "<!--",
        "**a*",
        "[a](",
        "`a",
        "_a ",
        "|-",
        "&#",
        "\n",
        "1½",
        "😀",
        "ﷺ",
    ],
)
def test_no_text_within_the_limit_holds_the_reader_for_long(unit: str) -> None:
    text = (unit * 5000)[:5000]
    start = time.process_time()
    with contextlib.suppress(TextRefused, LanguageUnsupported):
        front().encode(text)
    assert time.process_time() - start < 10
