"""OpenAI's routes for voices that are made from recordings, and for the consent to them."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request

from api.consent_schemas import (
    OpenAIConsentChange,
    OpenAIConsentOut,
    OpenAIConsentsOut,
    OpenAIDeletedOut,
    OpenAIVoiceOut,
)
from api.consenting import ConsentOrder
from api.context import ENROL, CallerDep, ContextDep, ServicesDep
from api.errors import NotOffered, RequestRefused
from api.multipart import read_upload, required
from api.routes.documented import ANY, CONSENT, UPLOAD, form_of, openai_errors
from store.checks import write_cursor

router = APIRouter(prefix="/v1/audio", tags=["openai"], dependencies=[ENROL])
_TEXT, _FILE = {"type": "string"}, {"type": "string", "format": "binary"}
# The last three are those of a voice from a prompt.
_VOICE_FIELDS = frozenset(("name", "consent", "type", "prompt", "model", "script_hint"))
_ONE = openai_errors("consent_not_found", ANY)
_PROMPT = "a voice is made from a recording here, none from a prompt; send audio_sample with type audio_sample"


@router.post(
    "/voice_consents",
    responses=openai_errors("bad_consent", CONSENT, UPLOAD, ANY),
    openapi_extra=form_of({"name": _TEXT, "language": _TEXT, "recording": _FILE}, ["name", "language", "recording"]),
)
async def add(request: Request, caller: CallerDep, context: ContextDep, services: ServicesDep) -> OpenAIConsentOut:
    """Record a consent; its statement is the sentence of this service, its person the `name`."""
    with context.enrolment.place():
        upload = await read_upload(request, "recording", frozenset({"name", "language"}), 1)
        name, language = required(upload, "name"), required(upload, "language")
        order = ConsentOrder(person=name, recording=upload.clips[0], language=language)
        consent = await context.enrolment.run(partial(services.consenting.add, order, caller.actor))
    return OpenAIConsentOut.of(consent)


@router.get("/voice_consents", responses=openai_errors("consent_not_found", ANY))
async def list_consents(
    context: ContextDep,
    services: ServicesDep,
    after: Annotated[str | None, Query(max_length=100, description="The last id of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> OpenAIConsentsOut:
    """List consents, oldest first, page by page."""
    last = None if after is None else await context.queries.run(partial(services.store.consent, after))
    cursor = None if last is None else write_cursor(last.created_at, last.id)
    return OpenAIConsentsOut.of(await context.queries.run(partial(services.store.consents, cursor, limit)))


@router.get("/voice_consents/{consent_id}", responses=_ONE)
async def read(consent_id: str, context: ContextDep, services: ServicesDep) -> OpenAIConsentOut:
    """Read a consent."""
    return OpenAIConsentOut.of(await context.queries.run(partial(services.store.consent, consent_id)))


@router.post("/voice_consents/{consent_id}", responses=openai_errors("consent_not_found bad_consent bad_field", ANY))
async def rename(
    consent_id: str, body: OpenAIConsentChange, caller: CallerDep, context: ContextDep, services: ServicesDep
) -> OpenAIConsentOut:
    """Change what a consent is called in lists; who agreed to what stays."""
    work = partial(services.store.rename_consent, consent_id, body.name, actor=caller.actor)
    return OpenAIConsentOut.of(await context.queries.run(work))


@router.delete("/voice_consents/{consent_id}", responses=openai_errors("consent_not_found consent_used", ANY))
async def delete(consent_id: str, caller: CallerDep, context: ContextDep, services: ServicesDep) -> OpenAIDeletedOut:
    """Forget a consent that no voice uses; that of a voice goes with the voice."""
    await context.queries.run(partial(services.store.delete_consent, consent_id, actor=caller.actor))
    return OpenAIDeletedOut(id=consent_id, object="audio.voice_consent")


@router.post(
    "/voices",
    responses=openai_errors(
        "name_taken bad_name quota_exceeded consent_not_found voice_protected protected_unheard prompts_not_offered",
        CONSENT, UPLOAD, ANY,
    ),
    openapi_extra=form_of(
        {"name": _TEXT, "audio_sample": _FILE, "consent": _TEXT, "type": _TEXT}, ["name", "audio_sample"]
    ),
)  # fmt: skip
async def create(request: Request, context: ContextDep, services: ServicesDep) -> OpenAIVoiceOut:
    """Enrol a speaker from a recording, under a consent."""
    if request.headers.get("content-type", "").startswith("application/json"):
        raise NotOffered("prompts_not_offered", _PROMPT, field="type")
    with context.enrolment.place():
        upload = await read_upload(request, "audio_sample", _VOICE_FIELDS, 1, min_clips=0)
        if upload.fields.get("type", "audio_sample") != "audio_sample":
            raise NotOffered("prompts_not_offered", _PROMPT, field="type")
        if not upload.clips:
            words = "audio_sample is missing; send an audio file"
            raise RequestRefused("missing_field", words, field="audio_sample")
        consent_id = upload.fields.get("consent")
        name = required(upload, "name")
        work = partial(services.enrolment.enrol, name, upload.clips, {}, consent_id=consent_id)
        enrolled = await context.enrolment.run(work)
    context.metrics.enrolled.inc()
    return OpenAIVoiceOut.of(enrolled.speaker)


@router.delete("/voices/{voice_id}", responses=openai_errors("speaker_not_found", ANY))
async def delete_voice(
    voice_id: str, caller: CallerDep, context: ContextDep, services: ServicesDep
) -> OpenAIDeletedOut:
    """Delete a speaker and everything derived from its clips, its consent too."""
    await context.queries.run(partial(services.store.delete, voice_id, actor=caller.actor))
    return OpenAIDeletedOut(id=voice_id, object="audio.voice.deleted")
