"""What can go wrong between a client and the rooms.

ApiError
├── RequestRefused   missing_field, bad_field, bad_labels, bad_multipart, too_many_clips, verify_needs_whole, bad_tag
├── NotOffered       settings_not_kept, prompts_not_offered
├── NotCalibrated    not_calibrated
├── TooLarge         too_large
├── FormatUnknown    format_unknown
├── ModelUnknown     model_unknown
├── AccessRefused    key_missing, key_wrong, key_expired, key_revoked, scope_missing, admin_disabled, origin_refused
├── RateLimited      rate_limited
├── NotReady         starting, draining
├── TooBusy          too_busy
├── OutOfTurn        not_begun, after_close
├── Idle             idle
├── JobInaudible     job_not_done, job_inaudible
├── WordsRefused     consent_words_differ, consent_language, consent_statement
├── RecogniserMissing  recogniser_missing
├── ServerRefused    server_unreachable, server_failed, and what the server's own code was
└── SettingsError    settings_invalid
"""


class ApiError(Exception):
    """Base of the room. `code` is stable and machine-readable, `details` holds limits and measured figures."""

    def __init__(self, code: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class RequestRefused(ApiError):
    """The request lacks something or holds something that cannot be used."""


class NotOffered(ApiError):
    """A part of another service's interface that has no counterpart here."""


class NotCalibrated(ApiError):
    """Nothing was measured for the speaker encoder, so a cosine means nothing yet."""


class TooLarge(ApiError):
    """The body is larger than the limit."""


class FormatUnknown(ApiError):
    """The audio format asked for is not one of ours."""


class ModelUnknown(ApiError):
    """No voice model has this name here."""


class AccessRefused(ApiError):
    """The key is missing, wrong or over, or is not for this."""


class RateLimited(ApiError):
    """The key has sent as many requests as it may; `details` say how many, and when it may send more."""


class NotReady(ApiError):
    """The service is still opening its rooms, or is closing them."""


class TooBusy(ApiError):
    """As much work as is allowed is already under way."""


class OutOfTurn(ApiError):
    """A message of a conversation that comes before its time, or after it."""


class Idle(ApiError):
    """Nothing has happened in a conversation for too long."""


class JobInaudible(ApiError):
    """Of this job nothing can be heard: not yet, or not any more."""


class SettingsError(ApiError):
    """A setting has no meaning here; the message names it and what is allowed."""


class WordsRefused(ApiError):
    """A recorded statement does not say what it should, or nobody here can tell."""


class RecogniserMissing(ApiError):
    """The settings ask for a check of words, and what could make it is not installed."""


class ServerRefused(ApiError):
    """The server that the command line asked did not do it."""
