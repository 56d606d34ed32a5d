"""The commands for voices: bring one, list, show, check, choose, remove and export them. All work on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from api.command_line import AsJson, settings_now, show

if TYPE_CHECKING:
    from api.shelf import Shelf, ShelfVoice

app = typer.Typer(
    no_args_is_help=True,
    help="Bring, list, check, choose, remove and export voices. Servers on this machine's state folder see the change "
    "at once.",
)
Name = Annotated[str, typer.Argument(metavar="VOICE", help="A voice's name; `voicekin voices list` shows them.")]


@app.command("import-coqui")
def import_coqui(
    folder: Annotated[Path, typer.Argument(help="Folder with config.json and model_file.pth or best_model.pth.")],
    name: Annotated[str | None, typer.Option(help="Name of the voice; by default the folder's.")] = None,
    speaker: Annotated[str | None, typer.Option(help="For a voice with a table of speakers: which one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Install a published Coqui VITS or YourTTS checkpoint."""
    import dataclasses

    from api.importing import import_coqui as run
    from api.report import show_facts

    show(dataclasses.asdict(run(_shelf(), folder, name, speaker)), as_json, show_facts)


@app.command("list")
def list_voices(as_json: AsJson = False) -> None:
    """List the installed voices; the one in use speaks where none is named."""
    show({"voices": [_row(voice) for voice in _shelf().voices()]}, as_json, _show_voices)


@app.command("show")
def show_voice(name: Name, as_json: AsJson = False) -> None:
    """Show what a voice says about itself."""
    from api.report import show_facts

    voice = _shelf().voice(name)
    card = voice.folder / "card.md"
    facts = _row(voice) | {"folder": str(voice.folder)}
    if voice.info is not None:
        facts |= {"d_vector": voice.info.voice.speaker.d_vector, "front_end": voice.info.voice.text.front_end}
    facts["card"] = card.read_text("utf-8") if card.is_file() else ""
    show(facts, as_json, show_facts)


@app.command()
def verify(name: Name, as_json: AsJson = False) -> None:
    """Compare all files of a voice with their checksums, and load it."""
    from api.importing import check_speaks
    from api.report import show_facts

    shelf = _shelf()
    info = shelf.verify(name)
    check_speaks(shelf.folder_of(name))
    show({"name": name, "model_id": info.model_id, "files": len(info.files), "ok": True}, as_json, show_facts)


@app.command()
def use(name: Name) -> None:
    """Choose the voice that speaks where none is named."""
    _shelf().use(name)


@app.command()
def remove(name: Name) -> None:
    """Remove an installed voice."""
    _shelf().remove(name)


@app.command()
def export(
    name: Name,
    onnx: Annotated[Path, typer.Option("--onnx", help="Folder to write prior.onnx, decode.onnx and voice.json to.")],
    as_json: AsJson = False,
) -> None:
    """Write a voice as two ONNX graphs, and compare them with the networks they came from."""
    from api.report import show_facts
    from cloning.exporters.onnx import export_bundle

    found = export_bundle(_shelf().folder_of(name), onnx)
    facts = {"folder": str(onnx), "shapes_compared": found.n_shapes, "largest_difference": found.difference}
    show(facts, as_json, show_facts)


def _shelf() -> "Shelf":
    return settings_now().shelf()


def _row(voice: "ShelfVoice") -> dict[str, Any]:
    row: dict[str, Any] = {"name": voice.name, "in_use": voice.in_use, "problem": voice.problem}
    if voice.info is None:
        return row
    config = voice.info.voice
    return row | {
        "model_id": voice.info.model_id,
        "languages": list(config.text.languages),
        "sample_rate": config.audio.sample_rate,
        "encoder_id": config.encoder_id,
    }


def _show_voices(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_rows

    columns = ("name", "in_use", "model_id", "languages", "encoder_id", "problem")
    rows = [{**dict.fromkeys(columns, ""), **row} for row in document["voices"]]
    show_rows(console, columns, rows, "No voice is installed.")
