"""A long text that a command speaks itself, without a server, and that another command goes on with."""

import json
import signal
import sqlite3
import time
from pathlib import Path

import numpy as np
from preloaded import popen, run
from servers import environment_of, migrate

from cloning.bundle import load_info
from store.service import Store
from store.types import ClipRecord, NewSpeaker, StoreConfig

SENTENCES = [f"Sentence number {n} of a chapter that goes on and on." for n in range(60)]
LONG = "# One\n\n" + " ".join(SENTENCES[:30]) + "\n\n# Two\n\n" + " ".join(SENTENCES[30:])


def pieces_of(state_dir: Path) -> dict[int, str]:
    """The files of the pieces that are done."""
    with sqlite3.connect(state_dir / "voicekin.db") as connection:
        return dict(connection.execute("SELECT number, file FROM job_pieces WHERE state = 'done'").fetchall())


def test_the_command_line_speaks_a_job_here_and_goes_on_after_a_kill(tmp_path: Path, voice_dir: Path) -> None:
    (tmp_path / "chapter.txt").write_text(f"\ufeff{LONG}", encoding="utf-8")
    environment = environment_of(tmp_path / "state", voice_dir, JOB_LEASE_S="1")
    migrate(environment)
    encoder_id = load_info(voice_dir).voice.encoder_id
    vector = np.full(256, 1 / 16, np.float32)
    config = StoreConfig(f"sqlite:///{tmp_path / 'state' / 'voicekin.db'}", tmp_path / "state")
    with Store.open(config) as store:
        store.enrol(NewSpeaker("Woman", encoder_id, (ClipRecord("0" * 64, vector, 5.0, 4.0, 3),)))
    submitting = ("jobs", "submit", str(tmp_path / "chapter.txt"), "--speaker", "Woman", "--seed", "7")
    with (tmp_path / "log").open("w") as log:
        killed = popen(environment, *submitting, stdout=log.fileno(), stderr=log.fileno())
    until = time.monotonic() + 90
    while not (kept := pieces_of(tmp_path / "state")):
        assert killed.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    killed.kill()
    assert killed.wait(timeout=30) == -signal.SIGKILL
    with Store.open(config) as store:
        (job,) = store.jobs.page().jobs
        assert job.n_done < job.n_pieces
    done = run(environment, "jobs", "wait", job.id, "--json", timeout_s=180)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["state"], document["title"]) == ("done", "chapter")
    assert [each["title"] for each in document["chapters"]] == ["One", "Two"]
    found = pieces_of(tmp_path / "state")
    assert len(found) == job.n_pieces and kept.items() <= found.items(), "what was kept is not spoken again"
