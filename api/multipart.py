"""Uploads read into memory, part by part, under caps; nothing of them touches the disk."""

import json
import sys
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from api.errors import RequestRefused
from api.schemas import Labels
from encoder.errors import UnreadableAudio
from encoder.raw_pcm import in_container

_LABELS: TypeAdapter[dict[str, str]] = TypeAdapter(Labels)
_MAX_FIELDS = 16
_MAX_FIELD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Upload:
    """The parts of an upload: its fields by name, and its clips in order."""

    fields: dict[str, str]
    clips: tuple[bytes, ...]


class _InMemoryParser(MultiPartParser):
    spool_max_size = sys.maxsize


async def read_upload(
    request: Request, clip_field: str, fields: frozenset[str], max_clips: int, min_clips: int = 1
) -> Upload:
    """The upload of this request.

    Raises: RequestRefused, with the name of the part; UnreadableAudio for raw samples of unknown shape.
    """
    form = await _parse(request, max_clips)
    try:
        _check_names(form, fields | {clip_field})
        texts = {name: value for name, value in form.multi_items() if isinstance(value, str)}
        clips = [await _read(index, value, clip_field) for index, value in enumerate(form.getlist(clip_field))]
    finally:
        await form.close()
    if len(clips) < min_clips:
        raise RequestRefused("missing_field", f"{clip_field} is missing; send an audio file", field=clip_field)
    return Upload(texts, tuple(clips))


def required(upload: Upload, field: str) -> str:
    """The field of an upload. Raises: RequestRefused."""
    if field not in upload.fields:
        raise RequestRefused("missing_field", f"{field} is missing; send it as a form field", field=field)
    return upload.fields[field]


def read_labels(text: str | None) -> dict[str, str]:
    """Labels from their form field. Raises: RequestRefused."""
    if text is None or not text.strip():
        return {}
    try:
        return _LABELS.validate_python(json.loads(text))
    except (ValueError, ValidationError, RecursionError):
        raise RequestRefused(
            "bad_labels",
            'labels must be a JSON object of at most 32 short texts, such as {"accent": "northern"}',
            field="labels",
        ) from None


async def _parse(request: Request, max_clips: int) -> FormData:
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise RequestRefused("bad_multipart", "the body must be multipart/form-data with an audio file in it")
    stream = request.stream()
    parser = _InMemoryParser(
        request.headers, stream, max_files=max_clips, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES
    )
    try:
        return await parser.parse()
    except MultiPartException as error:
        code = "too_many_clips" if error.message.startswith("Too many files") else "bad_multipart"
        raise RequestRefused(code, error.message, field="clips", limit=max_clips) from None


def _check_names(form: FormData, allowed: frozenset[str]) -> None:
    for name in form:
        if name not in allowed:
            known = ", ".join(sorted(allowed))
            raise RequestRefused("bad_field", f"unknown field {name[:40]!r}; the fields are: {known}", field=name[:40])


async def _read(index: int, value: UploadFile | str, field: str) -> bytes:
    if isinstance(value, str):
        raise RequestRefused("bad_field", f"{field} must be a file part, with a file name", field=field)
    try:
        return in_container(await value.read(), value.content_type or "")
    except UnreadableAudio as error:
        error.details["clip"] = index
        raise
