"""What several doors look up: all speakers, one by name, the installed voices. Knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.errors import SpeakerNotFound
from store.types import Speaker

if TYPE_CHECKING:
    from api.shelf import Shelf
    from store.service import Store

_PAGE = 500
_HINTED = 5


def every_speaker(store: Store) -> Iterator[Speaker]:
    """All speakers, oldest first."""
    cursor: str | None = None
    while True:
        page = store.list(cursor, _PAGE)
        yield from page.speakers
        cursor = page.next_cursor
        if cursor is None:
            return


def find_speaker(store: Store, name_or_id: str) -> Speaker:
    """The speaker of this id or name. Raises: SpeakerNotFound, with some that there are."""
    try:
        return store.find(name_or_id)
    except SpeakerNotFound as error:
        known = ", ".join(speaker.name for speaker in store.list(None, _HINTED).speakers)
        hint = f"some that there are: {known}" if known else "none is enrolled yet, POST /v1/speakers"
        raise SpeakerNotFound(error.code, f"no speaker has this id or name; {hint}", field="voice") from None


def installed(shelf: Shelf) -> tuple[str, ...]:
    """The voices by their ids with revision, the one in use first, and by their names."""
    voices = sorted(shelf.voices(), key=lambda voice: not voice.in_use)
    return (*(voice.info.model_id for voice in voices if voice.info), *(voice.name for voice in voices))


def model_or_default(shelf: Shelf, model: str | None) -> str | None:
    """The model if it is one here; None, the voice in use, for the names that clients have built in."""
    return model if model in installed(shelf) else None
