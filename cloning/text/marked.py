"""Text that carries instructions: single private characters stand for pauses and for words said as given.

Users' own private characters are removed before any of ours is put in, so none can be forged.
"""

from dataclasses import dataclass

_SAID = 0xF0000
_BREAK = 0x100000
MAX_BREAK_S = 10.0
SAID_CHARACTERS = f"{chr(_SAID)}-{chr(_BREAK - 3)}"
BREAK_CHARACTERS = f"{chr(_BREAK)}-{chr(_BREAK + int(MAX_BREAK_S * 1000))}"


@dataclass(frozen=True, slots=True)
class Said:
    """A word whose sounds were given with the text."""

    text: str
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MarkedText:
    """`text`, in which the n-th said character stands for `said[n]`."""

    text: str
    said: tuple[Said, ...] = ()


def said_character(index: int) -> str:
    return chr(_SAID + index)


def said_index(character: str) -> int:
    return ord(character) - _SAID


def break_character(pause_s: float) -> str:
    return chr(_BREAK + round(pause_s * 1000))


def break_s(character: str) -> float:
    return (ord(character) - _BREAK) / 1000


def is_ours(character: str) -> bool:
    return ord(character) >= _SAID
