"""ElevenLabs' routes for speech and voices, as its clients send them."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from api.audio_out import RATED_FORMATS, AudioFormat, find_format
from api.context import CLIENT, ENROL, SPEAK, Context, ContextDep, ReuseDep, ServicesDep
from api.elevenlabs import (
    DEFAULT_SETTINGS,
    AddedOut,
    CharactersForm,
    DoneOut,
    ElevenLabsPageOut,
    ElevenLabsSpeechIn,
    ElevenLabsVoiceOut,
    ElevenLabsVoicesOut,
    SimilarVoiceOut,
    SimilarVoicesOut,
    labels_with,
)
from api.envelopes import LINES
from api.errors import NotOffered, RequestRefused
from api.forms import AudioForm
from api.listing import every_speaker, find_speaker, model_or_default
from api.multipart import Upload, read_labels, read_upload, required
from api.replies import streamed, whole
from api.routes.documented import ANY, ENROLMENT, SPEECH, UPLOAD, elevenlabs_errors, form_of
from api.services import Services
from api.speech import SpeechOrder
from store.types import Naming, Speaker

router = APIRouter(tags=["elevenlabs"], dependencies=[CLIENT])
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_AUDIO = {
    "description": "Audio",
    "content": {item.media_type: _BINARY for item in RATED_FORMATS.values()},
}
_TIMED = {"description": "Audio in base64, with the times of its characters."}
_FILES = {"type": "array", "items": {"type": "string", "format": "binary"}}
_TEXT = {"type": "string"}
_VOICE_FIELDS = {"name": _TEXT, "description": _TEXT, "labels": _TEXT, "remove_background_noise": _TEXT}
_FIELDS = frozenset((*_VOICE_FIELDS, "moderate_metadata"))
# A cosine of 1 is a distance of 0.
_FARTHEST = 2.0
OutputFormat = Annotated[
    str, Query(max_length=40, description=f"One of {', '.join(RATED_FORMATS)}.", examples=["mp3_44100_128"])
]
_DEFAULT_FORMAT = "mp3_44100_128"


@router.post(
    "/v1/text-to-speech/{voice_id}",
    response_class=Response,
    responses={200: _AUDIO, **elevenlabs_errors(SPEECH, ANY)},
    dependencies=[SPEAK],
)
async def speak(
    voice_id: str,
    body: ElevenLabsSpeechIn,
    request: Request,
    context: ContextDep,
    services: ServicesDep,
    reuse: ReuseDep,
    output_format: OutputFormat = _DEFAULT_FORMAT,
) -> Response:
    """Speak a text; the whole file at once."""
    audio = _format(output_format)
    order = await _order(context, services, voice_id, body, reuse)
    return await whole(request, context, services, order, AudioForm(audio))


@router.post(
    "/v1/text-to-speech/{voice_id}/stream",
    response_class=Response,
    responses={200: _AUDIO, **elevenlabs_errors(SPEECH, ANY)},
    dependencies=[SPEAK],
)
async def stream(
    voice_id: str,
    body: ElevenLabsSpeechIn,
    context: ContextDep,
    services: ServicesDep,
    reuse: ReuseDep,
    output_format: OutputFormat = _DEFAULT_FORMAT,
) -> Response:
    """Speak a text; the file while it is spoken."""
    audio = _format(output_format)
    order = await _order(context, services, voice_id, body, reuse)
    return await streamed(context, services, order, AudioForm(audio))


@router.post(
    "/v1/text-to-speech/{voice_id}/with-timestamps",
    response_class=Response,
    responses={200: _TIMED, **elevenlabs_errors(SPEECH, ANY)},
    dependencies=[SPEAK],
)
async def speak_timed(
    voice_id: str,
    body: ElevenLabsSpeechIn,
    request: Request,
    context: ContextDep,
    services: ServicesDep,
    reuse: ReuseDep,
    output_format: OutputFormat = _DEFAULT_FORMAT,
) -> Response:
    """Speak a text; the whole file and when each character is heard, in JSON."""
    audio = _format(output_format)
    order = await _order(context, services, voice_id, body, reuse)
    return await whole(request, context, services, order, CharactersForm(audio))


@router.post(
    "/v1/text-to-speech/{voice_id}/stream/with-timestamps",
    response_class=Response,
    responses={200: _TIMED, **elevenlabs_errors(SPEECH, ANY)},
    dependencies=[SPEAK],
)
async def stream_timed(
    voice_id: str,
    body: ElevenLabsSpeechIn,
    context: ContextDep,
    services: ServicesDep,
    reuse: ReuseDep,
    output_format: OutputFormat = _DEFAULT_FORMAT,
) -> Response:
    """Speak a text; lines of JSON while it is spoken. Times count from the start of the speech."""
    audio = _format(output_format)
    order = await _order(context, services, voice_id, body, reuse)
    return await streamed(context, services, order, CharactersForm(audio), LINES)


@router.get("/v1/voices", responses=elevenlabs_errors(ANY))
async def voices(context: ContextDep, services: ServicesDep) -> ElevenLabsVoicesOut:
    """List all speakers as voices."""
    found = await context.queries.run(lambda: list(every_speaker(services.store)))
    return ElevenLabsVoicesOut(voices=[ElevenLabsVoiceOut.of(speaker) for speaker in found])


@router.get("/v2/voices", responses=elevenlabs_errors("bad_cursor", "bad_limit", ANY))
async def search_voices(
    context: ContextDep,
    services: ServicesDep,
    search: Annotated[str | None, Query(max_length=200, description="A part of the name.")] = None,
    page_size: Annotated[int, Query(ge=1, le=100)] = 10,
    next_page_token: Annotated[str | None, Query(max_length=200)] = None,
) -> ElevenLabsPageOut:
    """List speakers as voices, page by page, oldest first."""
    page = await context.queries.run(partial(services.store.list, next_page_token, page_size, search))
    return ElevenLabsPageOut(
        voices=[ElevenLabsVoiceOut.of(speaker) for speaker in page.speakers],
        has_more=page.next_cursor is not None,
        total_count=page.total,
        next_page_token=page.next_cursor,
    )


@router.post(
    "/v1/voices/add",
    responses=elevenlabs_errors("name_taken bad_name bad_labels", ENROLMENT, UPLOAD, ANY),
    openapi_extra=form_of({**_VOICE_FIELDS, "files": _FILES}, ["name", "files"]),
    dependencies=[ENROL],
)
async def add(request: Request, context: ContextDep, services: ServicesDep) -> AddedOut:
    """Enrol a speaker from clips of one voice; a label `consent_id` names a consent, and is not kept."""
    with context.enrolment.place():
        upload = await read_upload(request, "files", _FIELDS, context.settings.max_clips)
        labels = _labels(upload, {})
        # Their clients send no field for it, but any label.
        consent_id = labels.pop("consent_id", None)
        work = partial(services.enrolment.enrol, required(upload, "name"), upload.clips, labels, consent_id=consent_id)
        enrolled = await context.enrolment.run(work)
    context.metrics.enrolled.inc()
    return AddedOut(voice_id=enrolled.speaker.id)


@router.get("/v1/voices/settings/default", responses=elevenlabs_errors(ANY))
async def default_settings() -> dict[str, object]:
    """Read what a request that says nothing gets."""
    return DEFAULT_SETTINGS


@router.get("/v1/voices/{voice_id}", responses=elevenlabs_errors("speaker_not_found", ANY))
async def read(voice_id: str, context: ContextDep, services: ServicesDep) -> ElevenLabsVoiceOut:
    """Read a speaker as a voice."""
    return ElevenLabsVoiceOut.of(await _speaker(context, services, voice_id))


@router.delete("/v1/voices/{voice_id}", responses=elevenlabs_errors("speaker_not_found", ANY), dependencies=[ENROL])
async def delete(voice_id: str, context: ContextDep, services: ServicesDep) -> DoneOut:
    """Delete a speaker and everything derived from its clips."""
    await context.queries.run(partial(services.store.delete, voice_id, actor="http"))
    return DoneOut()


@router.post(
    "/v1/voices/{voice_id}/edit",
    responses=elevenlabs_errors(
        "speaker_not_found name_taken bad_name bad_labels wrong_encoder", ENROLMENT, UPLOAD, ANY
    ),
    openapi_extra=form_of({**_VOICE_FIELDS, "files": _FILES}, ["name"]),
    dependencies=[ENROL],
)
async def edit(voice_id: str, request: Request, context: ContextDep, services: ServicesDep) -> DoneOut:
    """Change a speaker's name, description or labels, and add clips to it."""
    with context.enrolment.place():
        upload = await read_upload(request, "files", _FIELDS, context.settings.max_clips, min_clips=0)
        speaker = await _speaker(context, services, voice_id)
        naming = Naming(required(upload, "name"), _labels(upload, speaker.labels))
        if upload.clips:
            await context.enrolment.run(partial(services.enrolment.add_clips, speaker.id, upload.clips, naming))
        else:
            work = partial(services.store.update, speaker.id, name=naming.name, labels=naming.labels)
            await context.queries.run(work)
    return DoneOut()


@router.get("/v1/voices/{voice_id}/settings", responses=elevenlabs_errors("speaker_not_found", ANY))
async def settings(voice_id: str, context: ContextDep, services: ServicesDep) -> dict[str, object]:
    """Read the settings of a voice, which are the same for all."""
    await _speaker(context, services, voice_id)
    return DEFAULT_SETTINGS


@router.post(
    "/v1/voices/{voice_id}/settings/edit",
    responses=elevenlabs_errors("speaker_not_found settings_not_kept", ANY),
    dependencies=[ENROL],
)
async def edit_settings(voice_id: str, context: ContextDep, services: ServicesDep) -> DoneOut:
    """Refused: settings are a request's own, none are kept with a voice."""
    await _speaker(context, services, voice_id)
    raise NotOffered(
        "settings_not_kept",
        "no settings are kept with a voice; send voice_settings with each request, of which speed has a meaning here",
        field="voice_settings",
    )


@router.post(
    "/v1/similar-voices",
    responses=elevenlabs_errors(UPLOAD, ANY),
    openapi_extra=form_of(
        {"audio_file": {"type": "string", "format": "binary"}, "similarity_threshold": _TEXT, "top_k": _TEXT},
        ["audio_file"],
    ),
)
async def similar(request: Request, context: ContextDep, services: ServicesDep) -> SimilarVoicesOut:
    """Find the speakers that sound most like a clip; nothing of the clip is kept."""
    with context.enrolment.place():
        upload = await read_upload(request, "audio_file", frozenset(("similarity_threshold", "top_k")), 1)
        top_k = int(_number(upload.fields, "top_k", 10, 1, 100))
        farthest = _number(upload.fields, "similarity_threshold", _FARTHEST, 0, _FARTHEST)
        matches = await context.enrolment.run(partial(services.enrolment.search, upload.clips[0], top_k))
    near = [SimilarVoiceOut.of(match) for match in matches if 1 - match.cosine <= farthest]
    return SimilarVoicesOut(voices=near)


def _format(name: str) -> AudioFormat:
    return find_format(name, RATED_FORMATS)


async def _order(
    context: Context, services: Services, voice_id: str, body: ElevenLabsSpeechIn, reuse: bool
) -> SpeechOrder:
    speaker = await _speaker(context, services, voice_id)
    shelf = services.speaking.voices.shelf
    model = await context.queries.run(partial(model_or_default, shelf, body.model_id))
    return body.order(speaker.id, model, reuse)


async def _speaker(context: Context, services: Services, voice_id: str) -> Speaker:
    return await context.queries.run(partial(find_speaker, services.store, voice_id))


def _labels(upload: Upload, before: Mapping[str, str]) -> dict[str, str]:
    """What is sent replaces what was there; what is left out stays."""
    sent = upload.fields.get("labels")
    # The client writes what it was not given as null.
    labels = dict(before) if sent in (None, "null") else read_labels(sent)
    description = upload.fields.get("description") or before.get("description")
    return labels_with(description, labels)


def _number(fields: Mapping[str, str], name: str, default: float, least: float, most: float) -> float:
    try:
        number = float(fields.get(name, default))
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise RequestRefused("bad_field", f"{name} must be a number from {least:g} to {most:g}", field=name)
    return number
