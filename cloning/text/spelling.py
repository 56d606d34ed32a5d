"""Front ends of voices that are spelt to: one id a character, of letters or of IPA."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cloning.errors import BundleError
from cloning.text.cleaning import clean
from cloning.text.folding import fold
from cloning.text.languages import READERS, base_tag
from cloning.text.lexicon import Lexicon
from cloning.text.limits import MOST_GROWTH, check_length
from cloning.text.marked import MarkedText, Said, is_ours, said_index
from cloning.text.markup import parse, unmarked
from cloning.text.phonemes import Word
from cloning.text.reading import Owned, Reading
from cloning.text.split import parts
from cloning.text.symbols import GAP, STRESSES, SymbolTable
from cloning.types import Spelling

_MARKS = ".,!?;:…"
# As most voices write IPA: stressed vowels of these are long.
_LONG = {"i": "iː", "u": "uː", "ɑ": "ɑː", "ɔ": "ɔː", "ɚ": "ɜː"}
# Letters that do not come apart into a plain one and a mark.
_UNMARKED = {"ł": "l", "ø": "o", "đ": "d", "ı": "i", "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"}
_IPA = {"d͡ʒ": "dʒ", "t͡ʃ": "tʃ", GAP: " "}
_NEAREST = {"ɡ": "g", "g": "ɡ", "ɹ": "r", "ɚ": "əɹ", "ɜ": "ə", "ː": "", "ʌ": "ɐ", "æ": "a"}


class CharacterFrontEnd(Reading):
    """Spells text in a voice's own letters; a lexicon's IPA is heard by voices that are spelt to in IPA.

    `languages` are the voice's own tags and ids; the first is the default. Raises: BundleError `bundle_mismatch`
    where the table lacks what stands between the letters.
    """

    def __init__(
        self, symbols: SymbolTable, languages: Mapping[str, int], max_symbols: int, max_chars: int, spelling: Spelling
    ) -> None:
        missing = [s for s in (spelling.blank, spelling.start, spelling.end) if s and s not in symbols]
        if missing or not languages:
            raise BundleError("bundle_mismatch", f"the voice's table lacks {missing}, or it names no language")
        super().__init__(symbols, {tag.lower(): index for tag, index in languages.items()}, max_chars)
        self._spelling = spelling
        edges = bool(spelling.start) + bool(spelling.end)
        self._max_letters = max(16, (max_symbols - edges - 1) // 2 if spelling.blank else max_symbols - edges)

    def ids(self, letters: str) -> tuple[int, ...]:
        """The ids of letters that the table holds, with what stands around and between them."""
        return self._symbols.ids(letter for letter, _ in self._spaced([(letter, None) for letter in letters]))

    def _spaced(self, letters: Sequence[Owned]) -> list[Owned]:
        blank, start, end = (
            (symbol, None) for symbol in (self._spelling.blank, self._spelling.start, self._spelling.end)
        )
        spaced = [blank, *(each for letter in letters for each in (letter, blank))]
        return [each for each in (start, *spaced, end) if each[0]]

    def _marked(self, text: str, markup: bool, lexicon: Mapping[str, str]) -> MarkedText:
        check_length(text, self._max_chars, "text")
        marked = parse(text) if markup else unmarked(text)
        marked = Lexicon({**lexicon, **marked.lexicon}).apply(marked)
        check_length(marked.text, self._max_chars * MOST_GROWTH, "lexicon" if lexicon else "text")
        return marked

    def _words(self, sentence: str, tag: str, marked: MarkedText) -> list[Word]:
        """The words of a sentence, each with the letters of it that the voice was taught."""
        readable = "".join(_as_written(char, marked.said) for char in sentence)
        return [self._word(word) for word in clean(readable, self._spelling.cleaner, tag).split(" ")]

    def _word(self, word: str) -> Word:
        letters: list[str] = []
        skipped: list[str] = []
        for char in word:
            nearest = char if char in self._symbols else self._nearest(char)
            letters += nearest
            if not nearest and char.isalnum():
                skipped.append(char)
        mark = letters.pop() if len(letters) > 1 and letters[-1] in _MARKS else ""
        return Word(word, tuple(letters), mark, tuple(skipped))

    def _nearest(self, char: str) -> str:
        """A character that the voice was not taught, in its plain form: without marks, or spelt out."""
        for plain in (fold(char), _UNMARKED.get(char, ""), unicodedata.normalize("NFD", char)[0]):
            if found := "".join(letter for letter in plain if letter in self._symbols and letter != " "):
                return found
        return ""

    def _breaths(self, words: list[Word]) -> list[list[Word]]:
        return parts(words, self._max_letters)

    def _written(self, breath: Sequence[Word]) -> str:
        return " ".join(word.text for word in breath)

    def _owned(self, breath: Sequence[Word]) -> list[Owned]:
        gap: list[Owned] = [(" ", None)] * (" " in self._symbols)
        letters: list[Owned] = []
        for index, word in enumerate(breath):
            letters += gap * bool(index)
            letters += [(letter, index) for letter in "".join(word.symbols)]
            letters += [(mark, None) for mark in word.mark]
        return self._spaced(letters)

    def _known(self, language: str) -> str | None:
        wanted = language.strip().lower().replace("_", "-")
        alike = (tag for tag in self._ids if base_tag(tag) == base_tag(wanted))
        return wanted if wanted in self._ids else next(alike, None)

    def _unreadable(self) -> str:
        return "this voice has none of its letters"


class IpaFrontEnd(CharacterFrontEnd):
    """Spells how English text is said, in the IPA letters of a voice.

    Raises: BundleError `bundle_mismatch` where none of the voice's languages can be read here.
    """

    def __init__(
        self, symbols: SymbolTable, languages: Mapping[str, int], max_symbols: int, max_chars: int, spelling: Spelling
    ) -> None:
        readable = {tag: index for tag, index in languages.items() if base_tag(tag) in READERS}
        if not readable:
            raise BundleError("bundle_mismatch", f"none of the voice's languages can be read: {sorted(languages)}")
        super().__init__(symbols, readable, max_symbols, max_chars, spelling)
        self._readers = {tag.lower(): READERS[base_tag(tag)]() for tag in readable}

    def _words(self, sentence: str, tag: str, marked: MarkedText) -> list[Word]:
        return [self._spelt(word) for word in self._readers[tag].words(fold(sentence), marked.said)]

    def _spelt(self, word: Word) -> Word:
        letters = "".join(_ipa(symbol) for symbol in word.symbols)
        known = "".join(c if c in self._symbols else _NEAREST.get(c, "") for c in letters)
        kept = tuple(c for c in known if c in self._symbols)
        return replace(word, symbols=kept, mark=word.mark if word.mark in self._symbols else "")


def _ipa(symbol: str) -> str:
    """A symbol of ours as other voices write it."""
    sound = symbol.lstrip("".join(STRESSES))
    stress = symbol[: len(symbol) - len(sound)]
    return stress + ((_LONG.get(sound) if stress else None) or _IPA.get(sound, sound))


def _as_written(char: str, said: Sequence[Said]) -> str:
    """A word that was given with its sounds, as it is written; breaks were taken out before."""
    return said[said_index(char)].text if is_ours(char) else char
