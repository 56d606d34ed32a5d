"""Roman numerals after the words that make them numbers: 'Chapter IV' is four, 'Henry VIII' is the eighth."""

import re

from cloning.text.english_words import STARTERS

_COUNTED = (
    "chapter|part|act|scene|section|volume|vol|book|phase|article|war|mark|type|level|stage|class|grade|bowl|apollo|gemini"
    "|fantasy|episode|round|rocky|table|figure|fig|appendix|title|division|tier|schedule|group|model|version|category|unit"
    "|step|area|zone|lesson|exercise|note|season|option|plan|annex|psalm|canto|wars|olympiad|quarter"
)
# After these a single letter is a number too; "Type C", "Group V" and "Malcolm X" are letters.
_CHAPTERS = "Chapter|Part|Act|Scene|Section|Volume|Book|Phase|Article|War|Episode|Canto|Title|Apollo|Gemini|Rocky"
_RULERS = (
    "Pope|King|Queen|Henry|Louis|Edward|George|William|Charles|James|Richard|Elizabeth|Napoleon|Pius|Benedict|Leo|Paul"
    "|Ramses|Ramesses|Frederick|Philip|Alexander|Nicholas|Peter|Catherine|Ivan|Umberto|Gustav|Ferdinand|Francis|Mary"
    "|Leopold|Wilhelm|Clement|Gregory|Innocent|Urban|Alfonso|Carlos|Otto|Olaf|Harald"
)
_NUMERAL = "(?=[IVXLC])C{0,3}(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
_SEVERAL = f"(?=[IVXLC]{{2}}){_NUMERAL}"
_ENDS = r"(?![\w-]|'(?!s\b)|\.\w|\. [A-Z])"
# "James I, King" and "James I of Scotland", but not "James I think".
_FIRST_ENDS = r"(?=[,;:!?)]|\.?$|'s\b| (?:of|and|had|died|became|ruled)\b)"
_RULES = (
    re.compile(rf"\b(?P<counted>(?i:{_COUNTED})) (?P<numeral>{_SEVERAL}){_ENDS}"),
    re.compile(rf"\b(?P<counted>{_CHAPTERS}) (?P<numeral>[IVX]){_ENDS}"),
    re.compile(rf"\b(?P<name>{_RULERS}) (?P<numeral>[VX]){_ENDS}"),
    re.compile(rf"\b(?P<name>{_RULERS}) (?P<numeral>I){_FIRST_ENDS}"),
    re.compile(rf"\b(?P<name>[A-Z][a-z]+) (?P<numeral>(?=[IVX]{{2}})X{{0,3}}(?:IX|IV|V?I{{0,3}})){_ENDS}"),
)
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
    *("eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth"),
    *("nineteenth", "twentieth"),
)
_TENS = {20: "twenty", 30: "thirty"}


def read_roman(text: str) -> str:
    """The text with Roman numerals as numbers; words made of numeral letters stay words."""
    for rule in _RULES:
        text = rule.sub(_read, text)
    return text


def _read(match: re.Match[str]) -> str:
    value = value_of(match["numeral"])
    names = match.groupdict()
    if counted := names.get("counted"):
        return f"{counted} {value}"
    name = match["name"]
    return match[0] if name in STARTERS else f"{name} the {_ordinal(value)}"


def value_of(numeral: str) -> int:
    """The value of a numeral in letters up to C."""
    values = [_VALUES[letter] for letter in numeral]
    following = [*values[1:], 0]
    return sum(-value if value < later else value for value, later in zip(values, following, strict=True))


def _ordinal(value: int) -> str:
    if value <= len(_ORDINALS):
        return _ORDINALS[value - 1]
    if value == 30:
        return "thirtieth"
    tens = value // 10 * 10
    return f"{_TENS[tens]}-{_ORDINALS[value - tens - 1]}" if tens in _TENS else f"{value}th"
