"""The commands for API keys: make, list, change, revoke and delete them."""

from typing import Annotated, Any

import typer
from rich.console import Console

from api.command_line import AsJson, Server, door, show

app = typer.Typer(
    no_args_is_help=True,
    help="Make, list, change, revoke and delete API keys, here or, with an admin's key, on a server. "
    "Every process sees a change at once.",
)
KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's id; `voicekin keys list` shows it.")]
Scopes = Annotated[list[str] | None, typer.Option("--scope", help="speak, enrol or admin; may be given again.")]
Days = Annotated[float | None, typer.Option(help="Days from now after which it ends; by default never.")]
PerMinute = Annotated[int | None, typer.Option(help="Requests in any 60 seconds.")]
PerMonth = Annotated[int | None, typer.Option(help="Characters spoken in a month.")]
Speakers = Annotated[int | None, typer.Option(help="Speakers that it has enrolled and that are still stored.")]


@app.command()
def create(  # noqa: PLR0913, PLR0917 - the options of a command
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    scope: Scopes = None,
    tenant: Annotated[str, typer.Option(help="Whose speakers and jobs it sees; by default those of no tenant.")] = "",
    expires_in_days: Days = None,
    requests_per_minute: PerMinute = None,
    characters_per_month: PerMonth = None,
    speakers: Speakers = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and show its secret, once. By default it may speak and enrol."""
    fields = _given(name=name, scopes=scope or None, tenant=tenant or None, expires_in_days=expires_in_days)
    limits = _limits(requests_per_minute, characters_per_month, speakers)
    with door(server) as opened:
        show(opened.keys.create(fields | _given(limits=limits or None)), as_json, _show_new)


@app.command("list")
def list_keys(server: Server = None, as_json: AsJson = False) -> None:
    """List the keys, without their secrets."""
    with door(server) as opened:
        show({"keys": list(opened.keys.every())}, as_json, _show_keys)


@app.command()
def change(  # noqa: PLR0913, PLR0917 - the options of a command
    key_id: KeyId,
    name: Annotated[str | None, typer.Option(help="What the key is for.")] = None,
    scope: Scopes = None,
    expires_in_days: Days = None,
    requests_per_minute: PerMinute = None,
    characters_per_month: PerMonth = None,
    speakers: Speakers = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="Lift the limits that are not given.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Change what a key may do; what is not given stays."""
    limits: dict[str, int | None] = {}
    if unlimited:
        limits = {"requests_per_minute": None, "characters_per_month": None, "speakers": None}
    limits |= _limits(requests_per_minute, characters_per_month, speakers)
    fields = _given(name=name, scopes=scope or None, expires_in_days=expires_in_days, limits=limits or None)
    with door(server) as opened:
        show(opened.keys.change(key_id, fields), as_json, _show_one)


@app.command()
def revoke(key_id: KeyId, server: Server = None, as_json: AsJson = False) -> None:
    """End a key for good; it stays listed."""
    with door(server) as opened:
        show(opened.keys.change(key_id, {"revoked": True}), as_json, _show_one)


@app.command()
def delete(key_id: KeyId, server: Server = None, as_json: AsJson = False) -> None:
    """End a key and forget it; the audit keeps that it was."""
    from api.report import show_facts

    with door(server) as opened:
        show(opened.keys.delete(key_id), as_json, show_facts)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _limits(per_minute: int | None, per_month: int | None, speakers: int | None) -> dict[str, int | None]:
    return _given(requests_per_minute=per_minute, characters_per_month=per_month, speakers=speakers)


def _show_new(console: Console, document: dict[str, Any]) -> None:
    _show_one(console, document)
    console.print("Keep the key now: it cannot be shown again.", style="yellow")


def _show_one(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_facts

    limits = {name: value for name, value in document["limits"].items() if value is not None}
    show_facts(console, {**document, "scopes": " ".join(document["scopes"]), "limits": limits or "none"})


def _show_keys(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_rows

    rows = [{**key, "scopes": " ".join(key["scopes"])} for key in document["keys"]]
    # What a narrow terminal holds; --json shows the rest, and what each has used.
    columns = ("key_id", "name", "tenant", "scopes", "state")
    show_rows(console, columns, rows, "No key was made yet.")
