"""`voicekin reembed`: speakers to another voice's encoder, heard anew from the clips that were kept of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from api.command_line import ACTOR, AsJson, settings_now, show

if TYPE_CHECKING:
    from api.settings import Settings
    from encoder.audio import Decoder
    from encoder.engine import SpeakerEncoder
    from encoder.types import AudioLimits
    from store.service import Store
    from store.types import Speaker

_PAGE = 200


@dataclass(frozen=True, slots=True)
class Reembedding:
    """Moves speakers of a store to one encoder."""

    store: Store
    encoder: SpeakerEncoder
    decoder: Decoder
    limits: AudioLimits

    def move(self, speaker: Speaker, dry_run: bool = False) -> str | None:
        """Hears all the speaker's clips anew and stores that, or says why it cannot be done.

        A dry run looks only whether the clips are there. Raises: StorageFull, StoreUnavailable.
        """
        from api.enrolment import clip_records, report_document
        from encoder.errors import EncoderError
        from encoder.reference import embed_clips
        from store.errors import BadArgument, BadVector, SpeakerNotFound, VoiceProtected

        try:
            kept = self.store.kept_clips(speaker.id)
            clips = [clip for clip in kept.values() if clip is not None]
            if len(clips) < len(kept):
                return f"{len(kept) - len(clips)} of {len(kept)} clips are not kept, or damaged: enrol again"
            if not dry_run:
                reference = embed_clips(clips, self.encoder, self.decoder, self.limits)
                report = report_document(reference.report)
                self.store.reembed(speaker.id, self.encoder.encoder_id, clip_records(reference), report, ACTOR)
        except (EncoderError, BadArgument, BadVector, SpeakerNotFound, VoiceProtected) as error:
            return error.message
        except OSError as error:
            return f"its clips cannot be read: {error.strerror}"
        return None


def reembed(
    model: Annotated[str, typer.Option(help="An installed voice, whose encoder hears them.")],
    speakers: Annotated[list[str] | None, typer.Argument(help="Ids or names; by default all.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say who would be moved, and whose clips lack.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Move speakers to another voice's encoder, from the clips that VOICEKIN_KEEP_CLIPS has kept. Can be run again.

    Exit code 1 where a speaker could not be moved; they are listed with the reason and stay as they were.
    """
    document = _reembed(settings_now(), model, speakers or [], dry_run)
    show(document, as_json, _show_moved)
    if document["refused"]:
        raise typer.Exit(1)


def _reembed(settings: Settings, model: str, names: Sequence[str], dry_run: bool) -> dict[str, Any]:
    from api.services import open_store, open_voices
    from encoder.audio import Decoder

    with open_store(settings) as store, open_voices(settings) as loaded, Decoder() as decoder:
        moving = Reembedding(store, loaded.encoders.of_voice(model), decoder, settings.audio_limits())
        return _move_all(moving, names, dry_run) | {"model": model, "dry_run": dry_run}


def _move_all(moving: Reembedding, names: Sequence[str], dry_run: bool) -> dict[str, Any]:
    from rich.progress import track

    encoder_id = moving.encoder.encoder_id
    moved: list[dict[str, str]] = []
    refused: list[dict[str, str]] = []
    n_there = 0
    asked = {speaker.id: speaker for speaker in map(moving.store.find, names)}
    total = len(asked) if names else moving.store.list(limit=1).total
    speakers = iter(asked.values()) if names else _everyone(moving.store)
    console = Console(stderr=True)
    for speaker in track(speakers, "Listening again", total=total, console=console, transient=True):
        if speaker.encoder_id == encoder_id:
            n_there += 1
            continue
        who = {"speaker_id": speaker.id, "name": speaker.name}
        reason = moving.move(speaker, dry_run)
        if reason is None:
            moved.append(who)
        else:
            refused.append({**who, "reason": reason})
    return {"encoder_id": encoder_id, "moved": moved, "n_there": n_there, "refused": refused}


def _everyone(store: Store) -> Iterator[Speaker]:
    cursor: str | None = None
    while True:
        page = store.list(cursor, _PAGE)
        yield from page.speakers
        cursor = page.next_cursor
        if cursor is None:
            return


def _show_moved(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_rows

    verb = "would be moved" if document["dry_run"] else "moved"
    console.print(f"{len(document['moved'])} {verb} to {document['encoder_id']}, {document['n_there']} were there")
    show_rows(console, ("speaker_id", "name", "reason"), document["refused"], "Nobody was refused.")
