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
_NUMBER = re.compile(
    r"(?P<money>[$£€])?(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)(?P<ending>(?:st|nd|rd|th)\b)?(?P<percent>\s?%)?"
)
_MONEY = {"$": ("dollar", "cents"), "£": ("pound", "pence"), "€": ("euro", "cents")}
_YEARS = (*range(1100, 2000), *range(2010, 2100))
# Longer ones have no name.
_LONGEST_NUMBER = 33


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

    return _NUMBER.sub(_in_words, str(normalize(normalise(fold(text)))))


def _in_words(match: re.Match[str]) -> str:
    from hibari.g2p import numbers

    figures = match["number"].replace(",", "")
    whole, _, part = figures.partition(".")
    if len(whole) > _LONGEST_NUMBER:
        words = " ".join(numbers.cardinal(int(figure)) for figure in figures if figure != ".")
    elif match["money"]:
        words = _amount(match["money"], int(whole), part)
    elif part:
        words = numbers.decimal(figures)
    elif match["ending"]:
        words = numbers.ordinal(int(whole))
    elif len(whole) == 4 and "," not in match["number"] and int(whole) in _YEARS:
        words = numbers.year(int(whole))
    else:
        words = numbers.cardinal(int(whole))
    spaced = " percent" if match["percent"] else ""
    return str(words).replace("-", " ").replace(",", "") + spaced


def _amount(sign: str, whole: int, part: str) -> str:
    from hibari.g2p import numbers

    unit, small = _MONEY[sign]
    words = f"{numbers.cardinal(whole)} {unit}{'' if whole == 1 else 's'}"
    cents = int(part.ljust(2, "0")[:2]) if part else 0
    return f"{words} and {numbers.cardinal(cents)} {small}" if cents else words
