"""The one door from text to token ids."""

from collections.abc import Mapping
from dataclasses import replace

from cloning.errors import BundleError, LanguageUnsupported, TextRefused
from cloning.text.folding import fold
from cloning.text.languages import READERS, Reader, base_tag
from cloning.text.lexicon import Lexicon
from cloning.text.limits import MOST_GROWTH, check_length
from cloning.text.marked import MarkedText
from cloning.text.markup import parse, unmarked
from cloning.text.phonemes import Word, join
from cloning.text.spelling import CharacterFrontEnd, IpaFrontEnd
from cloning.text.split import CLAUSE_PAUSE_S, Piece, parts, split
from cloning.text.symbols import END, GAP, START, SymbolTable
from cloning.types import Spelling, SpokenText

DEFAULT_KIND = "english-phonemes"
_ENDS = frozenset((".", "?", "!"))
_EDGES = 3  # the start, the end, and the full stop that a part without one is given
_LEAST_SYMBOLS = 16


class TextFrontEnd:
    """Reads text for one voice. It keeps nothing between calls, so threads may share one.

    `languages` are the voice's own tags and ids; the first is the default. Raises: BundleError `bundle_mismatch`
    where none of them can be read here.
    """

    def __init__(
        self, symbols: SymbolTable, languages: Mapping[str, int], max_symbols: int, max_chars: int = 5000
    ) -> None:
        self._symbols = symbols
        self._max_symbols = max_symbols
        self._max_chars = max_chars
        self._ids = {base_tag(tag): index for tag, index in languages.items() if base_tag(tag) in READERS}
        if not self._ids:
            raise BundleError("bundle_mismatch", f"none of the voice's languages can be read: {sorted(languages)}")
        missing = [symbol for symbol in (START, END, GAP) if symbol not in symbols]
        if missing or max_symbols < _LEAST_SYMBOLS:
            message = f"the voice's table lacks {missing}, or takes under {_LEAST_SYMBOLS} symbols: {max_symbols}"
            raise BundleError("bundle_mismatch", message)
        self._readers: dict[str, Reader] = {tag: READERS[tag]() for tag in self._ids}

    @property
    def languages(self) -> tuple[str, ...]:
        """The tags that may be asked for, the default first."""
        return tuple(self._ids)

    def language_id(self, language: str | None) -> int:
        """The voice's id of a language; of its default where none is named.

        Raises: LanguageUnsupported, with the list of those that are.
        """
        return self._ids[self._tag(language)]

    def encode(
        self, text: str, language: str | None = None, lexicon: Mapping[str, str] | None = None, markup: bool = True
    ) -> list[SpokenText]:
        """The text in parts of at most `max_symbols` ids, in order, each with the silence after it.

        `markup` off reads Markdown's and tags' signs as text. Raises: TextRefused `text_too_long`, `bad_markup`,
        `bad_lexicon`, `nothing_to_say`; LanguageUnsupported.
        """
        reader = self._readers[self._tag(language)]
        marked = self._within_limit(text, markup, Lexicon(lexicon or {}))
        spoken: list[SpokenText] = []
        skipped: tuple[str, ...] = ()
        for piece in split(marked.text):
            words = [self._in_alphabet(word) for word in reader.words(piece.text, marked.said)]
            skipped += tuple(letters for word in words for letters in word.skipped)
            said = self._spoken(words, piece, skipped)
            skipped = () if said else skipped
            spoken += said
        if not spoken:
            raise self._nothing_to_say(skipped)
        if skipped:
            spoken[-1] = replace(spoken[-1], skipped=spoken[-1].skipped + skipped)
        return spoken

    def _tag(self, language: str | None) -> str:
        tag = next(iter(self._ids)) if language is None else base_tag(language)
        if tag not in self._ids:
            message = f"language: {language!r} is not spoken by this voice; choose from {', '.join(self._ids)}"
            raise LanguageUnsupported("language_unsupported", message, field="language", languages=list(self._ids))
        return tag

    def _within_limit(self, text: str, markup: bool, lexicon: Lexicon) -> MarkedText:
        """The folded text with its marks, no longer than may be read. Lengths are in code points."""
        check_length(text, self._max_chars, "text")
        marked = parse(text) if markup else unmarked(text)
        folded = replace(marked, text=fold(marked.text))
        check_length(folded.text, self._max_chars * MOST_GROWTH, "text")
        replaced = lexicon.apply(folded)
        check_length(replaced.text, self._max_chars * MOST_GROWTH, "lexicon")
        return replaced

    def _in_alphabet(self, word: Word) -> Word:
        """The word without the symbols that this voice was not taught."""
        missing = tuple(symbol for symbol in word.symbols if symbol not in self._symbols)
        if not missing:
            return word
        symbols = tuple(symbol for symbol in word.symbols if symbol in self._symbols)
        return replace(word, symbols=symbols, skipped=word.skipped + missing)

    def _spoken(self, words: list[Word], piece: Piece, skipped: tuple[str, ...]) -> list[SpokenText]:
        said = [word for word in words if word.symbols]
        breaths = _closed(parts(said, self._max_symbols - _EDGES))
        return [
            SpokenText(
                text=_written(breath),
                token_ids=self._symbols.ids(symbol for symbol in join(breath) if symbol in self._symbols),
                pause_after_s=CLAUSE_PAUSE_S if breaths[at + 1 :] else piece.pause_after_s,
                skipped=() if at else skipped,
            )
            for at, breath in enumerate(breaths)
        ]

    def _nothing_to_say(self, skipped: tuple[str, ...]) -> TextRefused | LanguageUnsupported:
        if not skipped:
            return TextRefused("nothing_to_say", "text: there is nothing to say in it; send words", field="text")
        characters = sorted(set("".join(skipped)))
        message = f"text: none of it can be read in {', '.join(self._ids)}: {' '.join(characters[:20])}"
        return LanguageUnsupported(
            "language_unsupported", message, field="text", characters=characters, languages=list(self._ids)
        )


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


def _written(words: list[Word]) -> str:
    return " ".join(word.text.removesuffix(word.mark) + word.mark for word in words)


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
