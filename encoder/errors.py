"""What can go wrong between uploaded bytes and an embedding.

EncoderError
├── UnreadableAudio      empty, no_audio, bad_container, unsupported_format, decode_timeout
├── AudioTooLong         too_many_bytes, decoded_too_long
└── UnusableSpeech       no_speech, too_little_speech
"""


class EncoderError(Exception):
    """Base of the room. `code` is stable and machine-readable, `details` holds limits and measured figures."""

    def __init__(self, code: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class UnreadableAudio(EncoderError):
    """The bytes hold no audio that can be decoded."""


class AudioTooLong(EncoderError):
    """The audio decodes to more than the limit in seconds or bytes."""


class UnusableSpeech(EncoderError):
    """The audio can be decoded but holds no speech, or too little of it."""
