"""Every room's error, mapped once: to a status, to RFC 9457 problem documents, to OpenAI's envelope."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import api.errors as api_errors
import cloning.errors as cloning_errors
import encoder.errors as encoder_errors
import store.errors as store_errors

RoomError = api_errors.ApiError | cloning_errors.CloningError | encoder_errors.EncoderError | store_errors.StoreError
ROOTS = (
    api_errors.ApiError,
    cloning_errors.CloningError,
    encoder_errors.EncoderError,
    store_errors.StoreError,
)
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
_TYPE = "urn:voicekin:problem:"
# What another try shortly after may not meet.
_PASSING = {429, 503}


@dataclass(frozen=True, slots=True)
class Kind:
    """How an error class is shown: its HTTP status and its title."""

    status: int
    title: str


KINDS: Mapping[type[Exception], Kind] = {
    api_errors.RequestRefused: Kind(422, "The request cannot be used"),
    api_errors.NotOffered: Kind(422, "Not offered"),
    api_errors.NotCalibrated: Kind(409, "The encoder is not calibrated"),
    api_errors.TooLarge: Kind(413, "The body is too large"),
    api_errors.ModelUnknown: Kind(404, "No such model"),
    api_errors.FormatUnknown: Kind(422, "Unknown audio format"),
    api_errors.AccessRefused: Kind(401, "Access refused"),
    api_errors.RateLimited: Kind(429, "Too many requests"),
    api_errors.NotReady: Kind(503, "Not ready"),
    api_errors.TooBusy: Kind(503, "Too busy"),
    api_errors.OutOfTurn: Kind(409, "Not now"),
    api_errors.Idle: Kind(408, "Nothing came"),
    api_errors.JobInaudible: Kind(409, "Nothing can be heard"),
    api_errors.WordsRefused: Kind(422, "The recording does not say what it should"),
    api_errors.RecogniserMissing: Kind(501, "Words cannot be checked here"),
    api_errors.ServerRefused: Kind(502, "The server refused"),
    api_errors.SettingsError: Kind(500, "Bad settings"),
    encoder_errors.UnreadableAudio: Kind(422, "The audio cannot be read"),
    encoder_errors.AudioTooLong: Kind(413, "The audio is too long"),
    encoder_errors.UnusableSpeech: Kind(422, "No usable speech"),
    cloning_errors.TextRefused: Kind(422, "The text cannot be spoken"),
    cloning_errors.LanguageUnsupported: Kind(422, "Language not supported"),
    cloning_errors.BadConditioning: Kind(409, "The speaker does not fit this voice"),
    cloning_errors.BundleError: Kind(503, "The voice cannot be loaded"),
    cloning_errors.EngineError: Kind(503, "The engine failed"),
    cloning_errors.SynthesisFailed: Kind(500, "The synthesis failed"),
    cloning_errors.Overloaded: Kind(503, "Too busy"),
    store_errors.SpeakerNotFound: Kind(404, "No such speaker"),
    store_errors.NameTaken: Kind(409, "The name is taken"),
    store_errors.KeyReused: Kind(422, "The key belongs to another request"),
    store_errors.KeyNotFound: Kind(404, "No such key"),
    store_errors.QuotaExceeded: Kind(429, "The quota is used up"),
    store_errors.ConsentNotFound: Kind(404, "No such consent"),
    store_errors.ConsentRefused: Kind(403, "No valid consent"),
    store_errors.ProtectedNotFound: Kind(404, "No such protected voice"),
    store_errors.VoiceProtected: Kind(403, "The voice may not be enrolled"),
    store_errors.BadName: Kind(422, "The name cannot be used"),
    store_errors.BadArgument: Kind(422, "The request cannot be used"),
    store_errors.BadVector: Kind(409, "The vector cannot be stored"),
    store_errors.ArchiveRefused: Kind(422, "The archive cannot be used"),
    store_errors.JobNotFound: Kind(404, "No such job"),
    store_errors.TooManyJobs: Kind(429, "Too many jobs"),
    store_errors.StorageFull: Kind(507, "The disk is full"),
    store_errors.SchemaMismatch: Kind(503, "The database has another schema"),
    store_errors.StoreUnavailable: Kind(503, "The database does not answer"),
}
STATUS_OF_CODE: Mapping[str, int] = {
    "unsupported_format": 415,
    "text_too_long": 413,
    "too_large": 413,
    "admin_disabled": 403,
    "scope_missing": 403,
    "origin_refused": 403,
    "consent_used": 409,
    "protected_unheard": 409,
    "deadline_missed": 504,
}
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
# What OpenAI's clients treat as a fault of the request.
_OPENAI_BAD_REQUEST = {409, 413, 415, 422}
_OPENAI_FIELDS = {"text": "input", "speaker_id": "voice", "format": "response_format", "consent_id": "consent"}
_ELEVENLABS_FIELDS = {
    "speaker_id": "voice_id",
    "voice": "voice_id",
    "format": "output_format",
    "language": "language_code",
}
_ELEVENLABS_CODES = {
    "speaker_not_found": "voice_not_found",
    "key_wrong": "invalid_api_key",
    "key_expired": "invalid_api_key",
    "key_revoked": "invalid_api_key",
    "scope_missing": "missing_permissions",
    "key_missing": "needs_authorization",
}
# Fields that clients send under another name: what is right, and what is often seen.
_MISTAKEN_FOR = {"input": "text", "text": "input", "response_format": "output_format", "speaker_id": "voice"}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a client sees it."""

    status: int
    title: str
    code: str
    message: str
    details: Mapping[str, object]

    @property
    def headers(self) -> dict[str, str]:
        after_s = self.details.get("retry_after_s", RETRY_AFTER_S if self.status in _PASSING else None)
        headers = {} if after_s is None else {"Retry-After": str(after_s)}
        return headers | ({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})


def kind_of(error_type: type[Exception]) -> Kind | None:
    """The kind of an error class, by its own entry or its nearest ancestor's; None where nothing fits."""
    return next((KINDS[base] for base in error_type.__mro__ if base in KINDS), None)


def describe(error: RoomError) -> Problem:
    """The problem that a room's error is."""
    kind = kind_of(type(error)) or Kind(500, "Internal error")
    status = STATUS_OF_CODE.get(error.code, kind.status)
    return Problem(status, kind.title, error.code, error.message, _plain(error.details))


def invalid(errors: Sequence[Any], body: object) -> Problem:
    """The problem of a body or query that does not fit its schema; the values themselves are left out."""
    fields = [{"field": _field_of(item["loc"], body), "message": _without_value(item)} for item in errors]
    words = "; ".join(f"{item['field']}: {item['message']}" for item in fields)
    return Problem(
        422,
        "The request cannot be used",
        "bad_field",
        words + _hint(fields, body),
        {"field": fields[0]["field"] if fields else "body", "fields": fields},
    )


def of_status(status: int, message: str) -> Problem:
    """The problem of a plain HTTP status, such as an unknown path."""
    return Problem(status, message, f"http_{status}", message, {})


def internal() -> Problem:
    """The problem of a fault that is ours; it says nothing about it, the log does."""
    return Problem(500, "Internal error", "internal_error", "internal error; the log has it under this request id", {})


def document(problem: Problem, request_id: str) -> dict[str, object]:
    """The problem as an RFC 9457 document. Source: RFC 9457, section 3."""
    return {
        **problem.details,
        "type": _TYPE + problem.code,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.message,
        "code": problem.code,
        "request_id": request_id,
    }


def openai_status(problem: Problem) -> int:
    return 400 if problem.status in _OPENAI_BAD_REQUEST else problem.status


def openai_document(problem: Problem) -> dict[str, object]:
    """The problem in the envelope that OpenAI's clients read."""
    status = openai_status(problem)
    fallback = "server_error" if status >= 500 else "invalid_request_error"
    field = problem.details.get("field")
    return {
        "error": {
            "message": problem.message,
            "type": _OPENAI_TYPES.get(status, fallback),
            "param": _OPENAI_FIELDS.get(str(field), field) or _param_of(problem.code),
            "code": problem.code,
        }
    }


def elevenlabs_document(problem: Problem, request_id: str) -> dict[str, object]:
    """The problem in the envelope that ElevenLabs' clients read."""
    field = problem.details.get("field")
    return {
        "detail": {
            "status": _ELEVENLABS_CODES.get(problem.code, problem.code),
            "message": problem.message,
            "code": problem.code,
            "param": _ELEVENLABS_FIELDS.get(str(field), field),
            "request_id": request_id,
        }
    }


def _param_of(code: str) -> str | None:
    by_code = {"speaker_not_found": "voice", "nothing_to_say": "input", "text_too_long": "input"}
    return by_code.get(code)


def _plain(details: Mapping[str, object]) -> dict[str, object]:
    return {key: _plain_value(value) for key, value in details.items()}


def _plain_value(value: object) -> object:
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain_value(item) for item in value]
    return value if value is None or isinstance(value, str | int) else str(value)


def _field_of(place: Sequence[str | int], body: object) -> str:
    # The first part says body, query or path; a third that nobody sent names a member of a union.
    if len(place) < 2 or not isinstance(place[1], str):
        return "body"
    group = body.get(place[1]) if isinstance(body, Mapping) else None
    return f"{place[1]}.{place[2]}" if len(place) > 2 and isinstance(group, Mapping) and place[2] in group else place[1]


def _without_value(item: Mapping[str, Any]) -> str:
    return "is not valid JSON" if item["type"] == "json_invalid" else str(item["msg"])


def _hint(fields: Sequence[Mapping[str, str]], body: object) -> str:
    if isinstance(body, Mapping):
        for item in fields:
            near = _MISTAKEN_FOR.get(item["field"], "")
            if item["field"] not in body and near in body:
                return f"; the body has {near!r}, which belongs into {item['field']!r}"
    return ""
