"""What a speech is written as: a file of audio, or JSON with the audio and its times."""

import base64
import json
from dataclasses import dataclass
from typing import Protocol

from api.audio_out import AudioFormat, StreamEncoder, encode, open_stream
from api.speech import Spoken
from api.timing import TimedPieceOut, sentences_out, timed_speech
from cloning.types import Speech


class Writer(Protocol):
    """Bytes for a speech as it comes; `finish` gives the tail."""

    def write(self, piece: Speech) -> bytes: ...
    def finish(self) -> bytes: ...


class Form(Protocol):
    """One way to write speeches; no two have the same `name`."""

    @property
    def name(self) -> str: ...
    @property
    def media_type(self) -> str: ...
    def whole(self, text: str, spoken: Spoken) -> bytes: ...
    def writer(self, text: str, sample_rate: int) -> Writer: ...


@dataclass(frozen=True, slots=True)
class AudioForm:
    """A file of audio."""

    audio: AudioFormat

    @property
    def name(self) -> str:
        return self.audio.name

    @property
    def media_type(self) -> str:
        return self.audio.media_type

    def whole(self, text: str, spoken: Spoken) -> bytes:
        return encode(spoken.speech.samples, spoken.speech.sample_rate, self.audio)

    def writer(self, text: str, sample_rate: int) -> Writer:
        return _AudioWriter(open_stream(sample_rate, self.audio))


@dataclass(frozen=True, slots=True)
class TimedForm:
    """JSON with the file in base64 and its times; on a stream a line for each piece."""

    audio: AudioFormat
    media_type: str

    @property
    def name(self) -> str:
        return f"{self.audio.name} timed"

    def whole(self, text: str, spoken: Spoken) -> bytes:
        data = encode(spoken.speech.samples, spoken.speech.sample_rate, self.audio)
        return timed_speech(text, spoken, in_base64(data), self.audio.media_type).model_dump_json().encode()

    def writer(self, text: str, sample_rate: int) -> Writer:
        return _TimedWriter(open_stream(sample_rate, self.audio), text, sample_rate)


def timed_form(audio: AudioFormat, streamed: bool) -> TimedForm:
    """The form of a whole speech with times, or of a stream with them."""
    return TimedForm(audio, "application/x-ndjson" if streamed else "application/json")


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def line(document: object) -> bytes:
    """A line of JSON."""
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class _AudioWriter:
    encoder: StreamEncoder

    def write(self, piece: Speech) -> bytes:
        return self.encoder.write(piece.samples)

    def finish(self) -> bytes:
        return self.encoder.finish()


@dataclass(frozen=True, slots=True)
class _TimedWriter:
    encoder: StreamEncoder
    text: str
    sample_rate: int

    def write(self, piece: Speech) -> bytes:
        sentences = sentences_out(self.text, piece.sentences, self.sample_rate)
        audio = in_base64(self.encoder.write(piece.samples))
        return line(TimedPieceOut(audio=audio, sentences=sentences, last=False).model_dump())

    def finish(self) -> bytes:
        return line(TimedPieceOut(audio=in_base64(self.encoder.finish()), sentences=[], last=True).model_dump())
