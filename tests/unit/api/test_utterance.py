"""A growing text as one file, with a voice that is a ramp: every sample says where it stood."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from api.audio_out import FORMATS, RATED_FORMATS, to_int16
from api.interruption import Interruption
from api.metering import Meter
from api.speech import SpeechOrder, SpokenStream
from api.utterance import Utterance
from cloning.errors import LanguageUnsupported, SynthesisFailed, TextRefused
from cloning.text.split import PARAGRAPH_PAUSE_S, SENTENCE_PAUSE_S
from cloning.types import Speech, TimedSentence

RATE = 24000
SENTENCE = TimedSentence((0, 4), 0, RATE, ())


class _Speaking:
    """Speaks a second for each order, in two pieces; fails where the text is the name of an error."""

    def __init__(self, **errors: Exception) -> None:
        self.orders: list[SpeechOrder] = []
        self.closed = 0
        self._errors = errors

    def stream(self, order: SpeechOrder, interruption: Interruption) -> SpokenStream:
        self.orders.append(order)
        if order.text.strip() in self._errors:
            raise self._errors[order.text.strip()]
        half = np.full(RATE // 2, 0.25, np.float32)
        pieces = (Speech(half, RATE, np.ones(4, np.int64), sentences=each) for each in ((), (SENTENCE,)))
        return SpokenStream(pieces, RATE, 1, "voice@1", (f"about {order.text.strip()}",), self._close)

    def _close(self) -> None:
        self.closed += 1


class _Meter(Meter):
    def __init__(self) -> None:
        self.charges: list[int] = []

    @contextmanager
    def charged(self, n_characters: int) -> Iterator[None]:
        self.charges.append(n_characters)
        try:
            yield
        except Exception:
            self.charges.pop()
            raise


def _utterance(speaking: Any, audio: str = "pcm_24000", **order: Any) -> tuple[Utterance, _Meter]:
    meter = _Meter()
    audio_format = (RATED_FORMATS | FORMATS)[audio]
    return Utterance(speaking, meter, SpeechOrder("x", "", **order), audio_format, Interruption()), meter


def test_slices_follow_each_other_with_their_pauses_times_and_places() -> None:
    speaking = _Speaking()
    utterance, meter = _utterance(speaking)
    slices = ("One.", " Two.", "\n\nEnd")
    heard = [each for text in slices for each in utterance.say(text)]
    audio = b"".join(each.audio for each in heard) + utterance.finish()
    samples = np.frombuffer(audio, "<i2")
    begins = [0.0, 1 + SENTENCE_PAUSE_S, 2 + SENTENCE_PAUSE_S + PARAGRAPH_PAUSE_S]
    for begin_s in begins:
        at = round(begin_s * RATE)
        assert (samples[at : at + RATE] == to_int16(np.float32(0.25))).all()
        assert not samples[at + RATE : at + RATE + round(SENTENCE_PAUSE_S * RATE)].any()
    sentences = [sentence for each in heard for sentence in each.sentences]
    assert [sentence.start / RATE for sentence in sentences] == pytest.approx(begins)
    assert [sentence.place for sentence in sentences] == [(0, 4), (4, 8), (9, 13)]
    assert utterance.text == "".join(slices) and utterance.duration_s == pytest.approx(len(samples) / RATE)
    assert meter.charges == [4, 5, 5] and speaking.closed == 3
    assert utterance.notices == ("about One.", "about Two.", "about End")


def test_each_slice_has_a_seed_of_its_own_and_all_have_one_voice() -> None:
    speaking = _Speaking()
    utterance, _ = _utterance(speaking, seed=5)
    for text in ("One.", "Two.", "Three."):
        list(utterance.say(text))
    seeds = [order.seed for order in speaking.orders]
    assert seeds[0] == 5 and len(set(seeds)) == 3
    assert [order.model for order in speaking.orders] == [None, "voice@1", "voice@1"]
    again, _ = _utterance(fresh := _Speaking())
    list(again.say("One."))
    assert fresh.orders[0].seed is None


def test_what_says_nothing_is_left_out_and_what_cannot_be_read_is_told() -> None:
    nothing = TextRefused("nothing_to_say", "nothing", field="text")
    unread = LanguageUnsupported("language_unsupported", "none of it: x", field="text")
    utterance, meter = _utterance(_Speaking(dots=nothing, signs=unread))
    assert list(utterance.say("dots")) == list(utterance.say("signs")) == []
    assert (utterance.finish(), utterance.duration_s, utterance.notices) == (b"", 0.0, ("none of it: x",))
    assert meter.charges == []
    assert list(utterance.say("One."))


@pytest.mark.parametrize(
    "error",
    [
        LanguageUnsupported("language_unsupported", "xx is not spoken", field="language"),
        SynthesisFailed("synthesis_failed", "silence"),
    ],
)
def test_what_another_slice_would_meet_too_ends_the_text(error: Exception) -> None:
    utterance, meter = _utterance(_Speaking(bad=error))
    with pytest.raises(type(error)):
        list(utterance.say("bad"))
    assert meter.charges == []


def test_a_refusal_has_its_place_in_the_whole_text() -> None:
    wrong = TextRefused("bad_markup", "text: <break> at character 3: x", field="text", element="break", position=3)
    utterance, _ = _utterance(_Speaking(bad=wrong))
    list(utterance.say("One."))
    with pytest.raises(TextRefused) as refused:
        list(utterance.say(" bad"))
    assert refused.value.message == "text: <break> at character 7: x" and refused.value.details["position"] == 7


def test_a_lexicon_holds_to_the_end_of_the_text() -> None:
    speaking = _Speaking()
    utterance, _ = _utterance(speaking, lexicon={"a": "b"})
    list(utterance.say("<lexicon><lexeme><grapheme>W3C</grapheme><alias>we</alias></lexeme></lexicon>One."))
    list(utterance.say("Two."))
    assert [order.lexicon for order in speaking.orders] == [{"a": "b", "W3C": "we"}] * 2
    assert "lexicon" not in speaking.orders[0].text


def test_one_header_however_many_slices() -> None:
    utterance, _ = _utterance(_Speaking(), "wav")
    audio = b"".join(each.audio for text in ("One.", "Two.") for each in utterance.say(text)) + utterance.finish()
    assert audio[:4] == b"RIFF" and audio.count(b"RIFF") == 1
