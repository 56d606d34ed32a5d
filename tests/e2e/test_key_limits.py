"""Limits and quotas of keys, as real clients meet them on every shape of the service."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from asking import problem, speak
from elevenlabs.client import ElevenLabs
from elevenlabs.core.api_error import ApiError
from openai import OpenAI, RateLimitError
from servers import DATA, RunningServer, enrol, make_key, with_key

TEXT = "Hello there."


@pytest.fixture(scope="module")
def voice(boss: httpx.Client) -> str:
    return enrol(boss, "Limited")


def used(boss: httpx.Client, key: dict[str, Any]) -> dict[str, int]:
    listed = boss.get("/v1/admin/keys", params={"limit": 500}).json()["keys"]
    found: dict[str, int] = next(each for each in listed if each["key_id"] == key["key_id"])["usage"]
    return found


def refusal(response: httpx.Response, code: str, **details: Any) -> None:
    document = problem(response, 429, code)
    assert {name: document[name] for name in details} == details
    assert datetime_or_none(document["resets_at"])


def datetime_or_none(text: str | None) -> bool:
    return text is None or re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text) is not None


def test_a_key_sends_so_many_requests_and_hears_how_many_are_left(keeper: RunningServer, boss: httpx.Client) -> None:
    made = make_key(boss, "speak", limits={"requests_per_minute": 3})
    with with_key(keeper, made["key"]) as client:
        with ThreadPoolExecutor(6) as threads:
            replies = list(threads.map(lambda _: client.get("/v1/speakers"), range(6)))
        assert sorted(reply.status_code for reply in replies) == [200] * 3 + [429] * 3
        for reply in replies:
            assert reply.headers["RateLimit-Policy"] == '"requests";q=3;w=60'
            assert re.fullmatch(r'"requests";r=[0-2];t=\d+', reply.headers["RateLimit"])
        refused = next(reply for reply in replies if reply.status_code == 429)
        refusal(refused, "rate_limited", quota="requests", limit=3, used=3)
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
    with OpenAI(base_url=f"{keeper.url}/v1", api_key=made["key"], max_retries=0) as openai:
        with pytest.raises(RateLimitError) as limited:
            openai.models.list()
        assert (limited.value.code, limited.value.type) == ("rate_limited", "rate_limit_error")
    with pytest.raises(ApiError) as denied:
        ElevenLabs(base_url=keeper.url, api_key=made["key"]).voices.get_all(request_options={"max_retries": 0})
    assert (denied.value.status_code, denied.value.body["detail"]["code"]) == (429, "rate_limited")
    assert "RateLimit" not in boss.get("/v1/speakers").headers


def test_characters_are_counted_as_sent_on_every_door(keeper: RunningServer, boss: httpx.Client, voice: str) -> None:
    made = make_key(boss, "speak", limits={"characters_per_month": 4 * len(TEXT)})
    with with_key(keeper, made["key"]) as client:
        whole = speak(client, speaker_id=voice, text=TEXT)
        assert re.search(rf'"characters";r={3 * len(TEXT)};t=\d+', whole.headers["RateLimit"])
        assert speak(client, speaker_id=voice, text=TEXT, stream=True).status_code == 200
        body = {"model": "tts-1", "voice": voice, "input": TEXT}
        assert client.post("/v1/audio/speech", json=body).status_code == 200
        assert client.post("/v1/jobs", json={"text": TEXT, "speaker_id": voice}).status_code == 202
        assert used(boss, made)["characters_this_month"] == 4 * len(TEXT)
        refused = speak(client, speaker_id=voice, text="a")
        refusal(refused, "quota_exceeded", quota="characters", limit=4 * len(TEXT), used=4 * len(TEXT), asked=1)
        assert 0 < int(refused.headers["Retry-After"]) <= 31 * 86400
        for path, shape in ((f"/v1/text-to-speech/{voice}", "detail"), ("/v1/audio/speech", "error")):
            reply = client.post(path, json={**body, "text": TEXT})
            assert (reply.status_code, reply.json()[shape]["code"]) == (429, "quota_exceeded")
        assert client.get("/v1/speakers").status_code == 200, "what speaks nothing costs nothing"


def test_elevenlabs_shape_is_counted_too(keeper: RunningServer, boss: httpx.Client, voice: str) -> None:
    made = make_key(boss, "speak", limits={"characters_per_month": 4 * len(TEXT) + 3})
    with with_key(keeper, made["key"]) as client:
        for way in ("", "/stream", "/with-timestamps", "/stream/with-timestamps"):
            assert client.post(f"/v1/text-to-speech/{voice}{way}", json={"text": TEXT}).status_code == 200
        assert client.post(f"/v1/text-to-speech/{voice}", json={"text": TEXT}).status_code == 429
        reply = problem(client.post("/v1/jobs", json={"text": TEXT, "speaker_id": voice}), 429, "quota_exceeded")
    assert reply["used"] == used(boss, made)["characters_this_month"] == 4 * len(TEXT)


def test_what_was_refused_costs_nothing(keeper: RunningServer, boss: httpx.Client, voice: str) -> None:
    made = make_key(boss, "speak", limits={"characters_per_month": 1000})
    with with_key(keeper, made["key"]) as client:
        for wrong in (
            {"speaker_id": "0b9d3a50-7d0c-4d1e-9a53-1f0f6f9f1d11"},
            {"language": "xx"},
            {"text": "..."},
            {"stream": True, "verify": True},
            {"model": "nobody", "stream": True},
        ):
            reply = speak(client, **{"speaker_id": voice, "text": TEXT, **wrong})
            assert 400 <= reply.status_code < 500, reply.text
    assert used(boss, made)["characters_this_month"] == 0


def test_of_two_who_want_the_last_characters_one_gets_them(
    keeper: RunningServer, boss: httpx.Client, voice: str
) -> None:
    made = make_key(boss, "speak", limits={"characters_per_month": len(TEXT) + 3})
    with with_key(keeper, made["key"]) as client, ThreadPoolExecutor(4) as threads:
        replies = list(threads.map(lambda _: speak(client, speaker_id=voice, text=TEXT), range(4)))
    assert sorted(reply.status_code for reply in replies) == [200, 429, 429, 429]


def test_a_key_keeps_so_many_speakers(keeper: RunningServer, boss: httpx.Client) -> None:
    made = make_key(boss, "enrol", limits={"speakers": 1})
    files = {"files": ("a.flac", (DATA / "man.flac").read_bytes())}
    with with_key(keeper, made["key"]) as client:
        first = enrol(client, "Only one", "man.flac")
        for reply in (
            client.post("/v1/speakers", data={"name": "Second"}, files={"clips": files["files"]}),
            client.post("/v1/voices/add", data={"name": "Second"}, files=files),
        ):
            assert reply.status_code == 429, reply.text
            assert "quota_exceeded" in reply.text and "1 of 1" in reply.text
            assert "Retry-After" not in reply.headers, "time alone makes no room"
        assert used(boss, made)["speakers"] == 1
        assert client.delete(f"/v1/speakers/{first}").status_code == 204
        second = enrol(client, "Second", "man.flac")
        assert problem(client.post(f"/v1/speakers/{first}/undelete"), 429, "quota_exceeded")["quota"] == "speakers"
        assert client.delete(f"/v1/speakers/{second}", params={"at_once": True}).status_code == 204
