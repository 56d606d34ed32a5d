"""Enrol a voice by upload, speak with its id: the main job, by the clients that people have."""

import base64
import io
import json
import shutil
import subprocess
import wave
from pathlib import Path

import av
import httpx
import openai
import pytest
from servers import DATA, RunningServer

TEXT = "Good morning. The train leaves at noon, from the second platform."


def test_enrolment_answers_with_an_id_and_a_report(client: httpx.Client) -> None:
    clips = [("clips", (name, (DATA / name).read_bytes())) for name in ("man.flac", "man-again.flac")]
    response = client.post("/v1/speakers", data={"name": "Reporter", "labels": '{"accent": "plain"}'}, files=clips)
    assert response.status_code == 201
    speaker = response.json()
    assert response.headers["Location"] == f"/v1/speakers/{speaker['speaker_id']}"
    assert speaker["labels"] == {"accent": "plain"}
    assert speaker["n_clips"] == len(speaker["report"]["clips"]) == 2
    assert speaker["report"]["voiced_s"] > 1.6
    assert {"snr_db", "clipped_share", "bandwidth_hz", "cosine_to_mean"} <= set(speaker["report"]["clips"][0])
    again = client.get(f"/v1/speakers/{speaker['speaker_id']}").json()
    assert again["report"]["clips"] == speaker["report"]["clips"]


def test_more_clips_renew_the_voice(client: httpx.Client) -> None:
    first = client.post(
        "/v1/speakers", data={"name": "Grower"}, files={"clips": ("a", (DATA / "man.flac").read_bytes())}
    ).json()
    more = client.post(
        f"/v1/speakers/{first['speaker_id']}/clips", files={"clips": ("b", (DATA / "man-again.flac").read_bytes())}
    )
    assert more.status_code == 200, more.text
    assert more.json()["n_clips"] == 2
    assert more.json()["revision"] > first["revision"]


def test_speech_is_a_wav_with_exact_sizes_and_its_facts(client: httpx.Client, woman: str) -> None:
    response = client.post("/v1/speech", json={"speaker_id": woman, "text": TEXT, "seed": 5, "verify": True})
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == "audio/wav"
    with wave.open(io.BytesIO(response.content)) as file:
        seconds = file.getnframes() / file.getframerate()
    assert seconds == pytest.approx(float(response.headers["X-Voicekin-Audio-Seconds"]), abs=0.001)
    assert response.headers["X-Voicekin-Seed"] == "5"
    assert -1 <= float(response.headers["X-Voicekin-Cosine"]) <= 1
    assert response.headers["X-Voicekin-Model"].startswith("tiny")


def test_the_same_seed_gives_the_same_speech_and_none_draws_another(client: httpx.Client, woman: str) -> None:
    def speak(**extra: object) -> bytes:
        response = client.post("/v1/speech", json={"speaker_id": woman, "text": TEXT, "format": "pcm", **extra})
        assert response.status_code == 200, response.text
        return response.content

    assert speak(seed=3) == speak(seed=3)
    assert speak(seed=3) != speak(seed=4)
    assert speak() != speak()


@pytest.mark.parametrize("name", ["wav", "mp3", "opus", "aac", "flac"])
def test_each_format_really_is_what_it_says(client: httpx.Client, woman: str, name: str) -> None:
    body = {"speaker_id": woman, "text": TEXT, "seed": 1, "format": name}
    whole = client.post("/v1/speech", json=body)
    streamed = client.post("/v1/speech", json={**body, "stream": True})
    expected_s = float(whole.headers["X-Voicekin-Audio-Seconds"])
    for response in (whole, streamed):
        assert response.status_code == 200, response.text
        with av.open(io.BytesIO(response.content)) as container:
            stream = container.streams.audio[0]
            seconds = sum(frame.samples for frame in container.decode(stream)) / stream.rate
        assert seconds == pytest.approx(expected_s, abs=0.06)


def test_speed_changes_the_length(client: httpx.Client, woman: str) -> None:
    lengths = []
    for speed in (0.5, 1.0, 2.0):
        body = {"speaker_id": woman, "text": TEXT, "seed": 1, "speed": speed}
        lengths.append(float(client.post("/v1/speech", json=body).headers["X-Voicekin-Audio-Seconds"]))
    assert lengths[0] > lengths[1] > lengths[2]


def test_the_official_openai_client_speaks_by_id_and_by_name(server: RunningServer, woman: str) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        for voice in (woman, "Woman", "woman", {"id": woman}):
            audio = client.audio.speech.create(model="tts-1", voice=voice, input=TEXT)
            assert audio.response.headers["Content-Type"] == "audio/mpeg"
            with av.open(io.BytesIO(audio.content)) as container:
                assert container.streams.audio[0].codec_context.name.startswith("mp3")
        assert "tts-1" in [model.id for model in client.models.list()]
        with pytest.raises(openai.NotFoundError) as refused:
            client.audio.speech.create(model="tts-1", voice="alloy", input=TEXT)
        assert refused.value.param == "voice"
        assert "Woman" in refused.value.message


def test_the_openai_client_gets_every_format_at_any_speed(server: RunningServer, woman: str) -> None:
    names = {"mp3": "mp3", "opus": "ogg", "aac": "aac", "flac": "flac", "wav": "wav"}
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        lengths_s: dict[float, list[float]] = {0.25: [], 4.0: []}
        for speed, lengths in lengths_s.items():
            for name, container_name in names.items():
                audio = client.audio.speech.create(
                    model="gpt-4o-mini-tts", voice=woman, input="Hello there.", response_format=name, speed=speed,
                    instructions="calmly", extra_body={"seed": 3},
                )  # fmt: skip
                with av.open(io.BytesIO(audio.content)) as container:
                    assert container_name in container.format.name
                    rate = container.streams.audio[0].rate
                    lengths.append(sum(frame.samples for frame in container.decode(audio=0)) / rate)
    assert min(lengths_s[0.25]) > max(lengths_s[4.0])


def test_the_openai_client_streams_pcm_at_24_khz(server: RunningServer, woman: str) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        streaming = client.audio.speech.with_streaming_response
        with streaming.create(model="tts-1", voice=woman, input=TEXT, response_format="pcm") as response:
            data = b"".join(response.iter_bytes())
    assert not data.startswith(b"RIFF")
    assert len(data) % 2 == 0
    assert len(data) > 24000


def test_events_carry_the_audio_and_end_with_usage(client: httpx.Client, woman: str) -> None:
    body = {"model": "x", "voice": woman, "input": TEXT, "response_format": "wav", "stream_format": "sse"}
    response = client.post("/v1/audio/speech", json=body)
    assert response.headers["Content-Type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    assert events[-1]["type"] == "speech.audio.done"
    assert events[-1]["usage"]["total_tokens"] > 0
    audio = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    assert audio[:4] == b"RIFF"
    assert audio[4:8] == audio[40:44] == b"\xff\xff\xff\xff"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")
def test_curl_enrols_and_speaks(server: RunningServer, tmp_path: Path) -> None:
    def curl(*arguments: str) -> str:
        return subprocess.run(["curl", "-sS", "--fail", *arguments], capture_output=True, text=True, check=True).stdout

    reply = curl("-F", "name=By curl", "-F", f"clips=@{DATA / 'man.flac'}", f"{server.url}/v1/speakers")
    body = json.dumps({"speaker_id": json.loads(reply)["speaker_id"], "text": "Hello.", "format": "flac"})
    out = tmp_path / "out.flac"
    curl("-H", "Content-Type: application/json", "-d", body, "-o", str(out), f"{server.url}/v1/speech")
    assert out.read_bytes()[:4] == b"fLaC"


def test_search_and_similar_find_the_same_person(client: httpx.Client, woman: str, man: str) -> None:
    clip = {"clip": ("x", (DATA / "man-again.flac").read_bytes())}
    matches = client.post("/v1/speakers/search", params={"k": 20}, files=clip).json()["matches"]
    names = [match["name"] for match in matches]
    assert names.index("Man") < names.index("Woman")
    similar = client.get(f"/v1/speakers/{woman}/similar", params={"k": 20}).json()["matches"]
    assert woman not in [match["speaker_id"] for match in similar]
    assert man in [match["speaker_id"] for match in similar]


def test_speakers_are_listed_in_pages(client: httpx.Client, woman: str, man: str) -> None:
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = client.get("/v1/speakers", params={"limit": 1, **({"cursor": cursor} if cursor else {})}).json()
        seen += [speaker["speaker_id"] for speaker in page["speakers"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == page["total"]
    assert {woman, man} <= set(seen)
