"""What can go wrong between a text and its speech.

CloningError
├── TextRefused          nothing_to_say, text_too_long, bad_markup, bad_lexicon
├── LanguageUnsupported  language_unsupported
├── BadConditioning      wrong_encoder, bad_vector
├── BundleError          bundle_missing, bundle_corrupt, bundle_version, bundle_mismatch
├── EngineError          engine_failed, engine_unavailable
├── SynthesisFailed      synthesis_failed
└── Overloaded           queue_full, deadline_missed, cancelled, closed
"""


class CloningError(Exception):
    """Base of the room. `code` is stable and machine-readable, `details` holds limits and measured figures."""

    def __init__(self, code: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class TextRefused(CloningError):
    """The text has nothing to say, is too long, or its markup cannot be read."""


class LanguageUnsupported(CloningError):
    """The voice does not speak the language asked for."""


class BadConditioning(CloningError):
    """The d-vector is not one that this voice can be conditioned on."""


class BundleError(CloningError):
    """A voice bundle is missing, damaged or of another version."""


class EngineError(CloningError):
    """An engine cannot run here, or failed while running."""


class SynthesisFailed(CloningError):
    """The networks gave something that is not speech: not finite, or silent."""


class Overloaded(CloningError):
    """The scheduler cannot take the work, or cannot finish it in time."""
