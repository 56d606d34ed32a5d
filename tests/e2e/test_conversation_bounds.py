"""What a conversation refuses, how it says so, and when it ends."""

import json
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from conversing import Talk, closed_with, talking
from servers import RunningServer, enrol, make_key

Starter = Callable[..., RunningServer]
STORY = "A long story is told here, which goes on and on. " * 30


def _figure(server: RunningServer, name: str) -> float:
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def _soon(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("message", "code", "words"),
    [
        ("no json", "bad_field", "JSON"),
        ("[]", "bad_field", ""),
        ('{"text": "a"}', "bad_field", "type"),
        ('{"type": "speak"}', "bad_field", "begin"),
        ('{"type": "text"}', "bad_field", "text"),
        ('{"type": "text", "text": "a", "more": 1}', "bad_field", "more"),
        ('{"type": "begin", "speaker_id": "x", "format": "pcm_7"}', "format_unknown", "pcm_16000"),
        ('{"type": "begin", "speaker_id": "x", "speed": 9}', "bad_field", "speed"),
        ('{"type": "begin", "speaker_id": "x"}', "speaker_not_found", ""),
        ('{"type": "begin", "speaker_id": "WOMAN", "language": "xx"}', "language_unsupported", "en"),
        ('{"type": "begin", "speaker_id": "WOMAN", "model": "none"}', "model_unknown", "default"),
        ('{"type": "begin", "speaker_id": "WOMAN", "lexicon": {"a": "//"}}', "bad_lexicon", "'a'"),
        ('{"type": "begin", "speaker_id": "x", "model": "none"}', "speaker_not_found", ""),
        (b"bytes", "bad_field", "text frames"),
        ("x" * (2**20 + 1), "too_large", "1048576"),
    ],
)
def test_a_message_that_cannot_be_used_is_refused_and_changes_nothing(
    server: RunningServer, woman: str, message: str | bytes, code: str, words: str
) -> None:
    with talking(server) as talk:
        talk.begin(woman)
        talk.send("text", text="One. And")
        talk.socket.send(message.replace("WOMAN", woman) if isinstance(message, str) else message)
        error = talk.error(code, closes=False)
        assert words in error["detail"]
        talk.send("text", text=" two.")
        talk.send("flush")
        assert talk.until("done")["characters"] == len("One. And two.")


def test_a_message_beyond_all_bounds_ends_it_by_its_close_code(server: RunningServer, woman: str) -> None:
    with talking(server) as talk:
        talk.begin(woman)
        # Its first bytes alone, which tell its size: where a server closes with bytes unread, the kernel resets the
        # connection, and the client may never read the close that was sent.
        final_text, masked, length_in_8_bytes, mask = 0x81, 0x80, 127, bytes(4)
        size = (2**21 + 1).to_bytes(8, "big")
        talk.socket.socket.sendall(bytes([final_text, masked | length_in_8_bytes]) + size + mask)
        assert closed_with(talk)[0] == 1009


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "text", "text": "Hello."}, "not_begun"),
        ({"type": "begin", "speaker_id": "nobody"}, "speaker_not_found"),
        ({"type": "begin"}, "bad_field"),
    ],
)
def test_who_does_not_begin_is_told_why_and_let_go(server: RunningServer, message: dict[str, Any], code: str) -> None:
    with talking(server) as talk:
        talk.socket.send(json.dumps(message))
        assert len(talk.error(code, closes=True)["request_id"]) == 32
        assert closed_with(talk) == (1008, code)


def test_a_text_that_fails_ends_alone(server: RunningServer, woman: str) -> None:
    with talking(server) as talk:
        talk.begin(woman)
        talk.send("text", text="Hello there. <break time='soon'/> And")
        talk.send("text", text=" so on. And")
        assert talk.error("bad_markup", closes=False)["utterance"] == 1
        assert talk.say("Hello there.")["utterance"] == 2
        talk.send("text", text="An unclosed <sub alias='x'>element.")
        talk.send("flush")
        assert talk.error("bad_markup", closes=False)["utterance"] == 3
        assert talk.say("Hello there.")["utterance"] == 4


def test_more_text_than_may_wait_is_refused_with_both_figures(server: RunningServer, woman: str) -> None:
    with talking(server) as talk:
        talk.begin(woman)
        talk.send("text", text="no end " * 400)
        error = talk.error("text_too_long", closes=False)
        assert (error["limit"], error["length"], error["utterance"]) == (2000, 2801, 1)
        assert talk.say("Hello there.")["utterance"] == 2


def test_nothing_is_taken_after_close_and_all_before_it_is_spoken(server: RunningServer, woman: str) -> None:
    with talking(server) as talk:
        talk.begin(woman)
        talk.send("text", text="This is still said")
        talk.send("close")
        talk.send("text", text="This is not.")
        talk.error("after_close", closes=False)
        assert talk.until("done")["characters"] == len("This is still said")
        assert closed_with(talk) == (1000, "")


def test_pages_of_strangers_are_kept_out_and_those_that_are_allowed_are_not(server: RunningServer, woman: str) -> None:
    for origin in ("https://console.example", server.url):
        with talking(server, origin=origin) as talk:
            talk.begin(woman)
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        with talking(server, origin=origin) as talk:
            talk.error("origin_refused", closes=True)
            assert closed_with(talk) == (1008, "origin_refused")


def test_keys_open_it_by_header_or_by_message_and_only_with_the_scope(
    keeper: RunningServer, boss: httpx.Client
) -> None:
    speaker_id = enrol(boss, "Talker")
    speak, enrols = (make_key(boss, scope)["key"] for scope in ("speak", "enrol"))
    with talking(keeper, key=speak) as talk:
        talk.begin(speaker_id)
    with talking(keeper) as talk:
        talk.begin(speaker_id, key=speak)
        talk.begin(speaker_id, speed=2)
    for key, code in ((enrols, "scope_missing"), ("vk_wrong", "key_wrong"), (None, "key_missing")):
        with talking(keeper, key=key) as talk:
            talk.send("begin", speaker_id=speaker_id)
            talk.error(code, closes=True)
            assert closed_with(talk) == (1008, code)
    assert speak not in keeper.log.read_text()


def test_a_key_that_is_revoked_opens_no_further_text(keeper: RunningServer, boss: httpx.Client) -> None:
    speaker_id, made = enrol(boss, "Listener"), make_key(boss, "speak")
    with talking(keeper, key=made["key"]) as talk:
        talk.begin(speaker_id)
        talk.say("Hello there.")
        assert boss.patch(f"/v1/admin/keys/{made['key_id']}", json={"revoked": True}).status_code == 200
        talk.send("text", text="Hello again. And")
        talk.error("key_revoked", closes=True)
        assert closed_with(talk) == (1008, "key_revoked")


def test_another_tenants_speaker_is_not_there(keeper: RunningServer, boss: httpx.Client) -> None:
    speaker_id = enrol(boss, "Somebody of nobody")
    stranger = make_key(boss, "speak", tenant="strangers")["key"]
    with talking(keeper, key=stranger) as talk:
        talk.send("begin", speaker_id=speaker_id)
        talk.error("speaker_not_found", closes=True)


def test_texts_count_for_the_key_as_requests_and_characters(keeper: RunningServer, boss: httpx.Client) -> None:
    speaker_id = enrol(boss, "Counted")
    made = make_key(boss, "speak", limits={"requests_per_minute": 3, "characters_per_month": 30})
    with talking(keeper, key=made["key"]) as talk:
        talk.begin(speaker_id)
        done = talk.say("Eleven more")
        assert done["limits"]["requests"]["remaining"] == 1
        assert done["limits"]["characters"]["remaining"] == 30 - len("Eleven more")
        talk.send("text", text="This is by far too much for it. ")
        assert talk.error("quota_exceeded", closes=False)["used"] == len("Eleven more")
        talk.send("text", text="One. ")
        assert talk.error("rate_limited", closes=False)["limit"] == 3


def test_silence_ends_it_and_a_sign_of_life_does_not(other_server: Starter) -> None:
    server = other_server(CONVERSATION_IDLE_S="1")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        speaker_id = enrol(client, "Idle")
    with talking(server) as talk:
        talk.begin(speaker_id)
        for _ in range(4):
            time.sleep(0.5)
            talk.send("keep_alive")
            talk.until("alive")
        talk.send("text", text="half a clause")
        error = talk.error("idle", closes=True)
        assert error["limit_s"] == 1
        assert closed_with(talk) == (1008, "idle")


def test_no_more_conversations_than_allowed_and_each_gives_its_place_back(other_server: Starter) -> None:
    server = other_server(MAX_CONVERSATIONS="1")
    with talking(server) as first, talking(server) as second:
        assert second.error("too_busy", closes=True)["limit"] == 1
        assert closed_with(second) == (1013, "too_busy")
        assert _figure(server, "voicekin_conversations ") == 1
        first.send("text", text="x")
        first.error("not_begun", closes=True)
    _soon(lambda: _figure(server, "voicekin_conversations ") == 0)
    with talking(server) as third:
        third.send("close")
        third.error("not_begun")


def test_a_conversation_that_is_silent_holds_no_place_and_a_cancelled_one_gives_it_back(other_server: Starter) -> None:
    server = other_server(MAX_REQUESTS="1")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        speaker_id = enrol(client, "Rude")
        body = {"speaker_id": speaker_id, "text": "Next."}
        with talking(server) as talk:
            talk.begin(speaker_id, speed=0.25)
            talk.send("text", text="no end yet")
            assert client.post("/v1/speech", json=body).status_code == 200
            talk.send("text", text=". " + STORY)
            while not talk.audio:
                talk.next()
            assert client.post("/v1/speech", json=body).json()["code"] == "too_busy"
            talk.send("cancel")
            talk.until("cancelled")
            _soon(lambda: client.post("/v1/speech", json=body).status_code == 200)
            assert _figure(server, 'voicekin_utterances_total{outcome="cancelled"}') == 1


def test_who_leaves_in_the_middle_ends_the_speech(other_server: Starter) -> None:
    server = other_server(MAX_REQUESTS="1")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        speaker_id = enrol(client, "Left")
        with talking(server) as talk:
            talk.begin(speaker_id, speed=0.25)
            talk.send("text", text=STORY)
            while not talk.audio:
                talk.next()
        _soon(lambda: client.post("/v1/speech", json={"speaker_id": speaker_id, "text": "a"}).status_code == 200)
        _soon(lambda: _figure(server, "voicekin_conversations ") == 0)
    assert "Traceback" not in server.log.read_text()


def test_who_does_not_read_is_let_go_and_holds_nothing(other_server: Starter) -> None:
    server = other_server(MAX_REQUESTS="1", SEND_TIMEOUT_S="0.5", MAX_TEXT_CHARS="5000")
    host, port = server.url.removeprefix("http://").split(":")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        speaker_id = enrol(client, "Unheard")
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((host, int(port)))
            with talking(server, sock=connection, max_queue=1) as talk:
                talk.begin(speaker_id, speed=0.25, format="pcm_48000")
                talk.send("text", text=STORY * 3)
                _soon(lambda: _figure(server, "voicekin_audio_seconds_total") > 1)
                _soon(lambda: _figure(server, "voicekin_conversations ") == 0)
        assert client.post("/v1/speech", json={"speaker_id": speaker_id, "text": "a"}).status_code == 200
    assert "Traceback" not in server.log.read_text()


def _drained(talk: Talk) -> None:
    talk.error("draining", closes=True)
    assert closed_with(talk) == (1001, "draining")


def test_at_shutdown_what_was_said_is_spoken_to_its_end(other_server: Starter) -> None:
    server = other_server(DRAIN_S="60")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        speaker_id = enrol(client, "Last words")
    with talking(server) as silent, talking(server) as talk:
        silent.begin(speaker_id)
        talk.begin(speaker_id, speed=0.25)
        talk.send("text", text="The last words are long. " * 4 + "And this has no end")
        while not talk.audio:
            talk.next()
        server.process.send_signal(signal.SIGTERM)
        _drained(silent)
        assert talk.until("done")["characters"] == len("The last words are long. " * 4 + "And this has no end")
        _drained(talk)
    assert server.process.wait(timeout=30) == 0
    assert "Traceback" not in server.log.read_text()


def test_at_shutdown_nobody_speaks_for_ever(other_server: Starter) -> None:
    server = other_server(DRAIN_S="1")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        speaker_id = enrol(client, "Endless")
    with talking(server) as talk:
        talk.begin(speaker_id, speed=0.25)
        talk.send("text", text=STORY * 3)
        while not talk.audio:
            talk.next()
        server.process.send_signal(signal.SIGTERM)
        talk.error("draining", closes=True)
        assert closed_with(talk) == (1012, "draining")
    assert server.process.wait(timeout=30) == 0
    assert "Traceback" not in server.log.read_text()
