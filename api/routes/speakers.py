"""/v1/speakers: enrol, read, change, delete, compare."""

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response

from api.context import CLIENT, ENROL, ContextDep, ServicesDep
from api.map_schemas import MapOut
from api.multipart import Upload, read_labels, read_upload, required
from api.routes.documented import ANY, ENROLMENT, UPLOAD, errors, form_of
from api.schemas import EnrolledOut, MatchesOut, SpeakerChange, SpeakerDetailOut, SpeakerOut, SpeakerPage, VerdictOut

router = APIRouter(prefix="/v1/speakers", tags=["speakers"], dependencies=[CLIENT])
_CLIPS = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
K = Annotated[int, Query(ge=1, le=100, description="How many.")]


@router.post(
    "",
    status_code=201,
    responses=errors("name_taken bad_name bad_labels key_reused model_unknown", ENROLMENT, UPLOAD, ANY),
    openapi_extra=form_of(
        {
            "name": {"type": "string", "examples": ["Ada"]},
            "clips": _CLIPS,
            "labels": {
                "type": "string",
                "description": "A JSON object of texts.",
                "examples": ['{"accent": "northern"}'],
            },
            "model": {
                "type": "string",
                "description": "The voice whose encoder hears the clips; by default the one in use.",
                "examples": ["default"],
            },
            "consent_id": {
                "type": "string",
                "description": "The consent of this person; from then on it is this speaker's.",
            },
        },
        ["name", "clips"],
    ),
    dependencies=[ENROL],
)
async def enrol(
    request: Request,
    response: Response,
    context: ContextDep,
    services: ServicesDep,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> EnrolledOut:
    """Enrol a speaker from one or more clips of one voice; 5 to 30 seconds of speech are best.

    The same request under the same Idempotency-Key enrols once, for a day, and is answered each time.
    """
    with context.enrolment.place():
        upload = await _clips(request, context.settings.max_clips, "name", "labels", "model", "consent_id")
        name = required(upload, "name")
        labels = read_labels(upload.fields.get("labels"))
        model, consent_id = upload.fields.get("model"), upload.fields.get("consent_id")
        work = partial(services.enrolment.enrol, name, upload.clips, labels, idempotency_key, model, consent_id)
        enrolled = await context.enrolment.run(work)
    context.metrics.enrolled.inc()
    response.headers["Location"] = f"/v1/speakers/{enrolled.speaker.id}"
    return EnrolledOut.of_enrolled(enrolled)


@router.post(
    "/{speaker_id}/clips",
    responses=errors("speaker_not_found", "wrong_encoder", ENROLMENT, UPLOAD, ANY),
    openapi_extra=form_of({"clips": _CLIPS}, ["clips"]),
    dependencies=[ENROL],
)
async def add_clips(speaker_id: str, request: Request, context: ContextDep, services: ServicesDep) -> EnrolledOut:
    """Add clips to a speaker; the mean of its voice is renewed."""
    with context.enrolment.place():
        upload = await _clips(request, context.settings.max_clips)
        work = partial(services.enrolment.add_clips, speaker_id, upload.clips)
        return EnrolledOut.of_enrolled(await context.enrolment.run(work))


@router.post(
    "/search",
    responses=errors(UPLOAD, ANY),
    openapi_extra=form_of({"clip": {"type": "string", "format": "binary"}}, ["clip"]),
)
async def search(request: Request, context: ContextDep, services: ServicesDep, k: K = 5) -> MatchesOut:
    """Find the speakers that sound most like a clip; nothing of the clip is kept."""
    with context.enrolment.place():
        upload = await read_upload(request, "clip", frozenset(), 1)
        matches = await context.enrolment.run(partial(services.enrolment.search, upload.clips[0], k))
    return MatchesOut.of(matches)


@router.post(
    "/{speaker_id}/verify",
    responses=errors("speaker_not_found wrong_encoder not_calibrated consent_missing consent_revoked", UPLOAD, ANY),
    openapi_extra=form_of({"clip": {"type": "string", "format": "binary"}}, ["clip"]),
)
async def verify(
    speaker_id: str,
    request: Request,
    context: ContextDep,
    services: ServicesDep,
    point: Annotated[
        Literal["balanced", "one_in_100", "one_in_1000"], Query(description="Operating point.")
    ] = "balanced",
) -> VerdictOut:
    """Say whether a clip is of this speaker, with what such an answer is worth; nothing of the clip is kept."""
    with context.enrolment.place():
        upload = await read_upload(request, "clip", frozenset(), 1)
        work = partial(services.enrolment.verify, speaker_id, upload.clips[0], point)
        return VerdictOut.of(await context.enrolment.run(work))


@router.get("", responses=errors("bad_cursor", "bad_limit", ANY))
async def list_speakers(
    context: ContextDep,
    services: ServicesDep,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    name_contains: Annotated[str | None, Query(max_length=200, description="Only these, in any case.")] = None,
) -> SpeakerPage:
    """List speakers in the order of their enrolment, page by page."""
    return SpeakerPage.of(await context.queries.run(partial(services.store.list, cursor, limit, name_contains)))


@router.get("/map", responses=errors("speaker_not_found", ANY))
async def chart(
    context: ContextDep,
    services: ServicesDep,
    to: Annotated[
        str | None, Query(max_length=100, description="A speaker: its encoder's map, with the cosine of each to it.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Most speakers; a larger store is sampled.")] = 500,
) -> MapOut:
    """Lay speakers out on a plane, the two principal axes of their vectors; by default those of the encoder in use."""
    info = await context.queries.run(services.speaking.voices.describe)
    work = partial(services.store.chart, info.voice.encoder_id, limit, to)
    return MapOut.of(await context.queries.run(work))


@router.get("/{speaker_id}", responses=errors("speaker_not_found", ANY))
async def read(speaker_id: str, context: ContextDep, services: ServicesDep) -> SpeakerDetailOut:
    """Read a speaker, with the report of its enrolment."""
    return SpeakerDetailOut.of(await context.queries.run(partial(services.store.get, speaker_id)))


@router.patch(
    "/{speaker_id}",
    responses=errors("speaker_not_found name_taken bad_name bad_labels bad_field", ANY),
    dependencies=[ENROL],
)
async def change(speaker_id: str, body: SpeakerChange, context: ContextDep, services: ServicesDep) -> SpeakerOut:
    """Change a speaker's name or labels, or pin it."""
    work = partial(services.store.update, speaker_id, name=body.name, labels=body.labels, pinned=body.pinned)
    return SpeakerOut.of(await context.queries.run(work))


@router.delete("/{speaker_id}", status_code=204, responses=errors("speaker_not_found", ANY), dependencies=[ENROL])
async def delete(
    speaker_id: str,
    context: ContextDep,
    services: ServicesDep,
    at_once: Annotated[bool, Query(description="Erase now, even where there is time to undo.")] = False,
) -> Response:
    """Delete a speaker and everything derived from its clips; for VOICEKIN_GRACE_DAYS it can be brought back."""
    await context.queries.run(partial(services.store.delete, speaker_id, actor="http", at_once=at_once))
    return Response(status_code=204)


@router.post(
    "/{speaker_id}/undelete",
    responses=errors("speaker_not_found name_taken quota_exceeded voice_protected", ANY),
    dependencies=[ENROL],
)
async def undelete(speaker_id: str, context: ContextDep, services: ServicesDep) -> SpeakerOut:
    """Bring a deleted speaker back, with its id, its clips and its uses."""
    return SpeakerOut.of(await context.queries.run(partial(services.store.bring_back, speaker_id, actor="http")))


@router.get("/{speaker_id}/similar", responses=errors("speaker_not_found", ANY))
async def similar(speaker_id: str, context: ContextDep, services: ServicesDep, k: K = 5) -> MatchesOut:
    """Find the speakers that sound most like this one."""
    return MatchesOut.of(await context.queries.run(partial(services.store.similar_to, speaker_id, k)))


async def _clips(request: Request, max_clips: int, *fields: str) -> Upload:
    return await read_upload(request, "clips", frozenset(fields), max_clips)
