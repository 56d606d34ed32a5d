"""Text to sentences with the silence after each, and long sentences to parts that a network can say in one breath."""

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from cloning.text.english_words import ABBREVIATIONS, BEFORE_A_NUMBER, STARTERS, TITLES
from cloning.text.marked import BREAK_CHARACTERS, MANNER_CHARACTERS, break_s, is_manner, manner_index
from cloning.text.phonemes import Word

CLAUSE_PAUSE_S = 0.05
SENTENCE_PAUSE_S = 0.2
LINE_PAUSE_S = 0.3
PARAGRAPH_PAUSE_S = 0.5
WRAPPED_AT = 40
_PAUSES = re.compile(rf"([{BREAK_CHARACTERS}{MANNER_CHARACTERS}]|\n+)")
# Spaces and marks are taken from their first one on, or each of them would be tried as the first.
_LINE_END = re.compile(r"(?<! ) *\n(?=[a-z])")
_SAYS = re.compile(r"[^\s.,;:!?\"'()\[\]–—-]")
_MARK = re.compile(r"(?<![.?!])(?P<mark>[.?!]+)(?P<closing>[\"')\]]*)(?=\s|$)")
_NO_SPACE = re.compile(r"\S")
_WORD_END = re.compile(r"[^\w'.]")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_ENDS = frozenset(".?!\"')]")
_MARK_STRENGTH = {"": 0, ",": 1, ":": 2, ";": 2}


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, or what stands between two pauses; the silence after it, and the number of its manner."""

    text: str
    pause_after_s: float
    manner: int = 0


def split(text: str) -> list[Piece]:
    """Sentences in order. Line ends pause, blank lines pause longer; pauses that meet are one, the longest."""
    pieces: list[Piece] = []
    manner = 0
    fields = _PAUSES.split(_LINE_END.sub(_unwrapped, text.strip()))
    for part, pause in zip(fields[::2], [*fields[1::2], ""], strict=True):
        said = [sentence for sentence in _sentences(part) if _SAYS.search(sentence)]
        pieces += [Piece(sentence, SENTENCE_PAUSE_S, manner) for sentence in said]
        if pieces and pause:
            pieces[-1] = _with_pause(pieces[-1], pause, is_first=bool(said))
        manner = manner_index(pause) if pause and is_manner(pause[0]) else manner
    last = next((char for char in reversed(text) if not (char.isspace() or is_manner(char))), "")
    if pieces and not _PAUSES.match(last):
        pieces[-1] = replace(pieces[-1], pause_after_s=0.0)
    return pieces


def _unwrapped(match: re.Match[str]) -> str:
    """A space where a mail program wrapped a long line, which has no mark at its end."""
    text, end = match.string, match.end() - 1
    is_long = end >= WRAPPED_AT and "\n" not in text[end - WRAPPED_AT : end]
    return " " if is_long and text[end - 1] not in ".?!:;" else match[0]


def _with_pause(piece: Piece, pause: str, is_first: bool) -> Piece:
    """A break is as long as it says, also where it is shorter than the sentence's own pause.

    Where only the manner changes, the sentence goes on.
    """
    if is_manner(pause[0]):
        return replace(piece, pause_after_s=CLAUSE_PAUSE_S) if is_first and piece.text[-1] not in _ENDS else piece
    if "\n" in pause:
        pause_s = LINE_PAUSE_S if len(pause) == 1 else PARAGRAPH_PAUSE_S
    else:
        pause_s = break_s(pause)
        if is_first:
            return replace(piece, pause_after_s=pause_s)
    return replace(piece, pause_after_s=max(pause_s, piece.pause_after_s))


def _sentences(line: str) -> Iterator[str]:
    start = 0
    for match in _MARK.finditer(line):
        word = line[_word_start(line, start, match.start()) : match.start()]
        if ends_sentence(word, match["mark"], match["closing"], _following(line, match.end())):
            yield line[start : match.end()].strip()
            start = match.end()
    if line[start:].strip():
        yield line[start:].strip()


def _word_start(line: str, start: int, stop: int) -> int:
    while stop > start and not line[stop - 1].isspace():
        stop -= 1
    return stop


def _following(line: str, at: int) -> str:
    """The first word from a place on, with what ends it; the sign that stands there where that is no word."""
    first = _NO_SPACE.search(line, at)
    end = _WORD_END.search(line, first.start()) if first else None
    return line[first.start() : end.end() if end else len(line)] if first else ""


def ends_sentence(before: str, mark: str, closing: str, after: str) -> bool:
    """Whether a sentence ends at a mark, and the quotes and brackets that close after it, in the middle of a line.

    Of what stands before it the last word counts, of what stands after it the first.
    """
    if not after:
        return True
    if mark != ".":
        quoted_or_trailing = closing or mark.startswith("..")
        return not (quoted_or_trailing and after[0].islower())
    word = re.split(r"[\s\"'(\[]", before)[-1]
    lower = word.lower()
    next_word = _WORD_END.split(after, maxsplit=1)[0]
    if len(word) == 1 and word.isalpha():
        return word == "I" or next_word in STARTERS
    if lower in TITLES or (lower in BEFORE_A_NUMBER and after[0].isdigit()):
        return False
    if lower in ABBREVIATIONS or _DOTTED.fullmatch(word):
        return next_word in STARTERS
    return True


def parts(words: Sequence[Word], cap: int) -> list[list[Word]]:
    """Words in parts of at most `cap` symbols with marks and gaps, cut at the strongest border near an even share."""
    words = [piece for word in words for piece in _within(word, cap)]
    ends = list(accumulate(1 + len(word.symbols) + len(word.mark) for word in words))
    result: list[list[Word]] = []
    start = 0
    while start < len(words):
        # A part has no gap before its first word.
        before = 1 + (ends[start - 1] if start else 0)
        stop = bisect_right(ends, before + cap)
        if stop < len(words):
            left = ends[-1] - before
            sizes = [end - before for end in ends[start:stop]]
            stop = start + _best_cut(words[start:stop], sizes, left / math.ceil(left / cap))
        result.append(words[start:stop])
        start = stop
    return result


def _best_cut(words: Sequence[Word], sizes: Sequence[int], share: float) -> int:
    near = [at for at, size in enumerate(sizes) if size >= share / 2] or range(len(sizes))

    def rank(at: int) -> tuple[int, float]:
        return _MARK_STRENGTH.get(words[at].mark, 3), -abs(sizes[at] - share)

    return max(near, key=rank) + 1


def _within(word: Word, cap: int) -> Iterator[Word]:
    """A word, or its pieces where it alone is longer than the cap."""
    room = cap - 1
    if len(word.symbols) <= room:
        yield word
        return
    starts = range(0, len(word.symbols), room)
    for start in starts:
        last = start == starts[-1]
        yield Word(
            text=word.text if start == 0 else "",
            symbols=word.symbols[start : start + room],
            mark=word.mark if last else "",
            skipped=word.skipped if last else (),
        )
