"""The one door from text to token ids."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cloning.errors import BundleError
from cloning.text.folding import fold
from cloning.text.languages import READERS, Reader, base_tag
from cloning.text.lexicon import Lexicon
from cloning.text.limits import MOST_GROWTH, check_length
from cloning.text.marked import MarkedText
from cloning.text.markup import parse, unmarked
from cloning.text.phonemes import Word, owned
from cloning.text.reading import Owned, Reading
from cloning.text.spelling import CharacterFrontEnd, IpaFrontEnd
from cloning.text.split import parts
from cloning.text.symbols import END, GAP, START, SymbolTable
from cloning.types import Spelling

DEFAULT_KIND = "english-phonemes"
_ENDS = frozenset((".", "?", "!"))
_EDGES = 3  # the start, the end, and the full stop that a part without one is given
_LEAST_SYMBOLS = 16


class TextFrontEnd(Reading):
    """Reads text aloud for one voice.

    `languages` are the voice's own tags and ids; the first is the default. Raises: BundleError `bundle_mismatch`
    where none of them can be read here.
    """

    def __init__(
        self, symbols: SymbolTable, languages: Mapping[str, int], max_symbols: int, max_chars: int = 5000
    ) -> None:
        readable = {base_tag(tag): index for tag, index in languages.items() if base_tag(tag) in READERS}
        super().__init__(symbols, readable, max_chars)
        self._max_symbols = max_symbols
        if not readable:
            raise BundleError("bundle_mismatch", f"none of the voice's languages can be read: {sorted(languages)}")
        missing = [symbol for symbol in (START, END, GAP) if symbol not in symbols]
        if missing or max_symbols < _LEAST_SYMBOLS:
            message = f"the voice's table lacks {missing}, or takes under {_LEAST_SYMBOLS} symbols: {max_symbols}"
            raise BundleError("bundle_mismatch", message)
        self._readers: dict[str, Reader] = {tag: READERS[tag]() for tag in self._ids}

    def _known(self, language: str) -> str | None:
        return base_tag(language) if base_tag(language) in self._ids else None

    def _marked(self, text: str, markup: bool, lexicon: Mapping[str, str]) -> MarkedText:
        """The folded text with its marks, no longer than may be read. Lengths are in code points."""
        check_length(text, self._max_chars, "text")
        marked = parse(text) if markup else unmarked(text)
        replacing = Lexicon({**lexicon, **marked.lexicon})
        folded = replace(marked, text=fold(marked.text))
        check_length(folded.text, self._max_chars * MOST_GROWTH, "text")
        replaced = replacing.apply(folded)
        check_length(replaced.text, self._max_chars * MOST_GROWTH, "lexicon")
        return replaced

    def _in_alphabet(self, word: Word) -> Word:
        """The word without the symbols that this voice was not taught."""
        missing = tuple(symbol for symbol in word.symbols if symbol not in self._symbols)
        if not missing:
            return word
        symbols = tuple(symbol for symbol in word.symbols if symbol in self._symbols)
        return replace(word, symbols=symbols, skipped=word.skipped + missing)

    def _words(self, sentence: str, tag: str, marked: MarkedText) -> list[Word]:
        return [self._in_alphabet(word) for word in self._readers[tag].words(sentence, marked.said)]

    def _breaths(self, words: list[Word]) -> list[list[Word]]:
        return _closed(parts(words, self._max_symbols - _EDGES))

    def _written(self, breath: Sequence[Word]) -> str:
        return " ".join(word.text.removesuffix(word.mark) + word.mark for word in breath)

    def _owned(self, breath: Sequence[Word]) -> list[Owned]:
        return [each for each in owned(breath) if each[0] in self._symbols]

    def _unreadable(self) -> str:
        return f"none of it can be read in {', '.join(self._ids)}"


def _closed(breaths: list[list[Word]]) -> list[list[Word]]:
    """Each part with a mark at its end: a voice that never heard speech just stop would not know how."""
    closed = []
    for breath in breaths:
        last = breath[-1]
        mark = last.mark
        if breath is breaths[-1] and mark not in _ENDS:
            mark = "."
        closed.append([*breath[:-1], replace(last, mark=mark or ",")])
    return closed


FrontEnd = TextFrontEnd | CharacterFrontEnd
_SPELLERS: dict[str, type[CharacterFrontEnd]] = {"characters": CharacterFrontEnd, "ipa": IpaFrontEnd}
NO_SPELLING = Spelling()
KINDS = (DEFAULT_KIND, *_SPELLERS)


def front_end(
    kind: str,
    symbols: SymbolTable,
    languages: Mapping[str, int],
    max_symbols: int,
    max_chars: int = 5000,
    spelling: Spelling = NO_SPELLING,
) -> FrontEnd:
    """The front end that a voice names in its model.json; `spelling` is read by those that spell.

    Raises: BundleError `bundle_mismatch` for a kind, or languages, that this program does not have.
    """
    if kind == DEFAULT_KIND:
        return TextFrontEnd(symbols, languages, max_symbols, max_chars)
    if kind not in _SPELLERS:
        message = f"text front end {kind!r} is not one of {sorted(KINDS)}"
        raise BundleError("bundle_mismatch", message, field="front_end")
    return _SPELLERS[kind](symbols, languages, max_symbols, max_chars, spelling)
