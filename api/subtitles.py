"""Timed speech as subtitles: SubRip, WebVTT, or the times as they are.

Source: W3C, WebVTT: The Web Video Text Tracks Format; SubRip has no standard, players read what is written here.
"""

import html
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from api.errors import RequestRefused
from api.timing import SentenceOut
from cloning.text.markup import shown

# What a reader takes in at once: two lines, seven seconds.
_LINE_CHARS = 42
_CUE_CHARS = 2 * _LINE_CHARS
_CUE_S = 7.0

Writer = Callable[[str, Sequence[SentenceOut]], str]
_Blocks = Callable[[str, Iterable[SentenceOut]], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Cue:
    """Some words that are shown together."""

    text: str
    start_s: float
    stop_s: float


def cues(text: str, sentences: Iterable[SentenceOut]) -> Iterator[Cue]:
    """What is shown when, in the words of the text that was sent. A sentence begins a cue; a long one has several."""
    for sentence in sentences:
        n_words = len(sentence.words)
        divided = (_divided(text, sentence, n_cues) for n_cues in range(1, n_words + 1))
        yield from next((some for some in divided if all(map(_fits, some))), _divided(text, sentence, n_words))


def writer_of(ending: str) -> Writer:
    """What writes files of this ending from a text and its sentences. Raises: RequestRefused."""
    if ending.lower() not in _WRITERS:
        message = f"subtitles: a file that ends in {ending[:20]!r} is none of {', '.join(_WRITERS)}"
        raise RequestRefused("bad_field", message, field="subtitles")
    return _WRITERS[ending.lower()]


def _divided(text: str, sentence: SentenceOut, n_cues: int) -> list[Cue]:
    """The sentence in at most so many cues of about the same time."""
    words = sentence.words
    start_s, total_s = words[0].start_s, max(words[-1].stop_s - words[0].start_s, 1e-6)
    shares = [min(n_cues - 1, int((word.start_s - start_s) / total_s * n_cues)) for word in words]
    firsts = [at for at, share in enumerate(shares) if at == 0 or share != shares[at - 1]]
    found = []
    for first, end in pairwise([*firsts, len(words)]):
        start_char = words[first].start_char if first else sentence.start_char
        stop_char = words[end].start_char if end < len(words) else sentence.stop_char
        written = " ".join(shown(text[start_char:stop_char]).split())
        found.append(Cue(written, words[first].start_s, words[end - 1].stop_s))
    return found


def _fits(cue: Cue) -> bool:
    return len(cue.text) <= _CUE_CHARS and cue.stop_s - cue.start_s <= _CUE_S


def written(kind: str, text: str, sentences: Iterable[SentenceOut]) -> Iterator[str]:
    """Subtitles, `srt` or `vtt`, as the sentences come."""
    for number, block in enumerate(_BLOCKS[kind](text, sentences)):
        yield f"\n{block}" if number else block


def _srt(text: str, sentences: Iterable[SentenceOut]) -> Iterator[str]:
    for number, cue in enumerate(cues(text, sentences), 1):
        yield f"{number}\n{_time(cue.start_s, ',')} --> {_time(cue.stop_s, ',')}\n{_lines(cue.text)}\n"


def _vtt(text: str, sentences: Iterable[SentenceOut]) -> Iterator[str]:
    yield "WEBVTT\n"
    for cue in cues(text, sentences):
        words = html.escape(_lines(cue.text), quote=False)
        yield f"{_time(cue.start_s, '.')} --> {_time(cue.stop_s, '.')}\n{words}\n"


def _json(text: str, sentences: Sequence[SentenceOut]) -> str:
    document = {"text": text, "sentences": [sentence.model_dump() for sentence in sentences]}
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


_BLOCKS: Mapping[str, _Blocks] = {"srt": _srt, "vtt": _vtt}
_WRITERS: Mapping[str, Writer] = {
    ".srt": lambda text, sentences: "".join(written("srt", text, sentences)),
    ".vtt": lambda text, sentences: "".join(written("vtt", text, sentences)),
    ".json": _json,
}


def _lines(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _LINE_CHARS))


def _time(seconds: float, point: str) -> str:
    whole_ms = round(seconds * 1000)
    minutes, ms = divmod(whole_ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{ms // 1000:02}{point}{ms % 1000:03}"
