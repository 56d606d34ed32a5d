"""What the bundled voice says, heard through the server: lengths, edges, silence, and whose voice it is."""

import io
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
from asking import speak
from servers import RunningServer, enrol, environment_of, migrate, start

from encoder.engine import SpeakerEncoder
from encoder.types import Waveform

VOICE = Path(__file__).parents[2] / "voices" / "default"
FRAME_S = 0.01
pytestmark = pytest.mark.skipif(not (VOICE / "model.json").is_file(), reason="no voice is bundled with this checkout")


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("bundled")
    environment = environment_of(folder / "state", VOICE)
    migrate(environment)
    running = start(environment, folder / "log")
    running.wait_ready()
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture(scope="module")
def caller(bundled: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=bundled.url, timeout=60) as opened:
        yield opened


@pytest.fixture(scope="module")
def people(caller: httpx.Client) -> dict[str, str]:
    return {name: enrol(caller, name, f"{name}.flac") for name in ("man", "woman")}


def _spoken(caller: httpx.Client, speaker_id: str, text: str, **more: object) -> tuple[np.ndarray, int]:
    response = speak(caller, speaker_id=speaker_id, text=text, **{"seed": 5, **more})
    assert response.status_code == 200, response.text
    samples, rate = soundfile.read(io.BytesIO(response.content), dtype="float32")
    return samples, rate


def _level_db(samples: np.ndarray, rate: int) -> np.ndarray:
    """Each 10 ms in dB of full scale."""
    width = round(FRAME_S * rate)
    frames = samples[: len(samples) // width * width].reshape(-1, width)
    return 10 * np.log10(np.mean(np.square(frames, dtype=np.float64), axis=1) + 1e-12)


@pytest.mark.parametrize("text", ["Hi", "No.", "OK", "I", "7", "Ja"])
@pytest.mark.parametrize("person", ["man", "woman"])
def test_one_word_is_one_word_long(caller: httpx.Client, people: dict[str, str], person: str, text: str) -> None:
    for seed in range(3):
        samples, rate = _spoken(caller, people[person], text, seed=seed)
        assert 0.15 <= len(samples) / rate <= 1.5


@pytest.mark.parametrize("text", ["Another way is", "Yes, but"])
def test_a_text_without_an_end_ends_by_itself(caller: httpx.Client, people: dict[str, str], text: str) -> None:
    samples, rate = _spoken(caller, people["woman"], text)
    assert len(samples) / rate < 3


def test_pieces_of_a_chapter_sound_alike(caller: httpx.Client, people: dict[str, str]) -> None:
    paragraphs = (
        "The train left at noon from the second platform, and nobody had thought of the letter on the table.",
        "It was raining when they came home. Somebody had opened all the windows, and the floor was wet.",
        "Please call the office before you send the letter to the wrong address again, she had told him.",
    )
    text = "\n\n".join(f"# {number}\n\n{words}" for number, words in enumerate(paragraphs, 1))
    job = caller.post("/v1/jobs", json={"speaker_id": people["woman"], "text": text, "seed": 5}).json()
    until = time.monotonic() + 120
    while (state := caller.get(f"/v1/jobs/{job['job_id']}").json())["state"] != "done":
        assert state["state"] in ("waiting", "running") and time.monotonic() < until, state
        time.sleep(0.1)
    audio = caller.get(f"/v1/jobs/{job['job_id']}/audio").content
    samples, rate = soundfile.read(io.BytesIO(audio), dtype="float32")
    borders = [(round(each["start_s"] * rate), round(each["stop_s"] * rate)) for each in state["chapters"]]
    pieces = [samples[start:stop] for start, stop in borders]
    assert len(pieces) == job["n_pieces"] == 3
    levels = [level[level > -50].mean() for level in (_level_db(piece, rate) for piece in pieces)]
    assert max(levels) - min(levels) < 1.5
    vectors = [each.vector for each in SpeakerEncoder.load("cpu").embed([Waveform(piece, rate) for piece in pieces])]
    assert min(float(one @ other) for one in vectors for other in vectors) >= 0.85


def test_lengths_follow_the_text(caller: httpx.Client, people: dict[str, str]) -> None:
    for text in (
        "The train leaves at noon, from the second platform.",
        "It was raining when they came home, and nobody had thought of the washing on the line.",
        "Please call the office before you send the letter to the wrong address again.",
    ):
        response = speak(caller, speaker_id=people["man"], text=text)
        assert "implausible_length" not in response.headers.get("X-Voicekin-Notices", "")
        assert 5 < len(text) / float(response.headers["X-Voicekin-Audio-Seconds"]) < 30


@pytest.mark.parametrize("text", ["Good morning.", "Another way is", "Stop.", "She sells shells."])
@pytest.mark.parametrize("person", ["man", "woman"])
def test_speech_begins_at_once_and_ends_when_it_is_over(
    caller: httpx.Client, people: dict[str, str], person: str, text: str
) -> None:
    samples, rate = _spoken(caller, people[person], text)
    level = _level_db(samples, rate)
    heard = np.flatnonzero(level > level.max() - 30)
    assert heard[0] * FRAME_S < 0.15
    assert (len(level) - 1 - heard[-1]) * FRAME_S < 0.5


def test_pauses_are_silent_and_joins_do_not_click(caller: httpx.Client, people: dict[str, str]) -> None:
    samples, rate = _spoken(caller, people["woman"], "This is one. This is two.\n\nThis is three.")
    silent = _level_db(samples, rate) < -60
    runs = np.diff(np.flatnonzero(np.diff(np.r_[0, silent, 0])))[::2] * FRAME_S
    between_sentences, between_paragraphs = (run for run in runs if run > 0.15)
    assert 0.2 <= between_sentences <= 0.45
    assert 0.5 <= between_paragraphs <= 0.9
    assert abs(float(samples.mean())) < 0.005
    starts, stops = np.flatnonzero(np.diff(np.r_[0, samples == 0, 0])).reshape(-1, 2).T
    pauses = [(first, end) for first, end in zip(starts, stops, strict=True) if end - first > 0.1 * rate]
    assert len(pauses) == 2
    for first, end in pauses:
        assert abs(samples[first - 1]) < 0.01 and abs(samples[end]) < 0.01


def test_everybody_is_spoken_with_the_own_voice(caller: httpx.Client, people: dict[str, str]) -> None:
    text = "The train leaves at noon, and nobody knows from which platform it will go today."
    for person, speaker_id in people.items():
        audio = speak(caller, speaker_id=speaker_id, text=text, seed=5).content
        found = caller.post("/v1/speakers/search", files={"clip": ("x.wav", audio)}).json()["matches"]
        assert found[0]["name"] == person, found


def test_the_same_seed_is_the_same_speech_after_another_voice(caller: httpx.Client, people: dict[str, str]) -> None:
    first, _ = _spoken(caller, people["man"], "Good morning.")
    _spoken(caller, people["woman"], "Good evening.")
    again, _ = _spoken(caller, people["man"], "Good morning.")
    np.testing.assert_array_equal(first, again)
