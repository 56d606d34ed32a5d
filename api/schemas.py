"""The shapes of requests and replies, as they stand in the OpenAPI document."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from api.enrolment import Enrolled
from api.speech import MAX_SEED, SPEED_RANGE, SpeechOrder
from api.verification import Verdict
from encoder.types import EnrolmentReport
from store.types import Match, Page, Speaker

FormatName = Literal["wav", "mp3", "opus", "aac", "flac", "pcm"]
Labels = Annotated[
    dict[
        Annotated[str, StringConstraints(min_length=1, max_length=100)],
        Annotated[str, StringConstraints(max_length=500)],
    ],
    Field(max_length=32),
]
Lexicon = Annotated[
    dict[
        Annotated[str, StringConstraints(min_length=1, max_length=100)],
        Annotated[str, StringConstraints(min_length=1, max_length=200)],
    ],
    Field(max_length=1000),
]
EXAMPLE_ID = "6f1c1d4e-5d0b-4b5e-9a58-0b8a3c0c7f11"


class Strict(BaseModel):
    """A native request: an unknown field is refused, so that a misspelt one never passes in silence."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SpeakerOut(BaseModel):
    """A stored speaker."""

    speaker_id: str = Field(examples=[EXAMPLE_ID])
    name: str = Field(examples=["Ada"])
    labels: dict[str, str] = Field(examples=[{"accent": "northern"}])
    encoder_id: str
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None
    uses: int
    pinned: bool
    revision: int
    n_clips: int
    speech_s: float
    tenant: str = Field(description="Whose it is; empty for the tenant without a name.")

    @classmethod
    def of(cls, speaker: Speaker) -> "SpeakerOut":
        return cls(**_speaker_fields(speaker))


class SpeakerDetailOut(SpeakerOut):
    """A stored speaker with the report of its last upload."""

    report: dict[str, Any]

    @classmethod
    def of(cls, speaker: Speaker) -> "SpeakerDetailOut":
        return cls(**_speaker_fields(speaker), report=dict(speaker.report))


class SpeakerPage(BaseModel):
    """One page of speakers; `next_cursor` is null at the end."""

    speakers: list[SpeakerOut]
    next_cursor: str | None
    total: int

    @classmethod
    def of(cls, page: Page) -> "SpeakerPage":
        return cls(
            speakers=[SpeakerOut.of(speaker) for speaker in page.speakers],
            next_cursor=page.next_cursor,
            total=page.total,
        )


class SpeakerChange(Strict):
    """What to change of a speaker; what is left out stays."""

    name: str | None = Field(default=None, examples=["Ada L."])
    labels: Labels | None = None
    pinned: bool | None = Field(default=None, description="A pinned speaker is never pruned.")


class MatchOut(BaseModel):
    """A speaker with a similar voice."""

    speaker_id: str = Field(examples=[EXAMPLE_ID])
    name: str = Field(examples=["Ada"])
    cosine: float = Field(examples=[0.83])


class EnrolledOut(SpeakerOut):
    """A speaker after an upload, and what was found in its clips."""

    report: EnrolmentReport
    near: list[MatchOut] = Field(
        description="Others who sound the same, for a person to look at; in a large store some are strangers."
    )

    @classmethod
    def of_enrolled(cls, enrolled: Enrolled) -> "EnrolledOut":
        near = MatchesOut.of(enrolled.near).matches
        return cls(**_speaker_fields(enrolled.speaker), report=enrolled.report, near=near)


class VerdictOut(BaseModel):
    """Whether a clip is of a speaker, as measured on people whom the encoder had not heard."""

    speaker_id: str = Field(examples=[EXAMPLE_ID])
    cosine: float
    probability: float = Field(description="That it is the speaker, where both answers were equally likely before.")
    accepted: bool
    point: str = Field(examples=["balanced"])
    threshold: float
    false_accepts: float = Field(description="Share of strangers that this threshold let pass when it was measured.")
    false_rejects: float = Field(description="Share of own clips that it refused.")
    equal_error_rate: float
    voiced_s: float
    measured_at_s: float = Field(description="Length of the probes that these figures come from.")

    @classmethod
    def of(cls, verdict: Verdict) -> "VerdictOut":
        names = ("speaker_id", "cosine", "probability", "accepted", "point", "equal_error_rate", "voiced_s")
        own = {name: getattr(verdict, name) for name in (*names, "measured_at_s")}
        return cls(**own, **verdict.operating_point.model_dump())


class MatchesOut(BaseModel):
    """Speakers by falling cosine."""

    matches: list[MatchOut]

    @classmethod
    def of(cls, matches: Sequence[Match]) -> "MatchesOut":
        return cls(
            matches=[MatchOut(speaker_id=item.speaker_id, name=item.name, cosine=item.cosine) for item in matches]
        )


class Telling(Strict):
    """How a stored speaker says a text, whatever the text is."""

    speaker_id: str = Field(max_length=100)
    language: str | None = Field(default=None, max_length=35, examples=["en"])
    speed: float = Field(default=1.0, ge=SPEED_RANGE[0], le=SPEED_RANGE[1])
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED, description="The same seed gives the same speech.")
    lexicon: Lexicon = Field(
        default_factory=dict,
        description="How words are said: /IPA/ or a respelling.",
        examples=[{"Ljubljana": "/ljuːbˈljɑːnə/"}],
    )
    model: str | None = Field(
        default=None, max_length=200, description="An installed voice; by default the one in use.", examples=["default"]
    )

    def order_of(self, text: str) -> SpeechOrder:
        return SpeechOrder(
            speaker_id=self.speaker_id,
            text=text,
            language=self.language,
            speed=self.speed,
            seed=self.seed,
            lexicon=self.lexicon,
            model=self.model,
        )


class SpeechIn(Telling):
    """A text for a stored speaker."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"speaker_id": EXAMPLE_ID, "text": "Good morning.", "format": "wav"}]}
    )

    text: str = Field(description="Plain, or with SSML and Markdown in it: docs/markup.md.")
    format: FormatName = "wav"
    stream: bool = Field(default=False, description="Send the audio while it is spoken.")
    timestamps: bool = Field(
        default=False,
        description="Answer in JSON: audio, and when each sentence, word and sound is heard; on a stream in lines.",
    )
    verify: bool = Field(
        default=False, description="Give the cosine of the result to the speaker, in X-Voicekin-Cosine."
    )

    def order(self) -> SpeechOrder:
        return replace(self.order_of(self.text), verify=self.verify)


class VoiceReference(BaseModel):
    """A voice as an object, as OpenAI's newer clients send it."""

    id: str = Field(max_length=200)


class OpenAISpeechIn(BaseModel):
    """OpenAI's request for speech; fields that mean nothing here are tolerated."""

    model_config = ConfigDict(
        extra="ignore",
        allow_inf_nan=False,
        json_schema_extra={"examples": [{"model": "tts-1", "input": "Good morning.", "voice": "Ada"}]},
    )

    input: str
    voice: VoiceReference | Annotated[str, StringConstraints(max_length=200)]
    model: str = Field(default="tts-1", max_length=200)
    response_format: FormatName | None = None
    speed: float | None = Field(default=None, ge=SPEED_RANGE[0], le=SPEED_RANGE[1])
    stream_format: Literal["audio", "sse"] | None = None

    @property
    def voice_key(self) -> str:
        return self.voice if isinstance(self.voice, str) else self.voice.id


class LiveOut(BaseModel):
    """The process answers."""

    status: Literal["live"] = "live"


class ReadyOut(BaseModel):
    """A real sentence has been spoken since the start."""

    status: Literal["ready"] = "ready"
    model: str
    languages: list[str]
    encoder_id: str
    engines: dict[str, str] = Field(description="The engine and device of each voice in memory, by the voice's name.")
    start_s: float


class Problem(BaseModel):
    """An error, as RFC 9457 has it; limits and measured figures stand beside these fields."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:voicekin:problem:too_little_speech"])
    title: str
    status: int
    detail: str
    code: str
    request_id: str


class OpenAIErrorBody(BaseModel):
    """What went wrong, in OpenAI's words; `code` is the same as in our own problem documents."""

    message: str
    type: str = Field(examples=["invalid_request_error"])
    param: str | None
    code: str


class OpenAIError(BaseModel):
    """An error, as OpenAI's clients read it."""

    error: OpenAIErrorBody


class ElevenLabsErrorBody(BaseModel):
    """What went wrong, in ElevenLabs' words; `code` is the same as in our own problem documents."""

    status: str = Field(examples=["voice_not_found"])
    message: str
    code: str
    param: str | None
    request_id: str


class ElevenLabsError(BaseModel):
    """An error, as ElevenLabs' clients read it."""

    detail: ElevenLabsErrorBody


def _speaker_fields(speaker: Speaker) -> dict[str, Any]:
    return {
        "speaker_id": speaker.id,
        "name": speaker.name,
        "labels": dict(speaker.labels),
        "encoder_id": speaker.encoder_id,
        "created_at": speaker.created_at,
        "updated_at": speaker.updated_at,
        "last_used_at": speaker.last_used_at,
        "uses": speaker.uses,
        "pinned": speaker.pinned,
        "revision": speaker.revision,
        "n_clips": speaker.n_clips,
        "speech_s": speaker.speech_s,
        "tenant": speaker.tenant,
    }
