"""The official ElevenLabs client, unmodified, and what its clients send besides."""

import base64
import io
from collections.abc import Iterator

import av
import httpx
import pytest
from elevenlabs import VoiceSettings
from elevenlabs.client import ElevenLabs
from elevenlabs.core import ApiError
from servers import DATA, RunningServer, enrol

TEXT = "Dr. Smith paid $5. “Why?”\n\nNobody knows!"


@pytest.fixture(scope="module")
def labs(server: RunningServer) -> Iterator[ElevenLabs]:
    with httpx.Client(timeout=60) as client:
        yield ElevenLabs(base_url=server.url, api_key="any", httpx_client=client)


def _refused(error: ApiError, status: int, code: str) -> dict[str, object]:
    detail: dict[str, object] = error.body["detail"]
    assert (error.status_code, detail["status"]) == (status, code), error.body
    assert detail["request_id"] == error.headers["x-request-id"]
    return detail


def test_a_voice_lives_from_its_clips_to_its_end(labs: ElevenLabs, woman: str) -> None:
    clips = [(DATA / name).read_bytes() for name in ("man.flac", "man-again.flac")]
    added = labs.voices.ivc.create(
        name="By their client", files=clips[:1], description="a man", labels={"accent": "plain"}
    )
    assert added.requires_verification is False
    voice = labs.voices.get(added.voice_id)
    assert (voice.name, voice.description, voice.labels) == ("By their client", "a man", {"accent": "plain"})
    assert voice.voice_id in [each.voice_id for each in labs.voices.get_all().voices]

    assert labs.voices.update(added.voice_id, name="Renamed by them", files=clips[1:]).status == "ok"
    voice = labs.voices.get(added.voice_id)
    assert (voice.name, voice.description, voice.labels) == ("Renamed by them", "a man", {"accent": "plain"})
    labs.voices.update(added.voice_id, name="Renamed by them", description="an old man", labels={"accent": "broad"})
    voice = labs.voices.get(added.voice_id)
    assert (voice.description, voice.labels) == ("an old man", {"accent": "broad"})

    # By default the client tries a 409 again; here the refusal itself is looked at.
    with pytest.raises(ApiError) as refused:
        labs.voices.update(added.voice_id, name="woman", files=clips, request_options={"max_retries": 0})
    _refused(refused.value, 409, "name_taken")
    assert labs.voices.get(added.voice_id).name == "Renamed by them"

    found = labs.voices.search(search="renamed by", page_size=1)
    assert [each.voice_id for each in found.voices] == [added.voice_id]
    assert (found.total_count, found.has_more) == (1, False)
    assert labs.voices.delete(added.voice_id).status == "ok"
    with pytest.raises(ApiError) as gone:
        labs.voices.get(added.voice_id)
    _refused(gone.value, 404, "voice_not_found")


def test_pages_of_voices_give_each_once(labs: ElevenLabs, woman: str, man: str) -> None:
    seen, token = [], None
    while True:
        page = labs.voices.search(page_size=1, next_page_token=token)
        seen += [voice.voice_id for voice in page.voices]
        token = page.next_page_token
        if not page.has_more:
            break
    assert len(seen) == len(set(seen)) and {woman, man} <= set(seen)


@pytest.mark.parametrize(
    ("name", "rate_hz", "media_type"),
    [
        ("mp3_22050_32", 22050, "audio/mpeg"),
        ("opus_48000_64", 48000, "audio/ogg"),
        ("wav_16000", 16000, "audio/wav"),
        ("ulaw_8000", 8000, "audio/basic"),
        ("pcm_16000", 16000, "audio/pcm"),
    ],
)
def test_speech_in_the_format_that_was_asked_for(
    labs: ElevenLabs, woman: str, name: str, rate_hz: int, media_type: str
) -> None:
    for convert in (labs.text_to_speech.with_raw_response.convert, labs.text_to_speech.with_raw_response.stream):
        with convert(woman, text=TEXT, seed=7, output_format=name, model_id="eleven_multilingual_v2") as response:
            data = b"".join(response.data)
            assert response.headers["content-type"] == media_type
            assert response.headers["x-voicekin-seed"] == "7"
        n_bytes_a_second = {"ulaw": 8000, "pcm": 32000}.get(name.split("_", maxsplit=1)[0])
        if n_bytes_a_second is None:
            with av.open(io.BytesIO(data)) as container:
                assert container.streams.audio[0].rate == rate_hz
                seconds = sum(frame.samples for frame in container.decode(audio=0)) / rate_hz
        else:
            seconds = len(data) / n_bytes_a_second
        whole = labs.text_to_speech.convert(woman, text=TEXT, seed=7, output_format="pcm_24000")
        assert seconds == pytest.approx(len(b"".join(whole)) / 48000, abs=0.08)


def test_speed_is_the_setting_that_counts(labs: ElevenLabs, woman: str) -> None:
    def n_bytes(speed: float) -> int:
        settings = VoiceSettings(stability=0.5, similarity_boost=0.8, speed=speed)
        chunks = labs.text_to_speech.convert(
            woman, text=TEXT, seed=7, output_format="pcm_8000", voice_settings=settings
        )
        return sum(map(len, chunks))

    assert n_bytes(0.7) > 1.2 * n_bytes(1.2)


def test_every_character_has_its_time_whole_and_streamed(labs: ElevenLabs, woman: str) -> None:
    asked = {"text": TEXT, "seed": 7, "output_format": "pcm_24000"}
    whole = labs.text_to_speech.convert_with_timestamps(woman, **asked)
    alignment = whole.alignment
    assert alignment is not None and whole.normalized_alignment is not None
    assert "".join(alignment.characters) == TEXT
    starts, ends = alignment.character_start_times_seconds, alignment.character_end_times_seconds
    assert starts[1:] == ends[:-1] and starts == sorted(starts)
    audio = base64.b64decode(whole.audio_base_64)
    assert ends[-1] == pytest.approx(len(audio) / 48000, abs=1e-4)
    assert "".join(whole.normalized_alignment.characters) == "Dr Smith paid 5 Why Nobody knows"

    lines = list(labs.text_to_speech.stream_with_timestamps(woman, **asked))
    assert b"".join(base64.b64decode(line.audio_base_64) for line in lines) == audio
    timed = [line.alignment for line in lines if line.alignment]
    assert len(timed) > 1
    assert [c for part in timed for c in part.characters] == alignment.characters
    assert [t for part in timed for t in part.character_start_times_seconds] == pytest.approx(starts, abs=1e-5)


def test_similar_voices_of_a_clip(labs: ElevenLabs, woman: str, man: str) -> None:
    clip = (DATA / "man-again.flac").read_bytes()
    names = [voice.name for voice in labs.voices.find_similar_voices(audio_file=clip, top_k=20).voices]
    assert names.index("Man") < names.index("Woman")
    near = labs.voices.find_similar_voices(audio_file=clip, top_k=20, similarity_threshold=0.35).voices
    assert "Man" in [voice.name for voice in near] and "Woman" not in [voice.name for voice in near]


def test_models_and_settings(labs: ElevenLabs, woman: str) -> None:
    model = labs.models.list()[0]
    assert model.can_do_text_to_speech and [language.language_id for language in model.languages] == ["en"]
    assert labs.voices.settings.get_default().speed == labs.voices.settings.get(woman).speed == 1.0
    with pytest.raises(ApiError) as refused:
        labs.voices.settings.update(woman, request=VoiceSettings(speed=1.1))
    _refused(refused.value, 422, "settings_not_kept")


def test_refusals_come_in_their_envelope(labs: ElevenLabs, woman: str) -> None:
    speech = labs.text_to_speech

    def say(**body: str) -> bytes:
        return b"".join(speech.convert(woman, **body))

    cases = [
        (lambda: list(speech.convert("nobody", text="Hello.")), 404, "voice_not_found", "voice_id"),
        (lambda: say(text="..."), 422, "nothing_to_say", "text"),
        (lambda: say(text="Hi.", output_format="mp3_1_2"), 422, "format_unknown", "output_format"),
        (lambda: say(text="Hi.", language_code="xx"), 422, "language_unsupported", "language_code"),
        (lambda: speech.convert_with_timestamps(woman, text="x" * 2001), 413, "text_too_long", "text"),
        (lambda: labs.voices.ivc.create(name="No voice", files=[b"no audio"]), 415, "unsupported_format", None),
        (lambda: labs.voices.delete("nobody"), 404, "voice_not_found", None),
    ]
    for ask, status, code, param in cases:
        with pytest.raises(ApiError) as refused:
            ask()
        assert _refused(refused.value, status, code)["param"] == param


def test_their_header_carries_our_key(other_server: object) -> None:
    running = other_server(API_KEYS="sesame")  # type: ignore[operator]
    with httpx.Client(base_url=running.url, timeout=60) as client:
        for path in ("/v1/voices", "/v1/speakers", "/v1/models"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"xi-api-key": "wrong"}).status_code == 401
            assert client.get(path, headers={"xi-api-key": "sesame"}).status_code == 200
            assert client.get(path, headers={"Authorization": "Bearer sesame"}).status_code == 200
        wrong = client.get("/v1/voices", headers={"xi-api-key": "wrong"}).json()
        assert wrong["detail"]["status"] == "invalid_api_key"
        client.headers["xi-api-key"] = "sesame"
        speaker = enrol(client, "Keyed")
    labs = ElevenLabs(base_url=running.url, api_key="sesame")
    assert labs.voices.get(speaker).name == "Keyed"
