"""/v1/consents: who agreed that a voice is used; /v1/admin/protected: voices that may not be enrolled."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from api.consent_schemas import (
    ConsentExportOut,
    ConsentOut,
    ConsentPageOut,
    NewProtectedOut,
    ProtectedListOut,
)
from api.consenting import ConsentOrder, read_time
from api.context import ADMIN, ENROL, CallerDep, ContextDep, ServicesDep
from api.multipart import Upload, read_upload, required
from api.routes.documented import ANY, CONSENT, UPLOAD, errors, form_of

router = APIRouter(prefix="/v1/consents", tags=["consents"], dependencies=[ENROL])
protected = APIRouter(prefix="/v1/admin/protected", tags=["admin"], dependencies=[ADMIN])
_TEXT = {"type": "string"}
_FIELDS = {
    "person": {**_TEXT, "description": "Who agrees.", "examples": ["Ada Lovelace"]},
    "statement": {**_TEXT, "description": "What was said or signed; by default VOICEKIN_CONSENT_STATEMENT."},
    "name": {**_TEXT, "description": "What lists show; by default the person."},
    "language": {**_TEXT, "description": "A BCP 47 tag.", "examples": ["en"]},
    "granted_at": {**_TEXT, "format": "date-time", "description": "By default now."},
    "speaker_id": {**_TEXT, "description": "A speaker who is there already."},
}
_RECORDING = {"type": "string", "format": "binary", "description": "The statement as that person says it."}
_ONE = errors("consent_not_found", ANY)
_CLIPS = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}


@router.post(
    "",
    status_code=201,
    responses=errors("bad_consent speaker_not_found wrong_encoder", CONSENT, UPLOAD, ANY),
    openapi_extra=form_of({**_FIELDS, "recording": _RECORDING}, ["person"]),
)
async def add(
    request: Request, response: Response, caller: CallerDep, context: ContextDep, services: ServicesDep
) -> ConsentOut:
    """Record that somebody agrees to the use of a voice, for an enrolment to come or for a speaker who is there."""
    with context.enrolment.place():
        upload = await read_upload(request, "recording", frozenset(_FIELDS), 1, min_clips=0)
        work = partial(services.consenting.add, _order(upload), caller.actor)
        consent = await context.enrolment.run(work)
    response.headers["Location"] = f"/v1/consents/{consent.id}"
    return ConsentOut.of(consent)


@router.get("", responses=errors("bad_cursor", "bad_limit", ANY))
async def list_consents(
    context: ContextDep,
    services: ServicesDep,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    speaker_id: Annotated[str | None, Query(max_length=100, description="Only those of this speaker.")] = None,
) -> ConsentPageOut:
    """List consents in the order in which they came, page by page."""
    return ConsentPageOut.of(await context.queries.run(partial(services.store.consents, cursor, limit, speaker_id)))


@router.get("/{consent_id}", responses=_ONE)
async def read(consent_id: str, context: ContextDep, services: ServicesDep) -> ConsentOut:
    """Read a consent, without its recording."""
    return ConsentOut.of(await context.queries.run(partial(services.store.consent, consent_id)))


@router.get("/{consent_id}/export", responses=errors("consent_not_found storage_full", ANY))
async def export(
    consent_id: str, response: Response, caller: CallerDep, context: ContextDep, services: ServicesDep
) -> ConsentExportOut:
    """Read all that is stored of a consent: the record, the recording in base64, and who did what with it."""
    response.headers["Cache-Control"] = "no-store"
    work = partial(services.store.export_consent, consent_id, actor=caller.actor)
    return ConsentExportOut.of_export(await context.queries.run(work))


@router.post("/{consent_id}/revoke", responses=errors("consent_not_found storage_full", ANY))
async def revoke(consent_id: str, caller: CallerDep, context: ContextDep, services: ServicesDep) -> ConsentOut:
    """End a consent for good: its speaker is spoken with no more, in any process; its jobs and kept speeches go."""
    work = partial(services.store.revoke_consent, consent_id, actor=caller.actor)
    return ConsentOut.of(await context.queries.run(work))


@router.delete("/{consent_id}", status_code=204, responses=errors("consent_not_found consent_used storage_full", ANY))
async def delete(consent_id: str, caller: CallerDep, context: ContextDep, services: ServicesDep) -> Response:
    """Forget a consent that no speaker uses; that of a speaker goes when the speaker is deleted."""
    await context.queries.run(partial(services.store.delete_consent, consent_id, actor=caller.actor))
    return Response(status_code=204)


@protected.post(
    "",
    status_code=201,
    responses=errors("admin_disabled bad_name", UPLOAD, ANY),
    openapi_extra=form_of(
        {"name": {**_TEXT, "description": "Shown to admins alone."}, "clips": _CLIPS}, ["name", "clips"]
    ),
)
async def protect(request: Request, caller: CallerDep, context: ContextDep, services: ServicesDep) -> NewProtectedOut:
    """Keep a voice from being enrolled, by any tenant. Nothing of the clips is kept but vectors."""
    with context.enrolment.place():
        upload = await read_upload(request, "clips", frozenset({"name"}), context.settings.max_clips)
        name = required(upload, "name")
        work = partial(services.consenting.protect, name, upload.clips, caller.actor)
        return NewProtectedOut.of(await context.enrolment.run(work))


@protected.get("", responses=errors("admin_disabled", ANY))
async def list_protected(context: ContextDep, services: ServicesDep) -> ProtectedListOut:
    """List the voices that may not be enrolled."""
    return ProtectedListOut.of(await context.queries.run(services.store.protected))


@protected.delete(
    "/{protected_id}", status_code=204, responses=errors("admin_disabled protected_not_found storage_full", ANY)
)
async def unprotect(protected_id: str, caller: CallerDep, context: ContextDep, services: ServicesDep) -> Response:
    """Forget a protected voice, so that it may be enrolled again."""
    await context.queries.run(partial(services.store.unprotect, protected_id, actor=caller.actor))
    return Response(status_code=204)


def _order(upload: Upload) -> ConsentOrder:
    fields = {name: value for name, value in upload.fields.items() if value.strip()}
    given = {name: fields[name] for name in ("statement", "name", "language", "speaker_id") if name in fields}
    return ConsentOrder(
        person=required(upload, "person"),
        recording=upload.clips[0] if upload.clips else None,
        granted_at=read_time(fields["granted_at"]) if "granted_at" in fields else None,
        **given,
    )
