"""A corpus with symbols of another front end, spelt as ours spells it; the times of its sounds are carried over.

python voices/default.training/respell.py manifest.tsv respelt.tsv
"""

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

from cloning.text.phonemes import EnglishPhonemes
from cloning.text.symbols import GAP, MARKS, STRESSES, VOWELS

MISSING = 0.8
OTHER_STRESS, OTHER_VOWEL, OTHER_MARK, OTHER = 0.2, 0.5, 0.6, 1.2
# Over this cost for each symbol the two spellings are not of one text.
MOST = 0.25

Floats = np.ndarray[Any, np.dtype[np.float64]]


def main() -> None:
    """Writes the manifest, and prints how many lines were left out."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("manifest", type=Path)
    options.add_argument("out", type=Path)
    chosen = options.parse_args()
    phonemes, left_out = EnglishPhonemes(), 0
    with chosen.manifest.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    lines = ["\t".join(rows[0])]
    for row in rows:
        symbols = phonemes.phonemes(row["text"])
        ends_ms = np.array(row["ends_ms"].split(), np.float64)
        carried_ms, cost = carry(row["symbols"].split(" "), ends_ms, symbols)
        if cost > MOST:
            left_out += 1
            continue
        row |= {"symbols": " ".join(symbols), "ends_ms": " ".join(f"{end:.0f}" for end in carried_ms)}
        lines.append("\t".join(row.values()))
    chosen.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(rows)} lines, {left_out} left out")  # noqa: T201  # it is the report


def carry(theirs: list[str], ends_ms: Floats, ours: list[str]) -> tuple[Floats, float]:
    """When each of our symbols ends, and how far apart the spellings are, for each symbol.

    Symbols are paired by the cheapest edits; one without a partner ends between its neighbours.

    Shapes: ends_ms float64 (len(theirs),) -> float64 (len(ours),).
    Source: Wagner and Fischer 1974, the edit distance and its path.
    """
    n, m = len(theirs), len(ours)
    costs = np.zeros((n + 1, m + 1))
    costs[:, 0], costs[0] = MISSING * np.arange(n + 1), MISSING * np.arange(m + 1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            costs[i, j] = min(_ways(costs, i, j, theirs, ours))
    known = {m - 1: float(ends_ms[-1])}
    i, j = n, m
    while i and j:
        way = int(np.argmin(_ways(costs, i, j, theirs, ours)))
        if way == 0:
            known.setdefault(j - 1, float(ends_ms[i - 1]))
        i, j = i - (way != 2), j - (way != 1)
    places = sorted(known)
    carried = np.interp(np.arange(m), [-1, *places], [0.0, *(known[place] for place in places)])
    return np.maximum.accumulate(carried), float(costs[n, m]) / m


def _ways(costs: Floats, i: int, j: int, theirs: list[str], ours: list[str]) -> tuple[float, float, float]:
    """What it costs to pair the two symbols, to pass over theirs, to pass over ours."""
    together = costs[i - 1, j - 1] + difference(theirs[i - 1], ours[j - 1])
    return float(together), float(costs[i - 1, j] + MISSING), float(costs[i, j - 1] + MISSING)


def difference(one: str, other: str) -> float:
    """How unlike two symbols are: nothing, a stress, a vowel, a pause, or everything."""
    if one == other:
        return 0.0
    sounds = {symbol.lstrip("".join(STRESSES)) for symbol in (one, other)}
    if len(sounds) == 1:
        return OTHER_STRESS
    if sounds <= set(VOWELS):
        return OTHER_VOWEL
    return OTHER_MARK if sounds <= {GAP, *MARKS} else OTHER


if __name__ == "__main__":
    main()
