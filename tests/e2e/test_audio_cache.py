"""Finished speeches that are kept, through a real server: what a client sees, and what is left on the disk."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest
from servers import ADMIN_KEY, RunningServer, enrol


def counted(client: httpx.Client) -> dict[str, float]:
    lines = client.get("/metrics").text.splitlines()
    found = (line.rpartition(" ") for line in lines if line.startswith("voicekin_audio_cache_total{"))
    return {name.split('"')[1]: float(value) for name, _, value in found}


@pytest.fixture
def keeping(other_server: Callable[..., RunningServer]) -> RunningServer:
    return other_server(AUDIO_CACHE="disk", ADMIN_KEY=ADMIN_KEY)


def test_kept_speech_as_clients_see_it(keeping: RunningServer, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "audio"
    with httpx.Client(base_url=keeping.url, timeout=60) as client:
        anna, ben = enrol(client, "Anna"), enrol(client, "Ben", "man.flac")

        def speak(speaker_id: str = anna, headers: dict[str, str] | None = None, **fields: object) -> httpx.Response:
            body = {"speaker_id": speaker_id, "text": "The ferry leaves at nine.", **fields}
            response = client.post("/v1/speech", json=body, headers=headers or {})
            assert response.status_code == 200, response.text
            return response

        first, again, other = speak(), speak(), speak(ben)
        assert [each.headers["X-Voicekin-Cache"] for each in (first, again, other)] == ["miss", "hit", "miss"]
        assert first.content == again.content != other.content
        assert first.headers["X-Voicekin-Seed"] == again.headers["X-Voicekin-Seed"]
        assert first.headers["Cache-Control"] == "no-store", "between us and the client nobody keeps it"
        fresh = speak(headers={"Cache-Control": "max-age=0, No-Cache"})
        assert "X-Voicekin-Cache" not in fresh.headers and fresh.content != first.content
        streams = [speak(format="mp3", stream=True) for _ in range(2)]
        assert [each.headers["X-Voicekin-Cache"] for each in streams] == ["miss", "hit"]
        assert streams[0].content == streams[1].content

        with openai.OpenAI(api_key="none", base_url=f"{keeping.url}/v1") as theirs:
            takes = [theirs.audio.speech.create(model="tts-1", voice="anna", input="Twice.").content for _ in range(2)]
        assert takes[0] == takes[1]

        before = counted(client)
        with ThreadPoolExecutor(20) as threads:
            found = list(threads.map(lambda _: speak(text="All of us at once, if you please."), range(20)))
        assert len({each.content for each in found}) == 1
        after = counted(client)
        assert after["miss"] - before["miss"] == 1
        assert sum(after.values()) - sum(before.values()) == 20

        bodies = [first.content, streams[0].content, takes[0]]
        kept = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        assert all(body in kept for body in bodies) and b"ferry" not in kept
        assert client.delete(f"/v1/speakers/{anna}").status_code == 204
        body = {"speaker_id": anna, "text": "The ferry leaves at nine."}
        assert client.post("/v1/speech", json=body).status_code == 404
        files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
        left = b"".join(path.read_bytes() for path in files)
        assert not any(body in left for body in bodies) and other.content in left
        assert {path.parent.name for path in files if folder in path.parents} == {ben}
        stats = client.get("/v1/admin/stats", headers={"Authorization": f"Bearer {ADMIN_KEY}"}).json()
        assert stats["audio_hits"] >= 3 and stats["audio_faults"] == 0
