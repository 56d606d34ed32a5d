"""A client of conversations for the tests: what it sends, and what it hears until the next message of a kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from servers import RunningServer
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

Message = dict[str, Any]


class Talk:
    """One conversation; `audio` is what was heard since it was last emptied."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.audio = b""
        self.sentences: list[Message] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": kind, **fields}))

    def next(self) -> Message:
        """The next message that is no audio."""
        while isinstance(frame := self.socket.recv(timeout=60), bytes):
            self.audio += frame
        message: Message = json.loads(frame)
        return message

    def until(self, kind: str) -> Message:
        while (message := self.next())["type"] != kind:
            assert message["type"] == "sentence", message
            self.sentences.append(message)
        return message

    def until_sentence(self) -> Message:
        message = self.next()
        assert message["type"] == "sentence", message
        return message

    def begin(self, speaker_id: str, **fields: Any) -> Message:
        self.send("begin", speaker_id=speaker_id, **fields)
        return self.until("ready")

    def say(self, *pieces: str) -> Message:
        """One whole text; what is said when it has been spoken."""
        self.audio, self.sentences = b"", []
        for piece in pieces:
            self.send("text", text=piece)
        self.send("flush")
        return self.until("done")

    def error(self, code: str, closes: bool | None = None) -> Message:
        message = self.until("error")
        assert message["code"] == code and closes in (None, message["closes"]), message
        return message


@contextmanager
def talking(
    server: RunningServer, path: str = "/v1/conversation", key: str | None = None, **options: Any
) -> Iterator[Talk]:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    url = server.url.replace("http", "ws", 1) + path
    with connect(url, additional_headers=headers | options.pop("headers", {}), **options) as socket:
        yield Talk(socket)


def closed_with(talk: Talk) -> tuple[int | None, str | None]:
    """The code and reason of a connection that ends."""
    with suppress(ConnectionClosed):
        while True:
            talk.socket.recv(timeout=60)
    return talk.socket.close_code, talk.socket.close_reason
