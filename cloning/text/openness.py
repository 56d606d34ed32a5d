"""What is open at a place of a text: a tag, an element, code, emphasis or a link, inside of which nothing is cut."""

import re

_HELD = ("sub", "phoneme", "say-as", "prosody", "emphasis", "voice", "lexicon", "script", "style")
_ELEMENT = re.compile(rf"<(?P<close>/?)(?:{'|'.join(_HELD)})\b[^<>]*?(?P<empty>/?)>", re.I)
_TAG_SIGN = re.compile(r"[<>\n]")
_TAG_START = re.compile(r"<[A-Za-z/!?]")
_OPEN_ADDRESS = re.compile(r"\]\([^()\s]*$")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


class Openness:
    """Tells what is open at rising places of one text, each before a space or the last one; it is read once."""

    def __init__(self) -> None:
        self.has_text = False
        self._at = 0
        # Where a `<` stands that no `>` followed, and how many lines ended since.
        self._tag_at, self._n_line_ends = -1, 0
        self._n_elements = self._n_fences = 0
        self._is_comment = False
        # Of the line of the last place.
        self._n_ticks = self._n_stars = 0
        self._is_label = self._is_address = False

    def is_whole(self, text: str, at: int) -> bool:
        """Whether no tag, element or code is open at a place, nor, inside a line, emphasis or a link."""
        start, self._at = self._at, at
        part = text[start:at]
        self.has_text = self.has_text or bool(part.strip())
        self._read_tags(text, start, at)
        self._read_line(part)
        self._n_fences += sum(1 for _ in _FENCE.finditer(text, start, at))
        if self._is_in_tag(text, at) or self._is_comment or self._n_fences % 2 or self._n_elements > 0:
            return False
        is_marked = self._n_ticks % 2 or self._n_stars % 2 or self._is_label or self._is_address
        return text[at : at + 1] == "\n" or not is_marked

    def _is_in_tag(self, text: str, at: int) -> bool:
        is_one_line = self._n_line_ends == 0 or (self._n_line_ends == 1 and text[at - 1] == "\n")
        return self._tag_at >= 0 and is_one_line and _TAG_START.match(text, self._tag_at, at) is not None

    def _read_tags(self, text: str, start: int, stop: int) -> None:
        for match in _TAG_SIGN.finditer(text, start, stop):
            if match[0] == "<":
                self._tag_at, self._n_line_ends = match.start(), 0
            elif match[0] == "\n":
                self._n_line_ends += 1
            elif self._tag_at >= 0:
                element = _ELEMENT.fullmatch(text, self._tag_at, match.end())
                if element and not element["empty"]:
                    self._n_elements += -1 if element["close"] else 1
                self._tag_at = -1
        opened, closed = text.rfind("<!--", start, stop), text.rfind("-->", start, stop)
        if opened != closed:
            self._is_comment = opened > closed

    def _read_line(self, part: str) -> None:
        _, line_end, line = part.rpartition("\n")
        if line_end:
            self._n_ticks = self._n_stars = 0
            self._is_label = False
        line = line.replace("```", "")
        self._n_ticks += line.count("`")
        self._n_stars += line.count("**")
        opened, closed = line.rfind("["), line.rfind("]")
        if opened != closed:
            self._is_label = opened > closed
        self._is_address = _OPEN_ADDRESS.search(line) is not None
