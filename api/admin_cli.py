"""The commands with which an admin keeps a store: prune, delete and undo, purge, audit, move, back up."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from api.command_line import ACTOR, AsJson, Named, Server, door, settings_now, show
from api.reembedding import reembed

Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many.")]


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    for command in (prune, delete, undelete, deleted, purge, audit, export, backup, restore, reembed):
        app.command()(command)
    app.command("import")(import_)


def prune(  # noqa: PLR0913, PLR0917 - the options of a command
    unused_for_days: Annotated[float | None, typer.Option(min=0, help="Remove those not used for so long.")] = None,
    older_than_days: Annotated[float | None, typer.Option(min=0, help="Remove those enrolled so long ago.")] = None,
    keep_newest_used: Annotated[int | None, typer.Option(min=0, help="Keep this many, those used last.")] = None,
    keep_bytes: Annotated[int | None, typer.Option(min=0, help="Keep this many bytes of vectors.")] = None,
    duplicates_above: Annotated[float | None, typer.Option(min=0.5, max=1, help="Cosine of one too many.")] = None,
    speech_below_s: Annotated[float | None, typer.Option(min=0, help="Remove those with less speech.")] = None,
    coherence_below: Annotated[float | None, typer.Option(min=0, max=1, help="Remove less coherent ones.")] = None,
    retired_encoder: Annotated[list[str] | None, typer.Option(help="Remove its vectors; may be given again.")] = None,
    orphans: Annotated[bool, typer.Option("--orphans", help="Remove rows without a speaker.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say who would go.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Remove speakers by age, last use, number, size, quality or likeness; pinned ones stay."""
    from api.report import show_pruned

    conditions = {"unused_for_days": unused_for_days, "older_than_days": older_than_days, "keep_bytes": keep_bytes}
    conditions |= {"keep_newest_used": keep_newest_used, "duplicates_above": duplicates_above}
    conditions |= {"speech_below_s": speech_below_s, "coherence_below": coherence_below}
    flags: dict[str, Any] = {"retired_encoders": retired_encoder or [], "orphans": orphans, "dry_run": dry_run}
    with door(server) as opened:
        show(opened.prune(conditions | flags), as_json, show_pruned)


def delete(
    speaker: Named,
    at_once: Annotated[bool, typer.Option("--at-once", help="Erase now, even where there is time to undo.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Delete a speaker; within VOICEKIN_GRACE_DAYS `undelete` brings it back."""
    from api.report import show_facts

    with door(server) as opened:
        show(opened.delete(speaker, at_once), as_json, show_facts)


def undelete(
    speaker_id: Annotated[str, typer.Argument(help="The id; `voicekin deleted` lists them.")],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Bring a deleted speaker back."""
    from api.report import show_facts

    with door(server) as opened:
        show(opened.undelete(speaker_id), as_json, show_facts)


def deleted(limit: Limit = 100, server: Server = None, as_json: AsJson = False) -> None:
    """List the speakers that were deleted and can still be brought back."""
    with door(server) as opened:
        show(opened.deleted(limit), as_json, _show_deleted)


def purge(
    speaker_ids: Annotated[list[str] | None, typer.Argument(help="Ids; by default all whose time is over.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Erase deleted speakers for good, and print the receipt."""
    from api.report import show_facts

    with door(server) as opened:
        show(opened.purge(speaker_ids or None), as_json, show_facts)


def audit(limit: Limit = 100, server: Server = None, as_json: AsJson = False) -> None:
    """Show who did what, newest first; no speaker is named."""
    with door(server) as opened:
        show(opened.audit(limit), as_json, _show_audit)


def export(
    file: Annotated[Path, typer.Argument(help="Archive to write.")],
    speaker: Annotated[list[str] | None, typer.Option(help="An id; may be given again. By default all.")] = None,
    clips: Annotated[bool, typer.Option("--clips", help="Take the kept clips along.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write speakers with their vectors, labels and uses into an archive, for another store."""
    from api.report import show_facts
    from api.services import open_store

    with open_store(settings_now()) as store:
        n_speakers = store.export(file, speaker or None, actor=ACTOR, with_clips=clips)
    show({"file": str(file), "n_speakers": n_speakers}, as_json, show_facts)


def import_(
    file: Annotated[Path, typer.Argument(help="Archive that `voicekin export` wrote.")], as_json: AsJson = False
) -> None:
    """Add the speakers of an archive under their own ids; lists who could not come, and why.

    Clips in it are kept where VOICEKIN_KEEP_CLIPS is set.
    """
    from api.services import open_store

    settings = settings_now()
    with open_store(settings) as store:
        report = store.import_speakers(file, actor=ACTOR, keep_clips=settings.keep_clips)
    refused = [{"speaker_id": each[0], "name": each[1], "reason": each[2]} for each in report.refused]
    show({"imported": report.imported, "refused": refused}, as_json, _show_imported)


def backup(file: Annotated[Path, typer.Argument(help="Archive to write.")], as_json: AsJson = False) -> None:
    """Write the whole database and the kept clips into one archive, as they are at one moment, while others go on."""
    from api.report import show_facts
    from store.backup import back_up

    show({"file": str(file), "n_speakers": back_up(settings_now().store_config(), file)}, as_json, show_facts)


def restore(
    file: Annotated[Path, typer.Argument(help="Archive that `voicekin backup` wrote.")], as_json: AsJson = False
) -> None:
    """Fill a new database from a backup; whoever was erased since is erased again at the next start."""
    from api.report import show_facts
    from store.backup import restore as fill
    from store.schema import migrate

    config = settings_now().store_config()
    migrate(config)
    show({"n_speakers": fill(config, file)}, as_json, show_facts)


def _show_imported(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_rows

    console.print(f"{document['imported']} imported")
    show_rows(console, ("speaker_id", "name", "reason"), document["refused"], "Nobody was refused.")


def _show_deleted(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_rows

    show_rows(console, ("speaker_id", "name", "deleted_at", "purge_after"), document["deleted"], "Nobody.")


def _show_audit(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_rows

    show_rows(console, ("at", "actor", "action", "n_speakers", "n_clips"), document["lines"], "Nothing was done yet.")
