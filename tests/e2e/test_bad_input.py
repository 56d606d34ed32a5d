"""What clients send by mistake or by malice: a clear 4xx with the field and the limit, never a 500."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from asking import openai_error, problem, speak, upload
from servers import DATA, MAX_UPLOAD_BYTES, RunningServer

CLIP = (DATA / "woman.flac").read_bytes()


@pytest.mark.parametrize(
    "speaker_id",
    [
        "00000000-0000-4000-8000-000000000000",
        "../secret",
        "..%2fsecret",
        "/etc/passwd",
        "voices/demo/reference.flac",
        "\x00",
        "' OR 1=1 --",
    ],
)
def test_an_unknown_id_is_the_same_404_whatever_it_looks_like(
    client: httpx.Client, woman: str, speaker_id: str
) -> None:
    details = []
    for response in (
        speak(client, speaker_id=speaker_id, text="Hello."),
        speak(client, speaker_id="nobody", text="Hello."),
    ):
        details.append(problem(response, 404, "speaker_not_found")["detail"])
    assert details[0] == details[1]


@pytest.mark.parametrize("path", ["..%2f..%2fetc%2fpasswd", "%2e%2e", "nobody", "%00"])
def test_no_path_of_a_client_is_opened(client: httpx.Client, path: str) -> None:
    assert client.get(f"/v1/speakers/{path}").status_code == 404
    assert client.delete(f"/v1/speakers/{path}").status_code in {404, 405}


def test_unknown_fields_are_refused_on_native_routes_and_tolerated_on_openais(client: httpx.Client, woman: str) -> None:
    document = problem(speak(client, speaker_id=woman, text="Hello.", sped=2), 422, "bad_field")
    assert document["field"] == "sped"
    body = {"voice": woman, "input": "Hello.", "model": "any", "instructions": "warmly", "stream": True, "user": "u"}
    assert client.post("/v1/audio/speech", json=body).status_code == 200
    assert upload(client, CLIP, name="x", nam="y").json()["field"] == "nam"


@pytest.mark.parametrize(
    ("speed", "status"),
    [(0.24, 400), (0.25, 200), (4.0, 200), (4.01, 400), (0, 400), (-1, 400), ("1.0", 200), (None, 200), ("x", 400)],
)
def test_speed_of_openai(client: httpx.Client, woman: str, speed: object, status: int) -> None:
    response = client.post("/v1/audio/speech", json={"voice": woman, "input": "Hello there.", "speed": speed})
    assert response.status_code == status
    if status == 400:
        assert "speed" in openai_error(response, 400, "speed")["message"]


def test_numbers_that_json_does_not_have_are_refused(client: httpx.Client, woman: str) -> None:
    headers = {"Content-Type": "application/json"}
    for value in ("NaN", "Infinity", "-Infinity", "1e999"):
        body = f'{{"voice": "{woman}", "input": "Hello.", "speed": {value}}}'
        openai_error(client.post("/v1/audio/speech", content=body, headers=headers), 400, "speed")
        body = f'{{"speaker_id": "{woman}", "text": "Hello.", "seed": {value}}}'
        problem(client.post("/v1/speech", content=body, headers=headers), 422, "bad_field")


def test_a_wrong_field_name_is_pointed_out(client: httpx.Client, woman: str) -> None:
    error = openai_error(client.post("/v1/audio/speech", json={"voice": woman, "text": "Hello."}), 400, "input")
    assert "'text'" in error["message"]
    openai_error(client.post("/v1/audio/speech", json={"input": "Hello."}), 400, "voice")
    openai_error(client.post("/v1/audio/speech", json={"voice": {"name": "x"}, "input": "a"}), 400, "voice")
    bad_format = {"voice": woman, "input": "Hello.", "response_format": "wma"}
    openai_error(client.post("/v1/audio/speech", json=bad_format), 400, "response_format")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 10000])
def test_a_body_that_is_not_an_object_is_refused(client: httpx.Client, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    for path in ("/v1/speech", "/v1/audio/speech"):
        assert client.post(path, content=content, headers=headers).status_code in {400, 422}


def test_texts_that_cannot_be_spoken(client: httpx.Client, woman: str) -> None:
    for text in ("", "   ", "…", "🙂🙂", "***", "\x00\x01"):
        problem(speak(client, speaker_id=woman, text=text), 422, "nothing_to_say")
        error = openai_error(client.post("/v1/audio/speech", json={"voice": woman, "input": text}), 400, "input")
        assert error["code"] == "nothing_to_say"
    document = problem(speak(client, speaker_id=woman, text="a" * 2001), 413, "text_too_long")
    assert (document["limit"], document["length"]) == (2000, 2001)
    openai_error(client.post("/v1/audio/speech", json={"voice": woman, "input": "a" * 2001}), 400, "input")
    response = client.post("/v1/speech", content=b'{"speaker_id": "x", "text": "\\ud800"}')
    assert response.status_code in {404, 422}


def test_a_language_and_a_lexicon_that_the_voice_cannot_use(client: httpx.Client, woman: str) -> None:
    problem(speak(client, speaker_id=woman, text="Hello.", language="xx"), 422, "language_unsupported")
    lexicon = {"hello": "/☃/"}
    problem(speak(client, speaker_id=woman, text="Hello.", lexicon=lexicon), 422, "bad_lexicon")


def test_verify_cannot_be_streamed(client: httpx.Client, woman: str) -> None:
    response = speak(client, speaker_id=woman, text="Hello.", verify=True, stream=True)
    assert problem(response, 422, "verify_needs_whole")["field"] == "verify"


def test_a_stream_that_cannot_begin_is_a_plain_error(client: httpx.Client, woman: str) -> None:
    problem(speak(client, speaker_id=woman, text="🙂", stream=True), 422, "nothing_to_say")
    problem(speak(client, speaker_id="nobody", text="Hello.", stream=True), 404, "speaker_not_found")
    body = {"voice": woman, "input": "🙂", "stream_format": "sse"}
    openai_error(client.post("/v1/audio/speech", json=body), 400, "input")


def test_parts_that_are_missing_have_codes_of_their_own(client: httpx.Client) -> None:
    assert problem(upload(client, b"", name="Empty"), 422, "empty")["clip"] == 0
    nothing = client.post("/v1/speakers", data={"name": "x"}, files={"other": ("a", b"x")})
    assert problem(nothing, 422, "bad_field")["field"] == "other"
    no_clip = client.post("/v1/speakers", files={"name": (None, "x")})
    assert problem(no_clip, 422, "missing_field")["field"] == "clips"
    assert problem(upload(client, CLIP), 422, "missing_field")["field"] == "name"
    as_text = client.post("/v1/speakers", files={"name": (None, "x"), "clips": (None, "not a file")})
    assert problem(as_text, 422, "bad_field")["field"] == "clips"
    problem(client.post("/v1/speakers", json={"name": "x"}), 422, "bad_multipart")


@pytest.mark.parametrize("labels", ["{", "[]", '{"a": 1}', '{"a": {"b": "c"}}', "1", '{"": "x"}', "[" * 5000])
def test_labels_must_be_an_object_of_texts(client: httpx.Client, labels: str) -> None:
    assert problem(upload(client, CLIP, name="Labelled", labels=labels), 422, "bad_labels")["field"] == "labels"


def test_clips_without_a_voice_are_refused_and_nothing_is_stored(client: httpx.Client) -> None:
    before = client.get("/v1/speakers").json()["total"]
    assert (
        client.post(
            "/v1/speakers", data={"name": "Pair"}, files=[("clips", ("a", CLIP)), ("clips", ("b", b"not audio" * 99))]
        ).json()["clip"]
        == 1
    )
    silence = np.zeros(16000 * 3, "<i2").tobytes()
    header = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0data\xff\xff\xff\xff"
    problem(upload(client, header + silence, name="Silent"), 422, "no_speech")
    assert client.get("/v1/speakers").json()["total"] == before


def test_too_many_clips(client: httpx.Client) -> None:
    files = [("clips", (f"{i}", CLIP)) for i in range(5)]
    document = problem(client.post("/v1/speakers", data={"name": "Many"}, files=files), 422, "too_many_clips")
    assert document["limit"] == 4


def test_an_upload_over_the_limit_is_413_whether_it_says_its_length_or_not(client: httpx.Client) -> None:
    declared = upload(client, bytes(MAX_UPLOAD_BYTES + 1), name="Big")
    assert problem(declared, 413, "too_large")["limit_bytes"] == MAX_UPLOAD_BYTES
    response = client.post(
        "/v1/speakers", content=_endless_upload(), headers={"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert problem(response, 413, "too_large")["limit_bytes"] == MAX_UPLOAD_BYTES


def test_a_json_body_over_the_limit_is_413(client: httpx.Client) -> None:
    problem(speak(client, speaker_id="x", text="a" * 2**20), 413, "too_large")
    chunks = iter([b'{"speaker_id": "', *[b"a" * 65536] * 17])
    problem(client.post("/v1/speech", content=chunks, headers={"Content-Type": "application/json"}), 413, "too_large")


@pytest.mark.parametrize(
    "body",
    [
        b"--b\r\n" + b"-" * 2**20,
        b"-" * 2**20,
        b"--b\r\nContent-Disposition: form-data; name=" + b"a" * 2**20,
        b"".join(b'--b\r\nContent-Disposition: form-data; name="f%d"\r\n\r\nx\r\n' % i for i in range(1000)) + b"--b--",
        b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\n' + b"n" * 2**20 + b"\r\n--b--",
    ],
    ids=["dashes", "preamble", "header", "parts", "field"],
)
def test_hostile_multipart_is_refused(client: httpx.Client, body: bytes) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    response = client.post("/v1/speakers", content=body, headers=headers)
    assert response.status_code == 422, response.text


@pytest.mark.parametrize("name", ["", "   ", "\x00", "n" * 201])
def test_names_that_cannot_be_used(client: httpx.Client, name: str) -> None:
    response = client.post("/v1/speakers", files={"name": (None, name), "clips": ("a", CLIP)})
    problem(response, 422, "bad_name")


@pytest.mark.parametrize("name", ['Zoë "Z" <b>', "名前", "a\r\nX-Evil: 1", "🙂", "../../x"])
def test_names_of_people_are_kept_and_never_reach_a_header(client: httpx.Client, name: str) -> None:
    response = client.post("/v1/speakers", files={"name": (None, name), "clips": (name, CLIP)})
    assert response.status_code == 201, response.text
    assert "X-Evil" not in response.headers
    speaker_id = response.json()["speaker_id"]
    assert "\n" not in client.get(f"/v1/speakers/{speaker_id}").json()["name"]
    speech = client.post("/v1/audio/speech", json={"voice": response.json()["name"], "input": "Hello."})
    assert speech.status_code == 200
    assert client.delete(f"/v1/speakers/{speaker_id}").status_code == 204


def test_a_file_name_changes_nothing(client: httpx.Client) -> None:
    for file_name in ("../../etc/passwd", "con.wav", ".hidden", "x" * 300, "ف.wav", 'a".mp3'):
        files = {"clips": (file_name, CLIP, "audio/wav")}
        response = client.post("/v1/speakers", data={"name": "File name"}, files=files)
        assert response.status_code == 201, response.text
        client.delete(f"/v1/speakers/{response.json()['speaker_id']}")


def test_paths_and_methods_as_clients_write_them(client: httpx.Client) -> None:
    for path in ("/v1/models", "/v1/models/", "/v1/v1/models", "/v1/models/tts-1", "/v1/audio/voices/", "/health/live"):
        assert client.get(path).status_code == 200, path
        head = client.head(path)
        assert (head.status_code, head.content) == (200, b""), path
    assert client.get("/v1/models/nothing").json()["error"]["code"] == "model_unknown"
    assert client.get("/nothing").json()["code"] == "http_404"
    wrong = client.put("/v1/speech")
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "POST")


def test_browsers_are_answered_also_when_it_went_wrong(client: httpx.Client) -> None:
    origin = {"Origin": "https://console.example"}
    for response in (
        client.get("/health/live", headers=origin),
        client.post("/v1/speech", json={}, headers=origin),
        client.post("/v1/speech", json={"speaker_id": "nobody", "text": "a"}, headers=origin),
        client.get("/v1/admin/stats", headers=origin),
    ):
        assert response.headers["Access-Control-Allow-Origin"] == "https://console.example"
    preflight = {**origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    assert client.options("/v1/audio/speech", headers=preflight).status_code == 200
    assert "Access-Control-Allow-Origin" not in client.get("/health/live", headers={"Origin": "https://evil"}).headers


def test_the_admin_key_is_needed(client: httpx.Client, admin: httpx.Client) -> None:
    assert client.get("/v1/admin/stats").json()["code"] == "key_missing"
    wrong = client.get("/v1/admin/stats", headers={"Authorization": "Bearer guess"})
    assert (wrong.status_code, wrong.json()["code"]) == (401, "key_wrong")
    assert admin.get("/v1/admin/stats").json()["n_speakers"] >= 0
    assert problem(admin.post("/v1/admin/prune", json={}), 422, "missing_field")
    assert problem(admin.post("/v1/admin/prune", json={"unused_for_days": -1}), 422, "bad_field")


def test_a_request_that_is_not_http_does_not_hurt(server: RunningServer, client: httpx.Client) -> None:
    address = urlsplit(server.url)
    assert address.hostname is not None
    for junk in (
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/speech HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ):
        with socket.create_connection((address.hostname, address.port or 80), timeout=5) as connection:
            connection.sendall(junk)
    assert client.get("/health/live").status_code == 200


def _endless_upload() -> Iterator[bytes]:
    yield b'--b\r\nContent-Disposition: form-data; name="clips"; filename="a"\r\n\r\n'
    for _ in range(4096):
        yield bytes(65536)
