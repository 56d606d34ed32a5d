"""Voices that come and change while a server runs."""

import io
import json
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import soundfile
from preloaded import run
from servers import RunningServer, environment_of

DATA = Path(__file__).parents[1] / "data"
TEXT = "Good morning, how are you?"


def test_a_voice_is_brought_chosen_and_taken_away_without_a_restart(
    other_server: Callable[..., RunningServer], tmp_path: Path, voice_dir: Path
) -> None:
    server = other_server()
    environment = environment_of(tmp_path / "state", voice_dir)

    def voicekin(*arguments: str) -> str:
        done = run(environment, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with httpx.Client(base_url=server.url, timeout=60) as client:

        def enrol(name: str, **fields: str) -> dict:
            clips = [("clips", ("clip.flac", (DATA / "woman.flac").read_bytes()))]
            return client.post("/v1/speakers", data={"name": name, **fields}, files=clips).raise_for_status().json()

        def speak(speaker: dict, **fields: object) -> httpx.Response:
            return client.post("/v1/speech", json={"speaker_id": speaker["speaker_id"], "text": TEXT, **fields})

        shared = enrol("shared")
        unknown = speak(shared, model="brought")
        assert (unknown.status_code, unknown.json()["code"]) == (404, "model_unknown")

        brought = json.loads(
            voicekin("voices", "import-coqui", str(DATA / "coqui" / "yourtts"), "--name", "brought", "--json")
        )
        assert {"brought", brought["model_id"]} <= {each["id"] for each in client.get("/v1/models").json()["data"]}

        own = enrol("own", model="brought")
        assert own["encoder_id"] == brought["encoder_id"] != shared["encoder_id"]
        spoken = speak(own, model="brought", language="pt-br", verify=True).raise_for_status()
        assert spoken.headers["X-Voicekin-Model"] == brought["model_id"]
        assert -1 <= float(spoken.headers["X-Voicekin-Cosine"]) <= 1
        samples, rate = soundfile.read(io.BytesIO(spoken.content))
        assert rate == brought["sample_rate"]
        assert len(samples) > 0.1 * rate

        # Vectors of different encoders never meet.
        for speaker, model in ((shared, "brought"), (own, None)):
            refused = speak(speaker, model=model)
            assert refused.json()["code"] == "wrong_encoder"
        assert client.get(f"/v1/speakers/{own['speaker_id']}/similar").json()["matches"] == []

        voicekin("voices", "use", "brought")
        assert client.get("/health/ready").json()["model"] == brought["model_id"]
        assert speak(own).raise_for_status().headers["X-Voicekin-Model"] == brought["model_id"]
        openai = client.post("/v1/audio/speech", json={"model": "default", "voice": "shared", "input": TEXT})
        assert openai.raise_for_status().headers["X-Voicekin-Model"] != brought["model_id"]
        assert enrol("another")["encoder_id"] == brought["encoder_id"]

        voicekin("voices", "use", "default")
        voicekin("voices", "remove", "brought")
        assert speak(own, model="brought").status_code == 404
        assert speak(shared).status_code == 200


def test_one_voice_at_a_time_and_the_idle_go(
    other_server: Callable[..., RunningServer], tmp_path: Path, voice_dir: Path
) -> None:
    """With room for one voice they take turns; the one in use comes back and stays, another goes when idle."""
    environment = environment_of(tmp_path / "state", voice_dir)
    server = other_server(MAX_VOICES="1", VOICE_IDLE_S="1", ADMIN_KEY="admin")
    done = run(environment, "voices", "import-coqui", str(DATA / "coqui" / "single"), "--name", "single")
    assert done.returncode == 0, done.stderr
    with httpx.Client(base_url=server.url, timeout=60) as client:

        def loaded() -> list[str]:
            reply = client.get("/v1/admin/stats", headers={"Authorization": "Bearer admin"})
            return list(reply.raise_for_status().json()["voices_loaded"])

        clips = [("clips", ("clip.flac", (DATA / "woman.flac").read_bytes()))]
        speaker = client.post("/v1/speakers", data={"name": "Ada"}, files=clips).raise_for_status().json()
        for model in ("default", "single", "default", "single"):
            body = {"speaker_id": speaker["speaker_id"], "text": TEXT, "model": model}
            reply = client.post("/v1/speech", json=body).raise_for_status()
            assert reply.headers["X-Voicekin-Model"].startswith(f"{model if model == 'single' else 'tiny'}-")
            assert loaded() == [model]
        deadline_s = time.monotonic() + 20
        while loaded() == ["single"] and time.monotonic() < deadline_s:
            time.sleep(0.5)
        assert loaded() == []
        body = {"speaker_id": speaker["speaker_id"], "text": TEXT}
        assert client.post("/v1/speech", json=body).raise_for_status().content
        time.sleep(7)  # longer than the idle time and the sweep
        assert loaded() == ["default"]
