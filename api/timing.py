"""When what was sent is heard, as documents: seconds from the start, and places in the text."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, Field

from api.speech import Spoken
from cloning.types import TimedSentence, TimedSound, TimedWord


class SoundOut(BaseModel):
    """One sound of a word: a letter of the voice's alphabet, IPA for most voices."""

    symbol: str = Field(examples=["ˈoʊ"])
    start_s: float
    stop_s: float


class WordOut(BaseModel):
    """A word as it was sent, and how it was read where the two differ ('$5', '3/4')."""

    text: str = Field(examples=["$5"])
    read: str = Field(examples=["five dollars"])
    start_s: float
    stop_s: float
    start_char: int = Field(description="Its place in the text that was sent, in code points, half open.")
    stop_char: int
    sounds: list[SoundOut]


class SentenceOut(BaseModel):
    """What was spoken in one breath: a sentence, or a part of a very long one."""

    text: str = Field(examples=["It cost $5."])
    start_s: float
    stop_s: float
    start_char: int
    stop_char: int
    words: list[WordOut]


class TimedSpeechOut(BaseModel):
    """A whole speech with its times; the other fields are those of the headers of plain audio."""

    audio: str = Field(description="The file, in base64.")
    media_type: str = Field(examples=["audio/wav"])
    audio_s: float
    seed: int
    model: str
    cosine: float | None
    notices: list[str]
    sentences: list[SentenceOut]


class TimedPieceOut(BaseModel):
    """One line of a stream with times: some of the file, and the sentences that end in it."""

    audio: str = Field(description="The next bytes of the file, in base64.")
    sentences: list[SentenceOut]
    last: bool = Field(description="False until the end; a stream without a last line is not whole.")


def sentences_out(text: str, sentences: Iterable[TimedSentence], sample_rate: int) -> list[SentenceOut]:
    """The sentences of a text as documents."""
    return [_sentence(text, sentence, sample_rate) for sentence in sentences]


def timed_speech(text: str, spoken: Spoken, audio: str, media_type: str) -> TimedSpeechOut:
    """A finished speech with its times. `audio` is the file in base64."""
    speech = spoken.speech
    return TimedSpeechOut(
        audio=audio,
        media_type=media_type,
        audio_s=_seconds(len(speech.samples), speech.sample_rate),
        seed=spoken.seed,
        model=spoken.model,
        cosine=spoken.cosine,
        notices=list(spoken.notices),
        sentences=sentences_out(text, speech.sentences, speech.sample_rate),
    )


def _sentence(text: str, sentence: TimedSentence, rate: int) -> SentenceOut:
    words = [_word(text, word, rate) for word in sentence.words]
    return SentenceOut(
        text=text[slice(*sentence.place)], words=words, **_span(sentence, rate), **_place(sentence.place)
    )


def _word(text: str, word: TimedWord, rate: int) -> WordOut:
    sounds = [SoundOut(symbol=sound.symbol, **_span(sound, rate)) for sound in word.sounds]
    return WordOut(
        text=text[slice(*word.place)], read=word.read, sounds=sounds, **_span(word, rate), **_place(word.place)
    )


def _span(timed: TimedSentence | TimedWord | TimedSound, rate: int) -> dict[str, Any]:
    return {"start_s": _seconds(timed.start, rate), "stop_s": _seconds(timed.stop, rate)}


def _place(place: Sequence[int]) -> dict[str, Any]:
    return {"start_char": place[0], "stop_char": place[1]}


def _seconds(n_samples: int, rate: int) -> float:
    # A sample is 1e-5 s and more: nothing is lost.
    return round(n_samples / rate, 6)
