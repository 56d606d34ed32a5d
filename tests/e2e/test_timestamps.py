"""When what was sent is heard, by HTTP: whole and on a stream."""

import base64
import io
import itertools
import json
import wave

import httpx
import numpy as np
import pytest
from asking import problem

TEXT = "Dr. Smith paid $5 <break time='400ms'/> twice. “Why?”\n\nNobody 我 knows."


def _samples(data: bytes) -> tuple[np.ndarray, int]:
    with wave.open(io.BytesIO(data)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2"), file.getframerate()


def test_a_speech_comes_with_the_times_of_its_words(client: httpx.Client, woman: str) -> None:
    body = {"speaker_id": woman, "text": TEXT, "seed": 5}
    response = client.post("/v1/speech", json={**body, "timestamps": True})
    assert response.status_code == 200, response.text
    timed = response.json()
    audio = base64.b64decode(timed["audio"])
    assert audio == client.post("/v1/speech", json=body).content
    assert (timed["seed"], timed["media_type"]) == (5, "audio/wav")
    assert response.headers["X-Voicekin-Seed"] == "5"
    assert "skipped characters: 我" in timed["notices"]

    sentences = timed["sentences"]
    words = [word for sentence in sentences for word in sentence["words"]]
    assert [word["text"] for word in words] == ["Dr", "Smith", "paid", "$5", "twice", "Why", "Nobody", "knows"]
    assert all(TEXT[word["start_char"] : word["stop_char"]] == word["text"] for word in words)
    assert all(TEXT[s["start_char"] : s["stop_char"]] == s["text"] for s in sentences)
    assert sentences[2]["text"] == "“Why?”"
    samples, rate = _samples(audio)
    assert timed["audio_s"] == sentences[-1]["stop_s"] == round(len(samples) / rate, 6)
    for (before, after), pause_s in zip(itertools.pairwise(sentences), (0.4, 0.2, 0.5), strict=True):
        assert after["start_s"] - before["stop_s"] == pytest.approx(pause_s, abs=1e-5)
        silence = samples[round(before["stop_s"] * rate) : round(after["start_s"] * rate)]
        assert not silence.any()


def test_a_stream_gives_the_same_audio_and_times_in_lines(client: httpx.Client, woman: str) -> None:
    body = {"speaker_id": woman, "text": TEXT, "seed": 5, "timestamps": True, "format": "pcm"}
    whole = client.post("/v1/speech", json=body).json()
    with client.stream("POST", "/v1/speech", json={**body, "stream": True}) as response:
        assert response.headers["Content-Type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in response.iter_lines()]
    assert [line["last"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert [sentence for line in lines for sentence in line["sentences"]] == whole["sentences"]
    assert b"".join(base64.b64decode(line["audio"]) for line in lines) == base64.b64decode(whole["audio"])


def test_what_is_refused_is_refused_as_without_times(client: httpx.Client, woman: str) -> None:
    for stream in (False, True):
        body = {"speaker_id": woman, "text": "...", "timestamps": True, "stream": stream}
        problem(client.post("/v1/speech", json=body), 422, "nothing_to_say")
