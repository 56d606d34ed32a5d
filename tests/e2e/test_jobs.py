"""Long texts through real servers: killed and gone on, two over one state, ended from elsewhere, fetched whole."""

import io
import json
import re
import signal
import sqlite3
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import httpx
import pytest
from asking import problem, speak
from preloaded import run
from servers import RunningServer, enrol, environment_of, migrate, start

Starter = Callable[..., RunningServer]
SENTENCES = [f"Sentence number {n} of a chapter that goes on and on." for n in range(60)]
LONG = "# One\n\n" + " ".join(SENTENCES[:30]) + "\n\n# Two\n\n" + " ".join(SENTENCES[30:])
MAX_BYTES = 300 * 2**20
SHORT = "# The door\n\nWho is there?\n\n[speaker: Man] Only me, it costs $5.\n\n# The end\n\nThey left."
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def submit(client: httpx.Client, text: str = LONG, **body: Any) -> dict[str, Any]:
    response = client.post("/v1/jobs", json={"text": text, "seed": 7, **body})
    assert response.status_code == 202, response.text
    document: dict[str, Any] = response.json()
    assert response.headers["Location"] == f"/v1/jobs/{document['job_id']}"
    return document


def wait_for(client: httpx.Client, job_id: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    until = time.monotonic() + 90
    while not wanted(document := client.get(f"/v1/jobs/{job_id}").json()):
        assert time.monotonic() < until, document
        time.sleep(0.05)
    return document


def wait_state(client: httpx.Client, job_id: str, state: str = "done") -> dict[str, Any]:
    def has_ended(document: dict[str, Any]) -> bool:
        assert document["state"] in ("waiting", "running", state), document
        return document["state"] == state

    return wait_for(client, job_id, has_ended)


def fetch(client: httpx.Client, job_id: str, name: str = "wav") -> bytes:
    response = client.get(f"/v1/jobs/{job_id}/audio", params={"format": name})
    assert response.status_code == 200, response.text
    return response.content


def spoken_s(*servers: RunningServer) -> float:
    texts = [httpx.get(f"{server.url}/metrics").text for server in servers]
    found = [re.search(r"^voicekin_job_audio_seconds_total (\S+)$", text, re.MULTILINE) for text in texts]
    return sum(float(each[1]) for each in found if each)


def stored_samples(server: RunningServer, job_id: str) -> int:
    database = Path(server.environment["VOICEKIN_STATE_DIR"]) / "voicekin.db"
    with sqlite3.connect(database) as connection:
        query = "SELECT sum(n_samples) FROM job_pieces WHERE job_id = ?"
        return int(connection.execute(query, (job_id,)).fetchone()[0])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, voice_dir: Path) -> Iterator[list[RunningServer]]:
    """Two servers over one state."""
    folder = tmp_path_factory.mktemp("pair")
    environment = environment_of(
        folder / "state", voice_dir, JOB_LEASE_S="2", JOB_MAX_UNFINISHED="5", JOB_MAX_BYTES=str(MAX_BYTES)
    )
    migrate(environment)
    servers: list[RunningServer] = []
    try:
        for number in range(2):
            servers.append(start(environment, folder / f"log-{number}"))
            servers[-1].wait_ready()
        yield servers
    finally:
        ends = [each.stop() for each in servers]
    assert ends == [0, 0], [each.log.read_text() for each in servers]


@pytest.fixture(scope="module")
def first(pair: list[RunningServer]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=pair[0].url, timeout=60) as client:
        enrol(client, "Woman")
        enrol(client, "Man", "man.flac")
        yield client


@pytest.fixture(scope="module")
def second(pair: list[RunningServer]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=pair[1].url, timeout=60) as client:
        yield client


def test_a_killed_server_goes_on_where_it_was_and_the_recording_is_the_same(other_server: Starter) -> None:
    server = other_server(JOB_LEASE_S="1")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        enrol(client, "Woman")
        broken = submit(client, speaker_id="Woman")["job_id"]
        wait_for(client, broken, lambda document: document["n_done"] >= 2)
    server.stop(signal.SIGKILL)
    kept = stored_samples(server, broken)
    again = other_server(JOB_LEASE_S="1")
    with httpx.Client(base_url=again.url, timeout=60) as client:
        document = wait_state(client, broken)
        total = stored_samples(again, broken)
        assert 0 < kept < total and document["n_done"] == document["n_pieces"] > 5
        with wave.open(io.BytesIO(fetch(client, broken))) as file:
            rate = file.getframerate()
        assert spoken_s(again) == pytest.approx((total - kept) / rate), "what was kept is not spoken again"
        unbroken = submit(client, speaker_id="Woman")["job_id"]
        wait_state(client, unbroken)
        assert fetch(client, broken) == fetch(client, unbroken)
        jobs = Path(again.environment["VOICEKIN_STATE_DIR"]) / "jobs"
        names = [path.name for path in jobs.rglob("*") if path.is_file()]
        assert len(names) == 2 * document["n_pieces"], "nothing of the killed one lies about"


def test_two_servers_never_speak_one_piece_twice(
    pair: list[RunningServer], first: httpx.Client, second: httpx.Client
) -> None:
    before_s = spoken_s(*pair)
    ids = [submit(client, speaker_id="Woman")["job_id"] for client in (first, second, first, second)]
    audio_s = [wait_state(second, job_id)["audio_s"] for job_id in ids]
    assert spoken_s(*pair) - before_s == pytest.approx(sum(audio_s), abs=0.01)
    assert len({fetch(first, job_id) for job_id in ids}) == 1, "whoever spoke it"
    assert min(spoken_s(each) for each in pair) > 0, "both had a part in it"


def test_short_requests_are_answered_while_jobs_are_spoken(first: httpx.Client) -> None:
    speaker_id = first.get("/v1/speakers").json()["speakers"][0]["speaker_id"]
    alone = speak(first, speaker_id=speaker_id, text="A short one.", seed=1)
    job_ids = [submit(first, speaker_id="Woman")["job_id"] for _ in range(2)]
    wait_for(first, job_ids[0], lambda document: document["n_done"] >= 1)
    for _ in range(3):
        assert speak(first, speaker_id=speaker_id, text="A short one.", seed=1).content == alone.content
    assert {first.get(f"/v1/jobs/{job_id}").json()["state"] for job_id in job_ids} <= {"running", "waiting"}
    for job_id in job_ids:
        assert first.post(f"/v1/jobs/{job_id}/cancel").json()["state"] == "cancelled"


def test_another_server_can_cancel_and_delete(first: httpx.Client, second: httpx.Client) -> None:
    for end in ("cancel", "delete"):
        job_id = submit(first, speaker_id="Woman")["job_id"]
        wait_for(first, job_id, lambda document: document["n_done"] >= 1)
        if end == "cancel":
            assert second.post(f"/v1/jobs/{job_id}/cancel").json()["state"] == "cancelled"
            assert first.post(f"/v1/jobs/{job_id}/cancel").json()["state"] == "cancelled"
            refused = problem(first.get(f"/v1/jobs/{job_id}/audio"), 409, "job_inaudible")
            assert refused["state"] == "cancelled"
        assert second.delete(f"/v1/jobs/{job_id}").status_code == 204
        problem(first.get(f"/v1/jobs/{job_id}"), 404, "job_not_found")
        problem(first.delete(f"/v1/jobs/{job_id}"), 404, "job_not_found")


def test_a_speaker_erased_in_the_middle_ends_its_jobs_everywhere(
    pair: list[RunningServer], first: httpx.Client, second: httpx.Client
) -> None:
    speaker_id = enrol(first, "Brief")
    finished = submit(first, "Soon done.", speaker_id="Woman")["job_id"]
    mixed = submit(first, f"[speaker: Woman] Yes.\n\n[speaker: Brief]\n{LONG}")["job_id"]
    wait_for(second, mixed, lambda document: document["n_done"] >= 2)
    assert second.delete(f"/v1/speakers/{speaker_id}").status_code == 204
    for client in (first, second):
        document = client.get(f"/v1/jobs/{mixed}").json()
        assert (document["state"], document["code"], document["n_bytes"]) == ("speaker_gone", "speaker_gone", 0)
        problem(client.get(f"/v1/jobs/{mixed}/audio"), 409, "job_inaudible")
    wait_state(first, finished)
    jobs = Path(pair[0].environment["VOICEKIN_STATE_DIR"]) / "jobs"
    until = time.monotonic() + 20
    while list(jobs.rglob(mixed)):
        assert time.monotonic() < until, "a piece under way goes with the sentence that was spoken"
        time.sleep(0.05)
    problem(first.post("/v1/jobs", json={"text": "Hello.", "speaker_id": speaker_id}), 404, "speaker_not_found")


def test_a_job_is_fetched_in_every_form(first: httpx.Client) -> None:
    job_id = submit(first, SHORT, speaker_id="woman", title='A "title"\r\nX: y/é')["job_id"]
    document = wait_state(first, job_id)
    assert [each["title"] for each in document["chapters"]] == ["The door", "The end"]
    assert document["chapters"][1]["stop_s"] == pytest.approx(document["audio_s"], abs=0.001)
    wav = first.get(f"/v1/jobs/{job_id}/audio")
    with wave.open(io.BytesIO(wav.content)) as file:
        assert file.getnframes() / file.getframerate() == pytest.approx(document["audio_s"], abs=0.001)
    assert int(wav.headers["Content-Length"]) == len(wav.content)
    name = wav.headers["Content-Disposition"]
    assert (
        name == f"attachment; filename=\"job-{job_id}.wav\"; filename*=UTF-8''A%20%22title%22%20X%3A%20y%2F%C3%A9.wav"
    )
    for kind in ("flac", "mp3", "opus", "m4a"):
        with av.open(io.BytesIO(fetch(first, job_id, kind))) as container:
            assert container.duration == pytest.approx(1e6 * document["audio_s"], abs=2e4), kind
            titles = [each["metadata"]["title"] for each in container.chapters()]
            assert titles == (["The door", "The end"] if kind == "m4a" else [])
    for kind in ("aac", "pcm"):
        assert len(fetch(first, job_id, kind)) > 1000
    problem(first.get(f"/v1/jobs/{job_id}/audio?format=exe"), 422, "format_unknown")


def test_times_are_of_the_whole_and_of_the_text_as_it_was_sent(first: httpx.Client) -> None:
    job_id = submit(first, SHORT, speaker_id="woman")["job_id"]
    audio_s = wait_state(first, job_id)["audio_s"]
    document = first.get(f"/v1/jobs/{job_id}/timestamps").json()
    assert document["text"] == SHORT and [each["title"] for each in document["chapters"]] == ["The door", "The end"]
    words = [word for sentence in document["sentences"] for word in sentence["words"]]
    assert "$5" in [word["text"] for word in words]
    for word in words:
        assert SHORT[word["start_char"] : word["stop_char"]] == word["text"]
    starts = [word["start_s"] for word in words]
    assert starts == sorted(starts) and words[-1]["stop_s"] <= audio_s
    srt = first.get(f"/v1/jobs/{job_id}/timestamps?format=srt")
    assert srt.text.startswith("1\n00:00:00,") and "Only me, it costs $5." in srt.text
    assert [int(each) for each in re.findall(r"^(\d+)$", srt.text, re.MULTILINE)] == list(range(1, 6))
    assert first.get(f"/v1/jobs/{job_id}/timestamps?format=vtt").text.startswith("WEBVTT\n\n00:00:00.")
    problem(first.get(f"/v1/jobs/{job_id}/timestamps?format=txt"), 422, "bad_field")


def test_events_tell_how_far_a_job_is_until_its_end(first: httpx.Client, second: httpx.Client) -> None:
    job_id = submit(first, LONG[:1500], speaker_id="Woman")["job_id"]
    events: list[tuple[str, dict[str, Any]]] = []
    with second.stream("GET", f"/v1/jobs/{job_id}/events") as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        assert response.headers["X-Accel-Buffering"] == "no"
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                events.append((name, json.loads(line.removeprefix("data: "))))
    assert [name for name, _ in events][-1] == "end" and {name for name, _ in events[:-1]} == {"progress"}
    progress = [document["progress"] for _, document in events]
    assert progress == sorted(progress) and progress[-1] == 1.0 and events[-1][1]["state"] == "done"
    problem(second.get(f"/v1/jobs/{UNKNOWN}/events"), 404, "job_not_found")


def test_jobs_are_listed_page_by_page_the_newest_first(first: httpx.Client) -> None:
    ids = [submit(first, f"Text {n}.", speaker_id="Woman")["job_id"] for n in range(3)][::-1]
    page = first.get("/v1/jobs", params={"limit": 2}).json()
    rest = first.get("/v1/jobs", params={"limit": 1, "cursor": page["next_cursor"]}).json()
    assert [job["job_id"] for job in [*page["jobs"], *rest["jobs"]]] == ids
    problem(first.get("/v1/jobs?cursor=x"), 422, "bad_cursor")
    problem(first.get("/v1/jobs?limit=0"), 422, "bad_field")


def test_one_key_makes_one_job(first: httpx.Client, second: httpx.Client) -> None:
    body = {"text": "Once only.", "speaker_id": "Woman"}
    headers = {"Idempotency-Key": "chapter-1"}
    ids = {client.post("/v1/jobs", json=body, headers=headers).json()["job_id"] for client in (first, second, first)}
    assert len(ids) == 1
    problem(first.post("/v1/jobs", json={**body, "speed": 2}, headers=headers), 422, "key_reused")
    assert first.delete(f"/v1/jobs/{ids.pop()}").status_code == 204
    problem(first.post("/v1/jobs", json=body, headers=headers), 404, "job_not_found")


@pytest.mark.parametrize(
    ("body", "status", "code", "details"),
    [
        ({}, 422, "bad_field", {"field": "text"}),
        ({"text": ""}, 422, "nothing_to_say", {"field": "text"}),
        ({"text": " \n * * * \n"}, 422, "nothing_to_say", {"field": "text"}),
        ({"text": 5}, 422, "bad_field", {"field": "text"}),
        ({"text": "Hi.", "speaker_id": "nobody"}, 404, "speaker_not_found", {"field": "speaker_id"}),
        ({"text": "Hi.", "speaker_id": "../secret"}, 404, "speaker_not_found", {"field": "speaker_id"}),
        ({"text": "Hi.", "speaker_id": None}, 422, "missing_field", {"field": "speaker_id"}),
        ({"text": "One.\n[speaker: Nobody] Two."}, 404, "speaker_not_found", {"field": "text", "line": 2}),
        ({"text": "One.\n[speker: Man] Two."}, 422, "bad_tag", {"field": "text", "line": 2}),
        ({"text": "One.\n\n<phoneme ph='?'>x</phoneme>"}, 422, "bad_markup", {"field": "text"}),
        ({"text": "a" * 100_001}, 413, "text_too_long", {"limit": 100_000, "length": 100_001}),
        ({"text": "a" * 2_000_000}, 413, "too_large", {}),
        ({"text": "Hi.", "language": "tlh"}, 422, "language_unsupported", {"field": "language"}),
        ({"text": "Hi.", "model": "gpt"}, 404, "model_unknown", {"field": "model"}),
        ({"text": "Hi.", "speed": 9}, 422, "bad_field", {"field": "speed"}),
        ({"text": "Hi.", "lexicon": {"x": "/?/"}}, 422, "bad_lexicon", {}),
        ({"text": "Hi.", "format": "mp3"}, 422, "bad_field", {"field": "format"}),
    ],
)
def test_bad_jobs_are_refused_by_their_field(
    first: httpx.Client, body: dict[str, Any], status: int, code: str, details: dict[str, Any]
) -> None:
    total = first.get("/v1/jobs").json()["total"]
    found = problem(first.post("/v1/jobs", json={"speaker_id": "Woman", **body}), status, code)
    assert details.items() <= found.items()
    assert first.get("/v1/jobs").json()["total"] == total


def test_other_contents_and_unknown_jobs_are_refused(first: httpx.Client) -> None:
    problem(first.post("/v1/jobs", content=b"a plain text", headers={"Content-Type": "text/plain"}), 422, "bad_field")
    problem(first.post("/v1/jobs", data={"text": "x"}), 422, "bad_field")
    problem(first.post("/v1/jobs", content=b"{", headers={"Content-Type": "application/json"}), 422, "bad_field")
    for job_id in (UNKNOWN, "x", "..%2fsecret", "%00"):
        for method, path in (
            ("GET", ""),
            ("GET", "/audio"),
            ("GET", "/timestamps"),
            ("POST", "/cancel"),
            ("DELETE", ""),
        ):
            response = first.request(method, f"/v1/jobs/{job_id}{path}")
            assert response.status_code == 404, (method, path, response.text)


def test_signs_that_no_database_holds_are_spoken_around(first: httpx.Client) -> None:
    job = submit(first, "One\x00 and two. \U0001f600", speaker_id="Woman", title="\x00T\x07")
    assert (wait_state(first, job["job_id"])["title"], job["title"]) == ("T", "T")
    half = b'{"speaker_id": "Woman", "text": "One \\ud800 two."}'
    response = first.post("/v1/jobs", content=half, headers={"Content-Type": "application/json"})
    assert response.status_code == 202, response.text
    wait_state(first, response.json()["job_id"])


def test_a_job_is_not_fetched_before_it_is_done(first: httpx.Client) -> None:
    job_id = submit(first, speaker_id="Woman")["job_id"]
    refused = problem(first.get(f"/v1/jobs/{job_id}/audio"), 409, "job_not_done")
    assert refused["n_pieces"] > 5
    problem(first.get(f"/v1/jobs/{job_id}/timestamps"), 409, "job_not_done")
    first.post(f"/v1/jobs/{job_id}/cancel")


def test_bounds_are_told_with_their_limits(first: httpx.Client) -> None:
    full = problem(first.post("/v1/jobs", json={"text": "Words. " * 14000, "speaker_id": "Woman"}), 507, "jobs_full")
    assert full["limit_bytes"] == MAX_BYTES
    ids: list[str] = []
    while (response := first.post("/v1/jobs", json={"text": LONG, "speaker_id": "Woman"})).status_code == 202:
        ids.append(response.json()["job_id"])
    assert problem(response, 429, "too_many_jobs")["limit"] == 5 and response.headers["Retry-After"]
    for job_id in ids:
        assert first.delete(f"/v1/jobs/{job_id}").status_code == 204


def test_the_command_line_asks_a_server_for_jobs(
    pair: list[RunningServer], first: httpx.Client, tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text(SHORT)

    def jobs(*arguments: str, code: int = 0) -> str:
        done = run(pair[1].environment, "jobs", *arguments, "--server", pair[1].url)
        assert done.returncode == code, done.stderr
        return done.stdout or done.stderr

    job = json.loads(jobs("submit", str(tmp_path / "text.txt"), "--speaker", "Woman", "--wait", "--json"))
    assert job["state"] == "done"
    jobs("download", job["job_id"], "-o", str(tmp_path / "b.m4a"), "--subtitles", str(tmp_path / "b.vtt"))
    with av.open(str(tmp_path / "b.m4a")) as container:
        assert len(container.chapters()) == 2
    assert (tmp_path / "b.vtt").read_text().startswith("WEBVTT")
    assert "The door" in jobs("show", job["job_id"])
    assert "done" in jobs("cancel", job["job_id"])
    jobs("delete", job["job_id"])
    assert "job_not_found" in jobs("download", job["job_id"], "-o", str(tmp_path / "c.wav"), code=1)
    assert not (tmp_path / "c.wav").exists() and not list(tmp_path.glob("*.part"))
