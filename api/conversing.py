"""What is said in a conversation, whatever shape its messages have: what a client asks, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from prometheus_client import Gauge

from api.audio_out import AudioFormat
from api.errors import NotReady, RequestRefused, TooBusy, TooLarge
from api.limits import Standings
from api.problems import Problem, RoomError
from api.speech import SpeechOrder
from api.utterance import Heard, Utterance

if TYPE_CHECKING:
    from api.services import Services

# Some clients take no message of more than a megabyte, and a short one can be thrown away sooner.
FRAME_BYTES = 32768
# What a JSON body of the other doors may have.
MAX_MESSAGE_BYTES = 2**20
# A message: text, or bytes.
Frame = str | bytes
# How a connection ends. Source: RFC 6455, section 7.4.1, and IANA's registry of close codes (1012, 1013).
WELL, GOING_AWAY, REFUSED, FAULT, CUT_OFF, TRY_LATER = 1000, 1001, 1008, 1011, 1012, 1013


@dataclass(frozen=True, slots=True)
class Begin:
    """How what follows is to be spoken. `order` says it for a caller's rooms, in a thread; its text is not read.

    `wait_s` is how long a clause waits for the rest of its sentence. `key` counts where no header holds one.
    """

    order: Callable[[Services], SpeechOrder]
    audio: AudioFormat
    wait_s: float
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Say:
    """Some more of the text."""

    text: str


@dataclass(frozen=True, slots=True)
class Flush:
    """Nothing that waits shall wait for more; `last` where the text is whole and its file ends."""

    last: bool


@dataclass(frozen=True, slots=True)
class Cancel:
    """Nobody wants to hear the rest."""


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Somebody is still there."""


@dataclass(frozen=True, slots=True)
class Close:
    """Nothing more will be sent: speak what is there, then end."""


Command = Begin | Say | Flush | Cancel | KeepAlive | Close


@dataclass(frozen=True, slots=True)
class Ready:
    """What a client may know of a conversation that has begun."""

    conversation_id: str
    audio: AudioFormat
    order: SpeechOrder
    max_text_chars: int
    idle_s: float


class Drainable(Protocol):
    """What can be told that the server stops."""

    def drain(self) -> None: ...


class Dialect(Protocol):
    """One shape of messages. `ends_with_error` where a conversation does not go on after one."""

    @property
    def ends_with_error(self) -> bool: ...

    def read(self, message: str) -> Sequence[Command]:
        """What a message asks for. Raises: ApiError."""
        ...

    def ready(self, facts: Ready) -> Sequence[Frame]: ...
    def heard(self, number: int, utterance: Utterance, heard: Heard) -> Sequence[Frame]: ...
    def done(self, number: int, utterance: Utterance, tail: bytes, standings: Standings) -> Sequence[Frame]: ...
    def cancelled(self, numbers: Sequence[int]) -> Sequence[Frame]: ...
    def alive(self) -> Sequence[Frame]: ...
    def error(self, problem: Problem, conversation_id: str, number: int | None, closes: bool) -> Sequence[Frame]: ...


def in_frames(audio: bytes) -> list[bytes]:
    """Audio in as many parts as it takes for none to be long."""
    return [audio[start : start + FRAME_BYTES] for start in range(0, len(audio), FRAME_BYTES)]


class Conversations:
    """Those under way in one server."""

    def __init__(self, most: int, under_way: Gauge) -> None:
        self._most, self._under_way = most, under_way
        self._joined: set[Drainable] = set()

    @contextmanager
    def joined(self, conversation: Drainable) -> Iterator[None]:
        """A place for one more. Raises: TooBusy."""
        if len(self._joined) >= self._most:
            words = f"{self._most} conversations are under way, which is the limit; try again shortly"
            raise TooBusy("too_busy", words, limit=self._most)
        self._joined.add(conversation)
        try:
            with self._under_way.track_inprogress():
                yield
        finally:
            self._joined.discard(conversation)

    def drain(self) -> None:
        """Has each end with what it was told so far."""
        for conversation in tuple(self._joined):
            conversation.drain()


def text_of(message: Mapping[str, object]) -> str:
    """The text of a message as the server gives it. Raises: RequestRefused, TooLarge."""
    text = message.get("text")
    if not isinstance(text, str):
        raise RequestRefused("bad_field", "messages are JSON in text frames; this one is binary", field="body")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_MESSAGE_BYTES:
        words = f"the message is larger than the limit of {MAX_MESSAGE_BYTES} bytes; send less at once"
        raise TooLarge("too_large", words, limit_bytes=MAX_MESSAGE_BYTES)
    return text


def stopping() -> NotReady:
    """What everybody is told who would go on."""
    return NotReady("draining", "the server is shutting down; begin again with another one")


def close_code(error: RoomError) -> int:
    """How a connection ends that cannot go on after an error."""
    if isinstance(error, NotReady):
        return GOING_AWAY if error.code == "draining" else TRY_LATER
    return TRY_LATER if isinstance(error, TooBusy) else REFUSED
