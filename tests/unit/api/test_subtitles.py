"""Subtitles from timed speech."""

import json
import re

import pytest

from api.errors import RequestRefused
from api.subtitles import cues, writer_of
from api.timing import SentenceOut, WordOut, sentences_out
from cloning.types import TimedSentence, TimedSound, TimedWord


def timed(text: str, word_s: float = 0.5) -> list[SentenceOut]:
    """Sentences of a text, each word as long as the others."""
    sentences, at_s = [], 0.0
    for sentence in re.finditer(r"\S[^.]*\.", text):
        words = []
        for word in re.finditer(r"[\w$]+", sentence[0]):
            place = (sentence.start() + word.start(), sentence.start() + word.end())
            words.append(_word(text, place, at_s, at_s + word_s))
            at_s += word_s
        place = {"start_char": sentence.start(), "stop_char": sentence.end()}
        sentences.append(SentenceOut(text=sentence[0], start_s=words[0].start_s, stop_s=at_s, words=words, **place))
    return sentences


def _word(text: str, place: tuple[int, int], start_s: float, stop_s: float) -> WordOut:
    text = text[slice(*place)]
    return WordOut(
        text=text, read=text, start_s=start_s, stop_s=stop_s, start_char=place[0], stop_char=place[1], sounds=[]
    )


def test_subrip() -> None:
    text = "Good morning. The train leaves at noon."
    assert writer_of(".srt")(text, timed(text, 1.25)) == (
        "1\n00:00:00,000 --> 00:00:02,500\nGood morning.\n"
        "\n2\n00:00:02,500 --> 00:00:08,750\nThe train leaves at noon.\n"
    )


def test_webvtt_shows_no_markup_and_escapes_what_would_be_some() -> None:
    text = 'Tom &amp; Jerry <b>paid</b> "**$5**".'
    assert writer_of(".VTT")(text, timed(text)) == (
        'WEBVTT\n\n00:00:00.000 --> 00:00:03.500\nTom &amp; Jerry paid "$5".\n'
    )


def test_times_carry_over_to_the_next_unit() -> None:
    text = "Late."
    sentence = timed(text, 0.9999)[0].model_copy()
    word = sentence.words[0].model_copy(update={"start_s": 3599.9996, "stop_s": 3661.0})
    lines = writer_of(".srt")(text, [sentence.model_copy(update={"words": [word]})]).splitlines()
    assert lines[1] == "01:00:00,000 --> 01:01:01,000"


def test_a_long_sentence_takes_several_cues_and_loses_nothing() -> None:
    text = " ".join(f"word{n}" for n in range(60)) + "."
    found = list(cues(text, timed(text)))
    assert " ".join(cue.text for cue in found) == text
    assert all(len(cue.text) <= 84 and cue.stop_s - cue.start_s <= 7 for cue in found)
    assert [cue.start_s for cue in found[1:]] == [cue.stop_s for cue in found[:-1]]


def test_json_holds_the_text_and_the_times() -> None:
    document = json.loads(writer_of(".json")("Hi.", timed("Hi.")))
    assert document["text"] == "Hi."
    assert document["sentences"][0]["words"][0]["stop_s"] == 0.5


def test_another_ending_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(RequestRefused, match=r"'\.sub' is none of \.srt, \.vtt, \.json"):
        writer_of(".sub")


def test_samples_become_seconds_and_places_become_text() -> None:
    sound = TimedSound("ˈaɪ", 2205, 4410)
    sentence = TimedSentence((0, 3), 0, 22050, (TimedWord("hi", (1, 3), 2205, 4410, (sound,)),))
    (out,) = sentences_out("¡Hi", [sentence], 22050)
    assert (out.text, out.start_s, out.stop_s) == ("¡Hi", 0.0, 1.0)
    assert out.words[0].model_dump() == {
        "text": "Hi", "read": "hi", "start_s": 0.1, "stop_s": 0.2, "start_char": 1, "stop_char": 3,
        "sounds": [{"symbol": "ˈaɪ", "start_s": 0.1, "stop_s": 0.2}],
    }  # fmt: skip
