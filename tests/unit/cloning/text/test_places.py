"""Where the words that are read stand in the text."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloning.text.places import places, reach

WRITTEN_AS = {
    "$5": "five dollars",
    "Dr.": "Doctor",
    "3/4": "March fourth",
    "9:30am": "nine thirty A.M.",
    "km": "kilometers",
}
PLAIN = ["the", "train", "leaves", "at", "noon", "don't", "café", "U.S.A."]


def writings(text: str, read: str) -> list[str]:
    words = read.split("|")
    return [text[start:stop] for start, stop in places(text, words)]


@pytest.mark.parametrize(
    ("text", "read", "expected"),
    [
        ("Good morning.", "Good|morning", "Good|morning"),
        ("It cost $5.50 today", "It|cost|five dollars and fifty cents|today", "It|cost|$5.50|today"),
        ("on 3/4 we", "on|March|fourth|we", "on|3/4|3/4|we"),
        ("Mr. and Mrs. Lee", "Mister|and|Missus|Lee", "Mr|and|Mrs|Lee"),
        ("“Bob’s” shop", "Bob's|shop", "Bob’s|shop"),
        ("Charles II the king", "Charles|the|second|the|king", "Charles|II|II|the|king"),
        ("the 2 the 3", "the|two|the|three", "the|2|the|3"),
        ("A B & C", "A|B|and|C", "A|B|&|C"),
        ("cafe\u0301 au lait", "café|au|lait", "cafe\u0301|au|lait"),
        ("C++ is 50% faster", "C plus plus|is|fifty percent|faster", "C++|is|50%|faster"),
        ("Well", "Well|then", "Well|"),
        ("我 go", "go", "go"),
        ("1 2 3", "one|two|three", "1|2|3"),
    ],
)
def test_each_word_is_found_where_it_is_written(text: str, read: str, expected: str) -> None:
    assert writings(text, read) == expected.split("|")


def test_nothing_has_no_places() -> None:
    assert places("", []) == []
    assert places("", ["one", "two"]) == [(0, 0), (0, 0)]


def test_marks_and_brackets_belong_to_a_sentence() -> None:
    text = 'He said. "Go (now)!" Yes'
    assert text[slice(*reach(text, (10, 16), 8))] == '"Go (now)!"'


written = st.lists(st.sampled_from([*PLAIN, *WRITTEN_AS]), min_size=1, max_size=40)


@given(written, st.sampled_from([" ", "  ", "\n", " — "]))
@settings(max_examples=200, deadline=None)
def test_plain_words_are_found_exactly_whatever_stands_between(words: list[str], space: str) -> None:
    text = space.join(words)
    read = [part for word in words for part in WRITTEN_AS.get(word, word).split()]
    owners = [word for word in words for _ in WRITTEN_AS.get(word, word).split()]
    found = places(text, read)
    starts = [start for start, _ in found]
    assert starts == sorted(starts)
    assert all(0 <= start <= stop <= len(text) for start, stop in found)
    for (start, stop), owner in zip(found, owners, strict=True):
        if owner in PLAIN:
            assert text[start:stop] == owner.rstrip(".")


@given(st.text(max_size=60), st.lists(st.text(max_size=8), max_size=20))
@settings(max_examples=300, deadline=None)
def test_any_text_gives_places_in_order_and_inside(text: str, words: list[str]) -> None:
    found = places(text, words)
    assert len(found) == len(words)
    assert all(0 <= start <= stop <= len(text) for start, stop in found)
    for earlier, later in itertools.pairwise(found):
        assert earlier == later or earlier[1] <= later[0]
