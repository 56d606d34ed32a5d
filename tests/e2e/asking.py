"""What the tests ask of a server, and how they read its refusals."""

from typing import Any

import httpx


def upload(client: httpx.Client, *clips: bytes, file_name: str = "a.wav", **fields: str) -> httpx.Response:
    return client.post("/v1/speakers", data=fields, files=[("clips", (file_name, clip)) for clip in clips])


def speak(client: httpx.Client, **body: Any) -> httpx.Response:
    return client.post("/v1/speech", json=body)


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The document of a refusal on a native route, checked for what all of them have."""
    document: dict[str, Any] = response.json()
    assert (response.status_code, document["code"]) == (status, code), response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    assert document["request_id"] == response.headers["X-Request-ID"]
    return document


def openai_error(response: httpx.Response, status: int, param: str | None) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    assert (response.status_code, error["param"]) == (status, param), response.text
    return error
