"""Markdown's signs taken out: labels, list items, cells and headings stay as text with line ends for pauses."""

import re
from collections.abc import Callable, Iterator, Sequence

from cloning.text.spans import Enclosed, Span, replaced

_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<after>[^\n]*)$", re.MULTILINE)
_CLOSES = re.compile(r"[`~]* *")
_RULE = re.compile(r"^\s*(?:([-*_])(?:\s*\1){2,}|=+)\s*$")
_TABLE_RULE = re.compile(r"^\s*(?:\|\s*)?:?-+:?\s*(?:\|\s*:?-+:?\s*)*(?:\|\s*)?$")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*)$")
_ITEM = re.compile(r"^\s*(?:[-*+•‣◦]\s+(?:\[[ xX]\]\s+)?|(\d{1,3})[.)]\s+)(.*)$")
_QUOTE = re.compile(r"^\s{0,3}(?:>\s?)+")
_DEFINITION = re.compile(r"^\s{0,3}\[[^\]\n]+\]:\s+\S+.*$")
_TICKS = re.compile(r"(`+)")
_UNDERSCORES = Enclosed(
    re.compile(r"(?<![\w\\])(?:(?P<one>_)|(?P<two>__)|(?P<three>___))(?=[^\s_])"),
    {name: re.compile(rf"(?<=[^\s_\\])_{{{n}}}(?!\w)") for n, name in enumerate(("one", "two", "three"), 1)},
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
            yield from ("", _inline(heading[1].rstrip().rstrip("#").rstrip()), "")
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


def _without_ticks(line: str) -> str:
    """Ticks and as many after the next text are left out; of more than that before it the rest stays."""
    pieces = _TICKS.split(line)
    kept, at = [pieces[0]], 1
    while at < len(pieces):
        ticks, code, closing = (*pieces[at : at + 2], *pieces[at + 2 : at + 3], "")[:3]
        if closing and len(closing) <= len(ticks):
            kept += (ticks[len(closing) :], code, pieces[at + 3])
            at += 4
        else:
            kept += (ticks, code)
            at += 2
    return "".join(kept)


def _without_underscores(line: str) -> str:
    return replaced(line, _UNDERSCORES.spans(line), lambda marked: marked.strip("_"))


def _footnote(match: re.Match[str]) -> str:
    return "" if match["end"] else match[0]


def _without(pattern: str, instead: str | Callable[[re.Match[str]], str] = r"\1") -> Callable[[str], str]:
    compiled = re.compile(pattern)
    return lambda line: compiled.sub(instead, line)


_INLINE = (
    _without(r"!?\[([^\[\]\n]*)\]\((?:[^()\n]|\([^()\n]*\))*\)"),
    # One that is not closed is read over to its end, where none can begin that is.
    _without(r"\[\^[^\]\s]+(?P<end>\]?)", _footnote),
    _without(r"\[([^\[\]\n]+)\]\[[^\[\]\n]*\]"),
    _without(r"<((?:https?://|mailto:)[^\s<>]+)>"),
    _without_ticks,
    _without(r"(?<![\w\\])(\*{1,3})(?=[^\s*])([^*\n]*[^\s*\\])\1(?!\w)", r"\2"),
    _without_underscores,
    _without(r"~~(?=\S)([^~\n]*\S)~~"),
    _without(r"\\([*_`#\[\](){}~>!|+-])"),
)


def _inline(line: str) -> str:
    for without in _INLINE:
        line = without(line)
    return line
