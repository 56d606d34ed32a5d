"""Markup that is heard, not read: Markdown, a set of SSML, and the tags and entities of web pages.

SSML: <speak>, <p>, <s>, <break time="500ms" or strength="strong">, <sub alias="...">, <phoneme ph="IPA">,
<say-as interpret-as="characters">, <prosody rate="slow">, <voice name="...">, and <lexicon> with its <lexeme>s inside.
Other tags are dropped and their content is read; a `<` that opens no tag is text.
Source: W3C Speech Synthesis Markup Language 1.1, section 3; Pronunciation Lexicon Specification 1.0, section 4, for
what stands in a lexicon; CommonMark 0.31 for the Markdown that people write.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from cloning.errors import TextRefused
from cloning.text.folding import purge
from cloning.text.ipa import symbols_of_ipa
from cloning.text.markdown import code_blocks, plain
from cloning.text.marked import (
    MAX_BREAK_S,
    PLAIN,
    Manner,
    MarkedText,
    Said,
    break_character,
    manner_character,
    said_character,
)
from cloning.text.say_as import words_as
from cloning.text.spans import Enclosed, Span, blanked
from cloning.text.tags import NOT_TEXT, TAG, Piece, Tag, attribute, inside, moved, pieces_of, refuse, text_of, unescaped

LEXICONS = Enclosed(
    re.compile(r"(?P<lexicon><lexicon\b[^<>]*(?<!/)>)", re.I), {"lexicon": re.compile(r"</lexicon\s*>", re.I)}
)
_TIME = re.compile(r"\+?(\d+(?:\.\d+)?|\.\d+)(ms|s)")
_STRENGTH_S = {"none": 0.0, "x-weak": 0.05, "weak": 0.1, "medium": 0.25, "strong": 0.5, "x-strong": 1.0}
_RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.5, "x-fast": 2.0}
_RATE = re.compile(r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d+)?|\.\d+)(?P<percent>%?)")
RATE_RANGE = (0.25, 4.0)
_ENDS_A_PARAGRAPH = frozenset(("p", "div", "ul", "ol", "table", "blockquote", "pre", *(f"h{n}" for n in range(1, 7))))
_ENDS_A_LINE = frozenset(("s", "br", "li", "tr", "dt", "dd", "hr"))
MAX_SILENCE_S = 60.0
_CONTENT_REPLACED = frozenset(("sub", "phoneme", "say-as", "lexicon"))
_MANNERED = frozenset(("prosody", "voice"))
_MAX_NAME_CHARS = 200


def parse(text: str) -> MarkedText:
    """The text to be read: its pauses, given words and changes of manner as characters of their own.

    Raises: TextRefused `bad_markup`, with the element and its place, where SSML is not closed or cannot be read.
    """
    pieces = list(pieces_of(text))
    _check_speak(pieces)
    reader = _Reader()
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        if isinstance(piece, Tag) and piece.name in _CONTENT_REPLACED and not piece.closes:
            content, at = inside(pieces, at)
            reader.replace(piece, content)
        else:
            reader.read(piece)
        at += 1
    return reader.finished()


def voices_of(text: str) -> dict[str, int]:
    """The names that `<voice>` elements of the text say, with the place of each one's first."""
    found: dict[str, int] = {}
    for piece in pieces_of(text) if "<voice" in text.lower() else ():
        if isinstance(piece, Tag) and piece.name == "voice" and not piece.closes:
            found.setdefault(attribute(piece, "name"), piece.at)
    return found


def lexicon_of(text: str) -> dict[str, str]:
    """What `<lexicon>` elements of the text say, for those who read it in parts. Raises: as `parse`."""
    found: dict[str, str] = {}
    for start, stop in LEXICONS.spans(text):
        try:
            found.update(parse(text[start:stop]).lexicon)
        except TextRefused as error:
            raise moved(error, start) from None
    return found


def unmarked(text: str) -> MarkedText:
    """The text as it stands, for callers whose text holds no markup."""
    return MarkedText(purge(text))


def unread_as_spaces(text: str) -> str:
    """The text, as long as before, with spaces where comments, tags and code blocks stand."""
    for spans in (NOT_TEXT.spans, LEXICONS.spans, _spans_of_tags, code_blocks):
        text = blanked(text, spans(text))
    return text


def _spans_of_tags(text: str) -> Iterator[Span]:
    return (match.span() for match in TAG.finditer(text))


def shown(text: str) -> str:
    """The text as it is shown to a reader: without tags and Markdown's signs, its entities decoded."""
    return plain(purge(unescaped(unread_as_spaces(text))))


@dataclass(slots=True)
class _Reader:
    """Puts what is heard together, tag by tag."""

    out: list[str] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    manners: list[Manner] = field(default_factory=lambda: [PLAIN])
    lexicon: dict[str, str] = field(default_factory=dict)
    # Elements that are open and change the manner, with the manner before each.
    open: list[tuple[Tag, int]] = field(default_factory=list)
    now: int = 0
    silence_s: float = 0.0

    def read(self, piece: Piece) -> None:
        if isinstance(piece, str):
            self.out.append(piece)
        elif piece.name in _MANNERED:
            self._change_manner(piece)
        elif piece.name == "break" and not piece.closes:
            self._pause(piece)
        else:
            self.out.append(_heard(piece))

    def replace(self, tag: Tag, content: list[Piece]) -> None:
        """Reads an element whose content is not read as it stands."""
        if tag.name == "lexicon":
            self.lexicon.update(_lexemes(tag, content))
        elif tag.name == "sub":
            self.out.append(attribute(tag, "alias"))
        elif tag.name == "say-as":
            self.out.append(self._said_as(tag, text_of(content)))
        else:
            self.out.append(self._given(text_of(content).strip(), attribute(tag, "ph"), tag))

    def finished(self) -> MarkedText:
        if self.open:
            tag, _ = self.open[-1]
            refuse(tag, f"is not closed; add </{tag.name}>")
        return MarkedText(plain("".join(self.out)), tuple(self.said), tuple(self.manners), self.lexicon)

    def _change_manner(self, tag: Tag) -> None:
        if tag.is_empty:
            return
        if not tag.closes:
            self.open.append((tag, self.now))
            self.manners.append(_manner(tag, self.manners[self.now]))
            self._go_on(len(self.manners) - 1)
        elif self.open and self.open[-1][0].name == tag.name:
            self._go_on(self.open.pop()[1])
        else:
            refuse(tag, f"closes nothing; write <{tag.name} ...> before it, and close what is between them")

    def _go_on(self, manner: int) -> None:
        # A sentence is cut where its manner changes, and nowhere else.
        if self.manners[manner] != self.manners[self.now]:
            self.out.append(manner_character(manner))
        self.now = manner

    def _pause(self, tag: Tag) -> None:
        """A short text must not ask for minutes of silence."""
        pause_s = _break_s(tag)
        self.silence_s += pause_s
        if self.silence_s > MAX_SILENCE_S:
            refuse(
                tag, f"makes {self.silence_s:g} s of breaks; the limit is {MAX_SILENCE_S:g} s", limit_s=MAX_SILENCE_S
            )
        self.out.append(break_character(pause_s))

    def _given(self, word: str, ipa: str, tag: Tag) -> str:
        if tag.attributes.get("alphabet", "ipa") != "ipa":
            refuse(tag, "takes alphabet='ipa' only")
        symbols, unknown = symbols_of_ipa(ipa)
        if unknown or not symbols:
            letters = " ".join(unknown) or "none at all"
            refuse(tag, f"has letters that are not IPA of this language: {letters}", unknown=list(unknown))
        self.said.append(Said(word or ipa, symbols))
        return said_character(len(self.said) - 1)

    def _said_as(self, tag: Tag, content: str) -> str:
        kind = attribute(tag, "interpret-as").lower()
        try:
            words = words_as(kind, content, tag.attributes.get("format", "").lower())
        except ValueError as error:
            refuse(tag, str(error))
        # The letter, and not the article.
        return " ".join(self._given("A", "ˈeɪ", replace(tag, attributes={})) if word == "A" else word for word in words)


def _check_speak(pieces: list[Piece]) -> None:
    opened: list[Tag] = []
    for piece in pieces:
        if isinstance(piece, Tag) and piece.name == "speak" and not piece.is_empty:
            if piece.closes and not opened:
                refuse(piece, "and </speak> do not match; close each <speak>")
            if piece.closes:
                opened.pop()
            else:
                opened.append(piece)
    if opened:
        refuse(opened[-1], "and </speak> do not match; close each <speak>")


def _manner(tag: Tag, around: Manner) -> Manner:
    if tag.name == "voice":
        name = attribute(tag, "name")
        if len(name) > _MAX_NAME_CHARS:
            refuse(tag, f"has a name of {len(name)} characters; the limit is {_MAX_NAME_CHARS}")
        return replace(around, voice=name)
    return replace(around, rate=_rate(tag, around.rate)) if "rate" in tag.attributes else around


def _rate(tag: Tag, around: float) -> float:
    """A word or a number stands for itself, a percentage is of the rate around it, as +20% and -20% are."""
    said = tag.attributes["rate"].strip().lower()
    match = _RATE.fullmatch(said)
    if said not in _RATES and (match is None or (match["sign"] and not match["percent"])):
        refuse(tag, f"takes rate={'|'.join(_RATES)}, 80%, +20% or 0.8; got {said[:40]!r}")
    rate = _RATES.get(said, 0.0)
    if match is not None:
        number = float(match["number"]) / (100 if match["percent"] else 1)
        number = {"+": 1 + number, "-": 1 - number}.get(match["sign"], number)
        rate = number * around if match["percent"] else number
    slowest, fastest = RATE_RANGE
    if not slowest <= rate <= fastest:
        refuse(tag, f"makes a rate of {rate:g}; it goes from {slowest:g} to {fastest:g}", limits=list(RATE_RANGE))
    return rate


def _lexemes(tag: Tag, content: list[Piece]) -> Iterator[tuple[str, str]]:
    """Words and how they are said, of a lexicon that is written out in the text."""
    if "uri" in tag.attributes:
        refuse(tag, "fetches nothing; write its <lexeme>s between <lexicon> and </lexicon>")
    at = 0
    while at < len(content):
        piece = content[at]
        if isinstance(piece, Tag) and piece.name == "lexeme" and not piece.closes:
            within, at = inside(content, at)
            yield from _lexeme(piece, within)
        at += 1


def _lexeme(tag: Tag, content: list[Piece]) -> Iterator[tuple[str, str]]:
    parts: dict[str, list[str]] = {"grapheme": [], "alias": [], "phoneme": []}
    at = 0
    while at < len(content):
        piece = content[at]
        if isinstance(piece, Tag) and piece.name in parts and not piece.closes:
            within, at = inside(content, at)
            parts[piece.name].append(text_of(within).strip())
        at += 1
    said = [*(f"/{ipa}/" for ipa in parts["phoneme"]), *parts["alias"]]
    if not said or not parts["grapheme"]:
        refuse(tag, "needs a <grapheme>, and a <phoneme> or an <alias>")
    yield from ((word, said[0]) for word in parts["grapheme"])


def _heard(tag: Tag) -> str:
    if tag.name in _ENDS_A_PARAGRAPH:
        return "\n\n"
    if tag.name in ("td", "th"):
        return ", " if tag.closes else ""
    return "\n" if tag.name in _ENDS_A_LINE else ""


def _break_s(tag: Tag) -> float:
    time = _TIME.fullmatch(tag.attributes.get("time", "").strip())
    strength = tag.attributes.get("strength", "medium")
    if ("time" in tag.attributes and time is None) or strength not in _STRENGTH_S:
        got = tag.attributes.get("time", strength)[:40]
        refuse(tag, f"takes time='500ms' or '1.5s', or strength={'|'.join(_STRENGTH_S)}; got {got!r}")
    pause_s = _STRENGTH_S[strength] if time is None else float(time[1]) / (1000 if time[2] == "ms" else 1)
    if pause_s > MAX_BREAK_S:
        refuse(tag, f"of {pause_s:g} s is longer than the limit of {MAX_BREAK_S:g} s", limit_s=MAX_BREAK_S)
    return pause_s
