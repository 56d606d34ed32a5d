"""/v1/speech: text to speech with a stored speaker."""

from dataclasses import replace

from fastapi import APIRouter, Request, Response

from api.audio_out import FORMATS, find_format
from api.context import CLIENT, ContextDep, ReuseDep, ServicesDep
from api.replies import streamed, whole
from api.routes.documented import ANY, SPEECH, errors
from api.schemas import SpeechIn

router = APIRouter(prefix="/v1/speech", tags=["speech"], dependencies=[CLIENT])
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_HEADERS = {
    "X-Voicekin-Audio-Seconds": "Length of the speech; not on streams.",
    "X-Voicekin-Seed": "The seed that was used.",
    "X-Voicekin-Model": "The voice model and its revision.",
    "X-Voicekin-Cosine": "Likeness of the result to the speaker, where verify was asked for.",
    "X-Voicekin-Notices": "What a listener should know, percent-encoded.",
    "X-Voicekin-Cache": "Where speeches are kept: hit, miss, or shared with an equal request of the same moment.",
}
AUDIO_REPLY = {
    "description": "Audio",
    "content": {item.media_type: _BINARY for item in FORMATS.values()},
    "headers": {name: {"description": text, "schema": {"type": "string"}} for name, text in _HEADERS.items()},
}


@router.post(
    "",
    response_class=Response,
    responses={200: AUDIO_REPLY, **errors(SPEECH, ANY)},
)
async def create(
    body: SpeechIn, request: Request, context: ContextDep, services: ServicesDep, reuse: ReuseDep
) -> Response:
    """Speak a text with a stored speaker."""
    audio_format, order = find_format(body.format), replace(body.order(), reuse=reuse)
    if body.stream:
        return await streamed(context, services, order, audio_format)
    return await whole(request, context, services, order, audio_format)
