"""What `<say-as>` asks for, in words that are read so and no other way.

Source: W3C, SSML 1.0 say-as attribute values (note of 2005), for the names; what a reader does by itself needs none.
"""

import re
from collections.abc import Callable
from datetime import date

from cloning.text.english_words import MONTHS

_SIGNS = {
    ".": "dot", "-": "dash", "–": "dash", "_": "underscore", "@": "at", "/": "slash", "\\": "backslash", "#": "hash",
    "+": "plus", "*": "star", "&": "and", ":": "colon", ",": "comma", "=": "equals", "%": "percent", "$": "dollar",
    "!": "exclamation mark", "?": "question mark", "(": "open", ")": "close",
}  # fmt: skip
_WHOLE = re.compile(r"([+-]?)(\d{1,15})")
# No part of a date has more digits than this, and so many of them are none.
_LONGEST = 9
_FORMS = frozenset(("mdy", "dmy", "ymd", "md", "dm", "ym", "my", "y"))


def words_as(kind: str, content: str, form: str) -> list[str]:
    """The words of a content that is read as a kind of thing; a letter alone is the letter's name.

    Raises: ValueError, with what is wrong and what is possible.
    """
    if kind not in _READINGS:
        raise ValueError(f"takes interpret-as={'|'.join(sorted(_READINGS))}; got {kind[:40]!r}")
    return _READINGS[kind](content.strip(), form)


def _spelt(content: str, _: str) -> list[str]:
    return [_SIGNS.get(char, char.upper()) for char in content if not char.isspace()]


def _digits(content: str, _: str) -> list[str]:
    if not any(char.isdigit() for char in content):
        raise ValueError(f"needs a digit; got {content[:40]!r}")
    return [word for word in _spelt(content, "") if word not in ("dash", "open", "close", "comma")]


def _telephone(content: str, _: str) -> list[str]:
    """Digit by digit, with a short pause between groups."""
    _digits(content, "")
    groups = re.findall(r"\+|\d+|[A-Za-z]+", content)
    return [word for group in groups for word in (*_spelt(group, ""), *([","] if group != "+" else []))][:-1]


def _cardinal(content: str, _: str) -> list[str]:
    sign, digits = _whole(content)
    return [*(["minus"] if sign == "-" else []), f"{int(digits):,}"]


def _ordinal(content: str, _: str) -> list[str]:
    _, digits = _whole(re.sub(r"(?<=\d)(?:st|nd|rd|th)$", "", content))
    number = int(digits)
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return [f"{number}{ending}"]


def _whole(content: str) -> tuple[str, str]:
    match = _WHOLE.fullmatch(content.replace(",", "").replace(" ", ""))
    if match is None:
        raise ValueError(f"needs a whole number of at most 15 digits; got {content[:40]!r}")
    return match[1], match[2]


def _date(content: str, form: str) -> list[str]:
    if not form:
        return [content]
    numbers = re.findall(r"\d+", content)
    if form not in _FORMS:
        raise ValueError(f"takes format={'|'.join(sorted(_FORMS))}; got {form[:40]!r}")
    if len(numbers) != len(form):
        raise ValueError(f"of format {form} needs {len(form)} numbers; got {content[:40]!r}")
    parts = {letter: int(number[:_LONGEST]) for letter, number in zip(form, numbers, strict=True)}
    try:
        date(max(1, parts.get("y", 2000)), parts.get("m", 1), parts.get("d", 1))
    except ValueError:
        raise ValueError(f"of format {form} is no date: {content[:40]!r}") from None
    month = [MONTHS[parts["m"] - 1]] if "m" in parts else []
    day = _ordinal(str(parts["d"]), "") if "d" in parts else []
    return [*month, *day, *([str(parts["y"])] if "y" in parts else [])]


def _as_it_stands(content: str, _: str) -> list[str]:
    return [content]


_READINGS: dict[str, Callable[[str, str], list[str]]] = {
    **dict.fromkeys(("characters", "spell-out", "verbatim"), _spelt),
    **dict.fromkeys(("cardinal", "number"), _cardinal),
    **dict.fromkeys(("time", "currency", "fraction", "unit", "address"), _as_it_stands),
    "ordinal": _ordinal,
    "digits": _digits,
    "telephone": _telephone,
    "date": _date,
}
