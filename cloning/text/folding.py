"""One way to write each character: whatever a keyboard or a web page produced, folded to what a reader knows."""

import re
import unicodedata

from cloning.text.marked import is_ours

_LINE_BREAKS = str.maketrans(
    {"\r": "\n", "\v": "\n", "\f": "\n\n", "\x85": "\n", "\u2028": "\n", "\u2029": "\n\n", "\t": " "}
)
_PURGED = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
_BEFORE_NFKC = str.maketrans(
    {"№": " number ", "℮": "", "™": "", "®": "", "©": "copyright ", "…": "...", "µ": "μ", "º": "°"}
)
_AFTER_NFKC = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛ʼʻˈ′`´＇ꞌ", "'"),
        **dict.fromkeys("“”„‟«»″〝〞〟＂", '"'),
        **dict.fromkeys("‹›", "'"),
        **dict.fromkeys("‐‑⁃˗﹣", "-"),
        **dict.fromkeys("−﹘", "-"),
        **dict.fromkeys("‒–", "–"),
        **dict.fromkeys("―⸺⸻﹙", "—"),
        **dict.fromkeys("∕⁄", "/"),
        **dict.fromkeys("。｡", ". "),
        **dict.fromkeys("、،", ", "),
        **dict.fromkeys("؛", "; "),
        **dict.fromkeys("؟¿", "? "),
        **dict.fromkeys("¡", ""),
        **dict.fromkeys("∗⁎", "*"),
        **dict.fromkeys("•‣◦∙·", "•"),
        "Ɡ": "G",
        # The one letter whose small form is two characters; the reader of words cannot take that.
        "İ": "I",
        "ﬅ": "st",
    }
)
_KEPT_SYMBOLS = frozenset("$£€¥₹₩¢°±×÷§=<>+~^|→≈≤≥≠√∞μ•")
_GROUPED_DIGITS = re.compile("(?<=\\d)[\u00a0\u202f\u2009\u2007](?=\\d{3}(?!\\d))")
_FRACTION = re.compile("(?<=(\\d))?[¼½¾⅐-⅞]")
_ENCLOSED_DIGIT = re.compile("[①-⓿❶-➓]")
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴-⁹⁻⁺]+")
_SUPERSCRIPT_BASE = re.compile(r"(?:(?<![^\W\d_])[^\W\d_]{1,2}|[\d)\]])$")
_SPACES = re.compile(r"[^\S\n]+")
_MIXED_WORD = re.compile(r"[^\W\d_]+")
_LOOK_ALIKES = str.maketrans(
    "АВЕКМНОРСТУХаеорсухіјѕһԁԛԝІЈЅΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαν", "ABEKMHOPCTYXaeopcyxijshdqwIJSABEZHIKMNOPTYXoav"
)


def purge(text: str) -> str:
    """The text without private, unassigned, lone surrogate and control characters; line ends are `\\n`."""
    lines = text.replace("\r\n", "\n").translate(_LINE_BREAKS)
    return "".join(
        char for char in lines if char == "\n" or (char != "\ufffd" and unicodedata.category(char) not in _PURGED)
    )


def fold(text: str) -> str:
    """A purged text in plain characters: NFKC, straight quotes, ASCII digits, no pictographs, single spaces."""
    text = _GROUPED_DIGITS.sub("", text)
    text = _FRACTION.sub(_spelled_fraction, text)
    text = _ENCLOSED_DIGIT.sub(lambda match: f" {unicodedata.normalize('NFKC', match[0])} ", text)
    text = _SUPERSCRIPTS.sub(_power, text)
    text = unicodedata.normalize("NFKC", text.translate(_BEFORE_NFKC)).translate(_AFTER_NFKC)
    text = _MIXED_WORD.sub(_one_script, text)
    return _SPACES.sub(" ", "".join(_kept(char) for char in text))


def _spelled_fraction(match: re.Match[str]) -> str:
    spelled = unicodedata.normalize("NFKC", match[0]).replace("⁄", "/")
    return f" and {spelled} " if match[1] else f" {spelled} "


def _power(match: re.Match[str]) -> str:
    """'x²' is a power; a raised number after a longer word is a footnote and is not read."""
    if not _SUPERSCRIPT_BASE.search(match.string, max(0, match.start() - 3), match.start()):
        return ""
    digits = unicodedata.normalize("NFKC", match[0]).replace("−", "-")
    return f"^{digits}"


def _one_script(match: re.Match[str]) -> str:
    """Letters of other scripts that look Latin, inside a word that has Latin letters, are Latin."""
    word = match[0]
    return word.translate(_LOOK_ALIKES) if any("a" <= char.lower() <= "z" for char in word) else word


def _kept(char: str) -> str:
    if char < "\x7f" or is_ours(char) or char in _KEPT_SYMBOLS:
        return char
    category = unicodedata.category(char)
    if category == "Nd":
        return str(unicodedata.decimal(char))
    if category[0] == "L":
        return char if ord(char) < 0x180 else _without_marks(char)
    if category[0] == "P":
        return char if char in "–—" else " "
    return "" if category[0] == "M" else " "


def _without_marks(char: str) -> str:
    """A Latin letter that carries marks, without them: no English reader knows what they ask for."""
    base = unicodedata.normalize("NFD", char)[0]
    return base if "LATIN" in unicodedata.name(base, "") else char
