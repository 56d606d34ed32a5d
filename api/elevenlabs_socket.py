"""The messages of ElevenLabs' `stream-input`: JSON both ways, with the audio in base64."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.audio_out import RATED_FORMATS, find_format
from api.conversation_messages import WAIT_S, refused
from api.conversing import REFUSED, Begin, Close, Command, Flush, Frame, Ready, Say, in_frames
from api.elevenlabs import Aligned, Aligner, ElevenLabsSpeechIn, VoiceSettingsIn
from api.forms import in_base64
from api.limits import Standings
from api.listing import find_speaker, model_or_default
from api.problems import Problem, elevenlabs_document
from api.reading import check_reading
from api.speech import SpeechOrder
from api.utterance import Heard, Utterance

if TYPE_CHECKING:
    from api.services import Services

_DEFAULT_FORMAT = "mp3_44100_128"
_IN_QUERY = ("model_id", "language_code", "seed")


class _MessageIn(BaseModel):
    """Any message of theirs; the first one has the settings, an empty text is the end."""

    model_config = ConfigDict(extra="ignore")

    text: str
    flush: bool | None = None
    voice_settings: VoiceSettingsIn | None = None
    key: str | None = Field(default=None, alias="xi-api-key", max_length=200)


class StreamInput:
    """Their shape, for a voice and the query of its address."""

    ends_with_error = True

    def __init__(self, voice_id: str, query: Mapping[str, str]) -> None:
        self._voice_id, self._query = voice_id, query
        self._has_begun = False
        self._aligner: Aligner | None = None

    def read(self, message: str) -> Sequence[Command]:
        """Raises: RequestRefused (`bad_field`), FormatUnknown."""
        try:
            asked = _MessageIn.model_validate_json(message)
            begin = () if self._has_begun else (self._begin(asked),)
        except ValidationError as error:
            raise refused(error) from None
        self._has_begun = True
        if not asked.text:
            return (*begin, Flush(last=True), Close())
        return (*begin, Say(asked.text), *([Flush(last=False)] if asked.flush else []))

    def ready(self, facts: Ready) -> Sequence[Frame]:
        return ()

    def heard(self, number: int, utterance: Utterance, heard: Heard) -> Sequence[Frame]:
        if self._aligner is None:
            self._aligner = Aligner("", utterance.sample_rate)
        self._aligner.text = utterance.text
        origin_s = self._aligner.given_s
        aligned = self._aligner.aligned(heard.sentences) if heard.sentences else None
        frames = in_frames(heard.audio) or ([b""] if aligned else [])
        last = len(frames) - 1
        return [_message(part, aligned if at == last else None, origin_s) for at, part in enumerate(frames)]

    def done(self, number: int, utterance: Utterance, tail: bytes, standings: Standings) -> Sequence[Frame]:
        return (*(_message(part) for part in in_frames(tail)), _final())

    def cancelled(self, numbers: Sequence[int]) -> Sequence[Frame]:
        return ()

    def alive(self) -> Sequence[Frame]:
        return ()

    def error(self, problem: Problem, conversation_id: str, number: int | None, closes: bool) -> Sequence[Frame]:
        detail: Any = elevenlabs_document(problem, conversation_id)["detail"]
        return (
            json.dumps({"message": detail["message"], "error": detail["status"], "code": REFUSED, "detail": detail}),
        )

    def _begin(self, asked: _MessageIn) -> Begin:
        """Raises: ValidationError, FormatUnknown."""
        named = {name: self._query[name] for name in _IN_QUERY if name in self._query}
        body = ElevenLabsSpeechIn.model_validate({"text": "", **named})
        body = body.model_copy(update={"voice_settings": asked.voice_settings})

        def found(services: Services) -> SpeechOrder:
            speaker = find_speaker(services.store, self._voice_id)
            model = model_or_default(services.speaking.voices.shelf, body.model_id)
            order = body.order(speaker.id, model, reuse=False)
            check_reading(order.language, order.lexicon, services.speaking.voices.describe(model).voice)
            return order

        audio = find_format(self._query.get("output_format", _DEFAULT_FORMAT), RATED_FORMATS)
        return Begin(found, audio, WAIT_S, asked.key)


def _message(audio: bytes, aligned: Aligned | None = None, origin_s: float = 0.0) -> str:
    """Some audio; times count from the end of the characters before, as their clients add them up."""
    return json.dumps(
        {
            "audio": in_base64(audio) if audio else None,
            "isFinal": False,
            "alignment": _in_ms(aligned.written, origin_s) if aligned else None,
            "normalizedAlignment": _in_ms(aligned.read, origin_s) if aligned else None,
        },
        ensure_ascii=False,
    )


def _final() -> str:
    return json.dumps({"audio": None, "isFinal": True, "alignment": None, "normalizedAlignment": None})


def _in_ms(alignment: Mapping[str, Any] | None, origin_s: float) -> dict[str, Any] | None:
    if alignment is None:
        return None
    starts_s, stops_s = alignment["character_start_times_seconds"], alignment["character_end_times_seconds"]
    return {
        "chars": alignment["characters"],
        "charStartTimesMs": [_ms(start_s - origin_s) for start_s in starts_s],
        "charDurationsMs": [
            _ms(stop_s - origin_s) - _ms(start_s - origin_s) for start_s, stop_s in zip(starts_s, stops_s, strict=True)
        ],
    }


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
