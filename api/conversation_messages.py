"""The messages of `/v1/conversation`: JSON in text frames, audio in binary ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from api import problems
from api.audio_out import FORMATS, RATED_FORMATS, find_format
from api.conversing import Begin, Cancel, Close, Command, Flush, Frame, KeepAlive, Ready, Say, in_frames
from api.errors import RequestRefused
from api.limits import Standings
from api.reading import check_reading
from api.schemas import Strict, Telling
from api.speech import SpeechOrder
from api.timing import sentences_out
from api.utterance import Heard, Utterance

if TYPE_CHECKING:
    from api.services import Services

WAIT_S = 0.5


class BeginIn(Telling):
    """How the texts that follow are spoken; sent first, and again to change it for the texts after it."""

    type: Literal["begin"]
    format: Annotated[str, Field(max_length=40)] = "pcm"
    wait_s: float = Field(default=WAIT_S, ge=0.05, le=10)
    key: str | None = Field(default=None, max_length=200)

    def command(self) -> Begin:
        order = self.order_of("")

        def found(services: Services) -> SpeechOrder:
            services.store.get(order.speaker_id)
            voice = services.speaking.voices.describe(order.model).voice
            check_reading(order.language, order.lexicon, voice)
            return order

        audio = find_format(self.format, FORMATS | RATED_FORMATS)
        return Begin(found, audio, self.wait_s, self.key)


class TextIn(Strict):
    """Some more of the text, as it comes: a word, a part of one, or a page."""

    type: Literal["text"]
    text: str

    def command(self) -> Say:
        return Say(self.text)


class FlushIn(Strict):
    """The text is whole."""

    type: Literal["flush"]

    def command(self) -> Flush:
        return Flush(last=True)


class CancelIn(Strict):
    """What has not been sent yet is not wanted any more."""

    type: Literal["cancel"]

    def command(self) -> Cancel:
        return Cancel()


class KeepAliveIn(Strict):
    """The connection is still used."""

    type: Literal["keep_alive"]

    def command(self) -> KeepAlive:
        return KeepAlive()


class CloseIn(Strict):
    """No more is sent; what was sent is still to be spoken."""

    type: Literal["close"]

    def command(self) -> Close:
        return Close()


ASKED = (BeginIn, TextIn, FlushIn, CancelIn, KeepAliveIn, CloseIn)
ANSWERED = ("ready", "sentence", "done", "cancelled", "alive", "error")
_Message = BeginIn | TextIn | FlushIn | CancelIn | KeepAliveIn | CloseIn
_MESSAGE: TypeAdapter[_Message] = TypeAdapter(Annotated[_Message, Field(discriminator="type")])


class Native:
    """Our own shape."""

    ends_with_error = False

    def read(self, message: str) -> Sequence[Command]:
        """Raises: RequestRefused (`bad_field`), FormatUnknown."""
        try:
            return (_MESSAGE.validate_json(message).command(),)
        except ValidationError as error:
            raise refused(error) from None

    def ready(self, facts: Ready) -> Sequence[Frame]:
        limits = {"max_text_chars": facts.max_text_chars, "idle_s": facts.idle_s}
        begun = {"conversation_id": facts.conversation_id, "format": facts.audio.name}
        return (_message("ready", **begun, media_type=facts.audio.media_type, limits=limits),)

    def heard(self, number: int, utterance: Utterance, heard: Heard) -> Sequence[Frame]:
        documents = sentences_out(utterance.text, heard.sentences, utterance.sample_rate)
        times = [_message("sentence", utterance=number, **each.model_dump()) for each in documents]
        return (*in_frames(heard.audio), *times)

    def done(self, number: int, utterance: Utterance, tail: bytes, standings: Standings) -> Sequence[Frame]:
        facts = {"audio_s": round(utterance.duration_s, 6), "characters": len(utterance.text)}
        limits = {
            each.policy: {"limit": each.limit, "remaining": each.remaining, "reset_s": each.reset_s}
            for each in standings.found.values()
        }
        notices = list(utterance.notices)
        return (*in_frames(tail), _message("done", utterance=number, **facts, notices=notices, limits=limits))

    def cancelled(self, numbers: Sequence[int]) -> Sequence[Frame]:
        return (_message("cancelled", utterances=list(numbers)),)

    def alive(self) -> Sequence[Frame]:
        return (_message("alive"),)

    def error(
        self, problem: problems.Problem, conversation_id: str, number: int | None, closes: bool
    ) -> Sequence[Frame]:
        document = problems.document(problem, conversation_id)
        return (_message("error", **document, utterance=number, closes=closes),)


def refused(error: ValidationError) -> RequestRefused:
    """What a message that does not fit its shape is told, without the values that it holds."""
    problem = problems.invalid(list(error.errors()), None)
    return RequestRefused("bad_field", problem.message, **problem.details)


def _message(kind: str, **fields: Any) -> str:
    return json.dumps({**fields, "type": kind}, ensure_ascii=False)
