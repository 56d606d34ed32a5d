"""A caller's own pronunciations: words said as respelled, or as IPA between slashes."""

import re
from collections.abc import Mapping
from dataclasses import replace

from cloning.errors import TextRefused
from cloning.text.folding import fold, purge
from cloning.text.ipa import symbols_of_ipa
from cloning.text.marked import MarkedText, Said, said_character

MAX_ENTRIES = 1000
MAX_CHARS = 100
_Entry = str | Said


class Lexicon:
    """Words of any case and how they are said; the longest match at a place wins.

    Raises: TextRefused `bad_lexicon` for an entry that cannot be read, naming it.
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        if len(entries) > MAX_ENTRIES:
            _refuse(f"lexicon has {len(entries)} entries; the limit is {MAX_ENTRIES}", "lexicon", limit=MAX_ENTRIES)
        self._entries = {_key(word): _entry(word, said) for word, said in entries.items()}
        words = sorted(self._entries, key=len, reverse=True)
        alternatives = "|".join(re.escape(word) for word in words)
        self._pattern = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE) if words else None

    def apply(self, marked: MarkedText) -> MarkedText:
        """The text with each word that has an entry replaced."""
        if self._pattern is None:
            return marked
        said = list(marked.said)

        def replaced(match: re.Match[str]) -> str:
            entry = self._entries[match[0].lower()]
            if isinstance(entry, str):
                return entry
            said.append(Said(match[0], entry.symbols))
            return said_character(len(said) - 1)

        text = self._pattern.sub(replaced, marked.text)
        return replace(marked, text=text, said=tuple(said))


def _key(word: str) -> str:
    key = fold(purge(word)).strip().lower()
    if not any(char.isalnum() for char in key):
        _refuse(f"lexicon: {word!r} is not a word; it needs a letter or a digit", _field(word))
    return _within_limit(key, word)


def _entry(word: str, said: str) -> _Entry:
    text = _within_limit(purge(said).strip(), word)
    if not (len(text) > 1 and text[0] == text[-1] == "/"):
        respelling = fold(text).strip()
        if not any(char.isalnum() for char in respelling):
            _refuse(f"lexicon: {word!r} has nothing to say; give a respelling or /IPA/", _field(word))
        return respelling
    symbols, unknown = symbols_of_ipa(text.strip("/"))
    if unknown or not symbols:
        letters = " ".join(unknown) or "it is empty"
        message = f"lexicon: {word!r} is said with letters that are not IPA of this language: {letters}"
        _refuse(message, _field(word), unknown=list(unknown))
    return Said(word, symbols)


def _field(word: str) -> str:
    return f"lexicon.{purge(word)[:MAX_CHARS]}"


def _within_limit(text: str, word: str) -> str:
    if len(text) > MAX_CHARS:
        message = f"lexicon: an entry has {len(text)} characters; the limit is {MAX_CHARS}"
        _refuse(message, _field(word), limit=MAX_CHARS, length=len(text))
    return text


def _refuse(message: str, field: str, **details: object) -> None:
    raise TextRefused("bad_lexicon", message, field=field, **details)
