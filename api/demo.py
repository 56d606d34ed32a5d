"""`make demo`: the main job from an empty folder, by HTTP, with its figures."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from api.errors import ServerRefused
from api.report import guarded
from api.settings import Settings, load_settings
from store.schema import migrate

NAME = "Voicekin demo"
TEXT = "Hello! This voice was made from a few seconds of speech, and it can read any text you like."
OUTPUT = Path("demo.wav")
READY_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class _Stage:
    """One thing that was done, and how long it took."""

    name: str
    seconds: float
    remark: str


class _Clock:
    """Times stages, and keeps them for the table."""

    def __init__(self, console: Console) -> None:
        self.stages: list[_Stage] = []
        self._console = console
        self._started = time.monotonic()

    def done(self, name: str, remark: str) -> float:
        now = time.monotonic()
        seconds, self._started = now - self._started, now
        self.stages.append(_Stage(name, seconds, remark))
        self._console.print(f"{name}: {remark}", markup=False, highlight=False)
        return seconds


def main() -> None:
    """Runs the demo; its exit code is 1 where a step fails."""
    console = Console()
    settings = load_settings()
    clock = _Clock(console)
    migrate(settings.store_config())
    clock.done("migrate", f"the database in {settings.state_dir} is up to date")
    with _server() as url, httpx.Client(base_url=url, headers=_headers(settings), timeout=120) as client:
        _wait_ready(client)
        clock.done("start", f"server on {url}, rooms open, first sentence spoken")
        speaker_id, report = _enrol(client, _reference())
        clock.done("enrol", f"{NAME} is {speaker_id}, from {report['voiced_s']:.1f} s of speech")
        response = _checked(client.post("/v1/speech", json=_order(speaker_id)))
        OUTPUT.write_bytes(response.content)
        speak_s = clock.done("speak", f"{OUTPUT}, {len(response.content)} bytes")
        response = _checked(client.post("/v1/speech", json={**_order(speaker_id), "verify": True}))
        clock.done("verify", "spoken again with the same seed, and compared with the clip")
    _show(console, clock, response, speak_s)


def _order(speaker_id: str) -> dict[str, object]:
    return {"speaker_id": speaker_id, "text": TEXT, "format": "wav", "seed": 1}


def _reference() -> bytes:
    return (Path(str(files("voices"))) / "demo" / "reference.flac").read_bytes()


def _headers(settings: Settings) -> dict[str, str]:
    key = settings.client_key.get_secret_value() or next(iter(settings.keys()), "")
    return {"Authorization": f"Bearer {key}"} if key else {}


@contextmanager
def _server() -> Iterator[str]:
    command = [sys.executable, "-m", "api.cli", "serve", "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield _address(process.stdout.readline())
        finally:
            process.terminate()


def _address(line: str) -> str:
    if "http://" not in line:
        raise ServerRefused("server_failed", "the server did not start; what it said stands above")
    return line.rsplit(maxsplit=1)[-1]


def _wait_ready(client: httpx.Client) -> None:
    until = time.monotonic() + READY_WITHIN_S
    while True:
        response = client.get("/health/ready")
        if response.is_success:
            return
        problem = response.json()
        if time.monotonic() > until or str(problem.get("reason", "")).startswith(("bundle_", "engine_")):
            raise ServerRefused("server_failed", f"the server cannot become ready: {problem['detail']}")
        time.sleep(0.1)


def _enrol(client: httpx.Client, clip: bytes) -> tuple[str, dict[str, float]]:
    response = _upload(client, clip)
    if response.status_code == httpx.codes.CONFLICT:
        # An earlier demo left its speaker: this run enrols again, so that its figures are its own.
        _checked(client.delete(f"/v1/speakers/{_earlier(client)}"))
        response = _upload(client, clip)
    document = _checked(response).json()
    return document["speaker_id"], document["report"]


def _upload(client: httpx.Client, clip: bytes) -> httpx.Response:
    return client.post("/v1/speakers", data={"name": NAME}, files={"clips": ("reference.flac", clip)})


def _earlier(client: httpx.Client) -> str:
    voices = _checked(client.get("/v1/audio/voices")).json()["voices"]
    return next(str(voice["id"]) for voice in voices if voice["name"] == NAME)


def _checked(response: httpx.Response) -> httpx.Response:
    if not response.is_success:
        raise ServerRefused("server_failed", f"{response.request.url} answered {response.status_code}: {response.text}")
    return response


def _show(console: Console, clock: _Clock, response: httpx.Response, speak_s: float) -> None:
    audio_s = float(response.headers["X-Voicekin-Audio-Seconds"])
    table = Table("stage", "seconds")
    for stage in clock.stages:
        table.add_row(stage.name, f"{stage.seconds:.2f}")
    console.print(table)
    console.print(f"audio seconds  {audio_s:.2f}")
    console.print(f"x_realtime     {audio_s / speak_s:.1f}  (text in to file out, by HTTP)")
    console.print(f"cosine         {float(response.headers['X-Voicekin-Cosine']):.3f}  (of the clip to the output)")
    console.print(f"model          {response.headers['X-Voicekin-Model']}")


if __name__ == "__main__":
    guarded(main)
