"""Requests as players, browsers, proxies and attackers send them; and what never leaves the server."""

import io
import time
import wave
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from asking import problem, speak, upload
from encoder_media import at_rate, recording, wav
from servers import DATA, RunningServer, enrol, environment_of, migrate, start

LONG = " ".join(f"Sentence number {i} of a long text that is heard from its beginning." for i in range(24))
KEY, ADMIN = "a-client-key-of-the-tests", "another-admin-key-of-the-tests"
SECRET = "Marmalade quarrels about xylophones"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, voice_dir: Path) -> Iterator[RunningServer]:
    """A server with keys, every origin, all logging, a temporary folder of its own, and a clock far from UTC."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "temporary").mkdir()
    environment = environment_of(
        folder / "state", voice_dir, API_KEYS=KEY, ADMIN_KEY=ADMIN, CORS_ORIGINS="*", LOG_LEVEL="debug"
    )
    environment |= {"TMPDIR": str(folder / "temporary"), "TZ": "America/St_Johns"}
    migrate(environment)
    running = start(environment, folder / "log")
    running.wait_ready()
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture
def keyed(guarded: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=guarded.url, timeout=60, headers={"Authorization": f"Bearer {KEY}"}) as opened:
        yield opened


def test_a_player_hears_the_beginning_long_before_the_end(
    client: httpx.Client, admin: httpx.Client, woman: str
) -> None:
    body = {"speaker_id": woman, "text": LONG, "seed": 1, "stream": True, "speed": 0.25}
    with client.stream("POST", "/v1/speech", json=body) as response:
        chunks = response.iter_raw()
        head = next(chunks)
        assert admin.get("/v1/admin/stats").json()["speech_under_way"] == 1
        rest = b"".join(chunks)
    assert len(head) < len(rest)
    assert response.headers["X-Accel-Buffering"] == "no"
    data = head + rest
    assert (data[:4], data[4:8], data[40:44]) == (b"RIFF", b"\xff" * 4, b"\xff" * 4)
    assert data.count(b"RIFF") == data.count(b"WAVEfmt") == 1
    whole = speak(client, **{**body, "stream": False}).content
    assert data[44:] == whole[44:]
    with wave.open(io.BytesIO(whole)) as file:
        assert file.getnframes() * 2 == len(whole) - 44


def test_audio_is_never_compressed_on_its_way(client: httpx.Client, woman: str) -> None:
    for stream in (True, False):
        body = {"speaker_id": woman, "text": "Hello there.", "seed": 1, "stream": stream}
        response = client.post("/v1/speech", json=body, headers={"Accept-Encoding": "gzip, br, zstd"})
        assert "Content-Encoding" not in response.headers
        assert response.content[:4] == b"RIFF"


def test_a_browser_is_told_exactly_the_methods_that_are_served(client: httpx.Client) -> None:
    headers = {"Origin": "https://console.example", "Access-Control-Request-Method": "POST"}
    allowed = client.options("/v1/speech", headers=headers).headers["Access-Control-Allow-Methods"].split(", ")
    paths = client.get("/openapi.json").json()["paths"].values()
    assert sorted(allowed) == sorted({method.upper() for methods in paths for method in methods})


def test_every_origin_may_be_allowed_but_never_with_credentials(keyed: httpx.Client) -> None:
    headers = {"Origin": "https://anywhere.example", "Access-Control-Request-Method": "POST"}
    for response in (keyed.options("/v1/speech", headers=headers), keyed.get("/v1/speakers", headers=headers)):
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in response.headers


def test_a_file_of_thirty_megabytes_is_taken(keyed: httpx.Client) -> None:
    man = at_rate(recording("man"), 192_000)
    data = wav(np.stack([man] * 4, axis=1), 192_000, "FLOAT")
    assert len(data) > 30e6
    response = upload(keyed, data, name="Large")
    assert response.status_code == 201, response.text
    assert keyed.delete(f"/v1/speakers/{response.json()['speaker_id']}").status_code == 204


def test_no_address_of_a_client_is_fetched(client: httpx.Client, woman: str) -> None:
    clip = (DATA / "woman.flac").read_bytes()
    for address in ("http://127.0.0.1/", "http://169.254.169.254/latest", "http://[::1]/", "file:///etc/passwd"):
        assert problem(upload(client, clip, name="x", url=address), 422, "bad_field")["field"] == "url"
        refused = speak(client, speaker_id=woman, text="Hello.", reference_url=address)
        assert problem(refused, 422, "bad_field")["field"] == "reference_url"
        assert problem(upload(client, address.encode(), name="x"), 415, "unsupported_format")


def test_no_refusal_shows_a_path_or_a_trace(client: httpx.Client, server: RunningServer, woman: str) -> None:
    refusals = [
        speak(client, speaker_id="/etc/passwd", text="Hello."),
        speak(client, speaker_id=woman, text=""),
        speak(client, speaker_id=woman, text="Hello.", format="wma"),
        upload(client, b"not audio" * 99, name="x"),
        upload(client, b"", name="x"),
        client.post("/v1/speech", content=b"{"),
        client.get("/v1/speakers", params={"cursor": "\x00"}),
        client.get("/v1/speakers/..%2f..%2fetc"),
        client.post("/v1/audio/speech", json={"voice": "../../x", "input": "Hello."}),
        client.get("/v1/admin/stats"),
    ]
    folders = [server.environment["VOICEKIN_STATE_DIR"], server.environment["VOICEKIN_VOICE_DIR"], "site-packages"]
    for response in refusals:
        assert 400 <= response.status_code < 500, response.text
        for word in (*folders, "Traceback", ".py"):
            assert word not in response.text


def test_neither_keys_nor_texts_reach_logs_errors_or_metrics(guarded: RunningServer, keyed: httpx.Client) -> None:
    speaker_id = enrol(keyed, "Confidant")
    spoken = {"speaker_id": speaker_id, "text": SECRET}
    replies = [
        speak(keyed, **spoken),
        speak(keyed, **spoken, speed=SECRET),
        speak(keyed, **{**spoken, "speaker_id": SECRET}),
        keyed.post("/v1/speech", content=f'{{"text": "{SECRET}", "key": "{KEY}", '),
        httpx.post(f"{guarded.url}/v1/speech", params={"api_key": KEY}, json=spoken),
        httpx.post(f"{guarded.url}/v1/speech", headers={"Authorization": f"Basic {KEY}"}, json=spoken),
        httpx.get(f"{guarded.url}/v1/admin/stats", headers={"Authorization": f"Bearer {KEY}"}),
        httpx.get(f"{guarded.url}/metrics"),
    ]
    assert [reply.status_code for reply in replies] == [200, 422, 404, 422, 401, 401, 403, 200]
    shown = [reply.text for reply in replies[1:]] + [guarded.log.read_text()]
    for text in shown:
        assert KEY not in text and ADMIN not in text and SECRET not in text and "armalade" not in text
    assert speaker_id not in replies[-1].text
    assert keyed.delete(f"/v1/speakers/{speaker_id}").status_code == 204


def test_nothing_is_left_in_the_temporary_folder(guarded: RunningServer, keyed: httpx.Client) -> None:
    speaker_id = enrol(keyed, "Passer-by")
    assert speak(keyed, speaker_id=speaker_id, text="Hello.", format="mp3").status_code == 200
    assert upload(keyed, b"not audio" * 99, name="x").status_code == 415
    assert keyed.delete(f"/v1/speakers/{speaker_id}").status_code == 204
    assert list(Path(guarded.environment["TMPDIR"]).iterdir()) == []


def test_times_are_utc_wherever_the_machine_is(keyed: httpx.Client) -> None:
    speaker_id = enrol(keyed, "Timed")
    created = keyed.get(f"/v1/speakers/{speaker_id}").json()["created_at"]
    assert created.endswith(("Z", "+00:00"))
    age_s = time.time() - np.datetime64(created.removesuffix("Z").removesuffix("+00:00"), "us").astype(int) / 1e6
    assert -1 < age_s < 60
    assert keyed.delete(f"/v1/speakers/{speaker_id}").status_code == 204
