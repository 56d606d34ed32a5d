"""What can be told of how texts are to be read before there is a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cloning.errors import LanguageUnsupported
from cloning.text.languages import base_tag
from cloning.text.lexicon import Lexicon

if TYPE_CHECKING:
    from cloning.config import VoiceConfig


def check_reading(language: str | None, lexicon: Mapping[str, str], voice: VoiceConfig) -> None:
    """Raises: LanguageUnsupported, TextRefused (`bad_lexicon`)."""
    Lexicon(lexicon)
    spoken = list(voice.text.languages)
    if language is not None and base_tag(language) not in map(base_tag, spoken):
        words = f"language: {language!r} is not spoken by this voice; choose from {', '.join(spoken)}"
        raise LanguageUnsupported("language_unsupported", words, field="language", languages=spoken)
