"""Many at once: nobody gets another's audio, and what is removed meanwhile is finished or refused, never replaced."""

import concurrent.futures
import itertools
from collections.abc import Iterator

import httpx
import pytest
from asking import speak, upload
from encoder_media import recording, wav

RATE = 16_000
MAN, WOMAN = recording("man"), recording("woman")
LONG = " ".join(f"Sentence number {i} of a long text that somebody hears to its end." for i in range(24))
TEXTS = [f"Text number {i} is told by one voice alone{', and then a little more' * (i % 4)}." for i in range(16)]


@pytest.fixture(scope="module")
def voices(server: object) -> Iterator[list[str]]:
    """Eight speakers from four pieces of each recording."""
    pieces = [sound[start * RATE : (start + 3) * RATE] for sound in (MAN, WOMAN) for start in (0, 1, 2, 3)]
    with httpx.Client(base_url=server.url, timeout=60) as client:  # type: ignore[attr-defined]
        replies = [upload(client, wav(piece), name=f"Voice {i}") for i, piece in enumerate(pieces)]
        ids = [reply.json()["speaker_id"] for reply in replies]
        yield ids
        for speaker_id in ids:
            client.delete(f"/v1/speakers/{speaker_id}")


def _audio(client: httpx.Client, speaker_id: str, text: str, stream: bool = False) -> bytes:
    response = speak(client, speaker_id=speaker_id, text=text, seed=11, format="pcm", stream=stream)
    assert response.status_code == 200, response.text
    return response.content


def test_sixteen_at_once_get_what_they_get_alone(client: httpx.Client, voices: list[str]) -> None:
    jobs = list(zip(itertools.cycle(voices), TEXTS, strict=False))
    alone = [_audio(client, *job) for job in jobs]
    assert len(set(alone)) == 16 and all(alone)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for round_number in range(6):
            stream = round_number % 2 == 1
            together = list(pool.map(lambda job: _audio(client, *job, stream=stream), jobs))  # noqa: B023
            assert together == alone


def test_a_voice_removed_while_it_speaks_is_heard_to_the_end(client: httpx.Client, admin: httpx.Client) -> None:
    speaker_id = upload(client, wav(MAN), name="Going").json()["speaker_id"]
    complete = _audio(client, speaker_id, LONG, stream=True)
    body = {"speaker_id": speaker_id, "text": LONG, "seed": 11, "format": "pcm", "stream": True}
    with client.stream("POST", "/v1/speech", json=body) as response:
        chunks = response.iter_raw()
        heard = next(chunks)
        others = [item["speaker_id"] for item in admin.get("/v1/speakers", params={"limit": 500}).json()["speakers"]]
        held = admin.post("/v1/admin/prune", json={"keep_newest_used": 0, "dry_run": True}).json()
        assert speaker_id in others
        assert speaker_id not in [victim["speaker_id"] for victim in held["victims"]]
        assert admin.delete(f"/v1/speakers/{speaker_id}").status_code == 204
        heard += b"".join(chunks)
    assert heard == complete
    assert speak(client, speaker_id=speaker_id, text="Again.").status_code == 404


def test_twenty_enrol_and_vanish_at_once(client: httpx.Client, admin: httpx.Client) -> None:
    clip = wav(WOMAN[: 3 * RATE])
    before = client.get("/v1/speakers").json()["total"]

    def come_and_go(number: int) -> tuple[int, int, int]:
        enrolled = upload(client, clip, name=f"Visitor {number}")
        speaker_id = enrolled.json()["speaker_id"]
        spoken = speak(client, speaker_id=speaker_id, text="Hello.")
        gone = client.delete(f"/v1/speakers/{speaker_id}")
        return enrolled.status_code, spoken.status_code, gone.status_code

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        statuses = set(pool.map(come_and_go, range(20)))
    assert statuses == {(201, 200, 204)}
    assert client.get("/v1/speakers").json()["total"] == before
    assert admin.get("/v1/admin/stats").json()["speech_under_way"] == 0


def test_a_new_voice_asked_for_by_many_at_once_is_one_voice(client: httpx.Client) -> None:
    speaker_id = upload(client, wav(WOMAN), name="In demand").json()["speaker_id"]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        found = set(pool.map(lambda _: _audio(client, speaker_id, TEXTS[0]), range(12)))
    assert len(found) == 1
    client.delete(f"/v1/speakers/{speaker_id}")
