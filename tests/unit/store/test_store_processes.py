"""Several real processes on one store, and processes that are killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from store_samples import ENCODER, new_speaker, unit_vector

from store.errors import SpeakerNotFound
from store.service import Store
from store.snapshot import SnapshotFile
from store.types import StoreConfig

OPEN = """
import sys
from pathlib import Path
from store_samples import *
from store.service import Store
from store.types import StoreConfig
store = Store.open(StoreConfig({url!r}, Path({state!r})))
print("open", flush=True)
"""
ENROL_FOR_EVER = """
for number in range(10**6):
    print(store.enrol(new_speaker(f"voice {number}", [number])).id, flush=True)
"""
OBEY = """
for line in sys.stdin:
    verb, argument = line.split()
    if verb == "enrol":
        print(store.enrol(new_speaker(argument, [int(argument)])).id, flush=True)
    else:
        print(store.delete(argument), flush=True)
"""
COME_AND_GO = """
for number in range(5):
    store.enrol(new_speaker(f"kept {name} {number}", [number]))
    store.delete(store.enrol(new_speaker(f"gone {name} {number}", [100 + number])).id)
store.close()
"""
SAVE_FOR_EVER = """
from store.snapshot import Snapshot, SnapshotFile
from store.rows import Shelf
import uuid
ids = tuple(str(uuid.UUID(int=number)) for number in range(20000))
shelf = Shelf("e", ids, np.zeros(len(ids), np.int64), np.zeros((len(ids), 64), np.float32))
for number in range(10**6):
    SnapshotFile(Path({state!r})).write(Snapshot(type(store._follower._position)("x", number), [shelf]))
    print(number, flush=True)
"""


@contextmanager
def child(config: StoreConfig, code: str) -> Iterator[subprocess.Popen[str]]:
    script = OPEN.format(url=config.database_url, state=str(config.state_dir)) + code
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", script], text=True, env=environment, **pipes)  # type: ignore[call-overload]
    try:
        assert process.stdout.readline() == "open\n", process.stderr.read()
        yield process
    finally:
        process.kill()
        process.communicate()


def read_lines(process: subprocess.Popen[str], count: int) -> Sequence[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def test_an_answered_enrolment_survives_kill_9(config: StoreConfig) -> None:
    with child(config, ENROL_FOR_EVER) as process:
        answered = list(read_lines(process, 7))
        process.send_signal(signal.SIGKILL)
        answered += [line for line in process.communicate()[0].split("\n") if len(line) == 36]
    with Store.open(config) as store:
        for number, speaker_id in enumerate(answered):
            np.testing.assert_allclose(store.get(speaker_id).vector, unit_vector(number), atol=1e-6)
            assert store.similar(unit_vector(number), ENCODER, 1)[0].speaker_id == speaker_id
        assert store.index_agrees() and store.list().total in (len(answered), len(answered) + 1)


def test_a_snapshot_is_whole_whenever_its_writer_dies(sqlite_store: Store, sqlite_config: StoreConfig) -> None:
    for pause_s in (0.0, 0.013, 0.031):
        with child(sqlite_config, SAVE_FOR_EVER.format(state=str(sqlite_config.state_dir))) as process:
            read_lines(process, 2)
            time.sleep(pause_s)
        snapshot = SnapshotFile(sqlite_config.state_dir).read()
        assert snapshot is not None and len(snapshot.shelves[0].speaker_ids) == 20000
        SnapshotFile(sqlite_config.state_dir).discard()


def test_every_process_sees_a_change_at_once(store: Store, config: StoreConfig) -> None:
    with child(config, OBEY) as process:
        assert process.stdin is not None

        def tell(order: str) -> str:
            process.stdin.write(order + "\n")
            process.stdin.flush()
            return read_lines(process, 1)[0]

        for number in range(1, 6):
            speaker_id = tell(f"enrol {number}")
            assert store.d_vector(speaker_id)[1] == ENCODER
            assert store.similar(unit_vector(number), ENCODER, 1)[0].speaker_id == speaker_id
            tell(f"delete {speaker_id}")
            assert store.similar(unit_vector(number), ENCODER, 5) == ()
            with pytest.raises(SpeakerNotFound):
                store.d_vector(speaker_id)
        mine = store.enrol(new_speaker("mine", [9]))
        tell(f"delete {mine.id}")
        with pytest.raises(SpeakerNotFound):
            store.d_vector(mine.id)


def test_processes_that_write_at_once_wait_for_each_other(config: StoreConfig) -> None:
    with child(config, f"name = 'a'{COME_AND_GO}") as first, child(config, f"name = 'b'{COME_AND_GO}") as second:
        for process in (first, second):
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
    with Store.open(config) as store:
        assert store.list().total == store.stats().index_size == 10 and store.index_agrees()
        assert store.stats().revision == 30
