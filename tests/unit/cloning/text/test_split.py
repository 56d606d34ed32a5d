import pytest

from cloning.text.marked import break_character, manner_character
from cloning.text.phonemes import Word
from cloning.text.split import (
    CLAUSE_PAUSE_S,
    LINE_PAUSE_S,
    PARAGRAPH_PAUSE_S,
    SENTENCE_PAUSE_S,
    parts,
    split,
)


@pytest.mark.parametrize(
    "sentences",
    [
        ["One.", "Two!", "Three?", "four"],
        ["Dr. Smith lives on Elm St.", "He is old."],
        ["James T. Kirk met J. R. R. Tolkien."],
        ["Made in the U.S.A.", "Then sold in the U.S. Army shop."],
        ["It is approx. 3 p.m. today, e.g. now.", "At 5 p.m. John came."],
        ["See Fig. 3 and No. 5 on Jan. 7 for it.", "The answer is no.", "Really."],
        ["Pi is 3.14 or so.", "See example.com/a?b now."],
        ["So do I.", "Yes."],
        ['She said "Stop."', "Then she left."],
        ['"What?" he asked.'],
        ["Wait... what?!", "Oh...", "No."],
        ["i like it.", "it is nice!", "ok"],
    ],
)
def test_sentences_end_where_a_reader_would_end_them(sentences: list[str]) -> None:
    assert [piece.text for piece in split(" ".join(sentences))] == sentences


def test_pauses_grow_from_sentence_to_line_to_paragraph() -> None:
    pieces = split("One. Two\nThree\n\n\nFour")
    assert [(piece.text, piece.pause_after_s) for piece in pieces] == [
        ("One.", SENTENCE_PAUSE_S),
        ("Two", LINE_PAUSE_S),
        ("Three", PARAGRAPH_PAUSE_S),
        ("Four", 0.0),
    ]


def test_lines_without_stops_are_sentences() -> None:
    assert [piece.text for piece in split("Apple\nBanana\nCherry\nDate")] == ["Apple", "Banana", "Cherry", "Date"]


def test_a_sentence_wrapped_over_lines_stays_one() -> None:
    text = "This is a long line that an old mail program wrapped\nin the middle of its sentence."
    assert [piece.text for piece in split(text)] == [text.replace("\n", " ")]


def test_sixty_stops_are_one_pause() -> None:
    pieces = split("One" + "." * 60 + " Two. " + "... " * 30 + "Three")
    assert [piece.pause_after_s for piece in pieces] == [SENTENCE_PAUSE_S, SENTENCE_PAUSE_S, 0.0]


def test_a_break_is_as_long_as_asked_and_one_may_end_the_text() -> None:
    pieces = split(
        f"One.{break_character(0.0)}Two{break_character(0.7)}{break_character(0.4)}Three{break_character(2)}"
    )
    assert [piece.pause_after_s for piece in pieces] == [0.0, 0.7, 2.0]


def test_nothing_but_marks_is_no_sentence() -> None:
    assert split('... !!! --- " ( )\n\n?!') == []


def words_of(sizes_and_marks: list[tuple[int, str]]) -> list[Word]:
    return [Word(f"w{at}", ("b",) * size, mark) for at, (size, mark) in enumerate(sizes_and_marks)]


def length(part: list[Word]) -> int:
    return sum(len(word.symbols) + len(word.mark) for word in part) + len(part) - 1


def test_short_sentence_is_one_part() -> None:
    words = words_of([(5, ""), (5, ".")])
    assert parts(words, 20) == [words]


def test_long_sentence_is_cut_at_its_clauses() -> None:
    words = words_of([(5, ""), (5, ","), (5, ""), (5, ""), (5, ";"), (5, ""), (5, "."), (5, "")])
    cut = parts(words, 32)
    assert [part[-1].mark for part in cut[:-1]] == [";"]


def test_without_marks_the_parts_are_even() -> None:
    cut = parts(words_of([(4, "")] * 45), 100)
    assert [len(part) for part in cut] == [15, 15, 15]


def test_a_word_longer_than_the_cap_is_cut_hard_and_kept_whole() -> None:
    word = Word("x" * 300, tuple("bdfhjklmnp" * 30), ".")
    cut = parts([word], 64)
    assert max(length(part) for part in cut) <= 64
    assert [symbol for part in cut for piece in part for symbol in piece.symbols] == list(word.symbols)
    assert cut[-1][-1].mark == "."


def test_a_change_of_manner_cuts_a_sentence_and_adds_no_pause_to_its_end() -> None:
    fast, back = manner_character(1), manner_character(0)
    pieces = split(f"This is {fast}very quick.{back} Then slow {fast}again{back}")
    assert [(piece.text, piece.manner, piece.pause_after_s) for piece in pieces] == [
        ("This is", 0, CLAUSE_PAUSE_S),
        ("very quick.", 1, SENTENCE_PAUSE_S),
        ("Then slow", 0, CLAUSE_PAUSE_S),
        ("again", 1, 0.0),
    ]
    assert split(f"One.{break_character(0.7)}{back}")[0].pause_after_s == 0.7
