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
# A word on either side of a mark is no longer, as far as it matters.
_FAR = 60
_EMPHASIS = "*_`~"
_CLOSING = f"\"')\\]”’»{_EMPHASIS}"
_END = re.compile(rf"(?P<mark>[.?!…]+)(?P<closing>[{_CLOSING}]*)(?=\s)|\n")
_CLAUSE_END = re.compile(rf"(?P<mark>[,;:—–]|[.?!…]+)[{_CLOSING}]*(?=\s|$)")
_LEADING_BREAKS = re.compile(rf"\s*[{BREAK_CHARACTERS}][{BREAK_CHARACTERS}\s]*")
_SPACE = re.compile(r"\s")
_AFTER_WORD = re.compile(r"[^\w'.]")
# The number of an item, which only begins its line.
_NUMBERED = re.compile(r"\s*(?:>\s*)*\d{1,3}")
_OPEN_TAG = re.compile(r"<[A-Za-z/!?][^<>\n]*$")
_OPEN_ADDRESS = re.compile(r"\]\([^()\s]*$")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_HELD = ("sub", "phoneme", "say-as", "prosody", "emphasis", "voice", "lexicon", "script", "style")
_ELEMENT = re.compile(rf"<(?P<close>/?)(?:{'|'.join(_HELD)})\b[^<>]*?(?P<empty>/?)>", re.I)
# So many ends of clauses are looked at, from the last one on, before a text counts as one that has none.
_MOST_CLAUSES = 40


class GrowingText:
    """Takes a text in pieces and gives its slices; of what is not sure it gives what it is asked for."""

    def __init__(self) -> None:
        self._text = ""
        # Up to here nothing that comes can make a slice end any more.
        self._seen = 0

    def __len__(self) -> int:
        """How many characters wait."""
        return len(self._text)

    def push(self, piece: str) -> None:
        self._text += piece

    def sure(self) -> str:
        """The next slice that is sure: a sentence, a line, or a part of a very long one; "" where there is none."""
        at, self._seen = _next_end(self._text, self._seen)
        return self._cut(at)

    def clause(self) -> str:
        """What can be said where nothing comes for a while: all up to the end of a clause; "" for none."""
        return self._cut(_last_clause(self._text))

    def rest(self) -> str:
        """All that waits."""
        return self._cut(len(self._text))

    def _cut(self, at: int | None) -> str:
        if not at:
            return ""
        taken, self._text, self._seen = self._text[:at], self._text[at:], 0
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


def _next_end(text: str, seen: int) -> tuple[int | None, int]:
    """Where the first slice that is sure ends, None where more is needed to tell; and the place before which none does.

    One that would be too long is cut; where it cannot be cut it ends at the first place after that.
    """
    for match in _END.finditer(text, seen):
        at = match.end() if match["mark"] else match.start()
        if at > LONGEST >= seen:
            break
        is_end = _sentence_ends(text, match) if match["mark"] else _line_ends(text, at)
        if is_end is None:
            return None, match.start()
        if is_end and text[:at].strip() and _is_whole(text, at):
            return at, 0
    if len(text) > LONGEST >= seen:
        forced = _forced_end(text)
        return (forced, 0) if forced is not None else _next_end(text, LONGEST + 1)
    return None, max((match.end() for match in _SPACE.finditer(text, seen)), default=seen)


def _sentence_ends(text: str, match: re.Match[str]) -> bool | None:
    """Whether a sentence ends at a mark; None where that is not sure yet."""
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    if _NUMBERED.fullmatch(line):
        return False
    after = text[match.end() : match.end() + _FAR].lstrip(" \t\r")
    if after.startswith("\n"):
        return True
    is_told = _AFTER_WORD.search(after) or len(text) >= match.end() + _FAR
    following = [fold(after)] if is_told else _FOLLOWING
    closing = match["closing"].strip(_EMPHASIS)
    answers = {ends_sentence(fold(line[-_FAR:]), fold(match["mark"]), closing, words) for words in following}
    return answers.pop() if len(answers) == 1 else None


def _line_ends(text: str, at: int) -> bool | None:
    """Whether a sentence ends with its line, which it does not where a mail program wrapped it."""
    line = text[text.rfind("\n", 0, at) + 1 : at].rstrip(" ")
    if len(line) < WRAPPED_AT or line.endswith((".", "?", "!", ":", ";")):
        return True
    return None if at + 1 == len(text) else not "a" <= text[at + 1] <= "z"


def _last_clause(text: str) -> int | None:
    last = list(_CLAUSE_END.finditer(text))[: -_MOST_CLAUSES - 1 : -1]
    ends = (match.end() for match in last if _clause_ends(text, match))
    return next((at for at in ends if re.search(r"\w", text[:at]) and _is_whole(text, at)), None)


def _clause_ends(text: str, match: re.Match[str]) -> bool:
    """Whether a clause can end at a mark, as far as is known."""
    before, mark = text[text.rfind("\n", 0, match.start()) + 1 : match.start()], match["mark"]
    if _NUMBERED.fullmatch(before) or (match.end() == len(text) and before[-1:].isdigit()):
        return False
    return mark in ",;:—–" or any(ends_sentence(fold(before[-_FAR:]), fold(mark), "", words) for words in _FOLLOWING)


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
    if "<" in text and _n_open(text) > 0:
        return False
    line = text[text.rfind("\n") + 1 :].replace("```", "")
    is_open = line.count("`") % 2 or line.count("**") % 2 or line.rfind("[") > line.rfind("]")
    return not (is_in_line and (is_open or _OPEN_ADDRESS.search(line)))


def _n_open(text: str) -> int:
    """How many elements are open at the end of the text."""
    tags = [match for match in _ELEMENT.finditer(text) if not match["empty"]]
    return sum(-1 if match["close"] else 1 for match in tags)
