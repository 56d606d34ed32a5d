"""The error replies of a route, for the OpenAPI document."""

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from api import problems
from api.catalogue import CODES
from api.context import Needs
from api.schemas import ElevenLabsError, OpenAIError, Problem

ANY = (
    "key_missing key_wrong key_expired key_revoked scope_missing rate_limited starting draining too_busy "
    "store_unavailable"
)
UPLOAD = (
    "missing_field bad_field bad_multipart too_many_clips too_large empty no_audio bad_container unsupported_format "
    "decode_timeout too_many_bytes decoded_too_long no_speech too_little_speech bad_clip bad_vector storage_full"
)
CONSENT = (
    "consent_missing consent_revoked consent_insufficient consent_voice_differs consent_used consent_words_differ "
    "consent_language consent_statement recogniser_missing"
)
ENROLMENT = (
    "quota_exceeded consent_not_found consent_missing consent_revoked consent_insufficient consent_voice_differs "
    "consent_used voice_protected protected_unheard"
)
SPEECH = (
    "speaker_not_found consent_missing consent_revoked consent_insufficient quota_exceeded nothing_to_say "
    "text_too_long bad_markup bad_lexicon bad_field too_large language_unsupported format_unknown verify_needs_whole "
    "wrong_encoder synthesis_failed engine_failed queue_full deadline_missed cancelled closed"
)
READY = (
    "starting draining store_unavailable schema_missing schema_older schema_newer bundle_missing bundle_corrupt "
    "bundle_version bundle_mismatch engine_unavailable"
)

_REQUEST_ID = "0d3b7f3c"
Replies = dict[int | str, dict[str, Any]]


def say_scopes(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Has the OpenAPI document tell for each operation in `x-voicekin-scopes` which scopes open it, one of them."""
    make, routes = app.openapi, [route for router in routers for route in router.routes if isinstance(route, APIRoute)]

    def openapi() -> dict[str, Any]:
        document = make()
        for route in routes:
            for method in sorted(route.methods or ()):
                operation = document["paths"].get(route.path_format, {}).get(method.lower())
                if operation is not None and (scopes := scopes_of(route)):
                    operation["x-voicekin-scopes"] = sorted(scopes)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def scopes_of(route: APIRoute) -> frozenset[str]:
    """The scopes of which a caller needs one; empty where the route is open to all."""
    needs = [each.call.scopes for each in route.dependant.dependencies if isinstance(each.call, Needs)]
    return frozenset.intersection(*needs) if needs else frozenset()


def form_of(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """A multipart body, for the OpenAPI document."""
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def errors(*codes: str) -> Replies:
    """Replies by status, with an example for each of the codes, which are given in lists of words."""
    replies: Replies = {}
    for code in " ".join(codes).split():
        problem = _example(code)
        value = problems.document(problem, _REQUEST_ID)
        _add(replies, problem.status, problem, Problem, problems.MEDIA_TYPE, value)
    return replies


def elevenlabs_errors(*codes: str) -> Replies:
    """The same in the envelope of ElevenLabs' routes."""
    replies: Replies = {}
    for code in " ".join(codes).split():
        problem = _example(code)
        value = problems.elevenlabs_document(problem, _REQUEST_ID)
        _add(replies, problem.status, problem, ElevenLabsError, "application/json", value)
    return replies


def openai_errors(*codes: str) -> Replies:
    """The same in the envelope of OpenAI's routes."""
    replies: Replies = {}
    for code in " ".join(codes).split():
        problem = _example(code)
        value = problems.openai_document(problem)
        _add(replies, problems.openai_status(problem), problem, OpenAIError, "application/json", value)
    return replies


def _example(code: str) -> problems.Problem:
    kind = problems.kind_of(CODES[code]) or problems.Kind(500, "Internal error")
    status = problems.STATUS_OF_CODE.get(code, kind.status)
    return problems.Problem(status, kind.title, code, "what is wrong, the limit, and what to do", {})


def _add(
    replies: Replies, status: int, problem: problems.Problem, model: type, media_type: str, value: dict[str, object]
) -> None:
    empty = {"description": problem.title, "model": model, "content": {media_type: {"examples": {}}}}
    reply = replies.setdefault(status, empty)
    reply["content"][media_type]["examples"][problem.code] = {"value": value}
