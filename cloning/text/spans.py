"""Stretches of a text from an opening to its closing, found in time linear in its length.

A pattern such as `<!--.*?-->` reads to the end of the text for each opening that nothing closes. Here a closing that
was looked for once in vain is not looked for again: what follows a later opening is a part of what was read.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Enclosed:
    """Kinds of stretches: each named group of `opening` has the closing of its name."""

    opening: re.Pattern[str]
    closings: Mapping[str, re.Pattern[str]]

    def spans(self, text: str) -> Iterator[Span]:
        """Where they stand, half open, in order; what is not closed is none."""
        at, missing = 0, set[str]()
        while opened := self.opening.search(text, at):
            kind, at = opened.lastgroup or "", opened.end()
            closed = None if kind in missing else self.closings[kind].search(text, at)
            if closed:
                at = closed.end()
                yield opened.start(), at
            else:
                missing.add(kind)


def replaced(text: str, spans: Iterable[Span], instead: Callable[[str], str]) -> str:
    """The text with what `instead` gives for each span."""
    kept: list[str] = []
    at = 0
    for start, stop in spans:
        kept += (text[at:start], instead(text[start:stop]))
        at = stop
    return "".join([*kept, text[at:]])


def blanked(text: str, spans: Iterable[Span]) -> str:
    """The text, as long as before, with spaces for the spans."""
    return replaced(text, spans, lambda span: " " * len(span))
