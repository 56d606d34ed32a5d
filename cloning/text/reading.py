"""What all front ends share: text in parts, each with its ids, its silence, and what could not be read."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cloning.errors import LanguageUnsupported, TextRefused
from cloning.text.marked import MarkedText
from cloning.text.markup import unread_as_spaces
from cloning.text.phonemes import Word
from cloning.text.places import places, reach
from cloning.text.split import CLAUSE_PAUSE_S, Piece, split
from cloning.text.symbols import SymbolTable
from cloning.types import SpokenText, SpokenWord

# A symbol, and the index of the word that it is a sound of.
Owned = tuple[str, int | None]


class Reading(ABC):
    """Text to sentences of token ids for one voice. It keeps nothing between calls, so threads may share one."""

    def __init__(self, symbols: SymbolTable, ids: Mapping[str, int], max_chars: int) -> None:
        self._symbols, self._ids, self._max_chars = symbols, dict(ids), max_chars

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
        tag = self._tag(language)
        marked = self._marked(text, markup, lexicon or {})
        spoken: list[SpokenText] = []
        skipped: list[str] = []
        for piece in split(marked.text):
            words = self._words(piece.text, tag, marked)
            skipped += (letters for word in words for letters in word.skipped)
            said = self._spoken([word for word in words if word.symbols], piece, skipped)
            manner = marked.manners[piece.manner]
            if said:
                spoken += (replace(each, rate=manner.rate, voice=manner.voice) for each in said)
                skipped = []
        if not spoken:
            raise self._nothing_to_say(skipped)
        if skipped:
            spoken[-1] = replace(spoken[-1], skipped=(*spoken[-1].skipped, *skipped))
        return _placed(spoken, unread_as_spaces(text) if markup else text)

    def _tag(self, language: str | None) -> str:
        """The voice's tag of a language. Raises: LanguageUnsupported."""
        tag = next(iter(self._ids), None) if language is None else self._known(language)
        if tag is None:
            message = f"language: {language!r} is not spoken by this voice; choose from {', '.join(self._ids)}"
            raise LanguageUnsupported("language_unsupported", message, field="language", languages=list(self._ids))
        return tag

    def _spoken(self, words: list[Word], piece: Piece, skipped: Sequence[str]) -> list[SpokenText]:
        breaths = self._breaths(words)
        owned = [self._owned(breath) for breath in breaths]
        return [
            SpokenText(
                text=self._written(breath),
                token_ids=self._symbols.ids(symbol for symbol, _ in owned[at]),
                pause_after_s=CLAUSE_PAUSE_S if at + 1 < len(breaths) else piece.pause_after_s,
                skipped=() if at else tuple(skipped),
                words=_with_sounds(breath, owned[at]),
            )
            for at, breath in enumerate(breaths)
        ]

    def _nothing_to_say(self, skipped: Sequence[str]) -> TextRefused | LanguageUnsupported:
        if not skipped:
            return TextRefused("nothing_to_say", "text: there is nothing to say in it; send words", field="text")
        characters = sorted(set("".join(skipped)))
        message = f"text: {self._unreadable()}: {' '.join(characters[:20])}"
        return LanguageUnsupported(
            "language_unsupported", message, field="text", characters=characters, languages=list(self._ids)
        )

    @abstractmethod
    def _known(self, language: str) -> str | None:
        """The voice's tag of a language that is asked for, None where it has none."""

    @abstractmethod
    def _marked(self, text: str, markup: bool, lexicon: Mapping[str, str]) -> MarkedText:
        """The text within its limits, with its marks and its lexicon's words."""

    @abstractmethod
    def _words(self, sentence: str, tag: str, marked: MarkedText) -> list[Word]:
        """The words of a sentence, each with the symbols of it that the voice was taught."""

    @abstractmethod
    def _breaths(self, words: list[Word]) -> list[list[Word]]:
        """The words in parts that the voice can take at once."""

    @abstractmethod
    def _written(self, breath: Sequence[Word]) -> str:
        """A part as it is read."""

    @abstractmethod
    def _owned(self, breath: Sequence[Word]) -> list[Owned]:
        """The symbols of a part, all of them in the table."""

    @abstractmethod
    def _unreadable(self) -> str:
        """Why nothing of a text could be read."""


def _with_sounds(breath: Sequence[Word], owned: Sequence[Owned]) -> tuple[SpokenWord, ...]:
    sounds: list[list[tuple[int, str]]] = [[] for _ in breath]
    for at, (symbol, owner) in enumerate(owned):
        if owner is not None:
            sounds[owner].append((at, symbol))
    return tuple(SpokenWord(word.text, tuple(its)) for word, its in zip(breath, sounds, strict=True) if its)


def _placed(spoken: Sequence[SpokenText], text: str) -> list[SpokenText]:
    """The sentences with the places of their words in the text that was sent."""
    found = iter(places(text, [word.text for sentence in spoken for word in sentence.words]))
    placed: list[SpokenText] = []
    taken = 0
    for sentence in spoken:
        words = _one_for_each_writing([replace(word, place=next(found)) for word in sentence.words])
        place = reach(text, (words[0].place[0], words[-1].place[1]), taken)
        taken = place[1]
        placed.append(replace(sentence, words=words, place=place))
    return placed


def _one_for_each_writing(words: Sequence[SpokenWord]) -> tuple[SpokenWord, ...]:
    """Words read from one writing ('$5': 'five dollars') as one; so are those without a place, with the one before."""
    merged: list[SpokenWord] = []
    for word in words:
        if merged and (word.place == merged[-1].place or word.place[0] == word.place[1]):
            last = merged[-1]
            merged[-1] = replace(last, text=f"{last.text} {word.text}".strip(), sounds=last.sounds + word.sounds)
        else:
            merged.append(word)
    return tuple(merged)
