"""Text as voices that spell were taught it: case and marks folded as their training did."""

import re
import unicodedata

from cloning.text.folding import fold
from cloning.text.languages import base_tag
from cloning.text.normalise import normalise

_AND = {"en": " and ", "fr": " et ", "it": " e ", "pt": " e ", "ca": " i "}
_BRACKETS = re.compile(r"[<>()\[\]\"]+")
_DIGIT = re.compile(r"\d")
_SPACES = re.compile(r"\s+")


def clean(text: str, cleaner: str, language: str) -> str:
    """The text in the form that a cleaner of `Spelling` gives it; English numbers become words before."""
    language = base_tag(language)
    text = unicodedata.normalize("NFC", text)
    if cleaner != "none" and language == "en" and _DIGIT.search(text):
        text = _numbers_in_words(text)
    if cleaner in ("fold-case", "plain-lower"):
        text = text.lower()
    if cleaner in ("plain-marks", "plain-lower"):
        text = _BRACKETS.sub("", _plain_marks(text, language))
    return _SPACES.sub(" ", text).strip()


def _plain_marks(text: str, language: str) -> str:
    if language != "el":  # where a semicolon asks a question
        text = text.replace(";", ",")
    text = text.replace("-", "" if language == "ca" else " ").replace(":", ",")
    if language == "ca":
        text = text.replace("'", "")
    return text.replace("&", _AND.get(language, "&"))


def _numbers_in_words(text: str) -> str:
    from hibari.g2p.normalize import normalize

    return str(normalize(normalise(fold(text))))
