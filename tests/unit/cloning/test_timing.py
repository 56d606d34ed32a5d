"""Times of sentences, words and sounds, held against samples that say which symbol they are of."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloning.config import VoiceConfig
from cloning.engines.base import Part, Planned
from cloning.streaming import FADE_S
from cloning.synthesis import Synthesiser
from cloning.timing import timed
from cloning.training.recipes import tiny_voice
from cloning.types import FloatArray, Sentence, SpeechRequest, SpokenText, SpokenWord

ENCODER = "ge2e-test-v1"
VECTOR = np.full(256, 1 / 16, np.float32)
TEXT = "Dr. Smith paid $5 — twice. “Why?” <break time='700ms'/> Nobody knows.\n\nThe end"


class Labelled:
    """An engine whose samples have the level of the symbol that they are of; the edges are silent and long."""

    name, device, max_batch, first_part_frames = "labelled", "cpu", 2, 20

    def __init__(self, config: VoiceConfig) -> None:
        self._hop, self._silent = config.audio.hop_length, {config.text.symbols.index(symbol) for symbol in "^$"}

    def prior(self, sentences: Sequence[Sentence]) -> list[Planned]:
        return [Planned(s, self._durations(s), None, i) for i, s in enumerate(sentences)]

    def _durations(self, sentence: Sentence) -> np.ndarray:
        varied = np.random.default_rng(sentence.options.seed).integers(1, 9, len(sentence.token_ids))
        return np.where(np.isin(sentence.token_ids, list(self._silent)), 60, varied)

    def decode(self, parts: Sequence[Part]) -> list[FloatArray]:
        whole = [np.repeat(self.levels(p.plan.sentence.token_ids), p.plan.durations * self._hop) for p in parts]
        return [x[p.span.start * self._hop : p.span.stop * self._hop] for x, p in zip(whole, parts, strict=True)]

    def levels(self, ids: np.ndarray) -> FloatArray:
        return np.where(np.isin(ids, list(self._silent)), 0, 0.2 + 0.005 * ids).astype(np.float32)

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def config() -> VoiceConfig:
    return tiny_voice(ENCODER)


@pytest.fixture(scope="module")
def voice(config: VoiceConfig) -> Iterator[Synthesiser]:
    with Synthesiser(config, "labelled-1", Labelled(config)) as opened:
        yield opened


def request(text: str = TEXT) -> SpeechRequest:
    return SpeechRequest(text, VECTOR, ENCODER)


def test_every_sound_is_heard_exactly_when_it_is_said_to_be(voice: Synthesiser, config: VoiceConfig) -> None:
    speech = voice.speak(request())
    fade = round(FADE_S * speech.sample_rate)
    sounds = [(sound, s) for s in speech.sentences for word in s.words for sound in word.sounds]
    assert len(sounds) == 40
    for sound, sentence in sounds:
        start, stop = max(sound.start, sentence.start + fade), min(sound.stop, sentence.stop - fade)
        heard = speech.samples[start:stop]
        level = np.float32(0.2 + 0.005 * config.text.symbols.index(sound.symbol))
        # A gap inside a word ('five dollars') belongs to the sound before it.
        assert heard[: config.audio.hop_length] == pytest.approx(level)
        assert heard.size


def test_words_and_sentences_are_those_of_the_text_that_was_sent(voice: Synthesiser) -> None:
    sentences = voice.speak(request()).sentences
    assert [TEXT[slice(*s.place)] for s in sentences] == [
        "Dr. Smith paid $5 — twice.",
        "“Why?”",
        "Nobody knows.",
        "The end",
    ]
    assert [TEXT[slice(*w.place)] for w in sentences[0].words] == ["Dr", "Smith", "paid", "$5", "twice"]
    assert [w.read for w in sentences[0].words] == ["Dr", "Smith", "paid", "5", "twice"]


def test_times_rise_and_pauses_lie_between(voice: Synthesiser) -> None:
    speech = voice.speak(request())
    borders = [b for s in speech.sentences for b in (s.start, *(t for w in s.words for t in (w.start, w.stop)), s.stop)]
    assert borders == sorted(borders)
    silences = [(b.start - a.stop) / speech.sample_rate for a, b in itertools.pairwise(speech.sentences)]
    assert silences == pytest.approx([0.2, 0.7, 0.5], abs=1e-4)
    for sentence, following in itertools.pairwise(speech.sentences):
        assert not speech.samples[sentence.stop : following.start].any()
    assert speech.sentences[-1].stop == len(speech.samples)


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_stream_gives_the_same_times_each_with_the_end_of_its_audio(voice: Synthesiser, in_parts: bool) -> None:
    n_samples, n_pieces, sentences = 0, 0, []
    for piece in voice.stream(request(), in_parts):
        assert all(n_samples < s.stop <= n_samples + len(piece.samples) for s in piece.sentences)
        n_samples, n_pieces = n_samples + len(piece.samples), n_pieces + 1
        sentences += piece.sentences
    assert tuple(sentences) == voice.speak(request()).sentences
    assert (n_pieces > len(sentences)) is in_parts


def test_a_long_sentence_in_parts_keeps_all_its_words_in_place(voice: Synthesiser) -> None:
    text = " ".join(["a long and winding road without any end"] * 12)
    words = [text[slice(*w.place)] for s in voice.speak(request(text)).sentences for w in s.words]
    assert words == text.split()


@given(
    durations=st.lists(st.integers(1, 20), min_size=4, max_size=30),
    n_cut=st.integers(0, 3000),
    n_kept=st.integers(1, 9000),
    origin=st.integers(0, 10**6),
)
@settings(max_examples=100, deadline=None)
def test_what_was_cut_off_lasts_no_time(durations: list[int], n_cut: int, n_kept: int, origin: int) -> None:
    sounds = tuple((index, "x") for index in range(1, len(durations) - 1))
    text = SpokenText("", (), 0.0, words=(SpokenWord("a", sounds[:1]), SpokenWord("b", sounds[1:])))
    heard = (origin, origin + n_kept)
    sentence = timed(text, np.array(durations), 256, origin - n_cut, heard)
    times = [t for word in sentence.words for sound in word.sounds for t in (sound.start, sound.stop)]
    assert times == sorted(times)
    assert heard[0] <= times[0] and times[-1] <= heard[1]
    uncut = timed(text, np.array(durations), 256, 0, (0, 10**9))
    for word, whole in zip(sentence.words, uncut.words, strict=True):
        assert word.start == min(max(whole.start - n_cut, 0), n_kept) + origin
