"""Real server processes and commands: how tests start, wait for and stop them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import preloaded

from store import schema
from store.types import StoreConfig

DATA = Path(__file__).parents[1] / "data"
ADMIN_KEY = "an-admin-key-of-the-tests"
CONSOLE_KEY = "a-key-of-the-console"
MAX_UPLOAD_BYTES = 3 * 2**20


@dataclass
class RunningServer:
    """A server process and where it listens."""

    url: str
    process: subprocess.Popen[str] | preloaded.Preloaded
    environment: dict[str, str]
    log: Path

    def wait_ready(self, within_s: float = 60) -> None:
        until = time.monotonic() + within_s
        while True:
            response = httpx.get(f"{self.url}/health/ready", timeout=within_s)
            if response.is_success:
                return
            assert time.monotonic() < until, f"{response.text}\n{self.log.read_text()}"
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(timeout=30)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "api.cli", *arguments]


def environment_of(state_dir: Path, voice_dir: Path, **settings: str) -> dict[str, str]:
    """The process's environment without any setting of the person who runs the tests, and these settings."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("VOICEKIN_")}
    ours = {"STATE_DIR": str(state_dir), "VOICE_DIR": str(voice_dir), "THREADS": "1", **settings}
    return plain | {f"VOICEKIN_{name}": value for name, value in ours.items()}


def start(
    environment: dict[str, str], log: Path, *arguments: str, within: Sequence[str] = (), fresh: bool = False
) -> RunningServer:
    """A server, in namespaces or under a user that the words `within` make before they run it.

    Only that and a `fresh` one is a new interpreter, which takes seconds to import its libraries.
    """
    words = ("serve", "--port", "0", *arguments)
    process: subprocess.Popen[str] | preloaded.Preloaded
    with log.open("w") as sink:
        if within or fresh:
            process = subprocess.Popen(
                [*within, *command(*words)], stdout=subprocess.PIPE, stderr=sink, text=True, env=environment
            )
        else:
            process = preloaded.popen(environment, *words, stderr=sink.fileno())
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "http://" in line, log.read_text()
    return RunningServer(line.split()[-1], process, environment, log)


def migrate(environment: dict[str, str]) -> None:
    """What `voicekin doctor --migrate` does, without the seconds that a process takes to start."""
    state_dir = Path(environment["VOICEKIN_STATE_DIR"])
    schema.migrate(StoreConfig(f"sqlite:///{state_dir / 'voicekin.db'}", state_dir))


def with_key(server: RunningServer, key: str | None) -> httpx.Client:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=server.url, timeout=60, headers=headers)


def make_key(boss: httpx.Client, *scopes: str, **fields: Any) -> dict[str, Any]:
    """A new key, by whoever may make one."""
    response = boss.post("/v1/admin/keys", json={"name": "a test", "scopes": scopes, **fields})
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


def enrol(client: httpx.Client, name: str, clip: str = "woman.flac") -> str:
    response = client.post("/v1/speakers", data={"name": name}, files={"clips": (clip, (DATA / clip).read_bytes())})
    assert response.status_code == 201, response.text
    return str(response.json()["speaker_id"])
