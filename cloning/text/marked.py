"""Text that carries instructions: single private characters stand for pauses, for words said as given, and for changes
of who speaks and how fast.

Users' own private characters are removed before any of ours is put in, so none can be forged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

_SAID = 0xF0000
_BREAK = 0x100000
_MANNER = 0x108000
_LAST = 0x10FFFD
MAX_BREAK_S = 10.0
SAID_CHARACTERS = f"{chr(_SAID)}-{chr(_BREAK - 3)}"
BREAK_CHARACTERS = f"{chr(_BREAK)}-{chr(_BREAK + int(MAX_BREAK_S * 1000))}"
MANNER_CHARACTERS = f"{chr(_MANNER)}-{chr(_LAST)}"


@dataclass(frozen=True, slots=True)
class Said:
    """A word whose sounds were given with the text."""

    text: str
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Manner:
    """How a stretch of text is spoken: `rate` 2 is twice as fast, `voice` names another speaker than the text's own."""

    rate: float = 1.0
    voice: str | None = None


PLAIN = Manner()


@dataclass(frozen=True, slots=True)
class MarkedText:
    """`text`, in which the n-th said character stands for `said[n]`, and from the n-th manner's on `manners[n]` holds.

    `lexicon` are words that the text itself says how to say.
    """

    text: str
    said: tuple[Said, ...] = ()
    manners: tuple[Manner, ...] = (PLAIN,)
    lexicon: Mapping[str, str] = field(default_factory=dict)


def said_character(index: int) -> str:
    return chr(_SAID + index)


def said_index(character: str) -> int:
    return ord(character) - _SAID


def break_character(pause_s: float) -> str:
    return chr(_BREAK + round(pause_s * 1000))


def break_s(character: str) -> float:
    return (ord(character) - _BREAK) / 1000


def manner_character(index: int) -> str:
    return chr(_MANNER + index)


def manner_index(character: str) -> int:
    return ord(character) - _MANNER


def is_manner(character: str) -> bool:
    return ord(character) >= _MANNER


def is_ours(character: str) -> bool:
    return ord(character) >= _SAID
