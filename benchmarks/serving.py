"""A server process of its own, for benchmarks that ask over HTTP."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

_WITHIN_S = 120


@contextmanager
def running_server(device: str, threads: int, engine: str | None = None) -> Iterator[tuple[str, float]]:
    """The URL of a server with an empty state, and the seconds from its start until it had spoken a sentence.

    Without `engine` it is the one that a server takes by itself.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as state:
        environment = os.environ | {
            "VOICEKIN_STATE_DIR": state, "VOICEKIN_DEVICE": device, "VOICEKIN_THREADS": str(threads),
        }  # fmt: skip
        if engine is not None:
            environment["VOICEKIN_ENGINE"] = engine
        migrate = [sys.executable, "-m", "api.cli", "doctor", "--migrate"]
        subprocess.run(migrate, env=environment, check=True, stdout=subprocess.DEVNULL)
        start_s = time.perf_counter()
        server = subprocess.Popen(
            [sys.executable, "-m", "api.cli", "serve", "--port", str(port)],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait_ready(url, start_s)
            yield url, time.perf_counter() - start_s
        finally:
            server.terminate()
            server.wait(60)


def _wait_ready(url: str, start_s: float) -> None:
    while time.perf_counter() - start_s < _WITHIN_S:
        try:
            if httpx.get(f"{url}/health/ready", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.02)
    raise TimeoutError(f"the server was not ready within {_WITHIN_S} s")
