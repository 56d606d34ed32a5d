"""Text to sentences with the silence after each, and long sentences to parts that a network can say in one breath."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cloning.text.english_words import ABBREVIATIONS, BEFORE_A_NUMBER, STARTERS, TITLES
from cloning.text.marked import BREAK_CHARACTERS, MANNER_CHARACTERS, break_s, is_manner, manner_index
from cloning.text.phonemes import Word

CLAUSE_PAUSE_S = 0.05
SENTENCE_PAUSE_S = 0.2
LINE_PAUSE_S = 0.3
PARAGRAPH_PAUSE_S = 0.5
WRAPPED_AT = 40
_PAUSES = re.compile(rf"([{BREAK_CHARACTERS}{MANNER_CHARACTERS}]|\n+)")
_MANNERS_AT_END = re.compile(rf"[{MANNER_CHARACTERS}\s]+$")
_WRAP = re.compile(rf"(?<=[^\n]{{{WRAPPED_AT}}})(?<![.?!:;])[ ]*\n(?=[a-z])")
_SAYS = re.compile(r"[^\s.,;:!?\"'()\[\]–—-]")
_MARK = re.compile(r"(?P<mark>[.?!]+)(?P<closing>[\"')\]]*)(?=\s|$)")
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
    fields = _PAUSES.split(_WRAP.sub(" ", text.strip()))
    for part, pause in zip(fields[::2], [*fields[1::2], ""], strict=True):
        said = [sentence for sentence in _sentences(part) if _SAYS.search(sentence)]
        pieces += [Piece(sentence, SENTENCE_PAUSE_S, manner) for sentence in said]
        if pieces and pause:
            pieces[-1] = _with_pause(pieces[-1], pause, is_first=bool(said))
        manner = manner_index(pause) if pause and is_manner(pause[0]) else manner
    if pieces and not _PAUSES.search(_MANNERS_AT_END.sub("", text)[-1:]):
        pieces[-1] = replace(pieces[-1], pause_after_s=0.0)
    return pieces


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
        before, after = line[start : match.start()], line[match.end() :].lstrip()
        if ends_sentence(before, match["mark"], match["closing"], after):
            yield line[start : match.end()].strip()
            start = match.end()
    if line[start:].strip():
        yield line[start:].strip()


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
    next_word = re.split(r"[^\w'.]", after, maxsplit=1)[0]
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
    result: list[list[Word]] = []
    while words:
        sizes = _running_sizes(words)
        if sizes[-1] <= cap:
            return [*result, words]
        cut = _best_cut(words, sizes, cap)
        result.append(words[:cut])
        words = words[cut:]
    return result


def _running_sizes(words: Sequence[Word]) -> list[int]:
    total, sizes = -1, []
    for word in words:
        total += 1 + len(word.symbols) + len(word.mark)
        sizes.append(total)
    return sizes


def _best_cut(words: Sequence[Word], sizes: Sequence[int], cap: int) -> int:
    share = sizes[-1] / math.ceil(sizes[-1] / cap)
    fitting = [at for at, size in enumerate(sizes) if size <= cap]
    near = [at for at in fitting if sizes[at] >= share / 2] or fitting

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
