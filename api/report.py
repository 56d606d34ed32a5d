"""How the command line shows documents and errors to people."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Document = dict[str, Any]
_SETTINGS_HEAD = (
    "# Settings",
    "",
    "Made by `make docs` from `api/settings.py`. Every setting is an environment variable; an unknown one that",
    "starts with `VOICEKIN_` stops the start, and so does a value outside its range.",
    "`voicekin settings` shows those of a machine.",
    "",
    "| variable | default | meaning |",
    "| --- | --- | --- |",
)
_ENDINGS = {".ogg": "opus", ".m4a": "aac", ".raw": "pcm"}


def guarded(work: Callable[[], object]) -> None:
    """Does the work; an error of ours becomes one line and exit code 1, a fault of the program stays what it is."""
    try:
        work()
    except Exception as error:
        words = _refusal(error)
        if words is None:
            raise
        Console(stderr=True).print(words, style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)


def _refusal(error: Exception) -> str | None:
    """One line for an error of ours; None for a fault of the program."""
    from pydantic import ValidationError

    from api import problems

    if isinstance(error, problems.ROOTS):
        return f"{error.message} [{error.code}]"
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
    return f"{error.filename or ''}: {error.strerror}" if isinstance(error, OSError) and error.strerror else None


def format_of(path: Path) -> str:
    """The format that a file's ending asks for. Raises: FormatUnknown."""
    from api.audio_out import find_format

    ending = path.suffix.lower()
    return find_format(_ENDINGS.get(ending, ending.lstrip(".") or "wav")).name


def settings_page() -> str:
    """The reference of all settings, in Markdown."""
    from api.settings import PREFIX, Settings

    rows = [
        f"| `{PREFIX}{name.upper()}` | {_default_of(field)} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join([*_SETTINGS_HEAD, *rows, ""])


def _default_of(field: Any) -> str:
    from pydantic import SecretStr

    value = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
    return "" if value in ("", None) else f"`{value}`"


def show_enrolled(console: Console, document: Document) -> None:
    report = document["report"]
    console.print(f"Enrolled [bold]{_safe(document['name'])}[/bold] as {document['speaker_id']}")
    console.print(f"{report['voiced_s']:.1f} s of speech in {len(report['clips'])} clip(s)")
    for notice in report["notices"]:
        console.print(f"[yellow]{notice['code']}[/yellow]: {_safe(notice['message'])}")


def show_facts(console: Console, document: Document) -> None:
    _pairs(console, document)


def show_settings(console: Console, document: Document) -> None:
    _pairs(console, document)


def show_speakers(console: Console, document: Document) -> None:
    columns = ("speaker_id", "name", "speech_s", "n_clips", "uses", "created_at")
    show_rows(console, columns, document["speakers"], "No speaker is enrolled yet: voicekin enrol NAME CLIP...")


def show_matches(console: Console, document: Document) -> None:
    show_rows(console, ("speaker_id", "name", "cosine"), document["matches"], "No other speaker is enrolled.")


def show_pruned(console: Console, document: Document) -> None:
    verb = "would go" if document["dry_run"] else "removed"
    show_rows(console, ("speaker_id", "name", "reason"), document["victims"], "Nobody.")
    console.print(f"{len(document['victims'])} {verb}, {document['kept']} kept, {document['freed_bytes']} bytes freed")


def show_findings(console: Console, document: Document) -> None:
    table = Table("", "what", "found", "what to do")
    for item in document["findings"]:
        mark = "[green]ok[/green]" if item["ok"] else "[red]missing[/red]"
        table.add_row(mark, _safe(item["what"]), _safe(item["found"]), _safe(item["remedy"]))
    console.print(table)


def _pairs(console: Console, document: Document) -> None:
    table = Table(show_header=False, box=None)
    for name, value in document.items():
        table.add_row(_safe(name), _safe("" if value is None else value))
    console.print(table)


def show_rows(console: Console, columns: tuple[str, ...], rows: list[Document], nothing: str) -> None:
    if not rows:
        console.print(nothing)
        return
    table = Table()
    for column in columns:
        # An id that is cut short cannot be copied.
        is_id = column.endswith("_id")
        table.add_column(column, min_width=36 if is_id else None, no_wrap=is_id)
    for row in rows:
        table.add_row(*(_safe(_short(row[column])) for column in columns))
    console.print(table)


def _short(value: object) -> object:
    return f"{value:.3f}" if isinstance(value, float) else value


def _safe(value: object) -> str:
    from rich.markup import escape

    return escape(str(value))
