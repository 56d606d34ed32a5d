"""/v1/jobs: long texts, spoken behind everything that somebody waits for."""

import json
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Literal
from urllib.parse import quote

import anyio
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from api.context import SPEAK, Context, ContextDep, ServicesDep
from api.jobs import Heard, audible
from api.jobs_files import JOB_FORMATS, JobFile
from api.jobs_schemas import JobDetailOut, JobIn, JobOut, JobPageOut, job_detail
from api.replies import STREAM_HEADERS, SentResponse
from api.routes.documented import ANY, errors
from api.services import Services
from store.errors import JobNotFound
from store.jobs_types import UNFINISHED

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], dependencies=[SPEAK])
_POLL_S = 0.5
# Proxies close a connection on which nothing is heard.
_QUIET_S = 15.0
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_SUBMIT = (
    "speaker_not_found consent_missing consent_revoked consent_insufficient nothing_to_say text_too_long "
    "bad_tag bad_markup bad_lexicon bad_field missing_field too_large "
    "language_unsupported wrong_encoder model_unknown quota_exceeded key_reused job_not_found too_many_jobs jobs_full "
    "storage_full"
)
_FILE = "job_not_found job_not_done job_inaudible"
_EVENTS = {"text/event-stream": {"schema": {"type": "string", "description": "Events `progress`, and `end` at last."}}}


@router.post("", status_code=202, responses=errors(_SUBMIT, ANY))
async def submit(
    body: JobIn,
    response: Response,
    context: ContextDep,
    services: ServicesDep,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> JobOut:
    """Hand a long text in; it is spoken piece by piece, and goes on after a restart.

    The same request under the same Idempotency-Key makes one job, for a day, and is answered each time.
    """
    job = await context.queries.run(partial(services.jobs.submit, body.order(), idempotency_key))
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return JobOut.of(job)


@router.get("", responses=errors("bad_cursor", "bad_limit", ANY))
async def list_jobs(
    context: ContextDep,
    services: ServicesDep,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> JobPageOut:
    """List jobs, the newest first, page by page."""
    return JobPageOut.of(await context.queries.run(partial(services.store.jobs.page, cursor, limit)))


@router.get("/{job_id}", responses=errors("job_not_found", ANY))
async def read(job_id: str, context: ContextDep, services: ServicesDep) -> JobDetailOut:
    """Read a job: how far it is and how long it will take, its chapters, and what could not be spoken."""
    return await context.queries.run(partial(job_detail, services.store, job_id))


@router.get("/{job_id}/events", response_class=Response,
            responses={200: {"description": "Events", "content": _EVENTS}, **errors("job_not_found", ANY)})  # fmt: skip
async def events(job_id: str, context: ContextDep, services: ServicesDep) -> Response:
    """Follow a job by server-sent events: `progress` whenever it has come on, `end` when it has ended."""
    with ExitStack() as stack:
        stack.enter_context(context.files.place())
        await context.queries.run(partial(services.store.jobs.get, job_id))
        release = stack.pop_all()

        async def end(_: bool) -> None:
            release.close()

        body = _events(context, services, job_id)
        return SentResponse(body, context.settings.send_timeout_s, end, STREAM_HEADERS, "text/event-stream")


@router.get(
    "/{job_id}/audio",
    response_class=Response,
    responses={
        200: {"description": "Audio", "content": {each.media_type: _BINARY for each in JOB_FORMATS.values()}},
        **errors(_FILE, "format_unknown", ANY),
    },
)
async def audio(
    job_id: str,
    request: Request,
    context: ContextDep,
    services: ServicesDep,
    format: Annotated[str, Query(max_length=40, description=", ".join(JOB_FORMATS))] = "wav",
) -> Response:
    """Download the whole recording; m4a has chapters, and is made whole before its first byte."""
    heard = await context.queries.run(partial(audible, services.store, job_id))
    return await _sent(request, context, heard, services.job_files.audio(heard, format))


@router.get(
    "/{job_id}/timestamps",
    response_class=Response,
    responses={
        200: {"description": "Times", "content": {"application/json": {}, "application/x-subrip": {}, "text/vtt": {}}},
        **errors(_FILE, ANY),
    },
)
async def timestamps(
    job_id: str,
    request: Request,
    context: ContextDep,
    services: ServicesDep,
    format: Annotated[Literal["json", "srt", "vtt"], Query(description="json, or subtitles.")] = "json",
) -> Response:
    """Download when each sentence, word and sound is heard, and the chapters; or subtitles."""
    heard = await context.queries.run(partial(audible, services.store, job_id))
    return await _sent(request, context, heard, services.job_files.times(heard, format))


@router.post("/{job_id}/cancel", responses=errors("job_not_found", ANY))
async def cancel(job_id: str, context: ContextDep, services: ServicesDep) -> JobOut:
    """End a job within a sentence and free its room; one that has ended stays as it is."""
    return JobOut.of(await context.queries.run(partial(services.store.jobs.cancel, job_id)))


@router.delete("/{job_id}", status_code=204, responses=errors("job_not_found", ANY))
async def delete(job_id: str, context: ContextDep, services: ServicesDep) -> Response:
    """Delete a job with its text and its audio, whether it has ended or not."""
    await context.queries.run(partial(services.store.jobs.delete, job_id))
    return Response(status_code=204)


async def _events(context: Context, services: Services, job_id: str) -> AsyncGenerator[bytes, None]:
    shown, quiet_s = "", 0.0
    while not context.host.draining:
        try:
            job = await context.queries.run(partial(services.store.jobs.get, job_id))
        except JobNotFound:
            yield _event("end", json.dumps({"job_id": job_id, "state": "deleted"}))
            return
        document = JobOut.of(job).model_dump_json()
        if job.state not in UNFINISHED:
            yield _event("end", document)
            return
        if document != shown:
            shown, quiet_s = document, 0.0
            yield _event("progress", document)
        elif quiet_s >= _QUIET_S:
            quiet_s = 0.0
            yield b": still here\n\n"
        await anyio.sleep(_POLL_S)
        quiet_s += _POLL_S


def _event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()


async def _sent(request: Request, context: Context, heard: Heard, file: JobFile) -> StreamingResponse:
    """The file while it is made. Its first bytes exist before the headers are sent."""
    with ExitStack() as stack:
        stack.enter_context(context.files.place())
        stack.callback(file.parts.close)
        first: bytes | None = b""
        while first == b"":
            first = await context.files.run(partial(next, file.parts, None))
            if await request.is_disconnected():
                raise ClientDisconnect()
        release = stack.pop_all()

        async def end(is_sent: bool) -> None:
            if not is_sent:
                context.metrics.cancelled.inc()
            with anyio.CancelScope(shield=True):
                await context.files.run(release.close)

        return SentResponse(
            _chunks(context, file, first or b""),
            context.settings.send_timeout_s,
            end,
            _headers(heard, file),
            file.media_type,
        )


async def _chunks(context: Context, file: JobFile, first: bytes) -> AsyncGenerator[bytes, None]:
    yield first
    while (part := await context.files.run(partial(next, file.parts, None))) is not None:
        if part:
            yield part


def _headers(heard: Heard, file: JobFile) -> dict[str, str]:
    """Source: RFC 6266; a title never becomes a name without being encoded."""
    title = heard.job.title or f"job-{heard.job.id}"
    name = f"filename=\"job-{heard.job.id}.{file.ending}\"; filename*=UTF-8''{quote(title, safe='')}.{file.ending}"
    headers = {**STREAM_HEADERS, "Content-Disposition": f"attachment; {name}"}
    return headers | ({"Content-Length": str(file.n_bytes)} if file.n_bytes is not None else {})
