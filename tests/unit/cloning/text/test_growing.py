import pytest

from cloning.text.growing import LONGEST, GrowingText, pause_between
from cloning.text.openness import Openness
from cloning.text.split import CLAUSE_PAUSE_S, LINE_PAUSE_S, PARAGRAPH_PAUSE_S, SENTENCE_PAUSE_S

WRAPPED = "This is a long line that an old program wrapped"


def _sure(text: str) -> tuple[list[str], str]:
    """The slices that are sure, and what waits."""
    growing, found = GrowingText(), list[str]()
    growing.push(text)
    while slice_ := growing.sure():
        found.append(slice_)
    return found, growing.rest()


@pytest.mark.parametrize(
    ("text", "slices", "waiting"),
    [
        ("Hello there. How", ["Hello there."], " How"),
        ("Hello there.", [], "Hello there."),
        ("Hello there. ", ["Hello there."], " "),
        ("It was Dr. ", [], "It was Dr. "),
        ("It was Dr. Smith. He", ["It was Dr. Smith."], " He"),
        ("He came at 5 p.m. ", [], "He came at 5 p.m. "),
        ("He came at 5 p.m. Th", [], "He came at 5 p.m. Th"),
        ("He came at 5 p.m. The ", ["He came at 5 p.m."], " The "),
        ("He came at 5 p.m. John ", [], "He came at 5 p.m. John "),
        ("Pi is 3.", [], "Pi is 3."),
        ("Pi is 3.14. Yes", ["Pi is 3.14."], " Yes"),
        ('"What?" he asked. "No', ['"What?" he asked.'], ' "No'),
        ('She said “Stop.” ', ['She said “Stop.”'], " "),
        ("Wait... ", [], "Wait... "),
        ("**Yes. No.** Then ", ["**Yes. No.**"], " Then "),
        ("1. First. 2", ["1. First."], " 2"),
        ("Apple\nBanana", ["Apple"], "\nBanana"),
        (f"{WRAPPED}\n", [], f"{WRAPPED}\n"),
        (f"{WRAPPED}\nin", [], f"{WRAPPED}\nin"),
        (f"{WRAPPED}\nIn", [WRAPPED], "\nIn"),
        ("See [the page. Or](http://a.b/c. d) now. ", ["See [the page. Or](http://a.b/c. d) now."], " "),
        ("One <sub alias='two. '>1. </sub> three. ", ["One <sub alias='two. '>1. </sub> three."], " "),
        ("<prosody rate='slow'>One. Two. ", [], "<prosody rate='slow'>One. Two. "),
        ("A.\n```\ncode. More. \n```\nEnd. ", ["A.", "\n```\ncode. More. \n```", "\nEnd."], " "),
    ],
)  # fmt: skip
def test_a_sentence_is_given_when_nothing_can_change_its_end(text: str, slices: list[str], waiting: str) -> None:
    assert _sure(text) == (slices, waiting)


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("Well, I think", "Well,"),
        ("Well, I think: yes, but maybe", "Well, I think: yes,"),
        ("How are you?", "How are you?"),
        ("It costs 1,", ""),
        ("Pi is 3.", ""),
        ("I met Dr.", ""),
        ("We have apples etc.", "We have apples etc."),
        ("no mark at all", ""),
        ("2.", ""),
        ("—", ""),
        ("Look at [this, it", ""),
    ],
)
def test_after_a_wait_a_clause_is_said_but_never_half_of_a_word_or_number(text: str, clause: str) -> None:
    growing = GrowingText()
    growing.push(text)
    assert growing.clause() == clause
    assert growing.rest() == text[len(clause) :]


def test_words_without_a_mark_are_cut_between_words() -> None:
    slices, waiting = _sure("word " * 250)
    assert [slice_.split() for slice_ in slices] == [["word"] * 100, ["word"] * 100]
    assert waiting.split() == ["word"] * 50
    (first, *_), _ = _sure("so it goes, " * 100)
    assert first.endswith(",") and len(first) <= LONGEST


@pytest.mark.parametrize(
    ("before", "after", "pause_s"),
    [
        ("One.", " Two", SENTENCE_PAUSE_S),
        ('"One."', " Two", SENTENCE_PAUSE_S),
        ("One,", " two", CLAUSE_PAUSE_S),
        ("One", "\nTwo", LINE_PAUSE_S),
        ("One.", "\n\nTwo", PARAGRAPH_PAUSE_S),
        ("One.", " <break time='70ms'/> Two", 0.07),
        ("One.", "\n<break time='2s'/><break/>Two", 2.0),
    ],
)
def test_pauses_are_those_of_a_whole_text(before: str, after: str, pause_s: float) -> None:
    assert pause_between(before, after) == pause_s


def test_what_cannot_be_cut_ends_at_the_first_place_after_it_however_long_it_is() -> None:
    code = "Look:\n```\n" + "print(1). \n" * 80 + "```\n"
    text = f"{code}That was it. And more."
    slices, waiting = _sure(text)
    assert slices[0] == "Look:" and slices[-1].endswith("That was it.") and waiting == " And more."
    growing, found = GrowingText(), list[str]()
    for char in text:
        growing.push(char)
        while slice_ := growing.sure():
            found.append(slice_)
    assert found == slices


def test_a_place_that_was_looked_at_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    is_whole = Openness.is_whole
    monkeypatch.setattr(Openness, "is_whole", lambda it, text, at: looked.append(at) or is_whole(it, text, at))
    growing = GrowingText()
    for char in "<prosody rate='slow'>" + "One. " * 300:
        growing.push(char)
        assert growing.sure() == ""
    # Each place once, and once more the places at which a text that is too long could be cut.
    assert len(looked) <= 300 + 2 * LONGEST
