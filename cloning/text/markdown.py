"""Markdown's signs taken out: labels, list items, cells and headings stay as text with line ends for pauses."""

import re
from collections.abc import Iterator, Sequence

from cloning.text.spans import Span, replaced

_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<after>[^\n]*)$", re.MULTILINE)
_CLOSES = re.compile(r"[`~]* *")
_RULE = re.compile(r"^\s*(?:([-*_])(?:\s*\1){2,}|=+)\s*$")
_TABLE_RULE = re.compile(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"^\s*(?:[-*+•‣◦]\s+(?:\[[ xX]\]\s+)?|(\d{1,3})[.)]\s+)(.*)$")
_QUOTE = re.compile(r"^\s{0,3}(?:>\s?)+")
_DEFINITION = re.compile(r"^\s{0,3}\[[^\]\n]+\]:\s+\S+.*$")
_INLINE = (
    (re.compile(r"!?\[([^\[\]\n]*)\]\((?:[^()\n]|\([^()\n]*\))*\)"), r"\1"),
    (re.compile(r"\[\^[^\]\s]+\]"), ""),
    (re.compile(r"\[([^\[\]\n]+)\]\[[^\[\]\n]*\]"), r"\1"),
    (re.compile(r"<((?:https?://|mailto:)[^\s<>]+)>"), r"\1"),
    (re.compile(r"(`+)([^`\n]+?)\1(?!`)"), r"\2"),
    (re.compile(r"(?<![\w\\])(\*{1,3})(?=[^\s*])([^*\n]*[^\s*\\])\1(?!\w)"), r"\2"),
    (re.compile(r"(?<![\w\\])(_{1,3})(?=[^\s_])([^\n]*?[^\s_\\])\1(?!\w)"), r"\2"),
    (re.compile(r"~~(?=\S)([^~\n]*\S)~~"), r"\1"),
    (re.compile(r"\\([*_`#\[\](){}~>!|+-])"), r"\1"),
)


def plain(text: str) -> str:
    """Text without Markdown. Code blocks are left out: they are not made to be heard."""
    return "\n".join(_lines(replaced(text, code_blocks(text), lambda _: "\n\n")))


def code_blocks(text: str) -> Iterator[Span]:
    """Where fenced code stands. A fence that none as long closes ends with the text, if that ends with its line."""
    fences = list(_FENCE.finditer(text))
    longest = _longest_closings(fences)
    at = 0
    while at < len(fences):
        opening, at = fences[at], at + 1
        mark = opening["mark"]
        if longest[at].get(mark[0], 0) >= len(mark):
            while not _closes(fences[at], mark):
                at += 1
            yield opening.start(), fences[at].end()
            at += 1
        elif text.endswith("\n") and opening.end() < len(text):
            yield opening.start(), len(text)
            return


def _closes(fence: re.Match[str], mark: str) -> bool:
    return fence["mark"].startswith(mark) and _CLOSES.fullmatch(fence["after"]) is not None


def _longest_closings(fences: Sequence[re.Match[str]]) -> list[dict[str, int]]:
    """For each fence, and the end: how long the longest one is that can close, of each mark, from there on."""
    longest: list[dict[str, int]] = [{}]
    for fence in reversed(fences):
        sign, now = fence["mark"][0], longest[-1]
        closes = _closes(fence, sign)
        longest.append({**now, sign: max(now.get(sign, 0), len(fence["mark"]))} if closes else now)
    return longest[::-1]


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        unquoted = _QUOTE.sub("", line)
        if _RULE.match(unquoted) or _DEFINITION.match(unquoted):
            yield ""
        elif heading := _HEADING.match(unquoted):
            yield from ("", _inline(heading[1]), "")
        elif item := _ITEM.match(unquoted):
            yield _ended(_inline(f"{item[1]}, {item[2]}" if item[1] else item[2]))
        elif "|" in unquoted:
            yield from _row(unquoted)
        else:
            yield _inline(unquoted)


def _row(line: str) -> Iterator[str]:
    """A table's row as its cells with pauses between; a rule is nothing."""
    if _TABLE_RULE.match(line):
        return
    if line.strip().startswith("|") or line.count("|") > 1:
        cells = (cell.strip() for cell in line.strip().strip("|").split("|"))
        yield _ended(_inline(", ".join(cell for cell in cells if cell)))
    else:
        yield _inline(line)


def _ended(line: str) -> str:
    """A line that ends by itself, whatever the next one starts with."""
    return line if not line.strip() or line.rstrip()[-1] in ".?!:;" else line.rstrip() + "."


def _inline(line: str) -> str:
    for pattern, replacement in _INLINE:
        line = pattern.sub(replacement, line)
    return line
