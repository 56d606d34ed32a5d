"""Markup that is heard, not read: Markdown, a small set of SSML, and the tags and entities of web pages.

SSML: <speak>, <p>, <s>, <break time="500ms" or strength="strong">, <sub alias="...">, <phoneme ph="IPA">. Other tags
are dropped and their content is read; a `<` that opens no tag is text.
Source: W3C Speech Synthesis Markup Language 1.1, section 3; CommonMark 0.31 for the Markdown that people write.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from cloning.errors import TextRefused
from cloning.text.folding import purge
from cloning.text.ipa import symbols_of_ipa
from cloning.text.markdown import FENCE, plain
from cloning.text.marked import MAX_BREAK_S, MarkedText, Said, break_character, said_character

_ATTRIBUTE = r"[\w:-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=]+)"
_TAG = re.compile(rf"<(?P<close>/?)(?P<name>[A-Za-z][\w:-]*)(?P<attributes>(?:\s+{_ATTRIBUTE})*)\s*(?P<empty>/?)>")
_ATTRIBUTES = re.compile(r"([\w:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|(\S+))")
_NOT_TEXT = re.compile(r"<!--.*?-->|<\?.*?\?>|<!DOCTYPE[^>]*>|<(script|style)\b[^<>]*>.*?</\1\s*>", re.DOTALL | re.I)
_TIME = re.compile(r"\+?(\d+(?:\.\d+)?|\.\d+)(ms|s)")
_STRENGTH_S = {"none": 0.0, "x-weak": 0.05, "weak": 0.1, "medium": 0.25, "strong": 0.5, "x-strong": 1.0}
_ENDS_A_PARAGRAPH = frozenset(("p", "div", "ul", "ol", "table", "blockquote", "pre", *(f"h{n}" for n in range(1, 7))))
_ENDS_A_LINE = frozenset(("s", "br", "li", "tr", "dt", "dd", "hr"))
MAX_SILENCE_S = 60.0
_CONTENT_REPLACED = frozenset(("sub", "phoneme"))


@dataclass(frozen=True, slots=True)
class _Tag:
    name: str
    attributes: dict[str, str]
    closes: bool
    is_empty: bool


def parse(text: str) -> MarkedText:
    """The text to be read, its pauses as break characters and its given words as said characters.

    Raises: TextRefused `bad_markup` where SSML is not closed, or an attribute cannot be read.
    """
    said: list[Said] = []
    pieces = list(_pieces(_NOT_TEXT.sub(" ", purge(text))))
    _check_speak(pieces)
    out: list[str] = []
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        if isinstance(piece, _Tag) and piece.name in _CONTENT_REPLACED and not piece.closes:
            inside, at = _inside(pieces, at)
            out.append(_replacement(piece, inside, said))
        else:
            out.append(piece if isinstance(piece, str) else _heard(piece))
        at += 1
    _check_silence(pieces)
    return MarkedText(plain("".join(out)), tuple(said))


def unmarked(text: str) -> MarkedText:
    """The text as it stands, for callers whose text holds no markup."""
    return MarkedText(purge(text))


def unread_as_spaces(text: str) -> str:
    """The text, as long as before, with spaces where comments, tags and code blocks stand."""
    for pattern in (_NOT_TEXT, _TAG, FENCE):
        text = pattern.sub(lambda match: " " * len(match[0]), text)
    return text


def shown(text: str) -> str:
    """The text as it is shown to a reader: without tags and Markdown's signs, its entities decoded."""
    return plain(purge(html.unescape(unread_as_spaces(text))))


def _pieces(text: str) -> Iterator[str | _Tag]:
    at = 0
    for match in _TAG.finditer(text):
        yield purge(html.unescape(text[at : match.start()]))
        at = match.end()
        attributes = {
            name.lower(): html.unescape(double or single or bare)
            for name, double, single, bare in _ATTRIBUTES.findall(match["attributes"])
        }
        yield _Tag(match["name"].lower(), attributes, bool(match["close"]), bool(match["empty"]))
    yield purge(html.unescape(text[at:]))


def _check_silence(pieces: list[str | _Tag]) -> None:
    """A short text must not ask for minutes of silence."""
    total_s = sum(_break_s(tag) for tag in pieces if isinstance(tag, _Tag) and tag.name == "break" and not tag.closes)
    if total_s > MAX_SILENCE_S:
        message = f"text: its <break>s are {total_s:g} s in all; the limit is {MAX_SILENCE_S:g} s"
        raise TextRefused("bad_markup", message, field="text", limit_s=MAX_SILENCE_S)


def _check_speak(pieces: list[str | _Tag]) -> None:
    depth = 0
    for piece in pieces:
        if isinstance(piece, _Tag) and piece.name == "speak" and not piece.is_empty:
            depth += -1 if piece.closes else 1
            if depth < 0:
                break
    if depth:
        raise TextRefused("bad_markup", "text: <speak> and </speak> do not match; close each <speak>", field="text")


def _inside(pieces: list[str | _Tag], start: int) -> tuple[str, int]:
    """The text between an opening tag and its closing one, and where that is."""
    tag = pieces[start]
    if not isinstance(tag, _Tag) or tag.is_empty:
        return "", start
    for at in range(start + 1, len(pieces)):
        piece = pieces[at]
        if isinstance(piece, _Tag) and piece.closes and piece.name == tag.name:
            return "".join(part for part in pieces[start + 1 : at] if isinstance(part, str)), at
    raise TextRefused("bad_markup", f"text: <{tag.name}> is not closed; add </{tag.name}>", field="text")


def _replacement(tag: _Tag, inside: str, said: list[Said]) -> str:
    if tag.name == "sub":
        return _attribute(tag, "alias")
    if tag.attributes.get("alphabet", "ipa") != "ipa":
        raise TextRefused("bad_markup", "text: <phoneme> takes alphabet='ipa' only", field="text")
    ipa = _attribute(tag, "ph")
    symbols, unknown = symbols_of_ipa(ipa)
    if unknown or not symbols:
        letters = " ".join(unknown) or "none at all"
        message = f"text: <phoneme ph='{ipa}'> has letters that are not IPA of this language: {letters}"
        raise TextRefused("bad_markup", message, field="text", unknown=list(unknown))
    said.append(Said(inside.strip() or ipa, symbols))
    return said_character(len(said) - 1)


def _attribute(tag: _Tag, name: str) -> str:
    value = purge(tag.attributes.get(name, "")).strip()
    if not value:
        raise TextRefused("bad_markup", f"text: <{tag.name}> needs {name}='...'", field="text")
    return value


def _heard(tag: _Tag) -> str:
    if tag.name == "break" and not tag.closes:
        return break_character(_break_s(tag))
    if tag.name in _ENDS_A_PARAGRAPH:
        return "\n\n"
    if tag.name in ("td", "th"):
        return ", " if tag.closes else ""
    return "\n" if tag.name in _ENDS_A_LINE else ""


def _break_s(tag: _Tag) -> float:
    time = _TIME.fullmatch(tag.attributes.get("time", "").strip())
    strength = tag.attributes.get("strength", "medium")
    if ("time" in tag.attributes and time is None) or strength not in _STRENGTH_S:
        expected = f"time='500ms' or '1.5s', or strength={'|'.join(_STRENGTH_S)}"
        raise TextRefused("bad_markup", f"text: <break> takes {expected}; got {tag.attributes}", field="text")
    pause_s = _STRENGTH_S[strength] if time is None else float(time[1]) / (1000 if time[2] == "ms" else 1)
    if pause_s > MAX_BREAK_S:
        message = f"text: <break> of {pause_s:g} s is longer than the limit of {MAX_BREAK_S:g} s"
        raise TextRefused("bad_markup", message, field="text", limit_s=MAX_BREAK_S)
    return pause_s
