"""Two tenants on one server: whatever one asks for, the other's voices and jobs are not there."""

import uuid
from typing import Any

import httpx
import pytest
from asking import problem, speak
from servers import DATA, RunningServer, enrol, make_key, with_key

MAN = (DATA / "man.flac").read_bytes()
TEXT = "Hello there."
OPEN_PATHS = {"/health/live", "/health/ready", "/metrics"}


@pytest.fixture(scope="module")
def acme(keeper: RunningServer, boss: httpx.Client) -> httpx.Client:
    return with_key(keeper, make_key(boss, "speak", "enrol", tenant="acme")["key"])


@pytest.fixture(scope="module")
def other(keeper: RunningServer, boss: httpx.Client) -> httpx.Client:
    return with_key(keeper, make_key(boss, "speak", "enrol", tenant="other")["key"])


@pytest.fixture(scope="module")
def ada(acme: httpx.Client) -> str:
    return enrol(acme, "Ada", "man.flac")


@pytest.fixture(scope="module")
def job(acme: httpx.Client, ada: str) -> str:
    response = acme.post("/v1/jobs", json={"speaker_id": ada, "text": TEXT})
    assert response.status_code == 202, response.text
    return str(response.json()["job_id"])


@pytest.fixture(scope="module")
def consent(acme: httpx.Client) -> str:
    response = acme.post("/v1/consents", files={"person": (None, "Ada Lovelace")})
    assert response.status_code == 201, response.text
    return str(response.json()["consent_id"])


def content_of(path: str) -> dict[str, Any]:
    """What a request to this path needs besides the id that it names, so that nothing but the id can be refused."""
    if path.endswith("/clips"):
        return {"files": {"clips": ("a.flac", MAN)}}
    if path.endswith("/verify"):
        return {"files": {"clip": ("a.flac", MAN)}}
    if path.endswith("/{voice_id}/edit"):
        return {"data": {"name": "Taken over"}, "files": {"files": ("a.flac", MAN)}}
    if path.endswith("/voice_consents/{consent_id}"):
        return {"json": {"name": "Taken over"}}
    if "text-to-speech" in path:
        return {"json": {"text": TEXT}}
    return {}


def ask(client: httpx.Client, method: str, path: str, ids: dict[str, str]) -> httpx.Response:
    content = {"json": {"pinned": True}} if method == "patch" else {} if method == "get" else content_of(path)
    return client.request(method, path.format(**ids), **content)


def told(response: httpx.Response, ids: dict[str, str]) -> tuple[int, str]:
    """The reply without what is another in each: nobody may tell by the rest whether an id exists."""
    text = response.text.replace(response.headers["X-Request-ID"], "")
    for each in ids.values():
        text = text.replace(each, "")
    return response.status_code, text


def _shape(client: httpx.Client, speaker_id: str) -> dict[str, object]:
    """The speaker but for its uses, which are written a while after it was spoken with."""
    document = client.get(f"/v1/speakers/{speaker_id}").json()
    return {name: value for name, value in document.items() if name not in {"uses", "last_used_at"}}


def test_no_route_tells_another_tenants_id_from_one_that_never_was(
    keeper: RunningServer, acme: httpx.Client, other: httpx.Client, ada: str, job: str, consent: str
) -> None:
    paths = httpx.get(f"{keeper.url}/openapi.json").json()["paths"]
    theirs = {"speaker_id": ada, "voice_id": ada, "job_id": job, "consent_id": consent}
    nobodys = dict.fromkeys(theirs, str(uuid.uuid4()))
    before, n_asked = _shape(acme, ada), 0
    for path, operations in paths.items():
        named = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        assert named <= {*theirs, "model", "key_id", "protected_id"}, f"say in this test whose {named} are"
        if not named & set(theirs):
            continue
        for method in operations:
            reply = ask(other, method, path, theirs)
            assert told(reply, theirs) == told(ask(other, method, path, nobodys), nobodys), (method, path)
            assert reply.status_code == 404, (method, path, reply.text)
            n_asked += 1
    assert n_asked >= 20
    assert _shape(acme, ada) == before
    assert acme.get(f"/v1/jobs/{job}").status_code == 200
    assert acme.get(f"/v1/consents/{consent}").json()["name"] == "Ada Lovelace"


def test_no_list_holds_what_is_another_tenants(
    keeper: RunningServer, acme: httpx.Client, other: httpx.Client, boss: httpx.Client, ada: str, job: str, consent: str
) -> None:
    paths = httpx.get(f"{keeper.url}/openapi.json").json()["paths"]
    lists = [path for path, each in paths.items() if "get" in each and "{" not in path and "/admin/" not in path]
    for path in lists:
        for hidden in (ada, job, consent):
            assert hidden not in other.get(path, params={"search": "ada"}).text, path
    for path in ("/v1/speakers", "/v1/audio/voices", "/v1/voices", "/v2/voices", "/v1/speakers/map"):
        assert path in lists and ada in acme.get(path).text, path
        own = acme.get(path).text
        assert own.count(ada) >= 1 and len(acme.get("/v1/speakers").json()["speakers"]) == 1
    assert job in acme.get("/v1/jobs").text
    assert consent in acme.get("/v1/consents").text and consent in acme.get("/v1/audio/voice_consents").text
    assert ada in boss.get("/v1/speakers").text, "an admin sees all"


def test_a_search_by_sound_finds_nobody_of_another_tenant(
    acme: httpx.Client, other: httpx.Client, boss: httpx.Client, ada: str
) -> None:
    for path, field in (("/v1/speakers/search", "clip"), ("/v1/similar-voices", "audio_file")):
        files = {field: ("a.flac", MAN)}
        assert ada in acme.post(path, files=files).text
        assert ada not in other.post(path, files=files).text
    twin = other.post("/v1/speakers", data={"name": "Twin"}, files={"clips": ("a.flac", MAN)})
    assert twin.status_code == 201 and ada not in twin.text, "nor is it among those who sound the same"
    other.delete(f"/v1/speakers/{twin.json()['speaker_id']}", params={"at_once": True})


def test_nobody_speaks_with_another_tenants_voice_by_id_or_name(
    keeper: RunningServer, acme: httpx.Client, other: httpx.Client, boss: httpx.Client, ada: str
) -> None:
    nobody = str(uuid.uuid4())
    assert speak(acme, speaker_id=ada, text=TEXT).status_code == 200
    assert acme.post("/v1/audio/speech", json={"voice": "ada", "input": TEXT}).status_code == 200
    problem(speak(other, speaker_id=ada, text=TEXT), 404, "speaker_not_found")
    problem(speak(other, speaker_id=ada, text=TEXT, stream=True), 404, "speaker_not_found")
    for voice in (ada, "Ada", {"id": ada}):
        reply = other.post("/v1/audio/speech", json={"voice": voice, "input": TEXT})
        assert reply.status_code == 404
        assert reply.json() == other.post("/v1/audio/speech", json={"voice": nobody, "input": TEXT}).json()
    assert other.post("/v1/text-to-speech/Ada", json={"text": TEXT}).status_code == 404
    for body in ({"speaker_id": ada, "text": TEXT}, {"text": f"[speaker: {ada}]\nHello."}):
        problem(other.post("/v1/jobs", json=body), 404, "speaker_not_found")
    clientless = make_key(boss, "speak", "enrol")
    with with_key(keeper, clientless["key"]) as plain:
        problem(speak(plain, speaker_id=ada, text=TEXT), 404, "speaker_not_found")
    assert speak(boss, speaker_id=ada, text=TEXT).status_code == 200


def test_names_and_request_keys_are_each_tenants_own(acme: httpx.Client, other: httpx.Client, ada: str) -> None:
    key = {"Idempotency-Key": "1"}
    clip = {"clips": ("a.flac", MAN)}
    mine = acme.post("/v1/speakers", data={"name": "Bea"}, files=clip, headers=key)
    its = other.post("/v1/speakers", data={"name": "Ada"}, files=clip, headers=key)
    assert (mine.status_code, its.status_code) == (201, 201)
    assert acme.post("/v1/speakers", data={"name": "Bea"}, files=clip, headers=key).json() == mine.json()
    problem(other.post("/v1/speakers", data={"name": "ADA"}, files=clip), 409, "name_taken")
    for client, reply in ((acme, mine), (other, its)):
        assert client.delete(f"/v1/speakers/{reply.json()['speaker_id']}").status_code == 204


def test_a_trash_is_its_tenants_too(acme: httpx.Client, other: httpx.Client, boss: httpx.Client) -> None:
    speaker_id = enrol(acme, "Gone", "man.flac")
    assert acme.delete(f"/v1/speakers/{speaker_id}").status_code == 204
    problem(other.post(f"/v1/speakers/{speaker_id}/undelete"), 404, "speaker_not_found")
    assert acme.post(f"/v1/speakers/{speaker_id}/undelete").status_code == 200
    assert acme.delete(f"/v1/speakers/{speaker_id}", params={"at_once": True}).status_code == 204
    actor = boss.get("/v1/admin/audit", params={"limit": 1}).json()["lines"][0]["actor"]
    assert acme.headers["Authorization"].startswith(f"Bearer {actor.removeprefix('key ')}")


def test_no_metric_and_no_log_of_clients_names_a_tenant(keeper: RunningServer, acme: httpx.Client) -> None:
    acme.get("/v1/speakers")
    assert "acme" not in httpx.get(f"{keeper.url}/metrics").text


@pytest.mark.parametrize("tenant", ["a b", "../acme", "é", "x" * 65, 7])
def test_a_bad_tenant_is_named(boss: httpx.Client, tenant: object) -> None:
    reply = boss.post("/v1/admin/keys", json={"name": "x", "tenant": tenant})
    assert (reply.status_code, reply.json()["field"]) == (422, "tenant")
