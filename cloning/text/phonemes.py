"""English words to symbols: a pronunciation library's letters, mapped to the alphabet of `symbols`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hibari.g2p import G2P
from hibari.g2p.normalize import normalize
from hibari.g2p.token import Tok

from cloning.text.symbols import CONSONANTS, END, GAP, MARKS, START, STRESSES, VOWELS

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
_DOUBLE_QUOTES = re.compile('["“”„‟«»]')
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
    symbols = [START]
    for word in words:
        if word.symbols:
            symbols += [GAP] * (len(symbols) > 1)
            symbols += word.symbols
            symbols += [word.mark] * bool(word.mark)
    return [*symbols, END]


class EnglishPhonemes:
    """Reads English. It keeps nothing between calls, so threads may share one."""

    def __init__(self) -> None:
        self._g2p = G2P()
        # The net for unknown words is made on first use: here, before two threads can race to it.
        _ = self._g2p.oov

    def phonemes(self, text: str) -> list[str]:
        """The symbols of a text: 'Hello there.' gives ^ h ə l ˈoʊ _ ð ˈɛ ɹ . $"""
        return join(self.words(text))

    def words(self, text: str) -> list[Word]:
        """The words of a text in order, each with its symbols."""
        gathered = _Gathered()
        # The library reads a word that touches a double quote as another word.
        unquoted = _DOUBLE_QUOTES.sub(" ", text)
        for token in self._g2p.phonemize_tokens(self._g2p.tokenize(normalize(unquoted))):
            gathered.add(token)
        return gathered.close()


class _Gathered:
    """Words from the library's tokens: pieces without a space between are one word, marks join the word before."""

    def __init__(self) -> None:
        self._words: list[Word] = []
        self._word = Word("", ())
        self._glued = True

    def add(self, token: Tok) -> None:
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
        self._glued = not token.whitespace

    def close(self) -> list[Word]:
        self._end_word()
        return self._words

    def _end_word(self) -> None:
        if self._word.symbols or self._word.skipped:
            self._words.append(self._word)
        self._word = Word("", ())


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
