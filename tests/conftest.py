"""What holds for every test."""

import sys

import pytest


@pytest.fixture(scope="session", autouse=True)
def _threads() -> int | None:
    """How many torch takes in this process, before any test."""
    return sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None


@pytest.fixture(autouse=True)
def _no_more_threads(_threads: int | None) -> None:
    """Whoever opens a voice and says no number lets torch have every core, for the rest of the process.

    Beside another process of tests those threads wait for one another, at many times the work.
    """
    if _threads is not None:
        sys.modules["torch"].set_num_threads(_threads)
