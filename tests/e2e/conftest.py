"""A tiny voice with random weights, and servers that speak with it."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from servers import ADMIN_KEY, MAX_UPLOAD_BYTES, RunningServer, enrol, environment_of, migrate, start


@pytest.fixture(scope="session")
def voice_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with random weights: it makes sounds, not words."""
    import torch

    from cloning.bundle import save
    from cloning.model import YourTTS
    from cloning.training.recipes import tiny_voice
    from encoder.engine import SpeakerEncoder

    torch.manual_seed(7)
    config = tiny_voice(SpeakerEncoder.load("cpu").encoder_id)
    folder = tmp_path_factory.mktemp("voice")
    save(folder, config, YourTTS(config).state_dict(), "# tiny\n\nRandom weights, for tests.\n")
    return folder


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, voice_dir: Path) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    environment = environment_of(
        folder / "state",
        voice_dir,
        ADMIN_KEY=ADMIN_KEY,
        MAX_UPLOAD_BYTES=str(MAX_UPLOAD_BYTES),
        MAX_CLIPS="4",
        MAX_TEXT_CHARS="2000",
        CORS_ORIGINS="https://console.example",
        LOG_LEVEL="debug",
    )
    migrate(environment)
    running = start(environment, folder / "log")
    running.wait_ready()
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as opened:
        yield opened


@pytest.fixture
def admin(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    with httpx.Client(base_url=server.url, timeout=60, headers=headers) as opened:
        yield opened


@pytest.fixture
def other_server(tmp_path: Path, voice_dir: Path) -> Iterator[Callable[..., RunningServer]]:
    """Starts more servers, on a state folder of this test alone."""
    started: list[RunningServer] = []

    def begin(*arguments: str, ready: bool = True, **settings: str) -> RunningServer:
        environment = environment_of(tmp_path / "state", voice_dir, **settings)
        if ready:
            migrate(environment)
        running = start(environment, tmp_path / f"log-{len(started)}", *arguments)
        started.append(running)
        if ready:
            running.wait_ready()
        return running

    yield begin
    for running in started:
        running.stop(signal.SIGKILL)


@pytest.fixture(scope="session")
def woman(server: RunningServer) -> str:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        return enrol(client, "Woman", "woman.flac")


@pytest.fixture(scope="session")
def man(server: RunningServer) -> str:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        return enrol(client, "Man", "man.flac")
