"""Speakers that follow to another voice's encoder, by the clips that were kept of them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
from preloaded import run
from servers import ADMIN_KEY, DATA, RunningServer, environment_of

BEARER = {"Authorization": f"Bearer {ADMIN_KEY}"}


def test_a_speaker_follows_to_a_brought_voice_from_its_kept_clips(
    other_server: Callable[..., RunningServer], tmp_path: Path, voice_dir: Path
) -> None:
    server = other_server(KEEP_CLIPS="true", ADMIN_KEY=ADMIN_KEY)
    kept_dir = tmp_path / "state" / "clips"

    def voicekin(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return run(environment_of(tmp_path / "state", voice_dir, **settings), *arguments)

    def kept(speaker: dict) -> list[bytes]:
        return sorted(path.read_bytes() for path in (kept_dir / speaker["speaker_id"]).iterdir())

    with httpx.Client(base_url=server.url, timeout=60, headers=BEARER) as client:

        def send(path: str, clip: str, **fields: str) -> dict:
            clips = [("clips", (clip, (DATA / clip).read_bytes()))]
            return client.post(path, data=fields, files=clips).raise_for_status().json()

        man = send("/v1/speakers", "man.flac", name="Man")
        send(f"/v1/speakers/{man['speaker_id']}/clips", "man-again.flac")
        woman = send("/v1/speakers", "woman.flac", name="Woman")
        assert kept(man) == sorted((DATA / name).read_bytes() for name in ("man.flac", "man-again.flac"))
        unkept = voicekin("enrol", "Unkept", str(DATA / "woman.flac"))
        assert unkept.returncode == 0, unkept.stderr
        size = sum(len(data) for speaker in (man, woman) for data in kept(speaker))
        assert client.get("/v1/admin/stats").json()["clip_bytes"] == size

        brought = voicekin("voices", "import-coqui", str(DATA / "coqui" / "yourtts"), "--name", "brought", "--json")
        assert brought.returncode == 0, brought.stderr
        encoder_id = json.loads(brought.stdout)["encoder_id"]

        # A clip that no decoder takes any more is a reason, not a fault.
        tight = voicekin("reembed", "Woman", "--model", "brought", "--json", MAX_CLIP_S="0.5")
        (refused,) = json.loads(tight.stdout)["refused"]
        assert tight.returncode == 1 and refused["name"] == "Woman" and "0.5" in refused["reason"]

        for dry in (True, False):
            done = voicekin("reembed", "--model", "brought", "--json", *(["--dry-run"] if dry else []))
            assert done.returncode == 1, done.stderr
            document = json.loads(done.stdout)
            assert [each["name"] for each in document["moved"]] == ["Man", "Woman"]
            (refused,) = document["refused"]
            assert refused["name"] == "Unkept" and "1 of 1 clips are not kept" in refused["reason"]
            shown = client.get(f"/v1/speakers/{man['speaker_id']}").json()
            assert (shown["encoder_id"] == encoder_id) is not dry

        again = voicekin("reembed", "Man", "woman", "--model", "brought", "--json")
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["n_there"] == 2

        speech = {"speaker_id": man["speaker_id"], "text": "Good morning.", "model": "brought", "language": "pt-br"}
        spoken = client.post("/v1/speech", json=speech).raise_for_status()
        assert len(spoken.content) > 1000
        assert client.post("/v1/speech", json={**speech, "model": None}).json()["code"] == "wrong_encoder"
        near = client.get(f"/v1/speakers/{man['speaker_id']}/similar").json()["matches"]
        assert [match["speaker_id"] for match in near] == [woman["speaker_id"]]
        # What comes later is heard by the encoder that it was moved to.
        assert send(f"/v1/speakers/{woman['speaker_id']}/clips", "woman.flac")["encoder_id"] == encoder_id

        client.delete(f"/v1/speakers/{man['speaker_id']}").raise_for_status()
        assert [folder.name for folder in kept_dir.iterdir() if folder.is_dir()] == [woman["speaker_id"]]
