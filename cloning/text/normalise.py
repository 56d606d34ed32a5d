"""English in writing to English in words, for what the pronunciation library reads wrongly or not at all.

Runs on one folded sentence, before the library's own rules for numbers, dates and money. Each rule is a pattern and
what it becomes; the order of `_RULES` matters, from the longest shapes (addresses) to the shortest (a bare number).
"""

import re
from collections.abc import Callable
from datetime import date

from cloning.text.english_words import (
    ABBREVIATIONS_THAT_ARE_WORDS,
    CURRENCY_OF_SIGN,
    GREEK,
    MONTHS,
    SPECIAL,
    UNITS,
)
from cloning.text.roman import read_roman

_Replacement = str | Callable[[re.Match[str]], str]
_SIGNS_IN_NAMES = {".": " dot ", "_": " underscore ", "+": " plus ", "-": " dash "}
_LONGEST_ADDRESS = 80
_LONGEST_RUN = 40


def normalise(sentence: str) -> str:
    """The sentence with addresses, codes, units and numbers in a form that is read rightly."""
    text = read_roman(_quiet_shouting(sentence))
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return re.sub(" +", " ", text).strip()


def _quiet_shouting(text: str) -> str:
    """A line in capitals is read as words; a few capitals are an abbreviation."""
    words = re.findall(r"[^\W\d_]+", text)
    if len(words) < 4 or any(char.islower() for char in text):
        return text
    return re.sub(r"[^\W\d_]{5,}", lambda match: match[0].lower(), text)


def _host(match: re.Match[str]) -> str:
    return _dotted(match["host"])


def _email(match: re.Match[str]) -> str:
    name = re.sub(r"([._+-])", lambda sign: _SIGNS_IN_NAMES[sign[0]], match["name"])
    return f"{name} at {_dotted(match['host'])}"


def _dotted(host: str) -> str:
    labels = host.replace("-", " dash ").split(".")
    if labels[0].lower() == "www" and len(labels) > 2:
        labels = labels[1:]
    last = labels[-1]
    if len(last) == 2 and last.lower() not in ("co", "me", "to"):
        labels[-1] = " ".join(last.upper())
    return " dot ".join(labels)


def _last_of_path(match: re.Match[str]) -> str:
    name, dot, extension = re.split(r"[\\/]", match[0].rstrip("\\/"))[-1].rpartition(".")
    return f"{name} dot {' '.join(extension.upper())}" if dot and name else extension


def _digits(match: re.Match[str]) -> str:
    """Digit by digit, with a short pause between groups."""
    plus = "plus " if match[0].startswith("+") else ""
    return plus + ", ".join(" ".join(group) for group in re.findall(r"\d+", match[0]))


def _digit_groups(match: re.Match[str]) -> str:
    """A number that nobody would read as a quantity, four digits at a time."""
    groups = re.findall(r"\d{1,4}", match[0].replace(",", ""))
    return " " + ", ".join(" ".join(group) for group in groups) + " "


def _dotted_quad(match: re.Match[str]) -> str:
    return " dot ".join(" ".join(group) for group in match[0].split("."))


def _inches(match: re.Match[str]) -> str:
    return f"{match[1]} {'inch' if match[2] else 'inches'}{match[2]}"


def _version(match: re.Match[str]) -> str:
    return ("version " if match["v"] else "") + match["numbers"].replace(".", " point ")


def _day_first(match: re.Match[str]) -> str:
    day, month, year = int(match[1]), int(match[2]), int(match[3])
    return _date(year, month, day, match)


def _year_first(match: re.Match[str]) -> str:
    return _date(int(match[1]), int(match[2]), int(match[3]), match)


def _slashed(match: re.Match[str]) -> str:
    """Month first; day first where only that is a date."""
    first, second, year = int(match[1]), int(match[2]), int(match[3])
    month, day = (first, second) if first <= 12 else (second, first)
    return _date(year, month, day, match)


def _date(year: int, month: int, day: int, match: re.Match[str]) -> str:
    """A date in words; one that no calendar has is read as its numbers."""
    try:
        date(year, month, day)
    except ValueError:
        return ", ".join(str(int(number)) for number in match.groups())
    return f"{MONTHS[month - 1]} {day}, {year}"


def _money_with_comma(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}.{match[3]}"


def _sign_after(match: re.Match[str]) -> str:
    number = match[1]
    return f"{number} {CURRENCY_OF_SIGN[match[2]][number != '1']}"


def _money_range(match: re.Match[str]) -> str:
    return f"{match[2]} to {match[3]} {CURRENCY_OF_SIGN[match[1]][1]}"


def _unit(match: re.Match[str]) -> str:
    one, many = UNITS[match["unit"]]
    number = match["number"]
    return f"{number} {one if number in ('1', '-1') else many}"


def _scientific(match: re.Match[str]) -> str:
    return f"{match[1]} times 10 to the power of {match[2].lstrip('+')}"


def _pieces_of(size: int) -> _Replacement:
    return lambda match: " ".join(match[0][at : at + size] for at in range(0, len(match[0]), size))


def _rules(*rules: tuple[str, _Replacement]) -> list[tuple[re.Pattern[str], _Replacement]]:
    return [(re.compile(pattern), replacement) for pattern, replacement in rules]


_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
_SCALES = {"k": "thousand", "M": "million", "B": "billion"}
_TOP_LEVEL = "com|org|net|edu|gov|io|co|uk|de|fr|info|biz|ca|au|tv|ly|ai|dev|app|eu|nl|ch|jp"
_HOST = r"(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}"
_UNIT_NAMES = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
_SIGN = "[" + "".join(CURRENCY_OF_SIGN) + "]"

_MARKS = _rules(
    (r"(?<!\.)\.{2,}(?=[ ,]*[a-z])", ", "),
    (r"([.,;:!?])\1+", r"\1"),
)
_ADDRESSES = _rules(
    (r"\b(?:https?|ftp)://(?:[^\s/@]*@)?(?P<host>[\w.-]*\w)(?::\d+)?(?:[/?#][^\s]*[\w/=&])?", _host),
    (r"\b(?P<host>www\.[\w.-]*\w)(?::\d+)?(?:[/?#][^\s]*[\w/=&])?", _host),
    # Past this point no run is long, so no pattern below can be made to search for long.
    (rf"\S{{{_LONGEST_ADDRESS},}}", _pieces_of(_LONGEST_ADDRESS)),
    (rf"\b(?P<name>[\w.+-]+)@(?P<host>{_HOST})\b", _email),
    (rf"\b(?P<host>(?:[a-z0-9-]+\.)+(?:{_TOP_LEVEL}))\b(?:/[^\s]*[\w/])?(?!\.\w)", _host),
    (r"(?<![\w/\\])(?:[A-Za-z]:\\|\\\\|~?/(?=[\w.-]+/))[\w.\\/~-]*[\w\\/]", _last_of_path),
)
_NUMBERS = _rules(
    (r"(?<![\w.])(\d{4})-(\d\d?)-(\d\d?)(?![\w-])", _year_first),
    (r"(?<![\w.])(\d\d?)\.(\d\d?)\.(\d{4})(?![\w.]\w)(?!\w)", _day_first),
    (r"(?<![\w./])(\d\d?)/(\d\d?)/(\d{4})(?![\w/])", _slashed),
    (r"(?<![\w.-])(?:\d{4}[ -]){3}\d{1,4}(?![\w-])", _digits),
    (r"(?<![\w.])(?:\+\d{1,3}[ .-]?)?\(\d{2,4}\)[ .-]?\d{2,4}(?:[ .-]\d{2,4}){0,3}(?![\w-])", _digits),
    (r"(?<![\w.])\+\d{1,3}(?:[ .-]\d{2,4}){2,5}(?![\w-])", _digits),
    (r"(?<![\w.-])\d{3}[ .-]\d{3}[ .-]\d{4}(?![\w-])", _digits),
    (r"(?<![\w.-])\d+(?:-\d+){2,}(?![\w-])", _digits),
    (r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)", _dotted_quad),
    (r"(?<![\w.])(?P<v>[vV]\.? ?)?(?P<numbers>\d+(?:\.\d+){2,})(?!\w)", _version),
    (r"(?<![\w.])(?P<v>[vV])(?P<numbers>\d+(?:\.\d+)?)(?!\w)", _version),
    (r"(?<![\w.,])[1-9]\d{0,2}(?: \d{3}){2,}(?![\w,])", lambda match: match[0].replace(" ", "")),
    (r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([+-]?\d{1,3})(?!\w)", _scientific),
    (rf"({_SIGN})(\d+),(\d\d)(?![\d,])", _money_with_comma),
    (rf"(?<![\w.])(\d+),(\d\d?)(?=\s?{_SIGN})", r"\1.\2"),
    (r"(?<![\w.,])(\d{1,3}),(\d\d?)(?=\s?(?:[%°]|(?:k?m|[cm]m|[km]?g|m?[lL]|h|s|t|million|billion)\b))", r"\1.\2"),
    (r"\b(?:US|U\.S\.)(?=\$\s?\d)", ""),
    (rf"({_SIGN})\s(?=\d)", r"\1"),
    (rf"({_SIGN}{_NUMBER})\s?[-–]\s?(?={_SIGN}\d)", r"\1 to "),
    (rf"({_SIGN})({_NUMBER})\s?[-–]\s?({_NUMBER})(?!\w|\.\d)", _money_range),
    (rf"(?<![\w.])({_NUMBER})\s?({_SIGN})(?!\s?\d)", _sign_after),
    (r"(?<![\w.:/])00:00(?::00)?(?![\d:])", "midnight"),
    (r"(?<=\d)\s?([ap])\.?m\b\.?\s?[-–]\s?(?=\d)", lambda match: f" {match[1].upper()}.M. to "),
    (r"(?<=\d)\s?([ap])m\b(\.?)", lambda match: f" {match[1].upper()}.M."),
    (r"(?<![\d:])(\d\d?:\d\d)\s?[-–]\s?(?=\d\d?:\d\d)", r"\1 to "),
    (rf"(?<![\w.-])({_NUMBER})\s?[-–]\s?({_NUMBER})(?=\s?(?:[%°]|(?:{_UNIT_NAMES})(?!\w)))", r"\1 to \2"),
    (r"(?<![\w.-])(\d+\.\d+)\s?[-–]\s?(\d+(?:\.\d+)?)(?![\w.-])", r"\1 to \2"),
    (r"(?<![\w.])(\d+)'\s?(\d{1,2})\"", r"\1 feet \2 inches"),
    (r"(?<![\w.])(\d+)'(?= (?:tall|high|long|wide|deep)\b)", r"\1 feet"),
    (r"^([^\"]*(?<![\w.])\d+)\"(?=[^\"]*$)( [a-z]|)", _inches),
    (rf"(?<![\w.,$£€¥₹₩])(?P<number>-?{_NUMBER})\s?(?P<unit>{_UNIT_NAMES})(?![\w'/^])", _unit),
    (r"(?<![\w.$£€¥₹₩])(\d+(?:\.\d+)?)([kMB])\b", lambda match: f"{match[1]} {_SCALES[match[2]]}"),
    (r"(?<![\w.,:/-])0\d+(?![\w,:/.-]*\d)", _digits),
    (r"\d{13,}|\d{1,3}(?:,\d{3}){6,}", _digit_groups),
    (r"(?<=\d),(?=\d)(?!\d{3}(?!\d))", ", "),
    (r"\^2(?!\d)", " squared"),
    (r"\^3(?!\d)", " cubed"),
)
_WORDS = _rules(
    (
        rf"(?<![\w.])(?:{'|'.join(re.escape(word) for word in sorted(SPECIAL, key=len, reverse=True))})(?!\w)",
        lambda match: SPECIAL[match[0]],
    ),
    (rf"\b({'|'.join(ABBREVIATIONS_THAT_ARE_WORDS)})\.(?!\s?\d)", r"\1 ."),
    (rf"(?<![^\W\d_])[{''.join(GREEK)}](?![^\W\d_])", lambda match: f" {GREEK[match[0]]} "),
    (r"(?<=\w) ?→ ?(?=\w)", " to "),
    (r"→", " "),
    (r"≈(?=\s?\d)", "about "),
    (r"≤", " at most "),
    (r"≥", " at least "),
    (r"≠", " is not equal to "),
    (r"√(?=\s?\w)", " the square root of "),
    (r"∞", " infinity "),
    (r"[√≈μ•]", " "),
    (r"(?<=\d) ?\* ?(?=\d)", " times "),
    (r"(?<=[^\W\d_])([,;:!?])(?=[^\W\d_])", r"\1 "),
    (r"(?<!\d) -{1,3} |(?<=\w)-{2,3}(?=\w)", " — "),
    (r"(?<!\w)(?:[/\\~^]|[-=+]{2,})(?!\w)", " "),
    (r"(?<!\w)@(?=\w)", "at "),
    (rf"\S{{{_LONGEST_RUN},}}", _pieces_of(_LONGEST_RUN)),
)
_RULES = [*_MARKS, *_ADDRESSES, *_NUMBERS, *_WORDS]
