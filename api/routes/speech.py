"""/v1/speech: text to speech with a stored speaker."""

from dataclasses import replace

from fastapi import APIRouter, Request, Response

from api.audio_out import FORMATS, find_format
from api.context import SPEAK, ContextDep, ReuseDep, ServicesDep
from api.envelopes import LINES
from api.forms import AudioForm, timed_form
from api.replies import BARE, streamed, whole
from api.routes.documented import ANY, SPEECH, errors
from api.schemas import SpeechIn
from api.timing import TimedSpeechOut

router = APIRouter(prefix="/v1/speech", tags=["speech"], dependencies=[SPEAK])
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_HEADERS = {
    "X-Voicekin-Audio-Seconds": "Length of the speech; not on streams.",
    "X-Voicekin-Seed": "The seed that was used.",
    "X-Voicekin-Model": "The voice model and its revision.",
    "X-Voicekin-Cosine": "Likeness of the result to the speaker, where verify was asked for.",
    "X-Voicekin-Notices": "What a listener should know, percent-encoded.",
    "X-Voicekin-Cache": "Where speeches are kept: hit, miss, or shared with an equal request of the same moment.",
}
_AUDIO = {item.media_type: _BINARY for item in FORMATS.values()}
AUDIO_REPLY = {
    "description": "Audio",
    "content": _AUDIO,
    "headers": {name: {"description": text, "schema": {"type": "string"}} for name, text in _HEADERS.items()},
}

_LINES = {"application/x-ndjson": {"schema": {"type": "string", "description": "Lines with audio, sentences, last."}}}
_REPLY = {**AUDIO_REPLY, "model": TimedSpeechOut, "content": {**_AUDIO, **_LINES}}


@router.post(
    "",
    response_class=Response,
    responses={200: _REPLY, **errors(SPEECH, ANY)},
)
async def create(
    body: SpeechIn, request: Request, context: ContextDep, services: ServicesDep, reuse: ReuseDep
) -> Response:
    """Speak a text with a stored speaker."""
    audio_format, order = find_format(body.format), replace(body.order(), reuse=reuse)
    form = timed_form(audio_format, body.stream) if body.timestamps else AudioForm(audio_format)
    if body.stream:
        return await streamed(context, services, order, form, LINES if body.timestamps else BARE)
    return await whole(request, context, services, order, form)
