"""Uploads as phones, browsers, other programs and attackers send them."""

import os
import signal
import struct
from pathlib import Path

import httpx
import numpy as np
import pytest
from asking import problem, upload
from encoder_media import at_rate, encoded, recording, repeated_opus, silent_flac, wav, with_sizes
from encoder_sounds import band, dog
from servers import RunningServer

RATE = 16_000
MAN, WOMAN = recording("man"), recording("woman")
NOISE = np.random.default_rng(2).normal(size=5 * RATE)


def _enrolled(response: httpx.Response) -> dict[str, object]:
    assert response.status_code == 201, response.text
    document: dict[str, object] = response.json()
    return document


def _forget(client: httpx.Client, *documents: dict[str, object]) -> None:
    for document in documents:
        assert client.delete(f"/v1/speakers/{document['speaker_id']}").status_code == 204


def _codes(document: dict[str, object]) -> set[str]:
    return {notice["code"] for notice in document["report"]["notices"]}  # type: ignore[index]  # plain JSON


UPLOADS = {
    "a browser's recorder, as wav": encoded(at_rate(MAN, 48_000), 48_000, "webm", "libopus", live="1"),
    "a phone's memo, index at the end": encoded(at_rate(MAN, 44_100), 44_100, "ipod", "aac"),
    "24 bits in stereo at 44.1 kHz": wav(np.stack([at_rate(MAN, 44_100)] * 2, axis=1), 44_100, "PCM_24"),
    "floats with peaks of 1.8": wav(MAN * np.float32(1.8 / np.abs(MAN).max()), subtype="FLOAT"),
    "six channels, extensible": wav(np.stack([0 * MAN, 0 * MAN, MAN, *[0 * MAN] * 3], axis=1), container="WAVEX"),
    "wav of a streaming writer": with_sizes(wav(MAN), 0xFFFFFFFF),
    "telephone": wav(at_rate(MAN, 8_000), 8_000, "ULAW"),
}


@pytest.mark.parametrize("kind", UPLOADS)
def test_an_upload_is_what_its_content_says(client: httpx.Client, kind: str) -> None:
    files = {"clips": ("voice.wav", UPLOADS[kind], "audio/wav")}
    document = _enrolled(client.post("/v1/speakers", data={"name": "Uploader"}, files=files))
    (clip,) = document["report"]["clips"]  # type: ignore[index]  # plain JSON
    assert clip["duration_s"] == pytest.approx(len(MAN) / RATE, abs=0.05)
    expected = {"floats with peaks of 1.8": {"clipping"}, "telephone": {"narrow_band"}}.get(kind, set())
    assert _codes(document) == expected
    _forget(client, document)


def test_the_name_of_a_file_changes_nothing_in_its_voice(client: httpx.Client) -> None:
    data = UPLOADS["a browser's recorder, as wav"]
    names = ["a.mp3", "a", "A.WAV", "a.txt"]
    found = [_enrolled(upload(client, data, file_name=name, name=f"Named {name}")) for name in names]
    assert all(document["report"] == found[0]["report"] for document in found)
    matches = client.get(f"/v1/speakers/{found[0]['speaker_id']}/similar", params={"k": 100}).json()["matches"]
    cosine = {match["speaker_id"]: match["cosine"] for match in matches}
    assert [cosine[str(document["speaker_id"])] for document in found[1:]] == pytest.approx([1.0] * 3, abs=1e-5)
    _forget(client, *found)


@pytest.mark.parametrize(
    "file_name",
    [b"../../etc/passwd", b"a\x00b.wav", b"x" * 300, "ف🙂.wav".encode(), b'q\\"q.wav', b".hidden", b"con.wav"],
)
def test_a_hostile_file_name_is_only_a_name(client: httpx.Client, server: RunningServer, file_name: bytes) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\nRaw name\r\n'
        b'--b\r\nContent-Disposition: form-data; name="clips"; filename="' + file_name + b'"\r\n\r\n'
        + wav(WOMAN[: 3 * RATE]) + b"\r\n--b--\r\n"
    )  # fmt: skip
    response = client.post("/v1/speakers", content=body, headers={"Content-Type": "multipart/form-data; boundary=b"})
    _forget(client, _enrolled(response))
    kept = {path.name for path in Path(server.environment["VOICEKIN_STATE_DIR"]).rglob("*")}
    assert all(name.startswith(("voicekin.db", "index", "erased", "erasures")) for name in kept), kept


UNSPOKEN = {
    "silence": np.zeros(5 * RATE),
    "a quiet room": NOISE * 10 ** (-70 / 20),
    "loud noise": NOISE * 10 ** (-10 / 20),
    "a tone": 0.5 * np.sin(2 * np.pi * 1000 * np.arange(5 * RATE) / RATE),
    "music": band(),
    "a dog": dog(250, 14),
}


@pytest.mark.parametrize("kind", UNSPOKEN)
def test_what_nobody_speaks_enrols_nobody(client: httpx.Client, kind: str) -> None:
    before = client.get("/v1/speakers").json()["total"]
    document = problem(upload(client, wav(UNSPOKEN[kind], subtype="FLOAT"), name="Nobody"), 422, "no_speech")
    assert -121 < document["level_dbfs"] < 0
    assert client.get("/v1/speakers").json()["total"] == before


def test_too_little_speech_is_refused_with_both_figures(client: httpx.Client) -> None:
    mostly_silent = np.concatenate([np.zeros(5 * RATE), MAN[RATE : 2 * RATE], np.zeros(4 * RATE)])
    document = problem(upload(client, wav(mostly_silent), name="Brief"), 422, "too_little_speech")
    assert document["voiced_s"] < document["min_voiced_s"] == 1.6
    problem(upload(client, wav(MAN[:1]), name="Brief"), 422, "no_speech")


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (wav(np.zeros(0)), 422, "no_audio"),
        (wav(MAN[RATE:])[: 44 + 6400], 422, "too_little_speech"),
        (wav(MAN)[:22] + bytes(2) + wav(MAN)[24:], 422, "bad_container"),
        (b"hello world " * 500, 415, "unsupported_format"),
        (b"<html>" + bytes(5000), 415, "unsupported_format"),
        (b"\x80\x04\x95" + b"cos\nsystem\n(S'true'\ntR." * 50, 415, "unsupported_format"),
    ],
    ids=["a header alone", "0.2 s that claim ten", "no channels", "text", "a web page", "a pickle"],
)
def test_what_is_no_recording_is_refused_by_its_kind(client: httpx.Client, data: bytes, status: int, code: str) -> None:
    document = problem(upload(client, data, name="Broken"), status, code)
    assert document["clip"] == 0
    assert len(document["detail"]) > 20


def test_a_cut_file_is_used_as_far_as_it_goes_and_says_so(client: httpx.Client) -> None:
    data = encoded(at_rate(MAN, 44_100), 44_100, "mp3", "libmp3lame")
    document = _enrolled(upload(client, data[: int(len(data) * 0.6)], name="Cut"))
    assert "damaged" in _codes(document)
    _forget(client, document)


def test_two_people_in_one_clip_are_told(client: httpx.Client) -> None:
    half = 3 * RATE
    turns = np.concatenate([MAN[:half], WOMAN[:half], MAN[half : 2 * half], WOMAN[half : 2 * half]])
    document = _enrolled(upload(client, wav(turns), name="Two"))
    assert "multiple_speakers" in _codes(document)
    _forget(client, document)


def test_a_voice_beside_music_is_enrolled_without_the_music(client: httpx.Client) -> None:
    alone = _enrolled(upload(client, wav(MAN), name="Alone"))
    music = np.resize(2 * band(), len(MAN)).astype(np.float32)
    beside = _enrolled(upload(client, wav(np.stack([MAN, music], axis=1)), name="Beside"))
    assert "channels_differ" in _codes(beside)
    matches = client.get(f"/v1/speakers/{alone['speaker_id']}/similar", params={"k": 100}).json()["matches"]
    assert next(match["cosine"] for match in matches if match["name"] == "Beside") > 0.99
    _forget(client, alone, beside)


def test_the_reply_says_how_much_of_a_long_clip_was_used(client: httpx.Client) -> None:
    data = encoded(at_rate(np.tile(MAN, 7), 48_000), 48_000, "ogg", "libopus")
    document = _enrolled(upload(client, data, name="Talker"))
    report = document["report"]
    assert report["used_s"] == pytest.approx(60.0)  # type: ignore[index]  # plain JSON
    assert report["voiced_s"] > 60.0  # type: ignore[index]
    assert "trimmed" in _codes(document)
    _forget(client, document)


def test_raw_samples_need_their_shape(client: httpx.Client) -> None:
    raw = np.rint(MAN * 32767).astype("<i2").tobytes()

    def send(declared: str) -> httpx.Response:
        return client.post("/v1/speakers", data={"name": "Raw"}, files={"clips": ("raw", raw, declared)})

    document = _enrolled(send("audio/L16;rate=16000;channels=1"))
    assert document["report"]["clips"][0]["duration_s"] == pytest.approx(len(MAN) / RATE)  # type: ignore[index]
    _forget(client, document)
    for declared, missing in (("audio/L16;rate=16000", "channels"), ("audio/pcm", "rate")):
        refused = problem(send(declared), 415, "unsupported_format")
        assert (refused["missing"], refused["clip"]) == (missing, 0)
        assert missing in refused["detail"]


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in tasks for child in children.read_text().split()]


def _peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


@pytest.mark.parametrize("bomb", ["opus", "flac"])
def test_a_bomb_is_stopped_while_it_is_decoded(client: httpx.Client, server: RunningServer, bomb: str) -> None:
    data = repeated_opus(2.5 * 3600) if bomb == "opus" else silent_flac(4 * 3600)
    family = [server.process.pid, *_children(server.process.pid)]
    before = sum(map(_peak_kib, family))
    document = problem(upload(client, data, name="Bomb"), 413, "decoded_too_long")
    assert document["max_duration_s"] == 1800
    assert sum(map(_peak_kib, family)) - before < 200 * 1024


def test_a_decoder_that_dies_takes_nothing_along(client: httpx.Client, server: RunningServer) -> None:
    for decoder in _children(server.process.pid):
        os.kill(decoder, signal.SIGKILL)
    document = _enrolled(upload(client, wav(MAN), name="Survivor of a decoder"))
    assert client.get("/health/ready").status_code == 200
    _forget(client, document)


def test_a_header_that_promises_gigabytes_costs_what_was_sent(client: httpx.Client, server: RunningServer) -> None:
    data = bytearray(wav(MAN))
    data[4:8] = data[40:44] = struct.pack("<I", 0x7FFFFFF0)
    before = _peak_kib(server.process.pid)
    _forget(client, _enrolled(upload(client, bytes(data), name="Promiser")))
    assert _peak_kib(server.process.pid) - before < 50 * 1024
