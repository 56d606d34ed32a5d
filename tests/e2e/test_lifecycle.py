"""Start, readiness, shutdown and sudden death of the server process."""

import json
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import torch
from preloaded import run
from servers import DATA, RunningServer, enrol, environment_of, migrate

Starter = Callable[..., RunningServer]
LONG = " ".join(f"Sentence number {i} of a long text that is read slowly." for i in range(30))


def test_live_at_once_and_ready_when_the_database_is_there(other_server: Starter) -> None:
    server = other_server(ready=False)
    assert httpx.get(f"{server.url}/health/live").status_code == 200
    until = time.monotonic() + 30
    while (response := httpx.get(f"{server.url}/health/ready")).json().get("reason") != "schema_missing":
        assert time.monotonic() < until, response.text
        time.sleep(0.1)
    assert response.status_code == 503
    assert response.headers["Retry-After"]
    assert "voicekin doctor --migrate" in response.json()["detail"]
    speech = httpx.post(f"{server.url}/v1/speech", json={"speaker_id": "x", "text": "a"})
    assert (speech.status_code, speech.json()["code"]) == (503, "starting")
    done = run(server.environment, "doctor", "--migrate", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    server.wait_ready()


def test_an_enrolment_that_was_answered_survives_kill_9(other_server: Starter) -> None:
    server = other_server()
    with httpx.Client(base_url=server.url, timeout=60) as client:
        speaker_id = enrol(client, "Survivor")
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    again = other_server()
    response = httpx.post(f"{again.url}/v1/speech", json={"speaker_id": speaker_id, "text": "Still here."}, timeout=60)
    assert response.status_code == 200, response.text


def test_sigterm_lets_streams_end_and_exits_with_0(other_server: Starter) -> None:
    server = other_server(DRAIN_S="20")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        body = {"speaker_id": enrol(client, "Streamer"), "text": LONG, "format": "pcm", "seed": 1, "stream": True}
        complete = client.post("/v1/speech", json=body).content
        with client.stream("POST", "/v1/speech", json=body) as response:
            chunks = response.iter_raw()
            received = next(chunks)
            server.process.send_signal(signal.SIGTERM)
            received += b"".join(chunks)
        assert received == complete
    assert server.process.wait(timeout=30) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/health/live")


def test_sigterm_does_not_wait_for_ever(other_server: Starter) -> None:
    server = other_server(DRAIN_S="1", SEND_TIMEOUT_S="3600")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        body = {
            "speaker_id": enrol(client, "Idle reader"),
            "text": LONG,
            "format": "wav",
            "stream": True,
            "speed": 0.25,
        }
        with client.stream("POST", "/v1/speech", json=body):
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=60) == 0


def test_without_keys_the_network_is_refused(tmp_path: Path, voice_dir: Path) -> None:
    done = run(environment_of(tmp_path, voice_dir), "serve", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 1
    assert "--allow-open" in done.stderr


def test_a_wrong_setting_stops_the_start_and_is_named(tmp_path: Path, voice_dir: Path) -> None:
    for name, value in (("PROT", "1"), ("MAX_CLIPS", "none")):
        done = run(environment_of(tmp_path, voice_dir, **{name: value}), "serve", "--port", "0")
        assert done.returncode == 1
        assert f"VOICEKIN_{name}" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_limit_of_device_memory_needs_a_device(tmp_path: Path, voice_dir: Path) -> None:
    for size, code, words in (("1500MB", 1, "VOICEKIN_DEVICE=cuda"), ("much", 2, "1500MB")):
        done = run(environment_of(tmp_path, voice_dir), "serve", "--port", "0", "--vram-limit", size)
        assert (done.returncode, words in done.stderr) == (code, True), done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a CUDA device: none is missing")
def test_a_device_that_is_missing_is_named(tmp_path: Path, voice_dir: Path) -> None:
    environment = environment_of(tmp_path, voice_dir, DEVICE="cuda")
    migrate(environment)
    examined = run(environment, "doctor", "--json")
    (encoder,) = (each for each in json.loads(examined.stdout)["findings"] if each["what"] == "speaker encoder")
    assert (examined.returncode, encoder["ok"]) == (1, False)
    assert "VOICEKIN_DEVICE" in encoder["remedy"]
    assert "no CUDA device was found" in encoder["found"]
    enrolled = run(environment, "enrol", "Ada", str(DATA / "woman.flac"))
    assert (enrolled.returncode, enrolled.stdout) == (1, "")
    assert "no CUDA device was found" in enrolled.stderr
    assert "Traceback" not in examined.stderr + enrolled.stderr


def test_a_port_that_is_taken_is_said(server: RunningServer, tmp_path: Path, voice_dir: Path) -> None:
    port = server.url.rsplit(":", 1)[1]
    done = run(environment_of(tmp_path, voice_dir), "serve", "--port", port)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


def test_keys_guard_every_route_but_health_and_metrics(other_server: Starter) -> None:
    server = other_server(API_KEYS="client-key-1,client-key-2")
    paths = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    open_paths = {"/health/live", "/health/ready", "/metrics"}
    assert open_paths < set(paths)
    for path, methods in paths.items():
        for method in methods:
            response = httpx.request(method, server.url + path.replace("{", "").replace("}", ""))
            expected = {200} if path in open_paths else {401, 403}
            assert response.status_code in expected, (method, path, response.text)
    with httpx.Client(base_url=server.url, headers={"Authorization": "Bearer client-key-2"}) as client:
        assert client.get("/v1/speakers").status_code == 200
        admin = client.get("/v1/admin/stats")
        assert (admin.status_code, admin.json()["code"]) == (403, "admin_disabled")
        assert "VOICEKIN_ADMIN_KEY" in admin.json()["detail"]
    server.stop()
    assert "client-key" not in server.log.read_text()


def test_more_requests_than_allowed_are_told_to_come_back(other_server: Starter) -> None:
    server = other_server(MAX_REQUESTS="1")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        body = {"speaker_id": enrol(client, "Popular"), "text": LONG, "speed": 0.25}
        statuses: list[int] = []
        lock = threading.Lock()

        def ask() -> None:
            response = client.post("/v1/speech", json=body)
            assert response.status_code == 200 or response.headers["Retry-After"]
            with lock:
                statuses.append(response.status_code)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(set(statuses)) == [200, 503]
        assert client.post("/v1/speech", json={**body, "text": "Now?"}).status_code == 200


def test_a_client_that_never_reads_is_let_go(other_server: Starter) -> None:
    server = other_server(MAX_REQUESTS="1", SEND_TIMEOUT_S="0.5")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        body = {"speaker_id": enrol(client, "Patient"), "text": LONG, "format": "pcm", "stream": True, "speed": 0.25}
        content = json.dumps(body).encode()
        address = urlsplit(server.url)
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((address.hostname, address.port))
            head = f"POST /v1/speech HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n"
            connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + content)
            connection.recv(64)
            until = time.monotonic() + 20
            while (next_one := client.post("/v1/speech", json={**body, "text": "Next."})).status_code == 503:
                assert time.monotonic() < until, server.log.read_text()
                time.sleep(0.1)
            assert next_one.status_code == 200
            assert "voicekin_cancelled_total 1.0" in client.get("/metrics").text


def test_a_state_folder_that_cannot_be_written_is_said(tmp_path: Path, voice_dir: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = run(environment_of(blocked / "state", voice_dir), "doctor", "--migrate", "--json")
    assert done.returncode == 1
    assert "VOICEKIN_STATE_DIR" in done.stdout
    assert "Traceback" not in done.stderr


def test_an_engine_that_cannot_be_opened_gives_way_and_says_so_or_the_server_is_not_ready(
    other_server: Starter,
) -> None:
    """TensorRT needs a CUDA device, and these servers run on the CPU."""
    ready = httpx.get(f"{other_server(ENGINE='tensorrt').url}/health/ready").json()
    assert set(ready["engines"].values()) == {"eager on cpu"}
    strict = other_server(ready=False, ENGINE="tensorrt", ENGINE_FALLS_BACK="false")
    until = time.monotonic() + 60
    while (response := httpx.get(f"{strict.url}/health/ready")).json().get("reason") != "engine_unavailable":
        assert time.monotonic() < until, response.text
        time.sleep(0.1)
    assert response.status_code == 503
    assert "the engine tensorrt needs a CUDA device" in response.json()["detail"]
