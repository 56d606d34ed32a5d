"""The error replies of a route, for the OpenAPI document."""

from typing import Any

from api.catalogue import CODES
from api.problems import MEDIA_TYPE, STATUS_OF_CODE, kind_of
from api.schemas import Problem


def errors(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Replies by status, with an example for each code."""
    replies: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        kind = kind_of(CODES[code])
        assert kind is not None, code
        status = STATUS_OF_CODE.get(code, kind.status)
        reply = replies.setdefault(
            status, {"description": kind.title, "model": Problem, "content": {MEDIA_TYPE: {"examples": {}}}}
        )
        reply["content"][MEDIA_TYPE]["examples"][code] = {
            "value": {
                "type": f"urn:voicekin:problem:{code}",
                "title": kind.title,
                "status": status,
                "detail": "what is wrong, the limit, and what to do",
                "code": code,
                "request_id": "0d3b7f3c",
            }
        }
    return replies
