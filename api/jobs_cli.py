"""The commands for jobs: long texts handed in, followed, fetched and ended."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from api.command_line import AsJson, Model, Server, door, show

app = typer.Typer(
    no_args_is_help=True,
    help="Long texts, such as chapters of books: hand them in, follow them, fetch the recording with its chapters. "
    "Without a server they are spoken in the foreground, and go on where they were when that is interrupted.",
)
JobId = Annotated[str, typer.Argument(metavar="JOB_ID", help="The job's id; `voicekin jobs list` shows it.")]
_ENDINGS = {"ogg": "opus", "raw": "pcm", "m4b": "m4a"}
_HEARD = frozenset(("done", "partial"))


@app.command()
def submit(  # noqa: PLR0913, PLR0917 - the options of a command
    file: Annotated[Path, typer.Argument(help="A text file in UTF-8; - reads standard input.")],
    speaker: Annotated[str | None, typer.Option(help="Id or name of who speaks before the first tag.")] = None,
    title: Annotated[str, typer.Option(help="Names the files; by default the file's name.")] = "",
    language: Annotated[str | None, typer.Option(help="Language, such as en.")] = None,
    speed: Annotated[float, typer.Option(help="0.25 to 4; 2 is twice as fast.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same recording.")] = None,
    wait: Annotated[
        bool | None, typer.Option("--wait/--no-wait", help="Stay until it is done; the default without a server.")
    ] = None,
    model: Model = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Hand in a text with [speaker: NAME] lines and chapters; without a server, speak it now."""
    text = _read(file)
    name = title or ("" if str(file) == "-" else file.stem)
    order: dict[str, Any] = {"text": text, "speaker_id": speaker, "title": name, "language": language}
    order |= {"speed": speed, "seed": seed, "model": model}
    with door(server) as opened:
        document = opened.jobs.submit(order)
        if opened.jobs.is_here if wait is None else wait:
            Console(stderr=True).print(
                f"job {document['job_id']}; if interrupted: voicekin jobs wait {document['job_id']}"
            )
            document = _followed(opened.jobs, document["job_id"])
    _show_end(document, as_json)


@app.command("list")
def list_jobs(server: Server = None, as_json: AsJson = False) -> None:
    """List the jobs, the newest first."""
    with door(server) as opened:
        show({"jobs": list(opened.jobs.every())}, as_json, _show_jobs)


@app.command("show")
def show_job(job_id: JobId, server: Server = None, as_json: AsJson = False) -> None:
    """Show how far a job is, its chapters, and what could not be spoken."""
    with door(server) as opened:
        show(opened.jobs.get(job_id), as_json, _show_one)


@app.command()
def wait(job_id: JobId, server: Server = None, as_json: AsJson = False) -> None:
    """Stay until a job has ended; without a server, speak it. Exit code 1 where nothing can be heard of it."""
    with door(server) as opened:
        document = _followed(opened.jobs, job_id)
    _show_end(document, as_json)


@app.command()
def download(
    job_id: JobId,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write; m4a has the chapters in it.")],
    subtitles: Annotated[
        Path | None, typer.Option(help="Also write when what is heard: a .srt, .vtt or .json.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Write the recording of a job into a file, its format by the ending: wav, mp3, flac, opus, aac, pcm, m4a."""
    from api.report import show_facts
    from api.subtitles import writer_of

    if subtitles is not None:
        writer_of(subtitles.suffix)
    ending = output.suffix.lower().lstrip(".") or "wav"
    with door(server) as opened:
        opened.jobs.save_audio(job_id, _ENDINGS.get(ending, ending), output)
        if subtitles is not None:
            opened.jobs.save_times(job_id, subtitles.suffix.lower().lstrip("."), subtitles)
    written = {"file": str(output), **({"subtitles": str(subtitles)} if subtitles else {})}
    show({"job_id": job_id, **written}, as_json, show_facts)


@app.command()
def cancel(job_id: JobId, server: Server = None, as_json: AsJson = False) -> None:
    """End a job within a sentence; one that has ended stays as it is."""
    with door(server) as opened:
        show(opened.jobs.cancel(job_id), as_json, _show_one)


@app.command()
def delete(job_id: JobId, server: Server = None, as_json: AsJson = False) -> None:
    """Delete a job with its text and its audio."""
    from api.report import show_facts

    with door(server) as opened:
        show(opened.jobs.delete(job_id), as_json, show_facts)


def _read(file: Path) -> str:
    from api.errors import RequestRefused

    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        words = f"{file} is not UTF-8 at byte {error.start}; convert it, for instance with iconv"
        raise RequestRefused("bad_field", words, field="text") from None
    except OSError as error:
        raise RequestRefused("bad_field", f"{file} cannot be read: {error.strerror}", field="text") from None


def _followed(jobs: Any, job_id: str) -> dict[str, Any]:
    with _bar() as follow:
        document: dict[str, Any] = jobs.wait(job_id, follow)
    return document


@contextmanager
def _bar() -> Iterator[Callable[[dict[str, Any]], None]]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("waiting", total=1.0)

        def follow(document: dict[str, Any]) -> None:
            left_s = document["left_s"]
            words = document["state"] if left_s is None else f"{document['state']}, {_clock(left_s)} left"
            progress.update(task, completed=document["progress"], description=words)

        yield follow


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _show_end(document: dict[str, Any], as_json: bool) -> None:
    show(document, as_json, _show_one)
    if document["state"] not in _HEARD | {"waiting", "running"}:
        raise typer.Exit(1)


def _show_one(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_facts, show_rows

    nested = ("chapters", "bad_pieces")
    show_facts(console, {name: value for name, value in document.items() if name not in nested})
    if document.get("chapters"):
        show_rows(console, ("title", "start_s", "stop_s"), document["chapters"], "")
    if document.get("bad_pieces"):
        show_rows(console, ("start_char", "stop_char", "code", "detail"), document["bad_pieces"], "")


def _show_jobs(console: Console, document: dict[str, Any]) -> None:
    from api.report import show_rows

    columns = ("job_id", "title", "state", "progress", "left_s", "audio_s", "created_at")
    show_rows(console, columns, document["jobs"], "No job was handed in yet.")
