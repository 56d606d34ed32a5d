"""Where in a text the words that are read from it stand.

Reading changes a text in many steps; their result is laid beside the text once, so no step has to keep books. Words
that are written as they are read are found by the longest sequence that both have in common, and what is read otherwise
(a number, an abbreviation) lies between two that were found.
Source: Hyyrö, Bit-parallel LCS-length computation revisited (2004), for the sequence in time n * m / 64.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

Place = tuple[int, int]
_Pair = tuple[int, int]  # indices of a written and a read member that are equal
_RUN = re.compile(r"(?:[^\W_][\u0300-\u036f]*)+")
_WRITTEN = re.compile(r"\S+")
_SIGNS = "$£€¥₹₩%°&@#+"
# What may stand around a word and is not part of it.
_AROUND = "\"'“”‘’«»‹›()[]{}<>*_`~|.,;:!?…—–-/\\"


def places(text: str, words: Sequence[str]) -> list[Place]:
    """The place of each word, half open, in code points: rising, none overlapping another unless it is the same.

    Words that were read from one writing share its place; one that was read from nothing has an empty place.
    """
    runs = [match.span() for match in _RUN.finditer(text)]
    of_word, keys = [], []
    for index, word in enumerate(words):
        for match in _RUN.finditer(word):
            of_word.append(index)
            keys.append(_key(match[0]))
    found: list[Place | None] = [None] * len(words)
    written = [_key(text[start:stop]) for start, stop in runs]
    for run, read in _settled(list(_in_common(written, keys))[::-1], written, keys):
        start, stop = runs[run]
        known = found[of_word[read]]
        found[of_word[read]] = (start if known is None else known[0], stop)
    _widen(text, found)
    for first, last in _not_found(found):
        before = found[first - 1] if first else None
        after = found[last] if last < len(found) else None
        gap = (before[1] if before else 0, after[0] if after else len(text))
        found[first:last] = _shared(text, gap, last - first)
    return [place for place in found if place is not None]


def reach(text: str, place: Place, after: int) -> Place:
    """A place with the marks and brackets that touch it, none of them before `after`."""
    start, stop = max(place[0], after), max(place[1], after)
    while start > after and not text[start - 1].isspace():
        start -= 1
    while stop < len(text) and not text[stop].isspace():
        stop += 1
    return start, stop


def _key(letters: str) -> str:
    return unicodedata.normalize("NFKC", letters).casefold()


def _in_common(written: Sequence[str], read: Sequence[str]) -> Iterator[_Pair]:
    """Equal members of the longest common sequence, the earliest where there is a choice; the last pair first."""
    at: dict[str, int] = {}
    for index, key in enumerate(written):
        at[key] = at.get(key, 0) | 1 << index
    everything = (1 << len(written)) - 1
    # A zero at bit i of row j: the sequence of i + 1 written and j + 1 read members is longer than that of i written.
    row, rows = everything, []
    for key in read:
        match = row & at.get(key, 0)
        row = (row + match | row - match) & everything
        rows.append(row)
    i, j = len(written) - 1, len(read) - 1
    while i >= 0 and j >= 0:
        if rows[j] >> i & 1:
            i -= 1
        elif j and not rows[j - 1] >> i & 1:
            j -= 1
        else:
            yield i, j
            i, j = i - 1, j - 1


def _settled(pairs: list[_Pair], written: Sequence[str], read: Sequence[str]) -> list[_Pair]:
    """The pairs with those moved that could as well be later, so that what is read otherwise lies beside its writing.

    'Charles II the king' is read 'Charles the second the king': the writing's 'the' is the second one.
    """
    ends = [*pairs, (len(written), len(read))][1:]
    settled = [(-1, -1)]
    for (i, j), (i_end, j_end) in zip(pairs, ends, strict=True):
        i_gap, j_gap = i - settled[-1][0] > 1, j - settled[-1][1] > 1
        last_i = _last_like(written, i, i_end) if j_gap and not i_gap else i
        last_j = _last_like(read, j, j_end) if i_gap and not j_gap else j
        settled.append((last_i, last_j))
    return settled[1:]


def _last_like(members: Sequence[str], at: int, end: int) -> int:
    return next(later for later in range(end - 1, at - 1, -1) if members[later] == members[at])


def _widen(text: str, found: list[Place | None]) -> None:
    """Takes in the signs that a word is written with: the whole of $5, 3 % and C++."""
    taken = 0
    for index, place in enumerate(found):
        if place is not None:
            start, stop = place
            while start > taken and text[start - 1] in _SIGNS:
                start -= 1
            while stop < len(text) and text[stop] in _SIGNS:
                stop += 1
            found[index], taken = (start, stop), stop


def _not_found(found: Sequence[Place | None]) -> Iterator[tuple[int, int]]:
    """Ranges of neighbouring words without a place."""
    first = 0
    while first < len(found):
        last = first
        while last < len(found) and found[last] is None:
            last += 1
        if last > first:
            yield first, last
        first = last + 1


def _shared(text: str, gap: Place, n_words: int) -> list[Place]:
    """Places in a gap for words that are written otherwise: a writing each where there are as many, else all of it."""
    written = [place for place in _writings(text, gap) if place[0] < place[1]]
    if len(written) == n_words:
        return list(written)
    return [(written[0][0], written[-1][1]) if written else (gap[0], gap[0])] * n_words


def _writings(text: str, gap: Place) -> Iterator[Place]:
    """What stands between spaces in a gap, without the marks around it; nothing of marks alone."""
    for match in _WRITTEN.finditer(text, *gap):
        bare = match[0].strip(_AROUND)
        start = match.start() + match[0].find(bare)
        yield start, start + len(bare)
