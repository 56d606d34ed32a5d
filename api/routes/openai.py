"""OpenAI's routes, as its clients send them: /v1/audio/speech, /v1/audio/voices, /v1/models."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from api.audio_out import find_format
from api.context import CLIENT, SPEAK, ContextDep, ReuseDep, ServicesDep
from api.elevenlabs import ElevenLabsModelOut
from api.envelopes import EVENTS
from api.errors import ModelUnknown
from api.forms import AudioForm
from api.listing import every_speaker, find_speaker, installed, model_or_default
from api.middleware import is_elevenlabs
from api.replies import BARE, streamed
from api.routes.documented import ANY, SPEECH, openai_errors
from api.routes.speech import AUDIO_REPLY
from api.schemas import OpenAISpeechIn
from api.speech import SpeechOrder

router = APIRouter(prefix="/v1", tags=["openai"], dependencies=[CLIENT])
# Names that clients have built in; each means the voice that is in use.
_ALIASES = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")


@router.post(
    "/audio/speech",
    response_class=Response,
    responses={200: AUDIO_REPLY, **openai_errors(SPEECH, ANY)},
    dependencies=[SPEAK],
)
async def speak(body: OpenAISpeechIn, context: ContextDep, services: ServicesDep, reuse: ReuseDep) -> Response:
    """Speak a text, in OpenAI's shape; `voice` is a speaker's id or name. The audio is streamed."""
    speaker = await context.queries.run(partial(find_speaker, services.store, body.voice_key))
    speed = 1.0 if body.speed is None else body.speed
    model = await context.queries.run(partial(model_or_default, services.speaking.voices.shelf, body.model))
    order = SpeechOrder(speaker_id=speaker.id, text=body.input, speed=speed, model=model, reuse=reuse)
    form = AudioForm(find_format(body.response_format or "mp3"))
    return await streamed(context, services, order, form, EVENTS if body.stream_format == "sse" else BARE)


@router.get("/audio/voices", responses=openai_errors(ANY))
async def voices(context: ContextDep, services: ServicesDep) -> dict[str, Any]:
    """List the speakers that can be given as `voice`."""
    speakers = await context.queries.run(lambda: list(every_speaker(services.store)))
    found = [{"id": speaker.id, "name": speaker.name, "object": "voice"} for speaker in speakers]
    return {"object": "list", "voices": found, "data": found}


@router.get("/models", responses=openai_errors(ANY))
async def models(request: Request, context: ContextDep, services: ServicesDep) -> Any:
    """List the installed voices by name and by revision, and the names that mean the one in use.

    A client that sends its key as ElevenLabs' do gets ElevenLabs' list.
    """
    shelf = services.speaking.voices.shelf
    if is_elevenlabs(request):
        return await context.queries.run(lambda: [ElevenLabsModelOut.of(voice) for voice in shelf.voices()])
    names = await context.queries.run(partial(installed, shelf))
    return {"object": "list", "data": [_model(name) for name in (*names, *_ALIASES)]}


@router.get("/models/{model}", responses=openai_errors("model_unknown", ANY))
async def model(model: str, context: ContextDep, services: ServicesDep) -> dict[str, Any]:
    """Read one of these names."""
    if model not in (*await context.queries.run(partial(installed, services.speaking.voices.shelf)), *_ALIASES):
        raise ModelUnknown(
            "model_unknown", f"model {model[:80]!r} is unknown; GET /v1/models lists them", field="model"
        )
    return _model(model)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "voicekin"}
