"""Conversations over a real WebSocket: text in pieces in, speech out while it comes."""

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from conversing import closed_with, talking
from servers import RunningServer

PIECES = ("Hel", "lo the", "re. How are you", " today? I", " met Dr", ". Smith and", " paid $5.")
TEXT = "".join(PIECES)


def test_a_text_in_pieces_is_spoken_sentence_by_sentence(server: RunningServer, woman: str) -> None:
    with talking(server) as talk:
        ready = talk.begin(woman, format="pcm_24000", seed=7)
        assert (ready["format"], ready["media_type"]) == ("pcm_24000", "audio/pcm")
        done = talk.say(*PIECES)
        assert [sentence["text"] for sentence in talk.sentences] == [
            "Hello there.", "How are you today?", "I met Dr. Smith and paid $5."
        ]  # fmt: skip
        assert len(talk.audio) == round(done["audio_s"] * 24000) * 2
        assert (done["utterance"], done["characters"]) == (1, len(TEXT))
        for sentence in talk.sentences:
            assert TEXT[sentence["start_char"] : sentence["stop_char"]] == sentence["text"]
            assert TEXT[sentence["words"][-1]["start_char"] :].startswith(sentence["words"][-1]["text"])
        borders = [each[name] for each in talk.sentences for name in ("start_s", "stop_s")]
        assert borders == sorted(borders) and borders[-1] <= done["audio_s"]
        first = talk.audio
        again = talk.say(TEXT)
        assert again["utterance"] == 2 and talk.audio == first
        talk.send("close")
        assert closed_with(talk) == (1000, "")


def test_what_is_sure_is_heard_before_the_text_is_whole(server: RunningServer, woman: str) -> None:
    with talking(server) as talk:
        talk.begin(woman, wait_s=10)
        talk.send("text", text="The first is over. The second")
        assert talk.until_sentence()["text"] == "The first is over."
        talk.send("text", text=" is too. ")
        assert talk.until_sentence()["text"] == "The second is too."
        talk.send("flush")
        assert talk.until("done")["characters"] == len("The first is over. The second is too. ")


def test_after_a_wait_a_clause_is_spoken_and_half_a_clause_is_not(server: RunningServer, woman: str) -> None:
    with talking(server) as talk:
        talk.begin(woman, wait_s=0.05)
        talk.send("text", text="Let me see, I am look")
        assert talk.until_sentence()["text"] == "Let me see,"
        talk.send("text", text="ing for it.")
        assert talk.until_sentence()["text"] == "I am looking for it."
        talk.send("flush")
        talk.until("done")


def test_a_cancelled_text_is_heard_no_further_and_the_next_follows(server: RunningServer, woman: str) -> None:
    with talking(server) as talk:
        talk.begin(woman, seed=3, speed=0.25)
        first = talk.say("Hello again.")
        expected = talk.audio
        talk.audio = b""
        talk.send("text", text="A long story is told here, which goes on. " * 40)
        talk.send("text", text="And it")
        while not talk.audio:
            talk.next()
        talk.send("cancel")
        assert talk.until("cancelled")["utterances"] == [first["utterance"] + 1]
        heard_s = len(talk.audio) / 48000
        assert heard_s < 40 * first["audio_s"] / 2
        assert talk.say("Hello again.")["utterance"] == first["utterance"] + 2
        assert talk.audio == expected
        talk.send("cancel")
        assert talk.until("cancelled")["utterances"] == []


def test_texts_that_come_while_one_is_spoken_follow_in_their_order(server: RunningServer, woman: str) -> None:
    with talking(server) as talk:
        talk.begin(woman)
        for text in ("One.", "Two.", "Three."):
            talk.send("text", text=text)
            talk.send("flush")
        found = []
        for number in (1, 2, 3):
            assert talk.until("done")["utterance"] == number
            found.append([sentence["text"] for sentence in talk.sentences])
            talk.sentences = []
        assert found == [["One."], ["Two."], ["Three."]]


def test_settings_change_between_two_texts(server: RunningServer, woman: str, man: str) -> None:
    with talking(server) as talk:
        talk.begin(woman, format="wav_16000", seed=1)
        talk.say("Hello there.")
        wav = talk.audio
        assert wav[:4] == b"RIFF" and wav.count(b"RIFF") == 1
        talk.begin(man, format="pcm_16000", seed=1)
        talk.say("Hello there.")
        assert talk.audio not in (wav, wav[44:])


@pytest.mark.parametrize("name", ["mp3", "opus", "flac", "aac", "ulaw_8000"])
def test_every_text_is_a_file_of_its_own(server: RunningServer, client: httpx.Client, woman: str, name: str) -> None:
    import io

    import av

    with talking(server) as talk:
        talk.begin(woman, format=name)
        done = talk.say("One sentence. ", "And another, which is longer.")
        if name == "ulaw_8000":
            seconds = len(talk.audio) / 8000
        else:
            with av.open(io.BytesIO(talk.audio)) as container:
                rate = container.streams.audio[0].rate
                seconds = sum(frame.samples for frame in container.decode(audio=0)) / rate
        assert seconds == pytest.approx(done["audio_s"], abs=0.06)


def test_breaks_markdown_and_speak_around_it_all_are_read_as_in_a_whole_text(server: RunningServer, woman: str) -> None:
    with talking(server) as talk:
        talk.begin(woman, seed=1)
        talk.say("<speak>**One.** ", "<break time='3s'/>", " Two.</speak>")
        first, second = talk.sentences
        assert second["start_s"] - first["stop_s"] == pytest.approx(3.0, abs=1e-4)
        samples = np.frombuffer(talk.audio, "<i2")
        pause = samples[round(first["stop_s"] * 24000) + 240 : round(second["start_s"] * 24000) - 240]
        assert not pause.any()


@pytest.mark.parametrize("pieces", [(), ("",), (" ", "\n"), ("...",), ("🙂",)])
def test_a_text_that_says_nothing_is_done_at_once(server: RunningServer, woman: str, pieces: tuple[str, ...]) -> None:
    with talking(server) as talk:
        talk.begin(woman)
        done = talk.say(*pieces)
        assert (done["audio_s"], talk.audio) == (0, b"")
        assert talk.say("And now something.")["audio_s"] > 0


def test_what_cannot_be_read_is_left_out_and_told(server: RunningServer, woman: str) -> None:
    with talking(server) as talk:
        talk.begin(woman)
        done = talk.say("名前. ", "Hello there.")
        assert done["audio_s"] > 0 and "名" in " ".join(done["notices"])


def test_bytes_do_not_depend_on_how_a_text_comes(server: RunningServer, woman: str) -> None:
    text = "Mr. Hill has 3.5 apples, etc. Then he left!\n\n- One\n- Two\n\nWell... he said “no.” And so on"
    with talking(server) as talk:
        talk.begin(woman, seed=5, wait_s=10)
        talk.say(text)
        whole = talk.audio
        talk.say(*text)
        assert talk.audio == whole


def test_the_example_of_the_page_speaks(server: RunningServer, woman: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "websocket.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    audio = asyncio.run(names["speak"](server.url.replace("http", "ws"), woman, list(PIECES)))
    assert len(audio) > 24000 and len(audio) % 2 == 0
