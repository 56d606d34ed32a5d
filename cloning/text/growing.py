"""A text that comes in pieces, as somebody writes it, given in slices that can be spoken.

A slice is sure when nothing that may still come could change where it ends: so the slices are the same however the text
is cut on its way. Put together they are the text, to the character.
"""

import re
from collections import deque

from cloning.text.folding import fold
from cloning.text.marked import BREAK_CHARACTERS, break_s
from cloning.text.markup import parse
from cloning.text.openness import Openness
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
# A run of marks is found once, also where nothing ends with it.
_END = re.compile(rf"(?P<mark>[.?!…]++)(?P<closing>[{_CLOSING}]*+)(?:(?P<ends>(?=\s))|)|\n")
_CLAUSE_END = re.compile(rf"(?P<mark>[,;:—–]|(?<![.?!…])[.?!…]+)[{_CLOSING}]*(?=\s|$)")
_MARK = re.compile("[.?!…]")
_MAY_END = re.compile(rf"[.?!…{_CLOSING}]")
_LEADING_BREAKS = re.compile(rf"\s*[{BREAK_CHARACTERS}][{BREAK_CHARACTERS}\s]*")
_SPACE = re.compile(r"\s")
_AFTER_WORD = re.compile(r"[^\w'.]")
# So much is looked at in one go, so that what is cut off leaves no long rest to be copied.
_AT_ONCE = 4 * LONGEST
# So many ends of clauses are looked at, from the last one on, before a text counts as one that has none.
_MOST_CLAUSES = 40


class GrowingText:
    """Takes a text in pieces and gives its slices; of what is not sure it gives what it is asked for."""

    def __init__(self) -> None:
        self._text = ""
        self._later = deque[str]()
        # Up to here nothing that comes can make a slice end any more.
        self._seen = 0
        # What has been looked at.
        self._told = 0
        self._open = Openness()

    def __len__(self) -> int:
        """How many characters wait."""
        return len(self._text) + sum(map(len, self._later))

    def push(self, piece: str) -> None:
        self._later.extend(piece[at : at + _AT_ONCE] for at in range(0, len(piece), _AT_ONCE))

    def sure(self) -> str:
        """The next slice that is sure: a sentence, a line, or a part of a very long one; "" where there is none."""
        at = self._next()
        while at is None and self._later:
            self._text += self._later.popleft()
            at = self._next()
        return self._cut(at)

    def clause(self) -> str:
        """What can be said where nothing comes for a while: all up to the end of a clause; "" for none."""
        return self._cut(_last_clause(self._all()))

    def rest(self) -> str:
        """All that waits."""
        return self._cut(len(self._all()))

    def _next(self) -> int | None:
        at, self._seen = _next_end(self._text, self._seen, self._told, self._open)
        self._told = len(self._text)
        return at

    def _all(self) -> str:
        self._text = "".join([self._text, *self._later])
        self._later.clear()
        return self._text

    def _cut(self, at: int | None) -> str:
        if not at:
            return ""
        taken, self._text = self._text[:at], self._text[at:]
        self._seen, self._told, self._open = 0, 0, Openness()
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


def _next_end(text: str, seen: int, told: int, open_: Openness) -> tuple[int | None, int]:
    """Where the first slice that is sure ends, None where more is needed to tell; and the place before which none does.

    One that would be too long is cut; where it cannot be cut it ends at the first place after that.
    """
    for match in _END.finditer(text, seen):
        if match["mark"] and match["ends"] is None:
            continue
        at = match.end() if match["mark"] else match.start()
        if at > LONGEST >= seen:
            break
        is_end = _sentence_ends(text, match) if match["mark"] else _line_ends(text, at)
        if is_end is None:
            return None, match.start()
        if is_end and open_.is_whole(text, at) and open_.has_text:
            return at, 0
    if len(text) > LONGEST >= seen:
        forced = _forced_end(text)
        return (forced, 0) if forced is not None else _next_end(text, LONGEST + 1, told, open_)
    return None, _awaited(text, seen, told)


def _awaited(text: str, seen: int, told: int) -> int:
    """Where the marks stand with which the text ends: a sentence may end there, once something follows."""
    start = len(text)
    while start > told and _MAY_END.match(text, start - 1):
        start -= 1
    if start == told and seen < told:
        return seen
    mark = _MARK.search(text, start)
    return max(seen, mark.start() if mark else len(text))


def _sentence_ends(text: str, match: re.Match[str]) -> bool | None:
    """Whether a sentence ends at a mark; None where that is not sure yet."""
    if _is_number(text, match.start()):
        return False
    after = text[match.end() : match.end() + _FAR].lstrip(" \t\r")
    if after.startswith("\n"):
        return True
    is_told = _AFTER_WORD.search(after) or len(text) >= match.end() + _FAR
    following = [fold(after)] if is_told else _FOLLOWING
    closing = match["closing"].strip(_EMPHASIS)
    before, mark = fold(_line_before(text, match.start())), fold(match["mark"])
    answers = {ends_sentence(before, mark, closing, words) for words in following}
    return answers.pop() if len(answers) == 1 else None


def _line_before(text: str, at: int) -> str:
    """What stands before a place in its line, as far as it matters."""
    return text[max(0, at - _FAR) : at].rpartition("\n")[2]


def _is_number(text: str, at: int) -> bool:
    """Whether the number of an item stands before a place, which only begins its line."""
    start = at
    while start > max(0, at - 4) and text[start - 1].isdecimal():
        start -= 1
    if not 1 <= at - start <= 3:
        return False
    while start and text[start - 1] != "\n" and (text[start - 1] == ">" or text[start - 1].isspace()):
        start -= 1
    return not start or text[start - 1] == "\n"


def _line_ends(text: str, at: int) -> bool | None:
    """Whether a sentence ends with its line, which it does not where a mail program wrapped it."""
    line = text[text.rfind("\n", 0, at) + 1 : at].rstrip(" ")
    if len(line) < WRAPPED_AT or line.endswith((".", "?", "!", ":", ";")):
        return True
    return None if at + 1 == len(text) else not "a" <= text[at + 1] <= "z"


def _last_clause(text: str) -> int | None:
    last = list(_CLAUSE_END.finditer(text))[: -_MOST_CLAUSES - 1 : -1]
    ends = (match.end() for match in last if _clause_ends(text, match))
    return next((at for at in ends if re.search(r"\w", text[:at]) and Openness().is_whole(text, at)), None)


def _clause_ends(text: str, match: re.Match[str]) -> bool:
    """Whether a clause can end at a mark, as far as is known."""
    before, mark = _line_before(text, match.start()), match["mark"]
    if _is_number(text, match.start()) or (match.end() == len(text) and before[-1:].isdigit()):
        return False
    return mark in ",;:—–" or any(ends_sentence(fold(before), fold(mark), "", words) for words in _FOLLOWING)


def _forced_end(text: str) -> int | None:
    """Where a slice ends that would be too long: at a clause, else between words, else anywhere; None inside a tag."""
    head = text[: LONGEST + 1]
    clauses = (at for at in [_last_clause(head)] if at is not None and at <= LONGEST)
    gaps = (match.start() for match in reversed(list(re.finditer(r"\s", head))) if head[: match.start()].strip())
    places = (*clauses, *gaps, LONGEST)
    return next((at for at in places if Openness().is_whole(text, at)), None)
