"""The languages that can be read: one entry a language, made on first use of a front end that needs it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from cloning.text.marked import Said
from cloning.text.phonemes import EnglishPhonemes, Word


class Reader(Protocol):
    """What a language gives: the words of a sentence with their symbols."""

    def words(self, sentence: str, said: Sequence[Said] = ()) -> list[Word]: ...


READERS: dict[str, Callable[[], Reader]] = {"en": EnglishPhonemes}
_NAMES = {"english": "en", "eng": "en"}


def base_tag(tag: str) -> str:
    """The language of a tag in lower case: 'en-US', 'EN_us' and 'English' are 'en'."""
    language = tag.strip().lower().replace("_", "-").partition("-")[0]
    return _NAMES.get(language, language)
