"""API keys through real servers: made, used, refused by every door, ended everywhere at once."""

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest
from asking import problem, speak
from elevenlabs.client import ElevenLabs
from elevenlabs.core.api_error import ApiError
from openai import AuthenticationError, OpenAI, PermissionDeniedError
from servers import ADMIN_KEY, RunningServer, enrol, environment_of, make_key, with_key
from typer.testing import CliRunner

from api.cli import app
from api.errors import ServerRefused

SCOPES = ("speak", "enrol", "admin")
OPEN_PATHS = {"/health/live", "/health/ready", "/metrics"}
# What may be asked with either client's scope although it is no GET: it changes nothing.
READING_POSTS = {"/v1/speakers/search", "/v1/speakers/{speaker_id}/verify", "/v1/similar-voices"}
Starter = Callable[..., RunningServer]


@pytest.fixture(scope="module")
def keys(boss: httpx.Client) -> dict[str, str]:
    """A key of each scope alone."""
    return {scope: make_key(boss, scope)["key"] for scope in SCOPES}


@pytest.fixture(scope="module")
def operations(keeper: RunningServer) -> list[tuple[str, str, frozenset[str]]]:
    """Every operation of the OpenAPI document: its method, its path, and the scopes of which one opens it."""
    paths = httpx.get(f"{keeper.url}/openapi.json").json()["paths"]
    return [
        (method, path, frozenset(operation.get("x-voicekin-scopes", ())))
        for path, methods in paths.items()
        for method, operation in methods.items()
    ]


def ask(client: httpx.Client, method: str, path: str) -> httpx.Response:
    return client.request(method, path.replace("{", "").replace("}", ""))


def code_of(response: httpx.Response) -> str:
    """The code of a refusal, from the envelope that its path has."""
    path, document = response.request.url.path, response.json()
    if path.startswith(("/v1/audio/", "/v1/models")):
        return str(document["error"]["code"])
    if path.startswith(("/v1/voices", "/v2/voices", "/v1/text-to-speech", "/v1/similar-voices")):
        return str(document["detail"]["code"])
    assert response.headers["Content-Type"] == "application/problem+json"
    return str(document["code"])


def test_every_route_says_its_scope_and_changes_need_more_than_reading(
    operations: list[tuple[str, str, frozenset[str]]],
) -> None:
    assert {path for _, path, scopes in operations if not scopes} == OPEN_PATHS
    for method, path, scopes in operations:
        if path.startswith("/v1/admin"):
            assert scopes == {"admin"}, path
        elif method != "get" and path not in READING_POSTS | OPEN_PATHS:
            assert len(scopes) == 1, (method, path, scopes)


def test_every_route_refuses_a_key_without_its_scope(
    keeper: RunningServer, keys: dict[str, str], operations: list[tuple[str, str, frozenset[str]]]
) -> None:
    for holder, key in keys.items():
        with with_key(keeper, key) as client:
            for method, path, scopes in operations:
                response = ask(client, method, path)
                if not scopes or scopes & {holder} or holder == "admin":
                    assert response.status_code not in {401, 403}, (holder, method, path)
                    continue
                assert response.status_code == 403, (holder, method, path, response.text)
                assert code_of(response) == "scope_missing"
                assert all(scope in response.text for scope in scopes), response.text


def test_every_route_refuses_what_is_no_key(
    keeper: RunningServer, boss: httpx.Client, operations: list[tuple[str, str, frozenset[str]]]
) -> None:
    revoked, expired = make_key(boss, "admin"), make_key(boss, "admin", expires_in_days=1e-6)
    assert boss.patch(f"/v1/admin/keys/{revoked['key_id']}", json={"revoked": True}).json()["state"] == "revoked"
    until = time.monotonic() + 10
    while boss.get("/v1/admin/keys").json()["keys"][-1]["state"] != "expired":
        assert time.monotonic() < until
    refusals = {None: "key_missing", "guess": "key_wrong", revoked["key"]: "key_revoked", expired["key"]: "key_expired"}
    for key, code in refusals.items():
        with with_key(keeper, key) as client:
            for method, path, scopes in operations:
                response = ask(client, method, path)
                if scopes:
                    assert (response.status_code, code_of(response)) == (401, code), (method, path)
                    assert response.headers["WWW-Authenticate"] == "Bearer"
                assert key is None or key not in response.text


def test_a_key_is_shown_once_and_listed_without_its_secret(keeper: RunningServer, boss: httpx.Client) -> None:
    response = boss.post("/v1/admin/keys", json={"name": " Reading\troom ", "limits": {"speakers": 3}})
    made = response.json()
    assert response.headers["Cache-Control"] == "no-store"
    assert made["scopes"] == ["speak", "enrol"] and made["name"] == "Reading room"
    assert made["limits"] == {"requests_per_minute": None, "characters_per_month": None, "speakers": 3}
    with with_key(keeper, made["key"]) as client:
        assert client.get("/v1/speakers").status_code == 200
    listed = boss.get("/v1/admin/keys")
    found = next(key for key in listed.json()["keys"] if key["key_id"] == made["key_id"])
    usage = {"characters_this_month": 0, "speakers": 0}
    assert {**found, "last_used_at": None, "key": made["key"]} == {**made, "usage": usage}
    changed = boss.patch(f"/v1/admin/keys/{made['key_id']}", json={"limits": {"requests_per_minute": 9}}).json()
    assert changed["limits"] == {"requests_per_minute": 9, "characters_per_month": None, "speakers": 3}
    assert boss.delete(f"/v1/admin/keys/{made['key_id']}").status_code == 204
    problem(boss.delete(f"/v1/admin/keys/{made['key_id']}"), 404, "api_key_not_found")
    with with_key(keeper, made["key"]) as client:
        problem(client.get("/v1/speakers"), 401, "key_wrong")
    audit = boss.get("/v1/admin/audit").text
    assert "key_delete" in audit
    log = keeper.log.read_text()
    for text in (listed.text, audit, log, httpx.get(f"{keeper.url}/metrics").text):
        assert made["key"] not in text and ADMIN_KEY not in text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "scopes": ["root"]}, "scopes"),
        ({"name": "x", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"name": "x", "expires_at": "2999-01-01T00:00:00"}, "expires_at"),
        ({"name": "x", "expires_in_days": 0}, "expires_in_days"),
        ({"name": "x", "limits": {"speakers": -1}}, "limits.speakers"),
        ({"name": "x", "limits": {"requests_per_minute": 10**9}}, "limits.requests_per_minute"),
        ({"name": "x", "limits": {"words": 1}}, "limits.words"),
        ({"name": "x", "key": "chosen"}, "key"),
        ({"name": "\u200b\x00", "scopes": ["speak"]}, "name"),
    ],
)
def test_a_bad_request_names_its_field(boss: httpx.Client, body: dict[str, Any], field: str) -> None:
    response = boss.post("/v1/admin/keys", json=body)
    assert response.status_code == 422, response.text
    assert response.json()["field"] == field


def test_an_empty_change_is_refused(boss: httpx.Client) -> None:
    made = make_key(boss, "speak")
    problem(boss.patch(f"/v1/admin/keys/{made['key_id']}", json={}), 422, "missing_field")
    problem(boss.patch(f"/v1/admin/keys/{made['key_id']}", json={"revoked": False}), 422, "bad_field")
    problem(boss.patch("/v1/admin/keys/..%2f..", json={"name": "x"}), 404, "http_404")
    problem(boss.patch("/v1/admin/keys/nothing", json={"name": "x"}), 404, "api_key_not_found")


def voicekin_keys(environment: dict[str, str], *arguments: str) -> Any:
    """What the command line prints, run in this process, which is another one than the server's."""
    ours = {name: value for name, value in environment.items() if name.startswith("VOICEKIN_")}
    done = CliRunner().invoke(app, ["keys", *arguments, "--json"], env=ours)
    if done.exception is not None:
        raise done.exception
    return json.loads(done.stdout)


def test_the_first_key_closes_an_open_server_and_the_last_one_does_not_open_it(other_server: Starter) -> None:
    server = other_server()
    keys = partial(voicekin_keys, server.environment)
    assert httpx.get(f"{server.url}/v1/speakers").status_code == 200
    made = keys("create", "First", "--scope", "speak", "--requests-per-minute", "100", "--expires-in-days", "2")
    with httpx.Client(base_url=server.url) as nobody, with_key(server, made["key"]) as client:
        problem(nobody.get("/v1/speakers"), 401, "key_missing")
        assert client.get("/v1/speakers").status_code == 200
        problem(client.delete("/v1/speakers/nobody"), 403, "scope_missing")
        problem(client.get("/v1/admin/keys"), 403, "scope_missing")
        changed = keys("change", made["key_id"], "--scope", "enrol", "--unlimited")
        assert (changed["scopes"], changed["limits"]["requests_per_minute"]) == (["enrol"], None)
        problem(client.delete("/v1/speakers/nobody"), 404, "speaker_not_found")
        problem(speak(client, speaker_id="nobody", text="a"), 403, "scope_missing")
        assert keys("revoke", made["key_id"])["state"] == "revoked"
        problem(client.get("/v1/speakers"), 401, "key_revoked")
        keys("delete", made["key_id"])
        problem(client.get("/v1/speakers"), 401, "key_wrong")
        problem(nobody.get("/v1/speakers"), 401, "key_missing")
    second = keys("create", "Second")
    with with_key(server, second["key"]) as client:
        assert client.get("/v1/speakers").status_code == 200
    server.stop()
    assert keys("list")["keys"][0]["last_used_at"] is not None, "written at the latest when the server ends"


def test_the_command_line_keeps_the_keys_of_a_server(keeper: RunningServer, tmp_path: Any, voice_dir: Any) -> None:
    environment = environment_of(tmp_path / "unused", voice_dir, CLIENT_KEY=ADMIN_KEY, SERVER=keeper.url)
    keys = partial(voicekin_keys, environment)
    made = keys("create", "Far")
    assert made["key"].startswith(made["prefix"])
    assert keys("change", made["key_id"], "--name", "Farther")["name"] == "Farther"
    assert keys("revoke", made["key_id"])["state"] == "revoked"
    assert made["key_id"] in [key["key_id"] for key in keys("list")["keys"]]
    assert keys("delete", made["key_id"]) == {"key_id": made["key_id"]}
    with pytest.raises(ServerRefused) as refused:
        keys("delete", made["key_id"])
    assert refused.value.code == "api_key_not_found"
    listed = keys("create", "Shown", "--tenant", "acme")
    shown = CliRunner().invoke(
        app, ["keys", "list"], env={"VOICEKIN_SERVER": keeper.url, "VOICEKIN_CLIENT_KEY": ADMIN_KEY}
    )
    assert all(word in shown.stdout for word in (listed["key_id"], "Shown", "acme", "live"))
    assert listed["key"] not in shown.stdout


def test_an_admin_key_of_the_store_makes_keys_and_stands_in_the_audit(
    keeper: RunningServer, boss: httpx.Client, keys: dict[str, str]
) -> None:
    with with_key(keeper, keys["admin"]) as client:
        made = make_key(client, "speak")
        line = client.get("/v1/admin/audit", params={"limit": 1}).json()["lines"][0]
    assert (line["action"], line["actor"]) == ("key_create", f"key {keys['admin'][:11]}")
    assert line["receipt"] == {"key_id": made["key_id"], "prefix": made["prefix"]}


def test_real_clients_meet_their_own_errors(keeper: RunningServer, boss: httpx.Client, keys: dict[str, str]) -> None:
    voice = enrol(boss, "Keyed")
    speech: dict[str, Any] = {"model": "tts-1", "voice": voice, "input": "Hello."}
    base = f"{keeper.url}/v1"
    with OpenAI(base_url=base, api_key=keys["speak"], max_retries=0) as client:
        assert client.audio.speech.create(**speech).content
    with OpenAI(base_url=base, api_key=keys["enrol"], max_retries=0) as client:
        with pytest.raises(PermissionDeniedError) as refused:
            client.audio.speech.create(**speech)
        assert (refused.value.code, refused.value.type) == ("scope_missing", "permission_error")
    with OpenAI(base_url=base, api_key="sk-guess", max_retries=0) as client:
        with pytest.raises(AuthenticationError) as wrong:
            client.audio.speech.create(**speech)
        assert wrong.value.code == "key_wrong"
    eleven = ElevenLabs(base_url=keeper.url, api_key=keys["speak"])
    assert voice in [found.voice_id for found in eleven.voices.get_all().voices]
    with pytest.raises(ApiError) as denied:
        eleven.voices.delete(voice)
    assert denied.value.status_code == 403
    assert denied.value.body["detail"]["status"] == "missing_permissions"
    with pytest.raises(ApiError) as stranger:
        ElevenLabs(base_url=keeper.url, api_key="guess").voices.get_all()
    assert stranger.value.body["detail"]["status"] == "invalid_api_key"
