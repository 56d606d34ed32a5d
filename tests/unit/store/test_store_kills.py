"""`kill -9` before every write, sync, rename and removal of each verb; what was answered stays, nothing is half there.

By default some points of each verb are tried; with EVERY_KILL=1 in the environment, all of them.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# How far apart the points are that are tried, so that each verb is ended four to six times.
STEPS = {
    "enrol": 13, "add_clips": 8, "reembed": 7, "delete": 13, "erase": 17, "bring_back": 13, "purge": 17, "prune": 19,
    "prune_most": 43, "save_snapshot": 2, "revoke": 5, "import_all": 61, "restore_all": 41,
}  # fmt: skip


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that counts the points, built here."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("a C compiler and Linux are needed to end a process between two writes")
    built = tmp_path_factory.mktemp("kills") / "kill_points.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", built, HERE / "kill_points.c", "-ldl"], check=True)
    return built


@pytest.mark.parametrize("verb", STEPS)
def test_a_kill_anywhere_leaves_the_state_before_or_after(verb: str, counter: Path, tmp_path: Path) -> None:
    step = 1 if os.environ.get("EVERY_KILL") else STEPS[verb]
    environment = {
        "LD_PRELOAD": str(counter),
        "PYTHONPATH": os.pathsep.join((str(HERE), str(HERE.parents[2]))),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, str(HERE / "kill_runner.py"), verb, str(tmp_path), str(step)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == []
    assert found["points"] >= 5 and found["ended"] >= 3, found
