"""Long texts to passages: who speaks, where chapters begin, where it is cut."""

import pytest

from api.errors import RequestRefused
from api.jobs_text import CHAPTER_PAUSE_S, PIECE_CHARS, Script, read_script, storable
from cloning.errors import TextRefused
from cloning.text.split import PARAGRAPH_PAUSE_S, SENTENCE_PAUSE_S

SENTENCE = "Here is a sentence of the book. "


def said(text: str, max_chars: int = PIECE_CHARS) -> list[str]:
    return [text[each.start : each.stop] for each in read_script(text, max_chars).passages]


def chapters(text: str) -> list[str]:
    return [title for title, _ in read_script(text).firsts()]


def speakers(script: Script) -> list[str | None]:
    return [passage.speaker for passage in script.passages]


def test_a_short_text_is_one_passage() -> None:
    (passage,) = read_script("  Good morning. It is late.\n\nAnother paragraph.\n").passages
    assert (passage.start, passage.stop, passage.speaker, passage.pause_s) == (2, 47, None, 0.0)


def test_a_tag_changes_the_speaker_from_there_on() -> None:
    text = "One.\n[speaker: Ada]\nTwo.\n\nThree.\n[Speaker:Bert Brecht ] Four.\nFive.\n  [ speaker : ada ]  Six."
    assert said(text) == ["One.", "Two.\n\nThree.", "Four.\nFive.", "Six."]
    assert speakers(read_script(text)) == [None, "Ada", "Bert Brecht", "ada"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[speaker:] Hello.", 1),
        ("[speaker: ] Hello.", 1),
        ("One.\nTwo.\n[speker: Ada] Hello.", 3),
        ("[Speakers: Ada] Hello.", 1),
        ("[speaker Ada] Hello.", 1),
        ("[speaker=Ada] Hello.", 1),
        ("[voice: Ada] Hello.", 1),
        ("He said [speaker: Ada] hello.", 1),
        ("[speaker: Ada] one [speaker: Bert] two.", 1),
    ],
)
def test_a_tag_that_would_be_read_aloud_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(RequestRefused, match=r"write \[speaker: NAME_OR_ID\] at the start of a line") as refused:
        read_script(text)
    assert refused.value.code == "bad_tag"
    assert refused.value.details == {"field": "text", "line": line}


@pytest.mark.parametrize(
    "text", ["He waited [1] for it.", "[Illustration: a ship]", "[Invoice: 12]", "A [voice breaking] line."]
)
def test_other_brackets_are_text(text: str) -> None:
    assert said(text) == [text]


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# The *first* day", "The first day"),
        ("## Two ##", "Two"),
        ("Chapter 7", "Chapter 7"),
        ("CHAPTER XII.", "CHAPTER XII."),
        ("Part Two: The Storm", "Part Two: The Storm"),
        ("Book the First", "Book the First"),
        ("chapter twenty-one", "chapter twenty-one"),
    ],
)
def test_a_heading_begins_a_chapter_and_is_spoken(line: str, title: str) -> None:
    text = f"Before.\n\n{line}\n\nAfter it."
    assert chapters(text) == ["", title]
    assert said(text) == ["Before.", f"{line}\n\nAfter it."]
    assert read_script(text).passages[0].pause_s == CHAPTER_PAUSE_S


@pytest.mark.parametrize(
    "line", ["### Three", "Chapter 7 was long.", "Chapters", "#hash", "Chapter 7\nwent on.", "Part of it", "Book mill"]
)
def test_what_only_looks_like_a_heading_is_text(line: str) -> None:
    assert chapters(f"Before.\n\n{line}\n\nAfter it.") == [""]


def test_a_heading_may_follow_a_tag_and_a_tag_a_heading() -> None:
    text = "[speaker: Ada]\nChapter 1\n\nOne.\n\n# Two\n[speaker: Bert]\nTwo."
    script = read_script(text)
    assert script.firsts() == (("Chapter 1", 0), ("Two", 1))
    assert speakers(script) == ["Ada", "Ada", "Bert"]


def test_long_paragraphs_are_cut_between_sentences() -> None:
    text = SENTENCE * 40
    pieces = said(text)
    assert " ".join(pieces) == text.strip() and len(pieces) == 4
    assert all(piece.endswith(".") and len(piece) <= PIECE_CHARS for piece in pieces)
    pauses = [each.pause_s for each in read_script(f"{text}\n\nThe end of all.").passages]
    assert pauses == [SENTENCE_PAUSE_S] * 3 + [0.0], "the last words fit into the last passage"
    pauses = [each.pause_s for each in read_script(f"{SENTENCE * 12}\n\n{SENTENCE * 12}").passages]
    assert pauses == [PARAGRAPH_PAUSE_S, 0.0]


def test_a_sentence_without_an_end_is_cut_between_words_and_a_word_anywhere() -> None:
    words = "word " * 300
    pieces = said(words)
    assert " ".join(pieces) == words.strip() and max(map(len, pieces)) <= PIECE_CHARS
    assert "".join(said("x" * 1001)) == "x" * 1001
    assert max(map(len, said("x" * 1001))) - min(map(len, said("x" * 1001))) <= 1, "in even shares"
    assert {each.pause_s for each in read_script(words).passages} == {0.0}


def test_wrapped_lines_and_dialogue_stay_together() -> None:
    text = 'It was late when Mr. Smith\r\nknocked at the door.\r\n\r\n"Who?"\r\n\r\n"Me."'
    assert said(text) == [text]


@pytest.mark.parametrize("text", ["", "   \n\n", "* * *", "[speaker: Ada]\n\n", "<!-- nothing -->", "---\n\n..."])
def test_a_text_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(TextRefused) as refused:
        read_script(text)
    assert refused.value.code == "nothing_to_say"


def test_ornaments_between_scenes_make_no_passage() -> None:
    assert said(f"{SENTENCE * 12}\n\n* * *\n\n{SENTENCE * 12}") == [(SENTENCE * 12).strip()] * 2


def test_speak_around_the_whole_and_comments_are_taken_out() -> None:
    text = "<speak>\nOne.\n<!-- [speaker: nobody] -->\n[speaker: Ada] Two.\n</speak>"
    assert speakers(read_script(text)) == [None, "Ada"]


def test_what_no_database_holds_becomes_a_space_and_places_stay() -> None:
    assert storable("a\x00b\ud800c\U0001f600") == "a b c\U0001f600"


def test_voice_elements_say_who_speaks_over_lines_and_paragraphs() -> None:
    text = "One. <voice name='Ada'>Two.\n\nThree. <voice name='Bert'>Four</voice> five.</voice>\n\n[speaker: Carl] Six."
    passages = read_script(text).passages
    assert [(text[p.start : p.stop], p.speaker, p.line) for p in passages] == [
        ("One.", None, 1),
        ("Two.\n\nThree.", "Ada", 1),
        ("Four", "Bert", 3),
        ("five.", "Ada", 3),
        ("Six.", "Carl", 5),
    ]
    assert [p.pause_s for p in passages] == [SENTENCE_PAUSE_S, SENTENCE_PAUSE_S, 0.0, PARAGRAPH_PAUSE_S, 0.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("One. <voice name='A'>Two.", "<voice> at character 5: is not closed"),
        ("One.</voice>", "</voice> at character 4: closes nothing"),
        ("<voice>One.</voice>", "<voice> at character 0: needs name="),
    ],
)
def test_a_voice_element_that_cannot_be_read_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(TextRefused) as refused:
        read_script(text)
    assert words in refused.value.message
