"""English words to symbols: a pronunciation library's letters, mapped to the alphabet of `symbols`."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloning.text.folding import fold, purge
from cloning.text.marked import SAID_CHARACTERS, Said, said_index
from cloning.text.normalise import normalise
from cloning.text.symbols import CONSONANTS, END, GAP, MARKS, START, STRESSES, VOWELS

if TYPE_CHECKING:
    from hibari.g2p.token import Tok

# The library's one-letter notation; letters that stand for themselves come from the alphabet.
_LETTERS = {
    **{"A": "eɪ", "I": "aɪ", "O": "oʊ", "W": "aʊ", "Y": "ɔɪ", "ʤ": "d͡ʒ", "ʧ": "t͡ʃ"},
    **{"T": "t", "ɾ": "t", "ʔ": "t", "r": "ɹ", "ʀ": "ɹ", "g": "ɡ"},
    **{"ᵊ": "ə", "ɐ": "ə", "ᵻ": "ɪ", "ɜ": "ɚ"},
}
_SOUNDS = {sound: sound for sound in (*CONSONANTS, *VOWELS) if len(sound) == 1} | _LETTERS
_MARK_OF = {mark: mark for mark in MARKS} | {"—": ",", "–": ",", "…": ".", "(": ",", ")": ","}
_SILENT = frozenset("“”\"-'")
_BY_STRENGTH = ["", ",", ":", ";", ".", "!", "?"]
_LETTER_OF = {sound: letter for letter, sound in _LETTERS.items() if letter in "AIOWYʤʧ"} | {"ɚ": "ɜɹ"}
_SAID = re.compile(rf"([{SAID_CHARACTERS}])('s\b|)( ?)")
_LONG_WORD = re.compile(r"[^\W\d_]{20,}")
# Letters past the Latin blocks; what is left of other scripts after folding is nothing an English reader can say.
_FOREIGN = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]+")
# The library takes the spaces before marks out, and then reads each stretch without a space as a whole, in the square
# of its length; of a number it knows no more than 36 digits.
_LONG_RUN = re.compile(r"(?=\S{81})(\S{0,79}[^\w\s]|\S{80})(?<=\S{40})")
_LONG_NUMBER = re.compile(r"\d[\d,]{36,}")
_R_COLOURED = re.compile("[ɜə]ɹ")


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is read: its symbols (a number has gaps inside) and the mark that follows it.

    `skipped` are letters that no symbol was found for; a word of nothing else has no symbols.
    """

    text: str
    symbols: tuple[str, ...]
    mark: str = ""
    skipped: tuple[str, ...] = ()


def join(words: Iterable[Word]) -> list[str]:
    """One utterance of words: ^ word mark _ word mark $"""
    return [symbol for symbol, _ in owned(words)]


def owned(words: Iterable[Word]) -> list[tuple[str, int | None]]:
    """The same with the index of the word that each sound is of; edges, marks and gaps are of none."""
    symbols: list[tuple[str, int | None]] = [(START, None)]
    for index, word in enumerate(words):
        if word.symbols:
            symbols += [(GAP, None)] * (len(symbols) > 1)
            symbols += [(symbol, None if symbol == GAP else index) for symbol in word.symbols]
            symbols += [(word.mark, None)] * bool(word.mark)
    return [*symbols, (END, None)]


class EnglishPhonemes:
    """Reads English. It keeps nothing between calls, so threads may share one."""

    def __init__(self) -> None:
        from hibari.g2p import G2P
        from hibari.g2p.normalize import ROMAN_CARDINAL, ROMAN_ORDINAL, normalize
        from hibari.g2p.token import Tok

        self._g2p = G2P()
        # The net for unknown words is made on first use: here, before two threads can race to it.
        self._longest_unknown = int(self._g2p.oov.maxlen)
        self._normalize = normalize
        triggers = "|".join(re.escape(word) for word in (*ROMAN_CARDINAL, *ROMAN_ORDINAL))
        self._before_numeral = re.compile(rf"\b(?:{triggers})(?= [IVXLC])")
        self._token = Tok

    def phonemes(self, text: str) -> list[str]:
        """The symbols of a text: 'Hello there.' gives ^ h ə l ˈoʊ _ ð ˈɛ ɹ . $"""
        return join(self.words(fold(purge(text))))

    def words(self, sentence: str, said: Sequence[Said] = ()) -> list[Word]:
        """The words of a folded sentence in order; said characters in it stand for `said`."""
        gathered = _Gathered()
        readable = _FOREIGN.sub(gathered.skip, normalise(sentence).replace('"', " "))
        readable = _LONG_WORD.sub(self._in_pieces, self._expand(readable))
        for token in self._g2p.phonemize_tokens(self._tokens(readable, said)):
            gathered.add(token)
        return gathered.close()

    def _expand(self, text: str) -> str:
        """The library's own readings of numbers, dates and money.

        It takes any capital of a numeral for one ('King Charles' for 'King the zeroth Charles'), so it is not shown
        such a pair at once; numerals are read before.
        """
        seams = [match.end() for match in self._before_numeral.finditer(text)]
        parts = [text[start:stop] for start, stop in zip([0, *seams], [*seams, len(text)], strict=True)]
        read = " ".join(self._normalize(part) for part in parts)
        return _LONG_RUN.sub(r"\1 ", _LONG_NUMBER.sub(lambda match: match[0].replace(",", ", "), read))

    def _tokens(self, text: str, said: Sequence[Said]) -> "list[Tok]":
        tokens: list[Tok] = []
        at = 0
        for match in _SAID.finditer(text):
            tokens += self._g2p.tokenize(text[at : match.start()])
            given = said[said_index(match[1])]
            letters = _letters(given.symbols) + (_possessive(given.symbols[-1]) if match[2] else "")
            tokens.append(self._token(given.text + match[2], "NN", match[3], phonemes=letters, rating=5))
            at = match.end()
        tokens += self._g2p.tokenize(text[at:])
        return tokens

    def _in_pieces(self, match: re.Match[str]) -> str:
        """The net hears only the first letters of a very long word, so it gets it in pieces."""
        word, size = match[0], self._longest_unknown
        if len(word) <= size or self._g2p.lexicon.is_known(word.lower(), "NN"):
            return word
        return " ".join(word[at : at + size] for at in range(0, len(word), size))


class _Gathered:
    """Words from the library's tokens: pieces without a space between are one word, marks join the word before."""

    def __init__(self) -> None:
        self._words: list[Word] = []
        self._word = Word("", ())
        self._glued = True

    def add(self, token: "Tok") -> None:
        symbols, mark, skipped = _read(token.phonemes or "")
        if not symbols and not mark and any(char.isalnum() for char in token.text):
            skipped = (*skipped, token.text)
        if (symbols or skipped) and (self._word.mark or not self._glued):
            self._end_word()
        word = self._word
        self._word = Word(
            text=word.text + token.text if symbols or skipped else word.text,
            symbols=word.symbols + symbols,
            mark=max(word.mark, mark, key=_BY_STRENGTH.index),
            skipped=word.skipped + skipped,
        )
        silent = not (symbols or skipped or mark)
        self._glued = not token.whitespace and (self._glued or not silent)

    def skip(self, match: re.Match[str]) -> str:
        """Notes letters that cannot be read, and leaves a gap for them."""
        self._words.append(Word(match[0], (), skipped=(match[0],)))
        return " "

    def close(self) -> list[Word]:
        self._end_word()
        return self._words

    def _end_word(self) -> None:
        if self._word.symbols or self._word.skipped:
            self._words.append(self._word)
        self._word = Word("", ())


def _letters(symbols: Iterable[str]) -> str:
    """Symbols in the library's notation, which is what decides how 'the' and 'a' before them are said."""
    letters = []
    for symbol in symbols:
        sound = symbol.lstrip("".join(STRESSES))
        letters.append(symbol[: len(symbol) - len(sound)] + _LETTER_OF.get(sound, sound))
    return "".join(letters)


def _possessive(last: str) -> str:
    if last in ("s", "z", "ʃ", "ʒ", "t͡ʃ", "d͡ʒ"):
        return "ᵻz"
    return "s" if last in ("p", "t", "k", "f", "θ") else "z"


def _read(phonemes: str) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """A token's symbols, its strongest mark, and the letters that have neither."""
    symbols: list[str] = []
    skipped: list[str] = []
    mark, stress = "", ""
    for letter in _R_COLOURED.sub("ɚ", phonemes):
        if sound := _SOUNDS.get(letter):
            is_vowel = sound in VOWELS
            symbols.append(stress + sound if is_vowel else sound)
            stress = "" if is_vowel else stress
        elif letter in STRESSES:
            stress = letter
        elif letter == " ":
            symbols += [GAP] * (bool(symbols) and symbols[-1] != GAP)
        elif letter in _MARK_OF:
            mark = max(mark, _MARK_OF[letter], key=_BY_STRENGTH.index)
        elif letter not in _SILENT:
            skipped.append(letter)
    if symbols and symbols[-1] == GAP:
        symbols.pop()
    return tuple(symbols), mark, tuple(skipped)
