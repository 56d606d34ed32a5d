"""A job spoken under a lease, on a real store with a voice whose answers are scripted."""

import json
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from job_house import TEXT, House, open_house
from scripted_voices import RATE, clip

from api.errors import JobInaudible, TooBusy
from api.jobs import JobOrder, audible
from api.jobs_files import JobFiles
from api.jobs_limits import RunnerConfig
from api.jobs_running import JobRunner
from api.jobs_schemas import JobOut
from api.jobs_speaking import MAX_ATTEMPTS
from api.speech import BULK_PRIORITY
from cloning.errors import BundleError, EngineError, LanguageUnsupported, Overloaded, SynthesisFailed, TextRefused
from store.jobs_types import Job
from store.types import NewSpeaker, Owner


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    for name in ("BUSY_RETRY_S", "REST_S"):
        monkeypatch.setattr(f"api.jobs_speaking.{name}", 0.0)
    with open_house(tmp_path) as opened:
        yield opened


def test_a_job_is_spoken_in_order_with_its_pauses(house: House) -> None:
    job = house.submit()
    assert (house.run(), house.store.jobs.get(job.id).state) == ("done", "done")
    assert [request.text.split()[-2] for request in house.voice.requests] == ["First", "Second", "Third"]
    found = house.store.jobs.get(job.id)
    assert found.n_samples == RATE * (3 + 2) and house.kept_s == 5.0, "a second of silence before each chapter"
    assert {(each.priority, each.deadline_s) for each in house.voice.requests} == {(BULK_PRIORITY, None)}
    document = json.loads(b"".join(JobFiles(house.store.jobs).times(audible(house.store, job.id), "json").parts))
    assert [(each["text"], each["start_s"]) for each in document["sentences"]][::2] == [
        ("# One\n\nFirst words.", 0.0), ("# Two\n\nSecond words.", 2.0), ("# Three\n\nThird words.", 4.0),
    ]  # fmt: skip
    assert [(each["title"], each["start_s"], each["stop_s"]) for each in document["chapters"]] == [
        ("One", 0.0, 2.0), ("Two", 2.0, 4.0), ("Three", 4.0, 5.0),
    ]  # fmt: skip


def test_a_stopped_job_goes_on_where_it_was_and_ends_as_an_unbroken_one(house: House) -> None:
    unbroken = house.submit()
    house.run()
    spoken = list(house.voice.requests)
    broken = house.submit()
    house.voice.requests.clear()

    def stop() -> None:
        house.stopping = len(house.voice.requests) == 2

    house.voice.on_speak = stop
    assert house.run() is None
    assert (house.store.jobs.get(broken.id).state, house.store.jobs.get(broken.id).n_done) == ("waiting", 1)
    house.stopping, house.voice.on_speak = False, lambda: None
    assert house.run("after the restart") == "done"
    assert house.wav(broken) == house.wav(unbroken)
    texts = [each.text for each in house.voice.requests]
    assert [texts.count(each.text) for each in spoken] == [1, 2, 1], "only what was not whole is spoken again"


def test_seeds_follow_from_the_jobs_own_and_differ(house: House) -> None:
    house.submit()
    house.run()
    assert len({each.options.seed for each in house.voice.requests}) == 3
    other = house.jobs.submit(JobOrder(TEXT, house.anna, seed=2))
    house.run()
    assert len({each.options.seed for each in house.voice.requests}) == 6
    drawn = [house.jobs.submit(JobOrder(TEXT, house.anna)).options["seed"] for _ in range(2)]
    assert drawn[0] != drawn[1] and other.options["seed"] == 2


def test_a_sentence_that_fails_is_tried_with_other_seeds_and_then_left_out(house: House) -> None:
    failure = SynthesisFailed("synthesis_failed", "nothing was spoken")
    house.voice.errors = {"Second": [failure] * MAX_ATTEMPTS, "Third": [EngineError("engine_failed", "x")] * 2}
    job = house.submit()
    assert house.run() == "partial"
    found = house.store.jobs.get(job.id)
    assert (found.n_done, found.n_bad, found.code) == (3, 1, "synthesis_failed")
    (bad,) = house.store.jobs.pieces(job.id, "bad")
    assert (bad.start_char, bad.code) == (TEXT.index("# Two"), "synthesis_failed")
    assert len(house.wav(job)) == 44 + 2 * found.n_samples == 44 + 2 * RATE * 3
    chapters = [each["start_s"] for each in json.loads(_times(house, job))["chapters"]]
    assert chapters == [0.0, 2.0, 2.0]


def _times(house: House, job: Job, kind: str = "json") -> bytes:
    return b"".join(JobFiles(house.store.jobs).times(audible(house.store, job.id), kind).parts)


def test_a_text_of_another_language_is_left_out_at_once(house: House) -> None:
    house.voice.errors = {"Second": [LanguageUnsupported("language_unsupported", "x", field="text")]}
    house.submit()
    assert house.run() == "partial"


def test_a_piece_that_says_nothing_is_silent(house: House) -> None:
    house.voice.errors = {"Second": [TextRefused("nothing_to_say", "x")]}
    job = house.submit()
    assert house.run() == "done"
    assert house.store.jobs.get(job.id).n_samples == RATE * (2 + 2)


def test_a_job_that_says_nothing_at_all_fails(house: House) -> None:
    house.voice.errors = {"\U0001f600": [TextRefused("nothing_to_say", "x")]}
    job = house.submit("\U0001f600")
    assert (house.run(), house.store.jobs.get(job.id).code) == ("failed", "nothing_to_say")


def test_a_job_of_which_nothing_can_be_spoken_fails_and_keeps_nothing(house: House) -> None:
    house.voice.errors = {"words": [SynthesisFailed("synthesis_failed", "x")] * 9}
    job = house.submit()
    assert house.run() == "failed"
    assert house.store.jobs.get(job.id).code == "synthesis_failed" and not house.store.jobs.text(job.id)
    with pytest.raises(JobInaudible) as refused:
        audible(house.store, job.id)
    assert refused.value.code == "job_inaudible"


def test_a_fault_of_the_program_ends_the_job_and_tells_nothing_of_the_machine(house: House) -> None:
    house.voice.errors = {"Second": [RuntimeError("/a/path")]}
    job = house.submit()
    assert house.run() == "failed"
    assert house.store.jobs.get(job.id).code == "internal_error"
    assert "/a/path" not in str(house.store.jobs.get(job.id).detail)


def test_an_implausible_length_is_tried_again_but_kept_at_last(house: House) -> None:
    house.voice.seconds = 100.0
    job = house.submit("Some words.")
    assert house.run() == "done"
    assert len(house.voice.requests) == MAX_ATTEMPTS
    assert len({each.options.seed for each in house.voice.requests}) == MAX_ATTEMPTS
    assert house.store.jobs.get(job.id).n_samples == 100 * RATE


def test_a_full_queue_is_waited_for_and_counts_as_no_attempt(house: House) -> None:
    house.voice.errors = {"First": [Overloaded("queue_full", "x") for _ in range(7)]}
    house.submit()
    assert house.run() == "done"


@pytest.mark.parametrize(
    "error", [TooBusy("too_busy", "x"), Overloaded("closed", "x"), BundleError("bundle_corrupt", "x")]
)
def test_what_passes_gives_the_job_back(house: House, error: Exception) -> None:
    house.voice.errors = {"Second": [error]}
    job = house.submit()
    assert house.run() is None
    assert (house.store.jobs.get(job.id).state, house.store.jobs.get(job.id).n_done) == ("waiting", 1)


def test_without_room_the_job_waits_and_says_why(house: House) -> None:
    job = house.submit()
    assert house.run(max_bytes=150_000) is None
    found = house.store.jobs.get(job.id)
    assert (found.state, found.code, found.n_done) == ("waiting", "jobs_full", 1)
    assert house.run() == "done" and house.store.jobs.get(job.id).code is None


def test_a_job_that_is_cancelled_stops_within_a_sentence(house: House) -> None:
    job = house.submit()
    house.voice.on_speak = lambda: house.store.jobs.cancel(job.id) and None
    assert house.run() is None
    assert len(house.voice.requests) == 1 and house.store.jobs.get(job.id).state == "cancelled"


def test_a_job_that_another_took_over_is_left_to_it(house: House) -> None:
    job = house.submit()
    first = house.store.jobs.lease("slow", 0.01)
    assert first is not None
    time.sleep(0.05)
    assert house.store.jobs.lease("heir", 60) is not None
    assert house.go_on(first, "slow") is None
    assert house.store.jobs.is_owned(job.id, "heir") and house.store.jobs.get(job.id).n_done == 0


def test_a_speaker_who_is_heard_anew_is_spoken_anew_from_the_start(house: House) -> None:
    job = house.submit()

    def add_clip() -> None:
        if len(house.voice.requests) == 3:
            house.voice.on_speak = lambda: None
            house.store.add_clips(house.anna, "enc", [clip(2)])

    house.voice.on_speak = add_clip
    assert house.run() == "done"
    assert len(house.voice.requests) == 6
    vectors = {each.d_vector.tobytes() for each in house.voice.requests[3:]}
    assert len(vectors) == 1 and house.voice.requests[0].d_vector.tobytes() not in vectors
    assert len({piece.voice_sha256 for piece in house.store.jobs.pieces(job.id)}) == 1


def test_another_voice_speaks_anew_what_waits_no_longer(house: House) -> None:
    house.submit()
    house.voice.on_speak = lambda: setattr(house, "stopping", len(house.voice.requests) == 2)
    house.run()
    house.stopping, house.voice.on_speak = False, lambda: None
    house.voice.voice = replace(house.voice.voice, model_id="voice-2")
    assert house.run() == "done"
    assert len(house.voice.requests) == 2 + 3


def test_a_lost_piece_is_spoken_anew_and_the_same(house: House) -> None:
    job = house.submit()
    house.run()
    before = house.wav(job)
    for damage in (lambda path: path.unlink(), lambda path: path.write_bytes(bytes(path.stat().st_size))):
        piece = house.store.jobs.pieces(job.id)[1]
        (path,) = (house.store._config.state_dir / "jobs").rglob(str(piece.file))
        damage(path)
        with pytest.raises(JobInaudible) as refused:
            house.wav(job)
        assert refused.value.code == "job_not_done"
        assert house.run() == "done" and house.wav(job) == before


def test_what_is_left_is_told_by_what_it_took(house: House) -> None:
    job = house.submit()
    assert JobOut.of(job).left_s is None
    half = replace(job, state="running", chars_done=job.n_chars // 2, spent_s=10.0)
    assert JobOut.of(half).left_s == pytest.approx(10.0, rel=0.05) and JobOut.of(half).progress == pytest.approx(
        0.5, abs=0.02
    )
    assert JobOut.of(replace(half, state="done")).left_s is None


def test_runners_share_the_jobs_and_stop_when_told(house: House) -> None:
    ids = [house.submit().id for _ in range(4)]
    runners = [JobRunner(house.store.jobs, house.speaking, RunnerConfig(2, 5.0, 10**9)) for _ in range(2)]
    for runner in runners:
        runner.start()
    until = time.monotonic() + 30
    while house.store.jobs.counts() != {"done": 4} or sum(r.figures.by_state.get("done", 0) for r in runners) < 8:
        assert time.monotonic() < until, house.store.jobs.counts()
        time.sleep(0.05)
    for runner in runners:
        runner.close()
    assert sum(runner.figures.ended["done"] for runner in runners) == 4
    assert sum(runner.figures.spoken_s for runner in runners) == 4 * 5.0
    assert len(house.voice.requests) == 4 * 3, "nothing is spoken twice"
    assert len({house.wav(house.store.jobs.get(job_id)) for job_id in ids}) == 1


def test_a_job_is_spoken_in_the_turn_of_its_tenant(house: House) -> None:
    acme = house.store.seen_by(Owner(None, "acme"))
    ada = acme.enrol(NewSpeaker("Ada", "enc", (clip(2),))).id
    job = replace(house.jobs, store=acme).submit(JobOrder("Some words.", ada, seed=1))
    runner = JobRunner(house.store.jobs, house.speaking, RunnerConfig(1, 5.0, 10**9))
    assert runner.run(job.id) and runner.run(house.submit("More words.").id)
    assert [each.tenant for each in house.voice.requests] == ["tenant acme", ""]


def test_a_lease_is_renewed_while_a_long_piece_is_spoken(house: House) -> None:
    job = house.submit("Some words.")
    runner = JobRunner(house.store.jobs, house.speaking, RunnerConfig(1, 1.5, 10**9))
    house.voice.on_speak = lambda: time.sleep(1.2)
    runner.start()
    until = time.monotonic() + 30
    while (state := house.store.jobs.get(job.id).state) != "done":
        assert state == "waiting" or house.store.jobs.lease("a thief", 60) is None
        assert time.monotonic() < until
        time.sleep(0.05)
    runner.close()
    assert len(house.voice.requests) == 1


@pytest.mark.parametrize("name", ["wav", "flac"])
def test_a_download_takes_no_more_memory_than_a_piece_or_two(house: House, name: str) -> None:
    house.voice.seconds = 20.0
    words = "Words that fill a passage well, so that there are many of them. " * 6
    job = house.submit(f"{words}\n\n" * 5)
    house.run()
    heard = audible(house.store, job.id)
    pieces = heard.pieces * 12
    heard = replace(heard, pieces=pieces, job=replace(heard.job, n_samples=12 * heard.job.n_samples))
    whole = heard.job.n_samples * 2
    tracemalloc.start()
    n_bytes = sum(len(part) for part in JobFiles(house.store.jobs).audio(heard, name).parts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert whole > 50 * 2**20 and n_bytes > 1000
    assert peak < whole / 5, (peak, whole)
