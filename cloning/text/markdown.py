"""Markdown's signs taken out: labels, list items, cells and headings stay as text with line ends for pauses."""

import re
from collections.abc import Iterator

FENCE = re.compile(r"^ {0,3}(```+|~~~+)[^\n]*\n(?:.*?\n)?(?: {0,3}\1[`~]* *$|\Z)", re.MULTILINE | re.DOTALL)
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
    return "\n".join(_lines(FENCE.sub("\n\n", text)))


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
