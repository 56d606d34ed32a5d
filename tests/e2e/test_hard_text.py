"""Texts as people, language models and attackers write them, through the server."""

import httpx
import numpy as np
import pytest
from asking import openai_error, problem, speak


def _samples(client: httpx.Client, speaker_id: str, text: str, **more: object) -> bytes:
    response = speak(client, speaker_id=speaker_id, text=text, seed=3, format="pcm", **more)
    assert response.status_code == 200, response.text
    return response.content


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "\n\n",
        "...",
        "!!!",
        "---",
        '"',
        "🙂",
        "\u200b",
        "?!?!?!",
        "." * 60,
        "**",
        "<b></b>",
        "\x00",
        "\ufffd",
    ],
)
def test_a_text_that_says_nothing_is_refused_on_every_route(client: httpx.Client, woman: str, text: str) -> None:
    for stream in (False, True):
        problem(speak(client, speaker_id=woman, text=text, stream=stream), 422, "nothing_to_say")
    reply = client.post("/v1/audio/speech", json={"voice": woman, "input": text})
    assert openai_error(reply, 400, "input")["code"] == "nothing_to_say"


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("**Bold** and `code`, [label](https://x.org).", "Bold and code, label."),
        ("✅ Done ⚙️ 👨‍👩‍👧", "Done"),
        ("don&#x27;t &amp; won't", "don't & won't"),
        ("“Smart” ‘quotes’ and a\u00a0space", "\"Smart\" 'quotes' and a space"),
        ("zero\u200bwidth soft\u00adhyphen \ufeffmark\u200f", "zerowidth softhyphen mark"),
        ("nai\u0308ve cafe\u0301", "naïve café"),
        ("ﬁne ＡＢＣ", "fine ABC"),
        ("a\x01b\x00c\ufffdd", "abcd"),
        ("Call 我 at 5", "Call at 5"),
        ("Thutmose II ruled.", "Thutmose the second ruled."),
    ],
)
def test_a_written_form_gives_the_same_audio_as_the_plain_one(
    client: httpx.Client, woman: str, written: str, plain: str
) -> None:
    assert _samples(client, woman, written) == _samples(client, woman, plain)


def test_lone_surrogates_are_cleaned_or_refused_and_never_a_fault(client: httpx.Client, woman: str) -> None:
    body = f'{{"speaker_id": "{woman}", "text": "He\\ud800llo.", "seed": 3, "format": "pcm"}}'
    response = client.post("/v1/speech", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in {200, 422}, response.text
    if response.status_code == 200:
        assert response.content == _samples(client, woman, "Hello.")


def test_characters_that_were_not_said_are_listed_whole_and_streamed(client: httpx.Client, woman: str) -> None:
    for stream in (False, True):
        response = speak(client, speaker_id=woman, text="Call 我 at 5. Then 你.", seed=1, stream=stream)
        assert "skipped characters: %E6%88%91 %E4%BD%A0" in response.headers["X-Voicekin-Notices"]
    body = {"voice": woman, "input": "Call 我 at 5."}
    assert "%E6%88%91" in client.post("/v1/audio/speech", json=body).headers["X-Voicekin-Notices"]


def test_a_text_of_another_script_is_refused_with_what_the_voice_speaks(client: httpx.Client, woman: str) -> None:
    document = problem(speak(client, speaker_id=woman, text="Привет, мир!"), 422, "language_unsupported")
    assert document["languages"] == ["en"]
    assert document["field"] == "text"
    by_tag = problem(speak(client, speaker_id=woman, text="Hello.", language="xx"), 422, "language_unsupported")
    assert (by_tag["field"], by_tag["languages"]) == ("language", ["en"])


@pytest.mark.parametrize(
    "text",
    [("So. " * 500)[:2000], ("é 🙂 word. " * 300)[:2000], "word " * 400, "x" * 2000],
    ids=["500 sentences", "characters of many bytes", "no punctuation", "one word"],
)
def test_a_text_of_exactly_the_limit_is_spoken_whole(client: httpx.Client, woman: str, text: str) -> None:
    assert len(text) == 2000
    half = _samples(client, woman, text[:1000])
    assert len(_samples(client, woman, text)) > 1.6 * len(half)
    document = problem(speak(client, speaker_id=woman, text=text + "a"), 413, "text_too_long")
    assert (document["limit"], document["length"]) == (2000, 2001)


def test_breaks_are_as_long_as_they_say_and_bounded(client: httpx.Client, woman: str) -> None:
    without, paused = (
        _samples(client, woman, f"<speak>Hello there.<break time='{pause}ms'/> World.</speak>") for pause in (0, 700)
    )
    assert len(paused) - len(without) == pytest.approx(0.7 * 24_000 * 2, abs=4)
    problem(speak(client, speaker_id=woman, text="<break time='99s'/>Hello."), 422, "bad_markup")
    problem(speak(client, speaker_id=woman, text="<speak>Hello."), 422, "bad_markup")
    sixty = np.frombuffer(_samples(client, woman, "Wait" + "." * 60 + " what?!"), "<i2")
    assert np.abs(sixty[: 24_000 * 5]).max() > 0
    assert len(sixty) < 24_000 * 5


def test_made_up_words_are_heard(client: httpx.Client, woman: str) -> None:
    for text in ("gryzzk", "Xqzt", "hhh", "button, kitten, written"):
        response = speak(client, speaker_id=woman, text=text, seed=1)
        assert response.status_code == 200, response.text
        assert "skipped" not in response.headers.get("X-Voicekin-Notices", "")


def test_a_dictionary_forces_a_reading(client: httpx.Client, woman: str) -> None:
    plain = _samples(client, woman, "The lead pipe.")
    assert _samples(client, woman, "The lead pipe.", lexicon={"lead": "/ˈlɛd/"}) != plain
    assert _samples(client, woman, "The lead pipe.", lexicon={"lead": "led"}) != plain
