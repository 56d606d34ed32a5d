"""A text that comes in pieces, as somebody writes it, given in slices that can be spoken.

A slice is sure when nothing that may still come could change where it ends: so the slices are the same however the text
is cut on its way. Put together they are the text, to the character.
"""

import re

from cloning.text.folding import fold
from cloning.text.marked import BREAK_CHARACTERS, break_s
from cloning.text.markup import parse
from cloning.text.split import (
    CLAUSE_PAUSE_S,
    LINE_PAUSE_S,
    PARAGRAPH_PAUSE_S,
    SENTENCE_PAUSE_S,
    WRAPPED_AT,
    ends_sentence,
)

# A text without the end of a sentence is cut after so many characters, at a clause or between words.
LONGEST = 500
# What may follow a mark, as far as it decides whether the sentence ends there: one of each kind.
_FOLLOWING = ("and", "7", "Zoe", "The")
_EMPHASIS = "*_`~"
_CLOSING = f"\"')\\]”’»{_EMPHASIS}"
_END = re.compile(rf"(?P<mark>[.?!…]+)(?P<closing>[{_CLOSING}]*)(?=\s)|\n")
_CLAUSE_END = re.compile(rf"(?P<mark>[,;:—–]|[.?!…]+)[{_CLOSING}]*(?=\s|$)")
_LEADING_BREAKS = re.compile(rf"\s*[{BREAK_CHARACTERS}][{BREAK_CHARACTERS}\s]*")
_AFTER_WORD = re.compile(r"[^\w'.]")
# The number of an item, which only begins its line.
_NUMBERED = re.compile(r"\s*(?:>\s*)*\d{1,3}")
_OPEN_TAG = re.compile(r"<[A-Za-z/!?][^<>\n]*$")
_OPEN_ADDRESS = re.compile(r"\]\([^()\s]*$")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_HELD = ("sub", "phoneme", "say-as", "prosody", "emphasis", "voice", "lexicon", "script", "style")
_ELEMENTS = [(re.compile(rf"<{name}\b[^<>]*(?<!/)>", re.I), re.compile(rf"</{name}\s*>", re.I)) for name in _HELD]


class GrowingText:
    """Takes a text in pieces and gives its slices; of what is not sure it gives what it is asked for."""

    def __init__(self) -> None:
        self._text = ""

    def __len__(self) -> int:
        """How many characters wait."""
        return len(self._text)

    def push(self, piece: str) -> None:
        self._text += piece

    def sure(self) -> str:
        """The next slice that is sure: a sentence, a line, or a part of a very long one; "" where there is none."""
        return self._cut(_next_end(self._text))

    def clause(self) -> str:
        """What can be said where nothing comes for a while: all up to the end of a clause; "" for none."""
        return self._cut(_last_clause(self._text))

    def rest(self) -> str:
        """All that waits."""
        return self._cut(len(self._text))

    def _cut(self, at: int | None) -> str:
        taken, self._text = self._text[: at or 0], self._text[at or 0 :]
        return taken


def pause_between(before: str, after: str) -> float:
    """The silence between two slices, in seconds: as long as a `<break>` between them says, else by their border.

    Raises: TextRefused (`bad_markup`).
    """
    if breaks := _LEADING_BREAKS.match(parse(after).text):
        return max(break_s(sign) for sign in breaks[0] if not sign.isspace())
    n_lines = after[: len(after) - len(after.lstrip())].count("\n")
    if n_lines:
        return LINE_PAUSE_S if n_lines == 1 else PARAGRAPH_PAUSE_S
    is_sentence = before.rstrip(f" {_CLOSING}").endswith((".", "?", "!", "…"))
    return SENTENCE_PAUSE_S if is_sentence else CLAUSE_PAUSE_S


def _next_end(text: str) -> int | None:
    """Where the first slice that is sure ends; None where more of the text is needed to tell."""
    for match in _END.finditer(text):
        at = match.end() if match["mark"] else match.start()
        if at > LONGEST:
            break
        is_end = _sentence_ends(text, match) if match["mark"] else _line_ends(text, at)
        if is_end is None:
            return None
        if is_end and text[:at].strip() and _is_whole(text, at):
            return at
    return _forced_end(text) if len(text) > LONGEST else None


def _sentence_ends(text: str, match: re.Match[str]) -> bool | None:
    """Whether a sentence ends at a mark; None where that is not sure yet."""
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    if _NUMBERED.fullmatch(line):
        return False
    after = text[match.end() : match.end() + LONGEST].lstrip(" \t\r")
    if after.startswith("\n"):
        return True
    following = [fold(after)] if _AFTER_WORD.search(after) else _FOLLOWING
    closing = match["closing"].strip(_EMPHASIS)
    answers = {ends_sentence(fold(line), fold(match["mark"]), closing, words) for words in following}
    return answers.pop() if len(answers) == 1 else None


def _line_ends(text: str, at: int) -> bool | None:
    """Whether a sentence ends with its line, which it does not where a mail program wrapped it."""
    line = text[text.rfind("\n", 0, at) + 1 : at].rstrip(" ")
    if len(line) < WRAPPED_AT or line.endswith((".", "?", "!", ":", ";")):
        return True
    return None if at + 1 == len(text) else not "a" <= text[at + 1] <= "z"


def _last_clause(text: str) -> int | None:
    ends = [match.end() for match in _CLAUSE_END.finditer(text) if _clause_ends(text, match)]
    return next((at for at in reversed(ends) if re.search(r"\w", text[:at]) and _is_whole(text, at)), None)


def _clause_ends(text: str, match: re.Match[str]) -> bool:
    """Whether a clause can end at a mark, as far as is known."""
    before, mark = text[text.rfind("\n", 0, match.start()) + 1 : match.start()], match["mark"]
    if _NUMBERED.fullmatch(before) or (match.end() == len(text) and before[-1:].isdigit()):
        return False
    return mark in ",;:—–" or any(ends_sentence(fold(before), fold(mark), "", words) for words in _FOLLOWING)


def _forced_end(text: str) -> int | None:
    """Where a slice ends that would be too long: at a clause, else between words, else anywhere; None inside a tag."""
    head = text[: LONGEST + 1]
    clauses = (at for at in [_last_clause(head)] if at is not None and at <= LONGEST)
    gaps = (match.start() for match in reversed(list(re.finditer(r"\s", head))) if head[: match.start()].strip())
    places = (*clauses, *gaps, LONGEST)
    return next((at for at in places if _is_whole(text, at)), None)


def _is_whole(text: str, at: int) -> bool:
    """Whether no tag, element or code is open at a place, nor, inside a line, emphasis or a link."""
    text, is_in_line = text[:at], text[at : at + 1] != "\n"
    if _OPEN_TAG.search(text) or text.rfind("<!--") > text.rfind("-->") or len(_FENCE.findall(text)) % 2:
        return False
    if any(len(begin.findall(text)) > len(end.findall(text)) for begin, end in _ELEMENTS):
        return False
    line = text[text.rfind("\n") + 1 :].replace("```", "")
    is_open = line.count("`") % 2 or line.count("**") % 2 or line.rfind("[") > line.rfind("]")
    return not (is_in_line and (is_open or _OPEN_ADDRESS.search(line)))
