"""Runs one verb of a store again and again, ended before each of its writes in turn, and looks at what is left.

    LD_PRELOAD=kill_points.so python kill_runner.py VERB FOLDER STEP

Prints a line of JSON: how many points there were, at how many it was ended, and what was wrong. Each run is a fork of
this process, so that a point costs no start of an interpreter.
"""

import ctypes
import hashlib
import json
import os
import shutil
import sqlite3
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from store_samples import ENCODER, clip, new_speaker, unit_vector

from store import speakers as speakers_module
from store.backup import back_up, restore
from store.checks import mean_vector
from store.consent_types import NewConsent, Recording
from store.core import _log
from store.schema import migrate
from store.service import Store
from store.types import ClipRecord, ConsentPolicy, KeptSpeech, PrunePolicy, RequestKey, StoreConfig

EARLIER = datetime(2026, 1, 2, tzinfo=UTC)
LATER = datetime.now(UTC) + timedelta(days=30)
FAR_POINT = 10**9
State = dict[str, object]


def config_of(folder: Path) -> StoreConfig:
    # These voices are numbers, of which none sounds like another.
    anybody = ConsentPolicy(cosine=-1.0)
    return StoreConfig(f"sqlite:///{folder}/voices.db", folder, grace_s=1000.0, audio_cache="disk", consent=anybody)


def sound(number: int) -> bytes:
    return f"the clip number {number} as it was uploaded".encode() * 20


def recorded(number: int) -> ClipRecord:
    return replace(clip(number), sha256=hashlib.sha256(sound(number)).hexdigest())


def audio(*numbers: int) -> dict[str, bytes]:
    return {recorded(number).sha256: sound(number) for number in numbers}


def statement(number: int) -> bytes:
    return f"the statement of number {number} as it was recorded".encode() * 20


def prepare(folder: Path) -> None:
    """A store with people and their consents, one of them in the trash, a snapshot, kept clips and speech, archives."""
    migrate(config_of(folder))
    with Store.open(config_of(folder)) as store:
        ids = []
        for number in range(12):
            new = replace(new_speaker(f"voice {number}", []), clips=(recorded(number), recorded(100 + number)))
            heard = Recording(statement(number), mean_vector([each.vector for each in new.clips]), ENCODER)
            consent = NewConsent(new.name, new.name, "I agree.", "en", EARLIER, heard)
            audible = audio(number, 100 + number)
            ids.append(store.enrol(new, audio=audible, consent_id=store.add_consent(consent).id).id)
        store.delete(ids[1])
        store.update(ids[2], pinned=True)
        speaker = store.get(ids[0])
        store.keep_speech(ids[0], speaker.revision, "k", KeptSpeech(b"words in the voice of the first", 1.0))
        store.export(folder.parent / "all.zip", with_clips=True)
    back_up(config_of(folder), folder.parent / "backup.zip")


def id_of(store: Store, name: str) -> str:
    return store.find(name).id


def enrol(store: Store, folder: Path) -> None:
    new = replace(new_speaker("newcomer", []), clips=(recorded(50), recorded(51)))
    store.enrol(new, RequestKey("key", "0" * 64), audio=audio(50, 51))


def add_clips(store: Store, folder: Path) -> None:
    store.add_clips(id_of(store, "voice 0"), ENCODER, [recorded(60)], audio=audio(60))


def reembed(store: Store, folder: Path) -> None:
    clips = [replace(recorded(number), vector=unit_vector(200 + number)) for number in (0, 100)]
    store.reembed(id_of(store, "voice 0"), "another", clips)


def delete(store: Store, folder: Path) -> None:
    store.delete(id_of(store, "voice 0"))


def erase(store: Store, folder: Path) -> None:
    store.delete(id_of(store, "voice 0"), at_once=True)


def bring_back(store: Store, folder: Path) -> None:
    store.bring_back(store.deleted()[0].id)


def purge(store: Store, folder: Path) -> None:
    store.purge(now=LATER)


def prune(store: Store, folder: Path) -> None:
    object.__setattr__(store._config, "grace_s", 0.0)
    store.prune(PrunePolicy(keep_newest_used=6))


def prune_most(store: Store, folder: Path) -> None:
    object.__setattr__(store._config, "grace_s", 0.0)
    speakers_module.MANY = 3  # this is a fork: the next one starts with the true limit
    store.prune(PrunePolicy(keep_newest_used=1))


def save_snapshot(store: Store, folder: Path) -> None:
    store._follower._saved_revision = None
    store._follower._file.discard()
    store._follower.save()


def revoke(store: Store, folder: Path) -> None:
    store.revoke_consent(store.consents_of(id_of(store, "voice 0"))[0].id)


def import_all(store: Store, folder: Path) -> None:
    store.import_speakers(folder.parent / "all.zip", keep_clips=True)


VERBS: dict[str, Callable[[Store, Path], None]] = {
    each.__name__: each
    for each in (
        enrol, add_clips, reembed, delete, erase, bring_back, purge, prune, prune_most, save_snapshot, revoke,
        import_all,
    )
}  # fmt: skip
NEW_STORES = ("import_all", "restore_all")


def state_of(store: Store) -> State:
    """Everything that a user could tell two states by."""
    found: State = {}
    for speaker in store.list(limit=1000).speakers:
        clips = {sha256: data is not None for sha256, data in store.kept_clips(speaker.id).items()}
        found[speaker.name] = (
            speaker.vector.tobytes().hex(),
            speaker.encoder_id,
            speaker.n_clips,
            sorted(clips.items()),
        )
    found["(trash)"] = sorted(each.name for each in store.deleted(1000))
    found["(consents)"] = [(each.person, each.state) for each in store.consents(limit=1000).consents]
    plain: State = json.loads(json.dumps(found))
    return plain


def check(folder: Path, before: State, after: State, answered: bool) -> str:
    """What is wrong with what a kill has left; nothing where all is well."""
    with Store.open(config_of(folder)) as store:
        now = state_of(store)
        known = {speaker.id for speaker in store.list(limit=1000).speakers} | {each.id for each in store.deleted(1000)}
        digests = store._database.read(lambda speakers: speakers.clip_digests(sorted(known)))
        wrong = {
            "the state is neither the one before nor the one after": now != after and (answered or now != before),
            "index and database disagree": not store.index_agrees(),
            "there are orphans": store.prune(PrunePolicy(orphans=True), dry_run=True).n_orphans > 0,
            "somebody is not found by the own vector": not all(map(partial(finds_itself, store), now)),
        }
    folders = {path.parent.name: set(os.listdir(path.parent)) for path in folder.glob("clips/*-*/*")}
    wrong |= {
        "the database is damaged": damage(folder / "voices.db") != [("ok",)],
        "there are clips that nobody has": any(not names <= digests.get(own, set()) for own, names in folders.items()),
        "there is cached audio of nobody": not {path.parent.name for path in folder.glob("audio/*/*")} <= known,
        "who is gone is still on the disk": is_left(folder, before, now),
    }
    return "; ".join(words for words, holds in wrong.items() if holds)


def finds_itself(store: Store, name: str) -> bool:
    if name.startswith("("):
        return True
    speaker = store.find(name)
    return store.similar(speaker.vector, speaker.encoder_id, 1)[0].speaker_id == speaker.id


def damage(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database:
        checks = ("PRAGMA integrity_check", "PRAGMA foreign_key_check")
        return [row for check in checks for row in database.execute(check).fetchall()]


def is_left(folder: Path, before: State, now: State) -> bool:
    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    gone = numbers_in(before) - numbers_in(now)
    traces = (trace(number) for number in gone for trace in (sound, statement, lambda n: unit_vector(n).tobytes()))
    return any(trace in everything for trace in traces)


def numbers_in(state: State) -> set[int]:
    """The numbers of all voices, here or in the trash."""
    names = [*state, *state["(trash)"]]  # type: ignore[misc]
    return {int(name.split()[1]) for name in names if name.startswith("voice")}


def run(verb: str, root: Path, step: int) -> dict[str, object]:
    template, work = root / "template", root / "work"
    alone(lambda: prepare(template))
    start = root / "start"
    if verb in NEW_STORES:
        alone(lambda: migrate(config_of(start)))
    else:
        shutil.copytree(template, start)
    before, after = (ask(lambda n=n: result_of(verb, start, work, n)) for n in (0, FAR_POINT))
    n_points = int(after.pop("n_points"))  # type: ignore[call-overload]
    before.pop("n_points")
    wrong, n_ended = [], 0
    for at in [*range(1, n_points + 1, step), n_points]:
        fresh(start, work)
        answered, ended = ended_at(verb, work, at)
        n_ended += ended
        problem = ask(lambda answered=answered: {"problem": check(work, before, after, answered)})  # type: ignore[misc]
        if problem["problem"]:
            wrong.append(f"{verb} at {at} of {n_points}: {problem['problem']}")
    return {"verb": verb, "points": n_points, "ended": n_ended, "wrong": wrong}


def result_of(verb: str, start: Path, work: Path, at: int) -> State:
    """The state without the verb, or after it when it is left to finish."""
    fresh(start, work)
    n_points = act(verb, work, at) if at else 0
    with Store.open(config_of(work)) as store:
        return {**state_of(store), "n_points": n_points}


def act(verb: str, folder: Path, at: int) -> int:
    """Does the verb with the trap set; how many points it passed."""
    points = ctypes.CDLL(None)
    if verb == "restore_all":
        points.kill_points_arm(ctypes.c_long(at))
        restore(config_of(folder), folder.parent / "backup.zip")
        return int(points.kill_points_seen())
    with Store.open(config_of(folder)) as opened:
        points.kill_points_arm(ctypes.c_long(at))
        VERBS[verb](opened, folder)
        n_points = int(points.kill_points_seen())
        points.kill_points_arm(ctypes.c_long(0))
    return n_points


def ended_at(verb: str, folder: Path, at: int) -> tuple[bool, bool]:
    """Whether the verb had answered, and whether it was ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            act_and_answer(verb, folder, at, writer)
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    os.close(writer)
    answered = os.read(reader, 1) == b"+"
    os.close(reader)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"{verb} failed by itself at point {at}")
    return answered, os.WIFSIGNALED(status)


def act_and_answer(verb: str, folder: Path, at: int, writer: int) -> None:
    points = ctypes.CDLL(None)
    if verb == "restore_all":
        act(verb, folder, at)
        os.write(writer, b"+")
        return
    opened = Store.open(config_of(folder))
    points.kill_points_arm(ctypes.c_long(at))
    VERBS[verb](opened, folder)
    os.write(writer, b"+")


def fresh(start: Path, work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(start, work)


def alone(work: Callable[[], object]) -> None:
    ask(lambda: {"done": work() is None})


def ask(work: Callable[[], State]) -> State:
    """What the work gives, done in a fork: FAISS' threads do not live on in one."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        try:
            answer: State = work()
        except BaseException:
            answer = {"problem": traceback.format_exc()}
        with os.fdopen(writer, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = json.load(pipe)
    os.waitpid(child, 0)
    return answer


if __name__ == "__main__":
    _log.setLevel("ERROR")
    print(json.dumps(run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
