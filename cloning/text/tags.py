"""A text in tags and what stands between them, and how a tag is refused: by its name and its place."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from cloning.errors import TextRefused
from cloning.text.folding import purge
from cloning.text.spans import Enclosed

_ATTRIBUTE = r"[\w:-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=]+)"
TAG = re.compile(rf"<(?P<close>/?)(?P<name>[A-Za-z][\w:-]*)(?P<attributes>(?:\s+{_ATTRIBUTE})*)\s*(?P<empty>/?)>")
_ATTRIBUTES = re.compile(r"([\w:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|(\S+))")
NOT_TEXT = Enclosed(
    re.compile(
        r"(?P<comment><!--)|(?P<instruction><\?)|(?P<doctype><!DOCTYPE)"
        r"|<(?:(?P<script>script)|(?P<style>style))\b[^<>]*>",
        re.I,
    ),
    {
        "comment": re.compile("-->"),
        "instruction": re.compile(r"\?>"),
        "doctype": re.compile(">"),
        "script": re.compile(r"</script\s*>", re.I),
        "style": re.compile(r"</style\s*>", re.I),
    },
)


# A number of more than seven digits is no character's; Python refuses to read one of thousands.
_REFERENCE = re.compile(r"&#0*([0-9]+)")


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag; `at` is its place in the text that was sent, in code points."""

    name: str
    attributes: dict[str, str]
    closes: bool
    is_empty: bool
    at: int


Piece = str | Tag


def unescaped(text: str) -> str:
    """The text with the characters that its entities stand for."""
    return html.unescape(_REFERENCE.sub(lambda match: f"&#{match[1][:8]}", text))


def pieces_of(text: str) -> Iterator[Piece]:
    """The text and its tags in order; a space where something stands that is neither."""
    at = 0
    for start, stop in NOT_TEXT.spans(text):
        yield from _tags(text, at, start)
        yield " "
        at = stop
    yield from _tags(text, at, len(text))


def _tags(text: str, start: int, stop: int) -> Iterator[Piece]:
    at = start
    for match in TAG.finditer(text, start, stop):
        yield purge(unescaped(text[at : match.start()]))
        at = match.end()
        yield tag_of(match)
    yield purge(unescaped(text[at:stop]))


def tag_of(match: re.Match[str]) -> Tag:
    """The tag that `TAG` found."""
    attributes = {
        name.lower(): purge(unescaped(double or single or bare))
        for name, double, single, bare in _ATTRIBUTES.findall(match["attributes"])
    }
    return Tag(match["name"].lower(), attributes, bool(match["close"]), bool(match["empty"]), match.start())


def inside(pieces: list[Piece], start: int) -> tuple[list[Piece], int]:
    """What stands between an opening tag and its closing one, and where that is.

    Raises: TextRefused (`bad_markup`) where it is not closed.
    """
    tag = pieces[start]
    assert isinstance(tag, Tag)
    if tag.is_empty:
        return [], start
    for at in range(start + 1, len(pieces)):
        piece = pieces[at]
        if isinstance(piece, Tag) and piece.closes and piece.name == tag.name:
            return pieces[start + 1 : at], at
    refuse(tag, f"is not closed; add </{tag.name}>")


def text_of(pieces: list[Piece]) -> str:
    """What stands between the tags."""
    return "".join(piece for piece in pieces if isinstance(piece, str))


def attribute(tag: Tag, name: str) -> str:
    """An attribute that an element needs. Raises: TextRefused (`bad_markup`)."""
    value = tag.attributes.get(name, "").strip()
    if not value:
        refuse(tag, f"needs {name}='...'")
    return value


def refuse(tag: Tag, words: str, **details: object) -> NoReturn:
    """Raises: TextRefused (`bad_markup`), with the element and its place."""
    name = f"</{tag.name}>" if tag.closes else f"<{tag.name}>"
    message = f"text: {name} at character {tag.at}: {words}"
    raise TextRefused("bad_markup", message, field="text", element=tag.name, position=tag.at, **details)


def moved(error: TextRefused, n_chars: int) -> TextRefused:
    """The refusal of a part of a text, as one of the text in which the part begins so many characters on."""
    at = error.details.get("position")
    if not isinstance(at, int):
        return error
    message = error.message.replace(f"at character {at}:", f"at character {at + n_chars}:", 1)
    return TextRefused(error.code, message, **{**error.details, "position": at + n_chars})
