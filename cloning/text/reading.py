"""What all front ends share: text in parts, each with its ids, its silence, and what could not be read."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cloning.errors import LanguageUnsupported, TextRefused
from cloning.text.marked import MarkedText
from cloning.text.phonemes import Word
from cloning.text.split import CLAUSE_PAUSE_S, Piece, split
from cloning.text.symbols import SymbolTable
from cloning.types import SpokenText


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
        skipped: tuple[str, ...] = ()
        for piece in split(marked.text):
            words = self._words(piece.text, tag, marked)
            skipped += tuple(letters for word in words for letters in word.skipped)
            said = self._spoken([word for word in words if word.symbols], piece, skipped)
            skipped = () if said else skipped
            spoken += said
        if not spoken:
            raise self._nothing_to_say(skipped)
        if skipped:
            spoken[-1] = replace(spoken[-1], skipped=spoken[-1].skipped + skipped)
        return spoken

    def _tag(self, language: str | None) -> str:
        """The voice's tag of a language. Raises: LanguageUnsupported."""
        tag = next(iter(self._ids), None) if language is None else self._known(language)
        if tag is None:
            message = f"language: {language!r} is not spoken by this voice; choose from {', '.join(self._ids)}"
            raise LanguageUnsupported("language_unsupported", message, field="language", languages=list(self._ids))
        return tag

    def _spoken(self, words: list[Word], piece: Piece, skipped: tuple[str, ...]) -> list[SpokenText]:
        breaths = self._breaths(words)
        return [
            SpokenText(
                text=self._written(breath),
                token_ids=self._token_ids(breath),
                pause_after_s=CLAUSE_PAUSE_S if breaths[at + 1 :] else piece.pause_after_s,
                skipped=() if at else skipped,
            )
            for at, breath in enumerate(breaths)
        ]

    def _nothing_to_say(self, skipped: tuple[str, ...]) -> TextRefused | LanguageUnsupported:
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
    def _token_ids(self, breath: Sequence[Word]) -> tuple[int, ...]:
        """The ids of a part."""

    @abstractmethod
    def _unreadable(self) -> str:
        """Why nothing of a text could be read."""
