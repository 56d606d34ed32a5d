"""The commands for consents, and for voices that may not be enrolled."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from api.command_line import AsJson, Server, door, show

app = typer.Typer(
    no_args_is_help=True,
    help="Record, list, export, revoke and delete consents to the use of a voice, here or on a server. "
    "Every process sees a change at once.",
)
protected = typer.Typer(
    no_args_is_help=True,
    help="Keep voices from being enrolled by anybody, here or, with an admin's key, on a server.",
)
ConsentId = Annotated[str, typer.Argument(metavar="CONSENT_ID", help="`voicekin consents list` shows it.")]
ProtectedId = Annotated[str, typer.Argument(metavar="PROTECTED_ID", help="`voicekin protected list` shows it.")]


@app.command()
def add(  # noqa: PLR0913, PLR0917 - the options of a command
    person: Annotated[str, typer.Argument(help="Who agrees.")],
    recording: Annotated[Path | None, typer.Option(help="The statement, as that person says it.")] = None,
    statement: Annotated[
        str | None, typer.Option(help="What was said or signed; by default VOICEKIN_CONSENT_STATEMENT.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What lists show; by default the person.")] = None,
    language: Annotated[str | None, typer.Option(help="A BCP 47 tag; by default en.")] = None,
    granted_at: Annotated[str | None, typer.Option(help="When, with its offset from UTC; by default now.")] = None,
    speaker_id: Annotated[str | None, typer.Option(help="A speaker who is there already.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Record that somebody agrees to the use of a voice; `voicekin enrol --consent` names it."""
    from api.door import read_clips

    fields = {"person": person, "statement": statement, "name": name, "language": language}
    fields |= {"granted_at": granted_at, "speaker_id": speaker_id}
    audio = read_clips([recording])[0] if recording else None
    with door(server) as opened:
        given = {field: value for field, value in fields.items() if value is not None}
        show(opened.consents.add(given, audio), as_json, _show_one)


@app.command("list")
def list_consents(server: Server = None, as_json: AsJson = False) -> None:
    """List the consents."""
    with door(server) as opened:
        show({"consents": list(opened.consents.every())}, as_json, _show_consents)


@app.command()
def export(consent_id: ConsentId, server: Server = None) -> None:
    """Print all that is stored of a consent as JSON: the record, the recording, and who did what with it."""
    with door(server) as opened:
        show(opened.consents.export(consent_id), True, None)


@app.command()
def revoke(consent_id: ConsentId, server: Server = None, as_json: AsJson = False) -> None:
    """End a consent for good; its speaker is spoken with no more."""
    with door(server) as opened:
        show(opened.consents.revoke(consent_id), as_json, _show_one)


@app.command()
def delete(consent_id: ConsentId, server: Server = None, as_json: AsJson = False) -> None:
    """Forget a consent that no speaker uses; that of a speaker goes when the speaker is deleted."""
    from api.report import show_facts

    with door(server) as opened:
        show(opened.consents.delete(consent_id), as_json, show_facts)


@protected.command("add")
def protect(
    name: Annotated[str, typer.Argument(help="What admins see in the list.")],
    clips: Annotated[list[Path], typer.Argument(help="Audio files of this one voice.")],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Keep a voice from being enrolled; lists the speakers who sound like it, who stay."""
    from api.door import read_clips

    with door(server) as opened:
        show(opened.consents.protect(name, read_clips(clips)), as_json, _show_protected)


@protected.command("list")
def list_protected(server: Server = None, as_json: AsJson = False) -> None:
    """List the voices that may not be enrolled."""
    with door(server) as opened:
        show(opened.consents.protected(), as_json, _show_list)


@protected.command("delete")
def unprotect(protected_id: ProtectedId, server: Server = None, as_json: AsJson = False) -> None:
    """Forget a protected voice, so that it may be enrolled again."""
    from api.report import show_facts

    with door(server) as opened:
        show(opened.consents.unprotect(protected_id), as_json, show_facts)


def _show_one(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_facts

    made = [f"{name}: {check}" for name, check in document["checks"].items() if check]
    show_facts(console, {**document, "checks": "; ".join(made) or "none was made"})


def _show_consents(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_rows

    show_rows(console, ("consent_id", "name", "state", "granted_at"), document["consents"], "No consent yet.")


def _show_protected(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_facts, show_rows

    show_facts(console, {"protected_id": document["protected_id"], "name": document["name"]})
    show_rows(console, ("speaker_id", "name", "cosine"), document["near"], "No speaker sounds like it.")


def _show_list(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_rows

    show_rows(console, ("protected_id", "name", "created_at"), document["protected"], "No voice is protected.")
