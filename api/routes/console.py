"""/console/: the page for people, its files and the limits that it names; / leads there."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from api.audio_out import FORMATS
from api.context import ContextDep
from api.jobs_files import JOB_FORMATS
from api.speech import SPEED_RANGE
from store.keys import LIMITS

router = APIRouter(include_in_schema=False)
# The page makes its sounds and its downloads itself, hence blob:. Nothing on it is ever read as markup.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # Asked for again each time, and answered 304: a page is never made of two versions' files.
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}
_DIRECTORY = {"name": "Voicekin", "api": "v1/", "reference": "docs", "openapi": "openapi.json", "console": "console/"}
_PAGE = "index.html"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file of the console, as it is and packed."""

    data: bytes
    packed: bytes
    media_type: str
    etag: str


@router.get("/")
async def root(accept: Annotated[str, Header()] = "") -> Response:
    """A browser goes to the console; a program is told what is where."""
    if "text/html" in accept:
        return RedirectResponse("console/", status_code=303, headers={"Vary": "Accept"})
    return JSONResponse(_DIRECTORY, headers={"Vary": "Accept"})


@router.get("/console")
async def page(request: Request) -> Response:
    """The page itself, under the path with a slash, from which its files are found."""
    if not request.state.asked_path.endswith("/"):
        return RedirectResponse("console/", status_code=308)
    return _answer(request, _PAGE)


@router.get("/console/limits.json")
async def limits(context: ContextDep) -> Response:
    """What the page tells people before they send anything."""
    settings = context.settings
    audio = settings.audio_limits()
    shown: dict[str, Any] = {
        "version": version("voicekin"),
        "grace_days": settings.grace_days,
        "max_text_chars": settings.max_text_chars,
        "max_upload_bytes": settings.max_upload_bytes,
        "max_clip_bytes": audio.max_bytes,
        "max_clips": settings.max_clips,
        "min_voiced_s": audio.min_voiced_s,
        "recommended_voiced_s": audio.recommended_voiced_s,
        "formats": {name: item.media_type for name, item in FORMATS.items()},
        "max_job_chars": settings.job_max_chars,
        "job_keep_days": settings.job_keep_days,
        "job_formats": list(JOB_FORMATS),
        "key_limits": LIMITS,
        "speed": SPEED_RANGE,
        "consent": settings.consent,
        "consent_statement": settings.consent_statement,
    }
    return JSONResponse(shown, headers={**_HEADERS, "Cache-Control": "no-store"})


@router.get("/console/{name}")
async def asset(name: str, request: Request) -> Response:
    """A file of the page."""
    return _answer(request, name)


@cache
def _assets() -> Mapping[str, Asset]:
    """Every file of the console by its name: what is not listed here cannot be asked for."""
    folder = files("api") / "console"
    return {item.name: _asset(item.name, item.read_bytes()) for item in folder.iterdir() if item.is_file()}


def _asset(name: str, data: bytes) -> Asset:
    digest = hashlib.sha256(data).hexdigest()[:32]
    return Asset(data, gzip.compress(data, mtime=0), _TYPES[name.rpartition(".")[2]], f'W/"{digest}"')


def _answer(request: Request, name: str) -> Response:
    found = _assets().get(name)
    if found is None:
        raise HTTPException(404, "Not Found")
    headers = {**_HEADERS, "ETag": found.etag}
    known = {tag.strip() for tag in request.headers.get("if-none-match", "").split(",")}
    if known & {found.etag, "*"}:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=found.media_type)
    return Response(found.data, headers=headers, media_type=found.media_type)
