"""SSML through every door: each element is heard, and what is wrong with one is told with its place."""

from typing import Any

import httpx
import pytest
from asking import problem, speak
from conversing import talking
from servers import RunningServer

SLOW = "<prosody rate='x-slow'>One sentence is said.</prosody>"


def _timed(client: httpx.Client, speaker_id: str, text: str, **fields: Any) -> list[dict[str, Any]]:
    response = speak(client, speaker_id=speaker_id, text=text, seed=4, timestamps=True, **fields)
    assert response.status_code == 200, response.text
    sentences: list[dict[str, Any]] = response.json()["sentences"]
    return sentences


def _said(client: httpx.Client, speaker_id: str, text: str, **fields: Any) -> bytes:
    response = speak(client, speaker_id=speaker_id, text=text, seed=4, format="pcm", **fields)
    assert response.status_code == 200, response.text
    return response.content


def _long_s(sentence: dict[str, Any]) -> float:
    return float(sentence["stop_s"] - sentence["start_s"])


def test_a_rate_is_the_speed_of_its_sentence_alone(client: httpx.Client, woman: str) -> None:
    plain = _timed(client, woman, "One sentence is said. And another.")
    slow = _timed(client, woman, f"{SLOW} And another.")
    assert [each["text"] for each in slow] == ["One sentence is said.", "And another."]
    assert _long_s(slow[0]) > 1.5 * _long_s(plain[0])
    assert _long_s(slow[1]) == pytest.approx(_long_s(plain[1]), abs=1e-4)
    assert _said(client, woman, SLOW) == _said(client, woman, "One sentence is said.", speed=0.5)


def test_a_voice_element_speaks_as_its_speaker(client: httpx.Client, woman: str, man: str) -> None:
    text = "One sentence is said."
    assert _said(client, woman, f"<voice name='{man}'>{text}</voice>") == _said(client, man, text)
    assert _said(client, woman, f"<voice name='MAN'>{text}</voice>") == _said(client, man, text)
    assert _said(client, woman, f"<voice name='MAN'>{text}</voice>", stream=True) == _said(client, man, text)


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("<say-as interpret-as='ordinal'>3</say-as> came.", "3rd came."),
        ("The <say-as interpret-as='spell-out'>bbc</say-as> came.", "The B B C came."),
        ("<lexicon><lexeme><grapheme>W3C</grapheme><alias>we</alias></lexeme></lexicon>So W3C came.", "So we came."),
        ("<sub alias='we'>W3C</sub> came.", "we came."),
    ],
)
def test_an_element_sounds_like_its_words(client: httpx.Client, woman: str, marked: str, plain: str) -> None:
    assert _said(client, woman, marked) == _said(client, woman, plain)


def test_a_wrong_element_is_refused_with_its_place_on_every_route(client: httpx.Client, woman: str) -> None:
    text = "Hello there. <break time='soon'/> And so on."
    at = text.index("<break")
    details = ("break", at)
    found = problem(speak(client, speaker_id=woman, text=text), 422, "bad_markup")
    assert (found["element"], found["position"]) == details and f"character {at}: takes time=" in found["detail"]
    openai = client.post("/v1/audio/speech", json={"model": "x", "input": text, "voice": woman})
    assert openai.status_code == 400 and f"character {at}:" in openai.json()["error"]["message"]
    labs = client.post(f"/v1/text-to-speech/{woman}", json={"text": text})
    assert labs.status_code == 422 and f"character {at}:" in labs.json()["detail"]["message"]
    job = problem(client.post("/v1/jobs", json={"speaker_id": woman, "text": f"First.\n\n{text}"}), 422, "bad_markup")
    assert (job["element"], job["position"], job["line"]) == ("break", at + len("First.\n\n"), 3)


def test_a_wrong_element_of_a_conversation_is_placed_in_its_whole_text(server: RunningServer, woman: str) -> None:
    text = "Hello there. <break time='soon'/> And so on."
    with talking(server) as talk:
        talk.begin(woman)
        for piece in text:
            talk.send("text", text=piece)
        talk.send("flush")
        error = talk.error("bad_markup", closes=False)
        assert (error["element"], error["position"]) == ("break", text.index("<break"))


def test_a_voice_that_is_nobodys_is_refused_with_its_place(client: httpx.Client, woman: str) -> None:
    response = speak(client, speaker_id=woman, text="So <voice name='Nobody at all'>what</voice>?")
    found = problem(response, 404, "speaker_not_found")
    assert (found["element"], found["position"]) == ("voice", 3)
    text = "First.\n\nSo <voice name='Nobody at all'>what</voice>?"
    found = problem(client.post("/v1/jobs", json={"speaker_id": woman, "text": text}), 404, "speaker_not_found")
    assert (found["element"], found["position"], found["line"]) == ("voice", text.index("<voice"), 3)


def test_a_conversation_speaks_all_of_it(server: RunningServer, client: httpx.Client, woman: str, man: str) -> None:
    text = "One sentence is said."
    with talking(server) as talk:
        talk.begin(woman, seed=4)
        talk.say("<voice ", "name='man'", f">{text}", "</voice", ">")
        assert talk.audio == _said(client, man, text)
        talk.say(*SLOW)
        assert talk.audio == _said(client, woman, SLOW)
        lexicon = "<lexicon><lexeme><grapheme>W3C</grapheme><alias>we</alias></lexeme></lexicon>"
        talk.say(lexicon, "One is here. ", "W3C came.")
        marked = talk.audio
        talk.say("One is here. ", "we came.")
        assert talk.audio == marked


def test_a_job_speaks_all_of_it(client: httpx.Client, woman: str, man: str) -> None:
    lexicon = "<lexicon><lexeme><grapheme>W3C</grapheme><alias>we</alias></lexeme></lexicon>"
    text = f"<speak>{lexicon}First W3C came. <voice name='Man'>Then he came.\n\nAnd W3C left.</voice></speak>"
    made = client.post("/v1/jobs", json={"speaker_id": woman, "text": text, "seed": 3})
    assert made.status_code == 202, made.text
    job_id = made.json()["job_id"]
    with client.stream("GET", f"/v1/jobs/{job_id}/events", timeout=60) as events:
        assert "event: end" in list(events.iter_lines())
    job = client.get(f"/v1/jobs/{job_id}").json()
    assert (job["state"], job["n_pieces"]) == ("done", 2), job
    times = client.get(f"/v1/jobs/{job_id}/timestamps").json()["sentences"]
    assert [each["text"] for each in times] == ["First W3C came.", "Then he came.", "And W3C left."]
    assert [word["read"] for word in times[2]["words"]] == ["And", "we", "left"]
