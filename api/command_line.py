"""What the commands share: the settings, the door, and how a document is printed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from api.door import Door
    from api.settings import Settings

ACTOR = "command line"
Server = Annotated[str | None, typer.Option("--server", help="URL of a running server; by default, this machine.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Model = Annotated[str | None, typer.Option(help="An installed voice; by default the one in use.")]
Named = Annotated[str, typer.Argument(metavar="SPEAKER", help="A speaker's id or name.")]


def settings_now() -> "Settings":
    """The settings of this process."""
    from api.settings import load_settings

    return load_settings()


@contextmanager
def door(server: str | None) -> "Iterator[Door]":
    """The rooms of this machine, or a server."""
    from api.door import open_door

    with open_door(settings_now(), server) as opened:
        yield opened


def show(document: dict[str, Any], as_json: bool, for_people: Any) -> None:
    """Prints the document, as JSON or for people."""
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        for_people(Console(), document)
