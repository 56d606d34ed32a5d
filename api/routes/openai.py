"""OpenAI's routes, as its clients send them: /v1/audio/speech, /v1/audio/voices, /v1/models."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from api.audio_out import find_format
from api.context import CLIENT, ContextDep, ReuseDep, ServicesDep
from api.envelopes import EVENTS
from api.errors import ModelUnknown
from api.forms import AudioForm
from api.replies import BARE, streamed
from api.routes.documented import ANY, SPEECH, openai_errors
from api.routes.speech import AUDIO_REPLY
from api.schemas import OpenAISpeechIn
from api.services import Services
from api.speech import SpeechOrder
from store.errors import SpeakerNotFound
from store.types import Speaker

router = APIRouter(prefix="/v1", tags=["openai"], dependencies=[CLIENT])
# Names that clients have built in; each means the voice that is in use.
_ALIASES = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
_PAGE = 500
_HINTED_VOICES = 5


@router.post("/audio/speech", response_class=Response, responses={200: AUDIO_REPLY, **openai_errors(SPEECH, ANY)})
async def speak(body: OpenAISpeechIn, context: ContextDep, services: ServicesDep, reuse: ReuseDep) -> Response:
    """Speak a text, in OpenAI's shape; `voice` is a speaker's id or name. The audio is streamed."""
    speaker = await context.queries.run(partial(_find, services, body.voice_key))
    speed = 1.0 if body.speed is None else body.speed
    known = await context.queries.run(partial(_installed, services))
    # Clients send whatever model they have built in: what names no voice here means the one in use.
    model = body.model if body.model in known else None
    order = SpeechOrder(speaker_id=speaker.id, text=body.input, speed=speed, model=model, reuse=reuse)
    form = AudioForm(find_format(body.response_format or "mp3"))
    return await streamed(context, services, order, form, EVENTS if body.stream_format == "sse" else BARE)


@router.get("/audio/voices", responses=openai_errors(ANY))
async def voices(context: ContextDep, services: ServicesDep) -> dict[str, Any]:
    """List the speakers that can be given as `voice`."""
    found = await context.queries.run(partial(_all_voices, services))
    return {"object": "list", "voices": found, "data": found}


@router.get("/models", responses=openai_errors(ANY))
async def models(context: ContextDep, services: ServicesDep) -> dict[str, Any]:
    """List the installed voices by name and by revision, and the names that mean the one in use."""
    names = await context.queries.run(partial(_installed, services))
    return {"object": "list", "data": [_model(name) for name in (*names, *_ALIASES)]}


@router.get("/models/{model}", responses=openai_errors("model_unknown", ANY))
async def model(model: str, context: ContextDep, services: ServicesDep) -> dict[str, Any]:
    """Read one of these names."""
    if model not in (*await context.queries.run(partial(_installed, services)), *_ALIASES):
        raise ModelUnknown(
            "model_unknown", f"model {model[:80]!r} is unknown; GET /v1/models lists them", field="model"
        )
    return _model(model)


def _find(services: Services, voice: str) -> Speaker:
    try:
        return services.store.find(voice)
    except SpeakerNotFound as error:
        known = ", ".join(speaker.name for speaker in services.store.list(None, _HINTED_VOICES).speakers)
        hint = f"some that there are: {known}" if known else "none is enrolled yet, POST /v1/speakers"
        raise SpeakerNotFound(error.code, f"no speaker has this id or name; {hint}", field="voice") from None


def _all_voices(services: Services) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    cursor: str | None = None
    while True:
        page = services.store.list(cursor, _PAGE)
        found += [{"id": speaker.id, "name": speaker.name, "object": "voice"} for speaker in page.speakers]
        cursor = page.next_cursor
        if cursor is None:
            return found


def _installed(services: Services) -> tuple[str, ...]:
    """The voices by their ids with revision, the one in use first, and by their names."""
    voices = sorted(services.speaking.voices.shelf.voices(), key=lambda voice: not voice.in_use)
    return (*(voice.info.model_id for voice in voices if voice.info), *(voice.name for voice in voices))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "voicekin"}
