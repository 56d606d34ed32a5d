"""Whom the `<voice>` elements of a text name, looked up and held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from cloning.errors import BadConditioning
from cloning.text.markup import voices_of
from store.errors import SpeakerNotFound

if TYPE_CHECKING:
    from store.service import Store
    from store.voices import VoiceRow


@contextmanager
def held_voices(store: Store, text: str, own: VoiceRow) -> Iterator[dict[str, VoiceRow]]:
    """Their voices by the names in the text, an id or a name each; until the block is left, pruning passes them over.

    `own` is the voice of the text's own speaker. Raises: TextRefused (`bad_markup`), SpeakerNotFound, BadConditioning
    (`wrong_encoder`), with the element and its place.
    """
    found: dict[str, VoiceRow] = {}
    with ExitStack() as stack:
        for name, at in voices_of(text).items():
            where = {"field": "text", "element": "voice", "position": at}
            said = f"text: <voice> at character {at}: {name[:80]!r}"
            try:
                held = stack.enter_context(store.hold(store.find(name).id))
            except SpeakerNotFound as error:
                raise SpeakerNotFound(error.code, f"{said} is no speaker's id or name", **where) from None
            if held.encoder_id != own.encoder_id:
                words = f"was enrolled with {held.encoder_id}, the text's own speaker with {own.encoder_id}"
                raise BadConditioning("wrong_encoder", f"{said} {words}; enrol one of them again", **where)
            found[name] = held
        yield found
