"""ElevenLabs' shapes: its requests and replies, and speech with a time for each character."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from api.audio_out import AudioFormat, StreamEncoder, encode, open_stream
from api.forms import Writer, in_base64, line
from api.shelf import ShelfVoice
from api.speech import MAX_SEED, SPEED_RANGE, SpeechOrder, Spoken
from cloning.types import Speech, TimedSentence
from store.types import Match, Speaker

# Where a description is kept: a speaker has labels, and no other free text.
_DESCRIPTION = "description"


class VoiceSettingsIn(BaseModel):
    """How to speak; only `speed` has a meaning here, the others are tolerated."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    speed: float | None = Field(default=None, ge=SPEED_RANGE[0], le=SPEED_RANGE[1])


class ElevenLabsSpeechIn(BaseModel):
    """ElevenLabs' request for speech; fields that mean nothing here are tolerated."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"examples": [{"text": "Good morning."}]})

    text: str
    model_id: str | None = Field(default=None, max_length=200)
    language_code: str | None = Field(default=None, max_length=35)
    voice_settings: VoiceSettingsIn | None = None
    seed: int | None = Field(default=None, ge=0, le=2**32 - 1)
    pronunciation_dictionary_locators: Annotated[list[dict[str, Any]], Field(max_length=0)] | None = Field(
        default=None, description="There are no stored dictionaries here: give a `lexicon` to POST /v1/speech."
    )

    def order(self, speaker_id: str, model: str | None, reuse: bool) -> SpeechOrder:
        speed = self.voice_settings.speed if self.voice_settings else None
        return SpeechOrder(
            speaker_id=speaker_id,
            text=self.text,
            language=self.language_code,
            speed=1.0 if speed is None else speed,
            # Theirs has a bit more.
            seed=None if self.seed is None else self.seed % (MAX_SEED + 1),
            model=model,
            reuse=reuse,
        )


class ElevenLabsVoiceOut(BaseModel):
    """A speaker as a voice."""

    voice_id: str
    name: str
    category: str = "cloned"
    labels: dict[str, str]
    description: str | None
    samples: list[dict[str, Any]] = []
    settings: dict[str, Any]
    preview_url: None = None
    available_for_tiers: list[str] = []
    high_quality_base_model_ids: list[str] = []
    is_owner: bool = True
    created_at_unix: int

    @classmethod
    def of(cls, speaker: Speaker) -> "ElevenLabsVoiceOut":
        labels = dict(speaker.labels)
        description = labels.pop(_DESCRIPTION, None)
        return cls(
            voice_id=speaker.id,
            name=speaker.name,
            labels=labels,
            description=description,
            settings=DEFAULT_SETTINGS,
            created_at_unix=int(speaker.created_at.timestamp()),
        )


class ElevenLabsVoicesOut(BaseModel):
    """All voices."""

    voices: list[ElevenLabsVoiceOut]


class ElevenLabsPageOut(ElevenLabsVoicesOut):
    """One page of voices."""

    has_more: bool
    total_count: int
    next_page_token: str | None


class SimilarVoiceOut(BaseModel):
    """A voice that sounds like a clip."""

    voice_id: str
    name: str
    category: str = "cloned"
    description: str | None = None
    preview_url: None = None
    cosine: float

    @classmethod
    def of(cls, match: Match) -> "SimilarVoiceOut":
        return cls(voice_id=match.speaker_id, name=match.name, cosine=match.cosine)


class SimilarVoicesOut(BaseModel):
    """Voices by likeness."""

    voices: list[SimilarVoiceOut]
    has_more: bool = False


class ElevenLabsLanguageOut(BaseModel):
    """A language that a model speaks."""

    language_id: str
    name: str


class ElevenLabsModelOut(BaseModel):
    """An installed voice as a model."""

    model_id: str
    name: str
    can_do_text_to_speech: bool
    can_do_voice_conversion: bool = False
    can_be_finetuned: bool = False
    can_use_style: bool = False
    can_use_speaker_boost: bool = False
    languages: list[ElevenLabsLanguageOut]

    @classmethod
    def of(cls, voice: ShelfVoice) -> "ElevenLabsModelOut":
        """The voice; one whose files are damaged cannot speak."""
        tags = voice.info.voice.text.languages if voice.info else ()
        languages = [ElevenLabsLanguageOut(language_id=tag, name=tag) for tag in tags]
        model_id = voice.info.model_id if voice.info else voice.name
        return cls(
            model_id=model_id, name=voice.name, can_do_text_to_speech=voice.info is not None, languages=languages
        )


class AddedOut(BaseModel):
    """A new voice."""

    voice_id: str
    requires_verification: bool = False


class DoneOut(BaseModel):
    """It is done."""

    status: str = "ok"


# Likeness and steadiness are the speaker's vector and the voice's noise scales, which are no request's to set.
DEFAULT_SETTINGS: dict[str, Any] = {
    "stability": 1.0,
    "similarity_boost": 1.0,
    "style": 0.0,
    "use_speaker_boost": False,
    "speed": 1.0,
}


def labels_with(description: str | None, labels: dict[str, str]) -> dict[str, str]:
    """The labels under which a description is kept too."""
    return labels | {_DESCRIPTION: description} if description else labels


@dataclass(frozen=True, slots=True)
class CharactersForm:
    """JSON with the file in base64 and the times of all characters; on a stream a line for each piece."""

    audio: AudioFormat
    media_type: str = "application/json"

    @property
    def name(self) -> str:
        return f"{self.audio.name} characters"

    def whole(self, text: str, spoken: Spoken) -> bytes:
        speech = spoken.speech
        audio = encode(speech.samples, speech.sample_rate, self.audio)
        aligner = Aligner(text, speech.sample_rate)
        return json.dumps(aligner.document(audio, speech.sentences, last=True), ensure_ascii=False).encode()

    def writer(self, text: str, sample_rate: int) -> Writer:
        return _CharactersWriter(open_stream(sample_rate, self.audio), Aligner(text, sample_rate))


@dataclass(frozen=True, slots=True)
class _CharactersWriter:
    encoder: StreamEncoder
    aligner: "Aligner"

    def write(self, piece: Speech) -> bytes:
        return line(self.aligner.document(self.encoder.write(piece.samples), piece.sentences))

    def finish(self) -> bytes:
        return line(self.aligner.document(self.encoder.finish(), (), last=True))


@dataclass(frozen=True, slots=True)
class Aligned:
    """Times of characters: of the text as it was sent, and of the words as they were read; None for no characters."""

    written: dict[str, Any] | None
    read: dict[str, Any] | None


@dataclass(slots=True)
class Aligner:
    """Gives each character of a text once, in order: those up to the end of a sentence with that sentence."""

    text: str
    sample_rate: int
    given: int = 0
    given_s: float = 0.0

    def aligned(self, sentences: Sequence[TimedSentence], last: bool = False) -> Aligned:
        """The characters of some sentences; the last ones have what is left of the text."""
        written, read, begin = [(self.given, self.given_s)], [(0, self.given_s)], self.given
        letters = ""
        for sentence in sentences:
            for word in sentence.words:
                start_s, stop_s = word.start / self.sample_rate, word.stop / self.sample_rate
                written += [(word.place[0], start_s), (word.place[1], stop_s)]
                letters += " " * bool(letters) + word.read
                read += [(len(letters) - len(word.read), start_s), (len(letters), stop_s)]
            self.given, self.given_s = sentence.place[1], sentence.stop / self.sample_rate
            written.append((self.given, self.given_s))
        if last:
            self.given = len(self.text)
        return Aligned(_aligned(self.text[begin : self.given], written, begin), _aligned(letters, read, 0))

    def document(self, audio: bytes, sentences: Sequence[TimedSentence], last: bool = False) -> dict[str, Any]:
        """The audio with the characters of its sentences."""
        found = self.aligned(sentences, last)
        return {
            "audio_base64": in_base64(audio),
            "alignment": found.written,
            "normalized_alignment": found.read,
        }


def _aligned(characters: str, known: Sequence[tuple[int, float]], begin: int) -> dict[str, Any] | None:
    """Times of characters, spread evenly between the places whose times are known; None for no characters."""
    if not characters:
        return None
    places, times_s = zip(*known, strict=True)
    borders_s = np.interp(np.arange(begin, begin + len(characters) + 1), places, times_s).round(6).tolist()
    return {
        "characters": list(characters),
        "character_start_times_seconds": borders_s[:-1],
        "character_end_times_seconds": borders_s[1:],
    }
