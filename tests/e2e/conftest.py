"""A tiny voice with random weights, servers that speak with it, and a browser."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from servers import (
    ADMIN_KEY,
    CONSOLE_KEY,
    DATA,
    MAX_UPLOAD_BYTES,
    RunningServer,
    enrol,
    environment_of,
    migrate,
    start,
    with_key,
)

if TYPE_CHECKING:
    from chromium import Browser


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
    running = start(environment, folder / "log", fresh=True)
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


@pytest.fixture(scope="session")
def keeper(tmp_path_factory: pytest.TempPathFactory, voice_dir: Path) -> Iterator[RunningServer]:
    """A server with an admin key, all logging, a trash, and keys in its store."""
    folder = tmp_path_factory.mktemp("keeper")
    environment = environment_of(
        folder / "state", voice_dir, ADMIN_KEY=ADMIN_KEY, REQUIRE_KEYS="true", LOG_LEVEL="debug", GRACE_DAYS="7"
    )
    migrate(environment)
    running = start(environment, folder / "log")
    running.wait_ready()
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture(scope="session")
def boss(keeper: RunningServer) -> Iterator[httpx.Client]:
    with with_key(keeper, ADMIN_KEY) as opened:
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


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory, voice_dir: Path) -> Iterator[RunningServer]:
    """The console's server, with keys and days to undo, and two people."""
    folder = tmp_path_factory.mktemp("house")
    settings = {"API_KEYS": CONSOLE_KEY, "ADMIN_KEY": ADMIN_KEY, "GRACE_DAYS": "7", "MAX_CLIPS": "3"}
    environment = environment_of(folder / "state", voice_dir, **settings)
    migrate(environment)
    running = start(environment, folder / "log")
    try:
        running.wait_ready(within_s=180)
        headers = {"Authorization": f"Bearer {CONSOLE_KEY}"}
        with httpx.Client(base_url=running.url, timeout=60, headers=headers) as client:
            enrol(client, "Woman", "woman.flac")
            enrol(client, "Man", "man.flac")
        yield running
    finally:
        code = running.stop()
    assert code == 0, running.log.read_text()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests, whose microphone hears a person."""
    import soundfile
    from chromium import Browser

    heard = tmp_path_factory.mktemp("microphone") / "heard.wav"
    samples, rate = soundfile.read(DATA / "woman.flac")
    soundfile.write(heard, samples, rate, subtype="PCM_16")
    opened = Browser(tmp_path_factory.mktemp("profile"), heard)
    yield opened
    opened.driver.quit()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser; whatever a test does in it, no error is logged and nothing leaves the page's origin."""
    chromium.screen(1280, 900)
    yield chromium
    assert chromium.complaints() == []
