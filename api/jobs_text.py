"""A long text to the pieces in which it is spoken: who says what, where chapters begin, and where it may be cut.

A line that starts with `[speaker: NAME_OR_ID]` says who speaks from there on; what follows on the line is spoken. A
chapter begins at a Markdown heading of the first or second level, and at a line of its own that starts with `Chapter`,
`Part` or `Book` and a number. Headings are spoken. All places are code points of the text as it was sent.
"""

import difflib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from api.errors import RequestRefused
from cloning.errors import TextRefused
from cloning.text.markup import LEXICONS, shown
from cloning.text.spans import Enclosed, blanked
from cloning.text.split import PARAGRAPH_PAUSE_S, SENTENCE_PAUSE_S, split
from cloning.text.tags import TAG, Tag, attribute, refuse, tag_of

CHAPTER_PAUSE_S = 1.0
# About half a minute of speech: what is lost at most when a process is killed.
PIECE_CHARS = 400
_TITLE_CHARS = 200
# Nothing is given back of what was taken, or the spaces of a tag that is not closed are shared out in every way.
_TAG = re.compile(r"[ \t]*\[[ \t]*+speaker[ \t]*+:[ \t]*+([^\[\]\n]*+)\][ \t]*", re.IGNORECASE)
_ANY_TAG = re.compile(r"\[[ \t]*+(\w++)[ \t]*+(?P<sign>[:=]?+)[^\[\]\n]*+\]")
_MEANT = ("speaker", "voice")
_LIKENESS = 0.75
_MARKED_HEADING = re.compile(r" {0,3}#{1,2}[ \t]+(\S)(.*)$")
_NUMBER = (
    r"(?:\d{1,4}|[IVXLC]{1,8}|(?:the[ ])?(?:first|second|third|last)|one|two|three|four|five|six|seven|eight|nine|ten|"
    r"eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:-\w+)?)"
)
_PLAIN_HEADING = re.compile(rf"\s*((?:chapter|part|book)[ ]+{_NUMBER}\b(?:[.:—–-].{{0,80}}|\s*))$", re.IGNORECASE)
# As long as what it stands for, so that places stay.
_SPEAK = re.compile(r"</?speak\b[^<>]*>|<\?xml[^<>]*\?>", re.IGNORECASE)
_UNSPOKEN = Enclosed(
    re.compile(rf"(?P<comment><!--)|{LEXICONS.opening.pattern}", re.IGNORECASE),
    {"comment": re.compile("-->"), **LEXICONS.closings},
)
# Between two parts, what must not be read with them.
_APART = re.compile(r"[\[<]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of the text that is spoken in one go; `speaker` is as it was named, None for the job's own.

    `element_at` is the place of the `<voice>` that names it, None where a tag of ours does.
    """

    start: int
    stop: int
    speaker: str | None
    chapter: int
    pause_s: float
    line: int
    element_at: int | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A text in passages, and the titles of its chapters: the first may have none."""

    passages: tuple[Passage, ...]
    chapters: tuple[str, ...]

    def firsts(self) -> tuple[tuple[str, int], ...]:
        """Each chapter that is spoken: its title and the number of its first passage."""
        numbers = {passage.chapter: n for n, passage in reversed(list(enumerate(self.passages)))}
        return tuple((self.chapters[chapter], numbers[chapter]) for chapter in sorted(numbers))


def storable(text: str) -> str:
    """The text, as long as before, without what no database holds."""
    return _UNSTORABLE.sub(" ", text)


def spoken_text(text: str) -> str:
    """The text, as long as before, without what speaks of the whole of it: `<speak>`, comments, `<lexicon>`."""
    return _SPEAK.sub(lambda match: " " * len(match[0]), blanked(text, _UNSPOKEN.spans(text)))


def read_script(text: str, max_chars: int = PIECE_CHARS) -> Script:
    """The text in passages of at most about `max_chars`, cut between sentences, and within one that is longer.

    Raises: RequestRefused (`bad_tag`), TextRefused (`nothing_to_say`).
    """
    text = spoken_text(text)
    chapters, paragraphs = _paragraphs(text)
    voiced = _voiced(text, paragraphs)
    cut = [part for paragraph in voiced for part in _cut(text, paragraph, max_chars)]
    if not cut:
        raise TextRefused("nothing_to_say", "text: there is nothing to say in it; send words", field="text")
    return Script(tuple(_paused(_merged(text, cut, max_chars))), chapters)


def _paragraphs(text: str) -> tuple[tuple[str, ...], list[Passage]]:
    """The chapters' titles, and what stands between blank lines, tags and headings."""
    chapters, found = [""], list[Passage]()
    speaker, at, is_open = None, 0, False
    lines = text.splitlines(keepends=True)
    for number, whole in enumerate(lines, 1):
        tag = _TAG.match(whole)
        line = whole[tag.end() :] if tag else whole
        at += len(whole)
        start = at - len(line)
        if tag:
            speaker, is_open = _named(tag[1].rstrip(" \t"), number), False
        _refuse_tags(line, number)
        if title := _heading(line, lines, number, is_tagged=tag is not None):
            chapters.append(title)
        if not line.strip() or title:
            is_open = False
        if line.strip():
            passage = Passage(start, at, speaker, len(chapters) - 1, PARAGRAPH_PAUSE_S, number)
            found[-1:] = [replace(found[-1], stop=at)] if is_open else [*found[-1:], passage]
            is_open = not title
    return tuple(chapters), found


def _named(name: str, line: int) -> str:
    if not name:
        raise _bad_tag(line, "[speaker:] names nobody")
    return name


def _refuse_tags(line: str, number: int) -> None:
    """A tag that is misspelt, or not where it counts, must not be read aloud by the wrong voice."""
    for tag in _ANY_TAG.finditer(line):
        word = tag[1].lower()
        near = [meant for meant in _MEANT if meant[0] == word[0]] if tag["sign"] else [_MEANT[0]]
        if difflib.get_close_matches(word, near, n=1, cutoff=_LIKENESS if tag["sign"] else 1.0):
            raise _bad_tag(number, f"{tag[0][:60]} is no tag, or does not start its line")


def _bad_tag(line: int, words: str) -> RequestRefused:
    message = f"text, line {line}: {words}; write [speaker: NAME_OR_ID] at the start of a line"
    return RequestRefused("bad_tag", message, field="text", line=line)


def _heading(line: str, lines: Sequence[str], number: int, is_tagged: bool) -> str:
    """The title where the line begins a chapter, else nothing."""
    if marked := _MARKED_HEADING.match(line.rstrip("\r\n")):
        return _title(marked[1] + marked[2].rstrip(" \t#"))
    before, after = lines[number - 2] if number > 1 else "", lines[number] if number < len(lines) else ""
    stands_alone = (is_tagged or not before.strip() or _TAG.fullmatch(before.rstrip("\r\n"))) and not after.strip()
    plain = _PLAIN_HEADING.match(line) if stands_alone else None
    return _title(plain[1]) if plain else ""


def _title(written: str) -> str:
    return " ".join(shown(written).split())[:_TITLE_CHARS]


def _voiced(text: str, paragraphs: Sequence[Passage]) -> Iterator[Passage]:
    """Paragraphs cut where a `<voice>` begins or ends; it holds until then, over paragraphs and tags too.

    Raises: TextRefused (`bad_markup`).
    """
    voices: list[Tag] = []
    for paragraph in paragraphs:
        at, line = paragraph.start, paragraph.line
        tags = list(TAG.finditer(text, paragraph.start, paragraph.stop))
        last = _last_said(text, paragraph, tags)
        for match in tags:
            tag = tag_of(match)
            if tag.name != "voice" or tag.is_empty:
                continue
            yield from _part(text, replace(paragraph, line=line), (at, match.start()), last, voices)
            line += text.count("\n", at, match.end())
            at = match.end()
            if not tag.closes:
                voices.append(tag)
            elif voices:
                voices.pop()
            else:
                refuse(tag, "closes nothing; write <voice name='...'> before it")
        yield from _part(text, replace(paragraph, line=line), (at, paragraph.stop), last, voices)
    if voices:
        refuse(voices[-1], "is not closed; add </voice>")


def _last_said(text: str, paragraph: Passage, tags: Sequence[re.Match[str]]) -> int:
    """After which place of a paragraph there is nothing but tags and spaces."""
    at = paragraph.stop
    for tag in reversed(tags):
        if text[tag.end() : at].strip():
            return tag.end()
        at = tag.start()
    return paragraph.start


def _part(text: str, paragraph: Passage, place: tuple[int, int], last: int, voices: Sequence[Tag]) -> Iterator[Passage]:
    start, stop = place
    if not text[start:stop].strip():
        return
    if voices:
        paragraph = replace(paragraph, speaker=attribute(voices[-1], "name"), element_at=voices[-1].at)
    pause_s = paragraph.pause_s if stop > last else _between(text, stop)
    yield replace(paragraph, start=start, stop=stop, pause_s=pause_s)


def _cut(text: str, paragraph: Passage, max_chars: int) -> Iterator[Passage]:
    """The paragraph without the space around it, in parts; nothing where nothing of it is spoken."""
    written = text[paragraph.start : paragraph.stop]
    # Ornaments between scenes are shown, not said.
    sentences = [piece.text for piece in split(written)] if split(shown(written)) else []
    borders = [paragraph.start + border for border in _borders(written, sentences, max_chars)]
    for at, (start, stop) in enumerate(pairwise(borders)):
        is_last = at == len(borders) - 2
        yield replace(
            _stripped(text, paragraph, start, stop), pause_s=paragraph.pause_s if is_last else _between(text, stop)
        )


def _between(text: str, at: int) -> float:
    """The silence where a paragraph is cut: none inside a sentence."""
    while at and text[at - 1].isspace():
        at -= 1
    return SENTENCE_PAUSE_S if text[max(0, at - 1) : at] in ".?!\"')]”’" else 0.0


def _stripped(text: str, paragraph: Passage, start: int, stop: int) -> Passage:
    part = text[start:stop]
    return replace(paragraph, start=start + len(part) - len(part.lstrip()), stop=start + len(part.rstrip()))


def _borders(written: str, sentences: Sequence[str], max_chars: int) -> list[int]:
    """Where the paragraph is cut, its start and end among it; nothing where there is no sentence in it."""
    if not sentences:
        return []
    starts = [0]
    at = 0
    for sentence in sentences:
        # The splitter joins wrapped lines, so only the words are sure to be there.
        found = re.compile(r"\s+".join(map(re.escape, sentence.split()))).search(written, at)
        if found and found.start() > starts[-1]:
            starts.append(found.start())
        at = found.end() if found else at
    ends = [*starts[1:], len(written)]
    return [
        *(
            border
            for start, end in zip(starts, ends, strict=True)
            for border in _within(written, start, end, max_chars)
        ),
        len(written),
    ]


def _within(written: str, start: int, end: int, max_chars: int) -> Iterator[int]:
    """The start of a sentence, and where it is cut if it is too long: between words where there are any."""
    while end - start > max_chars:
        yield start
        room = math.ceil((end - start) / math.ceil((end - start) / max_chars))
        space = max(written.rfind(sign, start + 1, start + max_chars) for sign in " \t\n")
        start = space if space > start else start + room
    yield start


def _merged(text: str, parts: Sequence[Passage], max_chars: int) -> Iterator[Passage]:
    """Parts of one speaker and chapter together, as long as they are no longer than a passage may be."""
    current = parts[0]
    for part in parts[1:]:
        is_one = (part.speaker, part.chapter) == (current.speaker, current.chapter)
        if is_one and part.stop - current.start <= max_chars and not _APART.search(text, current.stop, part.start):
            current = replace(current, stop=part.stop, pause_s=part.pause_s)
        else:
            yield current
            current = part
    yield current


def _paused(passages: Iterator[Passage]) -> list[Passage]:
    """With a longer silence before each chapter, and none at the end."""
    found = list(passages)
    paused = [
        replace(each, pause_s=CHAPTER_PAUSE_S) if each.chapter != after.chapter else each
        for each, after in pairwise(found)
    ]
    return [*paused, replace(found[-1], pause_s=0.0)]
