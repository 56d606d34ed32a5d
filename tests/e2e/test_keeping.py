"""Keys of requests, undo, purge and audit, through a real server and the command line."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from preloaded import run
from servers import ADMIN_KEY, DATA, RunningServer, environment_of

BEARER = {"Authorization": f"Bearer {ADMIN_KEY}"}


@pytest.fixture
def keeper(other_server: Callable[..., RunningServer]) -> RunningServer:
    return other_server(ADMIN_KEY=ADMIN_KEY, GRACE_DAYS="7")


def post(client: httpx.Client, name: str, clip: str = "woman.flac", key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    files = {"clips": (clip, (DATA / clip).read_bytes())}
    return client.post("/v1/speakers", data={"name": name}, files=files, headers=headers)


def test_a_key_enrols_once_even_at_once(keeper: RunningServer) -> None:
    with httpx.Client(base_url=keeper.url, timeout=60) as client, ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: post(client, "Ada", key="one"), range(4)))
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["speaker_id"] for answer in answers}) == 1
        assert post(client, "Ada", key="one").json()["report"] == answers[0].json()["report"]
        other = post(client, "Bert", key="one")
        assert (other.status_code, other.json()["code"]) == (422, "key_reused")
        assert post(client, "Ada").json()["code"] == "name_taken"
        client.delete(f"/v1/speakers/{answers[0].json()['speaker_id']}")
        assert post(client, "Ada", key="one").status_code == 404


def test_delete_undo_purge_and_audit(keeper: RunningServer) -> None:
    with httpx.Client(base_url=keeper.url, timeout=60, headers=BEARER) as client:
        ada = post(client, "Ada").json()["speaker_id"]
        assert client.delete(f"/v1/speakers/{ada}").status_code == 204
        assert client.get(f"/v1/speakers/{ada}").status_code == 404
        assert [each["speaker_id"] for each in client.get("/v1/admin/deleted").json()["deleted"]] == [ada]
        assert client.post(f"/v1/speakers/{ada}/undelete").json()["name"] == "Ada"
        speech = {"speaker_id": ada, "text": "Back again.", "seed": 1}
        assert client.post("/v1/speech", json=speech).status_code == 200
        client.delete(f"/v1/speakers/{ada}")
        receipt = client.post("/v1/admin/purge", json={"speaker_ids": [ada]}).json()
        assert (receipt["n_speakers"], receipt["n_clips"], receipt["actor"]) == (1, 1, "http")
        assert client.post(f"/v1/speakers/{ada}/undelete").status_code == 404
        bert = post(client, "Bert", "man.flac").json()["speaker_id"]
        client.delete(f"/v1/speakers/{bert}", params={"at_once": True})
        assert client.get("/v1/admin/deleted").json()["deleted"] == []
        actions = [line["action"] for line in client.get("/v1/admin/audit").json()["lines"]]
        assert actions == ["delete", "enrol", "purge", "delete", "bring_back", "delete", "enrol"]


def test_verify_and_the_flag_of_a_second_enrolment(keeper: RunningServer) -> None:
    def verify(client: httpx.Client, speaker: str, clip: str, **query: str) -> httpx.Response:
        files = {"clip": (clip, (DATA / clip).read_bytes())}
        return client.post(f"/v1/speakers/{speaker}/verify", files=files, params=query)

    with httpx.Client(base_url=keeper.url, timeout=60, headers=BEARER) as client:
        man = post(client, "Man", "man.flac").json()
        assert man["near"] == []
        same = verify(client, man["speaker_id"], "man-again.flac").json()
        assert same["accepted"] and same["probability"] > 0.9 and same["cosine"] >= same["threshold"]
        assert same["point"] == "balanced" and 0 < same["equal_error_rate"] < 0.05
        other = verify(client, man["speaker_id"], "woman.flac", point="one_in_1000").json()
        assert not other["accepted"] and other["probability"] < 0.1
        assert verify(client, man["speaker_id"], "woman.flac", point="best").json()["field"] == "point"
        assert verify(client, "nobody", "woman.flac").status_code == 404
        assert client.post(f"/v1/speakers/{man['speaker_id']}/verify").json()["code"] in (
            "missing_field",
            "bad_multipart",
        )
        again = post(client, "Man once more", "man.flac").json()
        assert [match["name"] for match in again["near"]] == ["Man"]
        assert client.get(f"/v1/speakers/{again['speaker_id']}").status_code == 200, "flagged, never refused"


@pytest.mark.parametrize("remote", [False, True])
def test_the_command_line_does_the_same(keeper: RunningServer, remote: bool) -> None:
    extra = ("--server", keeper.url) if remote else ()
    environment = keeper.environment | {"VOICEKIN_CLIENT_KEY": ADMIN_KEY}

    def voicekin(*arguments: str) -> dict[str, object]:
        done = run(environment, *arguments, "--json", *extra)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    with httpx.Client(base_url=keeper.url, timeout=60, headers=BEARER) as client:
        ada = post(client, "Ada").json()["speaker_id"]
    report = voicekin("prune", "--speech-below-s", "1000", "--dry-run")
    assert [victim["reason"] for victim in report["victims"]] == ["low_quality"]  # type: ignore[attr-defined]
    assert voicekin("delete", "ada") == {"speaker_id": ada}
    assert [each["name"] for each in voicekin("deleted")["deleted"]] == ["Ada"]  # type: ignore[attr-defined]
    assert voicekin("undelete", ada)["speaker_id"] == ada
    voicekin("delete", ada)
    assert voicekin("purge", ada)["n_speakers"] == 1
    assert voicekin("audit", "--limit", "1")["lines"][0]["action"] == "purge"  # type: ignore[index]


def test_speakers_and_backups_move_by_the_command_line(keeper: RunningServer, tmp_path: Path) -> None:
    def voicekin(state: str, *arguments: str) -> dict[str, object]:
        environment = keeper.environment | ({"VOICEKIN_STATE_DIR": state} if state else {})
        done = run(environment, *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    with httpx.Client(base_url=keeper.url, timeout=60) as client:
        ada = post(client, "Ada").json()["speaker_id"]
    archive, whole = str(tmp_path / "a.zip"), str(tmp_path / "b.zip")
    assert voicekin("", "export", archive)["n_speakers"] == 1
    assert voicekin("", "import", archive)["refused"] == [{"speaker_id": ada, "name": "Ada", "reason": "exists"}]
    assert voicekin("", "backup", whole)["n_speakers"] == 1, "while the server runs"
    assert voicekin(str(tmp_path / "new"), "restore", whole)["n_speakers"] == 1
    (speaker,) = voicekin(str(tmp_path / "new"), "speakers")["speakers"]  # type: ignore[misc]
    assert (speaker["speaker_id"], speaker["name"]) == (ada, "Ada")  # type: ignore[index]


def test_scheduled_pruning_needs_a_condition(tmp_path: Path, voice_dir: Path) -> None:
    done = run(environment_of(tmp_path, voice_dir, PRUNE_EVERY_S="60"), "serve", "--port", "0")
    assert done.returncode == 1
    assert "VOICEKIN_PRUNE_EVERY_S is set: set one of VOICEKIN_PRUNE_UNUSED_FOR_DAYS" in done.stderr


def test_scheduled_pruning_prunes(other_server: Callable[..., RunningServer]) -> None:
    running = other_server(ADMIN_KEY=ADMIN_KEY, PRUNE_EVERY_S="1", PRUNE_KEEP_NEWEST_USED="0")
    with httpx.Client(base_url=running.url, timeout=60, headers=BEARER) as client:
        post(client, "Ada")
        for _ in range(200):
            lines = client.get("/v1/admin/audit").json()["lines"]
            if ("schedule", "prune", 1) in [(line["actor"], line["action"], line["n_speakers"]) for line in lines]:
                return
            time.sleep(0.1)
        raise AssertionError(lines)
