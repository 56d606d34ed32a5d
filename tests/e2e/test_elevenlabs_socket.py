"""The official ElevenLabs client streams text in and audio out, unmodified, and what its clients send besides."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from conversing import closed_with, talking
from elevenlabs import VoiceSettings
from elevenlabs.client import ElevenLabs
from elevenlabs.core import ApiError
from servers import RunningServer
from tls import TlsFront

TEXT = ("Dr. Smith ", "paid $5. Then ", "he left! ", "And so on")
PATH = "/v1/text-to-speech/{}/stream-input"


@pytest.fixture(scope="module")
def labs(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ElevenLabs]:
    """Their client speaks TLS to WebSockets whatever its address says, so there is TLS in front of the server."""
    folder = tmp_path_factory.mktemp("tls")
    with TlsFront(server.url, folder) as front, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(front.certificate))
        yield ElevenLabs(base_url=front.url, api_key="any")


def test_their_client_hears_a_text_while_it_is_written(labs: ElevenLabs, woman: str) -> None:
    spoken = labs.text_to_speech.convert_realtime(woman, text=iter(TEXT), output_format="pcm_16000")
    audio = b"".join(spoken)
    assert len(audio) > 16000 and len(audio) % 2 == 0
    faster = labs.text_to_speech.convert_realtime(
        "Woman",
        text=iter(TEXT),
        output_format="pcm_16000",
        voice_settings=VoiceSettings(speed=4.0),
        model_id="eleven_v3",
    )
    assert len(b"".join(faster)) < len(audio)


def test_their_client_is_told_what_was_wrong(labs: ElevenLabs, woman: str) -> None:
    for voice_id, output_format, code, reason in (
        (woman, "mp3_1_2", "format_unknown", "format_unknown"),
        ("x", "pcm_16000", "voice_not_found", "speaker_not_found"),
    ):
        with pytest.raises(ApiError) as refused:
            list(labs.text_to_speech.convert_realtime(voice_id, text=iter(TEXT), output_format=output_format))
        # What it shows is the message, or only the close's reason where the connection ended while it was sending.
        assert refused.value.status_code == 1008
        body = refused.value.body
        assert body == reason or (body["error"], body["code"]) == (code, 1008)


def _messages(server: RunningServer, path: str, *sent: dict[str, Any]) -> tuple[list[dict[str, Any]], Any]:
    """All answers to some messages, and how the connection ended."""
    with talking(server, path) as talk:
        for message in sent:
            talk.socket.send(json.dumps(message))
        found = []
        while not found or not (found[-1].get("isFinal") or "error" in found[-1]):
            found.append(talk.next())
        return found, closed_with(talk)


def test_audio_comes_in_base64_with_the_times_of_its_characters(server: RunningServer, woman: str) -> None:
    begin = {"text": " ", "voice_settings": {"stability": 0.5, "speed": 1}, "generation_config": {}}
    pieces = [{"text": piece, "try_trigger_generation": True} for piece in TEXT]
    path = PATH.format(woman) + "?output_format=pcm_24000&seed=7&inactivity_timeout=60"
    found, end = _messages(server, path, begin, *pieces, {"text": ""})
    assert end == (1000, "")
    assert [message["isFinal"] for message in found] == [False] * (len(found) - 1) + [True]
    samples_s = sum(len(base64.b64decode(message["audio"] or "")) for message in found) / 48000
    aligned = [message["alignment"] for message in found if message["alignment"]]
    assert "".join(letter for each in aligned for letter in each["chars"]) == " " + "".join(TEXT)
    ends_s = 0.0
    for each in aligned:
        assert each["charStartTimesMs"][0] == 0 and min(each["charDurationsMs"]) >= 0
        ends_s += (each["charStartTimesMs"][-1] + each["charDurationsMs"][-1]) / 1000
    assert ends_s == pytest.approx(samples_s, abs=0.01)
    read = ["".join(m["normalizedAlignment"]["chars"]) for m in found if m["normalizedAlignment"]]
    assert " ".join(read).startswith("Dr Smith paid 5")


def test_flush_speaks_what_waits_and_goes_on_in_the_same_file(server: RunningServer, woman: str) -> None:
    with talking(server, PATH.format(woman) + "?output_format=wav_16000") as talk:
        talk.socket.send(json.dumps({"text": " "}))
        talk.socket.send(json.dumps({"text": "Let me see ", "flush": True}))
        audio = b""
        while (message := talk.next())["alignment"] is None:
            audio += base64.b64decode(message["audio"])
        assert "".join(message["alignment"]["chars"]).strip() == "Let me see"
        audio += base64.b64decode(message["audio"] or "")
        talk.socket.send(json.dumps({"text": "yes."}))
        talk.socket.send(json.dumps({"text": ""}))
        while not (message := talk.next())["isFinal"]:
            audio += base64.b64decode(message["audio"] or "")
        assert audio.count(b"RIFF") == 1
        assert closed_with(talk) == (1000, "")


def test_an_end_without_a_text_is_the_end(server: RunningServer, woman: str) -> None:
    found, end = _messages(server, PATH.format(woman), {"text": " "}, {"text": ""})
    assert ([message["isFinal"] for message in found], end) == ([True], (1000, ""))


def test_a_text_after_the_end_is_refused(server: RunningServer, woman: str) -> None:
    found, end = _messages(server, PATH.format(woman), {"text": "A long text. " * 40}, {"text": ""}, {"text": "More"})
    assert (found[-1]["error"], end) == ("after_close", (1008, "after_close"))


def test_keys_come_in_their_header_or_in_the_first_message(keeper: RunningServer, boss: Any) -> None:
    from servers import enrol, make_key

    speaker_id, key = enrol(boss, "By socket"), make_key(boss, "speak")["key"]
    path = PATH.format(speaker_id)
    found, _ = _messages(keeper, path, {"text": "Hello.", "xi-api-key": key}, {"text": ""})
    assert found[-1]["isFinal"]
    with talking(keeper, path, headers={"xi-api-key": key}) as talk:
        talk.socket.send(json.dumps({"text": ""}))
        assert talk.next()["isFinal"]
    found, end = _messages(keeper, path, {"text": " "})
    assert (found[0]["error"], end) == ("needs_authorization", (1008, "key_missing"))
