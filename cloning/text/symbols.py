"""The alphabet between text and network: named symbols, and the table that numbers them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

PAD, START, END, GAP = "<pad>", "^", "$", "_"
MARKS = (",", ".", "?", "!", ";", ":")
STRESSES = ("ˈ", "ˌ")
CONSONANTS = (*"bd", "d͡ʒ", *"fhjklmnpst", "t͡ʃ", *"vwzðŋɡɹʃʒθ")
VOWELS = ("aɪ", "aʊ", "eɪ", "i", "oʊ", "u", "æ", "ɑ", "ɔ", "ɔɪ", "ə", "ɚ", "ɛ", "ɪ", "ʊ", "ʌ")
ENGLISH_SYMBOLS = (
    PAD,
    START,
    END,
    GAP,
    *MARKS,
    *CONSONANTS,
    *(stress + vowel for vowel in VOWELS for stress in ("", *STRESSES)),
)


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """A voice's own list of symbols; a symbol's id is its place in the list."""

    symbols: tuple[str, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ids = {symbol: index for index, symbol in enumerate(self.symbols)}
        if len(ids) != len(self.symbols):
            twice = sorted({symbol for symbol in self.symbols if self.symbols.count(symbol) > 1})
            raise ValueError(f"symbols must be unique; these are listed twice: {twice}")
        object.__setattr__(self, "_ids", ids)

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._ids

    def __len__(self) -> int:
        return len(self.symbols)

    def ids(self, symbols: Iterable[str]) -> tuple[int, ...]:
        """The ids of symbols.

        Raises: ValueError where a symbol is not in the table.
        """
        try:
            return tuple(self._ids[symbol] for symbol in symbols)
        except KeyError as error:
            raise ValueError(f"symbol {error.args[0]!r} is not in this voice's table of {len(self)}") from None


def default_symbols() -> SymbolTable:
    """The English alphabet: edges, gap, marks, and phonemes whose vowels carry their stress."""
    return SymbolTable(ENGLISH_SYMBOLS)
