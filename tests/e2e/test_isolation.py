"""Requests never meet: each gets its own text in its own voice, and what is deleted stays deleted."""

import concurrent.futures
import itertools
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from servers import RunningServer, enrol

TEXTS = [
    "One.",
    "The second text is a little longer than the first.",
    "A third, with a question in it: is anybody there?",
    "The fourth is long. It has several sentences. None of them matters much. All of them are spoken.",
]
LONG = " ".join(f"Sentence number {i} of a long text that nobody will hear to its end." for i in range(24))


def _speak(client: httpx.Client, speaker_id: str, text: str, seed: int, stream: bool = False) -> bytes:
    body = {"speaker_id": speaker_id, "text": text, "seed": seed, "format": "pcm", "stream": stream}
    response = client.post("/v1/speech", json=body)
    assert response.status_code == 200, response.text
    return response.content


def _alike(first: bytes, second: bytes) -> bool:
    """Equal up to the rounding of sums that batching reorders."""
    one, two = np.frombuffer(first, "<i2").astype(int), np.frombuffer(second, "<i2").astype(int)
    return len(one) == len(two) and int(np.abs(one - two).max(initial=0)) <= 16


def test_parallel_requests_get_what_they_get_alone(client: httpx.Client, woman: str, man: str) -> None:
    jobs = [(voice, text, seed) for seed, (voice, text) in enumerate(itertools.product((woman, man), TEXTS))]
    alone = [_speak(client, *job) for job in jobs]
    assert all(not _alike(a, b) for a, b in itertools.combinations(alone, 2))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for round_number in range(3):
            stream = round_number == 2
            together = list(pool.map(lambda job: _speak(client, *job, stream=stream), jobs))  # noqa: B023
            assert [_alike(a, b) for a, b in zip(alone, together, strict=True)] == [True] * len(jobs)


def test_a_voice_before_and_after_another_is_the_same(client: httpx.Client, woman: str, man: str) -> None:
    first, other, third = (_speak(client, voice, TEXTS[1], 9) for voice in (woman, man, woman))
    assert first == third
    assert not _alike(first, other)


def test_a_deleted_speaker_never_speaks_again(client: httpx.Client, woman: str) -> None:
    gone = enrol(client, "Gone", "man.flac")
    _speak(client, gone, "I am here.", 1)
    assert client.delete(f"/v1/speakers/{gone}").status_code == 204
    for stream in (False, True):
        body = {"speaker_id": gone, "text": "I am here.", "stream": stream}
        assert client.post("/v1/speech", json=body).json()["code"] == "speaker_not_found"
    by_name = client.post("/v1/audio/speech", json={"voice": "Gone", "input": "I am here."})
    assert by_name.status_code == 404
    assert client.delete(f"/v1/speakers/{gone}").status_code == 404
    similar = client.get(f"/v1/speakers/{woman}/similar", params={"k": 100}).json()["matches"]
    assert gone not in [match["speaker_id"] for match in similar]


def test_a_name_given_to_another_person_speaks_with_the_new_voice(client: httpx.Client) -> None:
    old = enrol(client, "Anna", "man.flac")
    body = {"voice": "anna", "input": TEXTS[1], "response_format": "pcm"}
    assert client.post("/v1/audio/speech", json=body).status_code == 200
    before = _speak(client, old, TEXTS[1], 4)
    client.delete(f"/v1/speakers/{old}")
    new = enrol(client, "Anna", "woman.flac")
    assert new != old
    assert not _alike(before, _speak(client, new, TEXTS[1], 4))
    listed = {voice["name"]: voice["id"] for voice in client.get("/v1/audio/voices").json()["voices"]}
    assert listed["Anna"] == new
    client.delete(f"/v1/speakers/{new}")


def test_one_name_uploaded_twice_at_once_is_one_201_and_one_409(client: httpx.Client, server: RunningServer) -> None:
    clip = {"clips": ("a", (Path(__file__).parents[1] / "data" / "man.flac").read_bytes())}

    def upload(_: int) -> httpx.Response:
        return client.post("/v1/speakers", data={"name": "Twin"}, files=clip)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        replies = sorted(pool.map(upload, range(2)), key=lambda reply: reply.status_code)
    assert [reply.status_code for reply in replies] == [201, 409]
    assert replies[1].json()["code"] == "name_taken"
    client.delete(f"/v1/speakers/{replies[0].json()['speaker_id']}")


def test_pruning_says_first_and_then_does_the_same(admin: httpx.Client) -> None:
    pinned, plain = enrol(admin, "Pinned"), enrol(admin, "Plain")
    assert admin.patch(f"/v1/speakers/{pinned}", json={"pinned": True}).json()["pinned"] is True
    used = {item["speaker_id"] for item in admin.get("/v1/speakers", params={"limit": 500}).json()["speakers"]}
    keep = len(used) - 2
    for speaker_id in used - {pinned, plain}:
        _speak(admin, speaker_id, "Used.", 1)
    policy = {"keep_newest_used": keep}
    dry = admin.post("/v1/admin/prune", json={**policy, "dry_run": True}).json()
    assert [item["speaker_id"] for item in dry["victims"]] == [plain]
    assert admin.get(f"/v1/speakers/{plain}").status_code == 200
    real = admin.post("/v1/admin/prune", json=policy).json()
    assert real["victims"] == dry["victims"]
    body = {"speaker_id": plain, "text": "Hello."}
    assert admin.post("/v1/speech", json=body).status_code == 404
    assert admin.post("/v1/speech", json={**body, "speaker_id": pinned}).status_code == 200
    admin.delete(f"/v1/speakers/{pinned}")


def test_a_client_that_goes_away_frees_its_place(client: httpx.Client, admin: httpx.Client, woman: str) -> None:
    def cancelled() -> float:
        lines = client.get("/metrics").text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("voicekin_cancelled_total "))

    before = cancelled()
    body = {"speaker_id": woman, "text": LONG, "format": "pcm", "stream": True, "speed": 0.25}
    with (
        httpx.Client(base_url=client.base_url, timeout=60) as leaving,
        leaving.stream("POST", "/v1/speech", json=body) as response,
    ):
        next(response.iter_raw(8192))
    with httpx.Client(base_url=client.base_url, timeout=0.05) as leaving, pytest.raises(httpx.TimeoutException):
        leaving.post("/v1/speech", json={**body, "stream": False})
    until = time.monotonic() + 10
    while cancelled() < before + 2 or admin.get("/v1/admin/stats").json()["speech_under_way"]:
        assert time.monotonic() < until, (before, cancelled(), admin.get("/v1/admin/stats").json())
        time.sleep(0.05)
    assert _speak(client, woman, "Next.", 1)


def test_health_answers_while_speech_and_decoding_run(client: httpx.Client, woman: str) -> None:
    clip = {"clip": ("a", (Path(__file__).parents[1] / "data" / "woman.flac").read_bytes())}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        speech = {"speaker_id": woman, "text": LONG[:1900], "speed": 0.25}
        work = [pool.submit(client.post, "/v1/speech", json=speech) for _ in range(2)]
        work += [pool.submit(client.post, "/v1/speakers/search", files=clip) for _ in range(2)]
        n_answers = 0
        while not all(job.done() for job in work):
            assert client.get("/health/live").status_code == 200
            n_answers += 1
            time.sleep(0.02)
        assert all(job.result().status_code == 200 for job in work)
    # An event loop that waits for one of these answers once between two of them at most.
    assert n_answers > 2 * len(work)


def test_neither_texts_nor_uploads_are_kept(client: httpx.Client, server: RunningServer, man: str) -> None:
    secret = "Xylophones quarrel about marmalade."
    _speak(client, man, secret, 1)
    client.post("/v1/speech", json={"speaker_id": man, "text": secret, "speed": secret})
    clip = (Path(__file__).parents[1] / "data" / "man.flac").read_bytes()
    state = Path(server.environment["VOICEKIN_STATE_DIR"])
    kept = [path for path in state.rglob("*") if path.is_file()] + [server.log]
    assert any(path.name.endswith(".db") for path in kept)
    for path in kept:
        data = path.read_bytes()
        assert b"marmalade" not in data, path
        assert clip[2000:2200] not in data, path
