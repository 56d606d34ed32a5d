"""Orders to bytes, with kept speeches and without, on a real store with a voice whose answers are scripted."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scripted_voices import RATE, VoiceInfo, clip, unit

from api.audio_out import FORMATS
from api.forms import AudioForm
from api.rendering import Rendering
from api.speech import Speaking, SpeechOrder, UsageLog
from cloning.errors import Overloaded, SynthesisFailed
from cloning.types import Speech, SpeechRequest
from store.errors import SpeakerNotFound
from store.schema import migrate
from store.service import Store
from store.types import NewSpeaker, PrunePolicy, StoreConfig

INFO = VoiceInfo(device="cuda:0", frame_s=0.04)
WAV, PCM = AudioForm(FORMATS["wav"]), AudioForm(FORMATS["pcm"])


@dataclass
class _Voice:
    """Speaks each request with another loudness, in three pieces; counts them."""

    voice: VoiceInfo = INFO
    begun: int = 0
    pieces: int = 0
    piece_s: float = 0.0
    error: Exception | None = None

    def stream(self, request: SpeechRequest, in_parts: bool) -> Iterator[Speech]:
        self.begun += 1
        return _Stream(self, 0.001 * self.begun)


class _Stream:
    skipped = ()

    def __init__(self, voice: _Voice, level: float) -> None:
        self._voice, self._level, self._left = voice, level, 3

    def __iter__(self) -> "_Stream":
        return self

    def __next__(self) -> Speech:
        if not self._left:
            raise StopIteration
        if self._voice.error:
            raise self._voice.error
        self._left -= 1
        time.sleep(self._voice.piece_s)
        self._voice.pieces += 1
        return Speech(np.full(RATE // 4, self._level, np.float32), RATE, np.ones(6, np.int64))

    def close(self) -> None:
        self._left = 0


@dataclass
class _Shelf:
    voice: _Voice
    leased: int = 0

    @contextmanager
    def lease(self, model: str | None) -> Iterator[_Voice]:
        self.leased += 1
        try:
            yield self.voice
        finally:
            self.leased -= 1


def _speaker(name: str, seed: int) -> NewSpeaker:
    return NewSpeaker(name, "enc", (clip(seed),))


@pytest.fixture(params=["memory", "disk"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> StoreConfig:
    return StoreConfig(f"sqlite:///{tmp_path / 'v.db'}", tmp_path, audio_cache=request.param)


@pytest.fixture
def store(config: StoreConfig) -> Iterator[Store]:
    migrate(config)
    with Store.open(config) as opened:
        yield opened


@pytest.fixture
def anna(store: Store) -> str:
    return store.enrol(_speaker("Anna", 1)).id


@pytest.fixture
def voice() -> _Voice:
    return _Voice()


@pytest.fixture
def shelf(voice: _Voice) -> _Shelf:
    return _Shelf(voice)


@pytest.fixture
def rendering(store: Store, shelf: _Shelf) -> Rendering:
    return Rendering(Speaking(store, shelf, UsageLog(store), lambda *_: unit(1), 500, 9.0))  # type: ignore[arg-type]


def test_the_same_order_is_spoken_once(rendering: Rendering, anna: str, voice: _Voice) -> None:
    order = SpeechOrder(anna, "Hello.")
    first, second = rendering.whole(order, WAV), rendering.whole(replace(order, speaker_id=f" {anna.upper()}"), WAV)
    assert voice.begun == 1 and second.data == first.data and second.duration_s == first.duration_s == 0.75
    assert (first.facts["cache"], second.facts["cache"]) == ("miss", "hit")
    assert {**second.facts, "cache": ""} == {**first.facts, "cache": ""}, "the seed that was drawn then, too"


def test_whatever_shapes_a_speech_makes_another_one(
    rendering: Rendering, anna: str, store: Store, voice: _Voice
) -> None:
    order = SpeechOrder(anna, "Hello.")
    others = [
        replace(order, text="Hello"),
        replace(order, language="en"),
        replace(order, speed=1.1),
        replace(order, seed=1),
        replace(order, seed=2),
        replace(order, lexicon={"Hello": "hi"}),
        replace(order, lexicon={"Hello": "ho"}),
        replace(order, verify=True),
        replace(order, speaker_id=store.enrol(_speaker("Ben", 2)).id),
        replace(order, speaker_id=store.enrol(_speaker("Anna's twin", 1)).id),
    ]
    for number, each in enumerate((order, *others), 1):
        assert rendering.whole(each, WAV).facts["cache"] == "miss" and voice.begun == number
    assert rendering.whole(order, PCM).facts["cache"] == "miss"
    for changed in ({"model_id": "voice-2"}, {"engine": "plan-fp16"}, {"device": "cpu"}):
        voice.voice = replace(INFO, **changed)
        assert rendering.whole(order, WAV).facts["cache"] == "miss", changed
    voice.voice = replace(INFO, device="cuda:1")
    assert rendering.whole(order, WAV).facts["cache"] == "hit", "any GPU speaks alike"
    assert all(rendering.whole(each, WAV).facts["cache"] == "hit" for each in others)


def test_a_changed_speaker_is_spoken_anew_and_a_deleted_one_not_at_all(
    rendering: Rendering, anna: str, store: Store, voice: _Voice
) -> None:
    order = SpeechOrder(anna, "Hello.")
    rendering.whole(order, WAV)
    store.update(anna, name="Anna the second", pinned=True)
    assert rendering.whole(order, WAV).facts["cache"] == "hit", "a name is no part of a voice"
    store.add_clips(anna, "enc", _speaker("", 7).clips)
    assert rendering.whole(order, WAV).facts["cache"] == "miss"
    store.delete(anna)
    for ask in (rendering.whole, rendering.stream):
        with pytest.raises(SpeakerNotFound):
            ask(order, WAV)
    assert voice.begun == 2


def test_a_database_that_was_set_back_gives_no_voice_of_another_future(
    rendering: Rendering, anna: str, store: Store, config: StoreConfig, voice: _Voice
) -> None:
    order, revision = SpeechOrder(anna, "Hello."), store.stats().revision
    store.add_clips(anna, "enc", _speaker("", 7).clips)
    rendering.whole(order, WAV)
    with store._database.write() as unit:
        from sqlalchemy import text

        unit.speakers._session.execute(text("DELETE FROM clips WHERE sha256 = :s"), {"s": f"{7:064x}"})
        unit.speakers._session.execute(text("UPDATE state SET revision = :r"), {"r": revision})
    store.add_clips(anna, "enc", _speaker("", 8).clips)
    assert store.d_vector(anna)[2] == revision + 1, "the same revision as in the future that is gone"
    assert rendering.whole(order, WAV).facts["cache"] == "miss"


def test_a_stream_is_kept_when_it_is_whole_and_given_again(rendering: Rendering, anna: str, voice: _Voice) -> None:
    order = SpeechOrder(anna, "Hello.", seed=3)
    given_up = rendering.stream(order, PCM)
    next(given_up.parts)
    given_up.close()
    assert voice.pieces == 1
    streams = []
    for source in ("miss", "hit"):
        stream = rendering.stream(order, PCM)
        assert stream.facts == {"seed": "3", "model": "voice-1", "cache": source}
        streams.append(list(stream.parts))
        stream.close()
    made, kept = (b"".join(part.data for part in parts) for parts in streams)
    assert made == kept and voice.begun == 2
    assert [sum(part.duration_s for part in parts) for parts in streams] == [0.75, 0.75]
    assert max(len(part.data) for part in streams[1]) <= 32768


def test_without_a_wish_for_reuse_everything_is_new_and_nothing_is_kept(
    rendering: Rendering, anna: str, voice: _Voice
) -> None:
    order = SpeechOrder(anna, "Hello.", reuse=False)
    parts = [rendering.whole(order, WAV) for _ in range(2)]
    assert voice.begun == 2 and all("cache" not in part.facts for part in parts)
    assert rendering.whole(replace(order, reuse=True), WAV).facts["cache"] == "miss"


def test_without_a_cache_everybody_is_spoken_to_anew(
    tmp_path: Path, config: StoreConfig, shelf: _Shelf, voice: _Voice
) -> None:
    config = replace(config, audio_cache="")
    migrate(config)
    with Store.open(config) as store:
        anna = store.enrol(_speaker("Anna", 1)).id
        rendering = Rendering(Speaking(store, shelf, UsageLog(store), lambda *_: unit(1), 500, 9.0))  # type: ignore[arg-type]
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: rendering.whole(SpeechOrder(anna, "Hello."), WAV), range(8)))
    assert voice.begun == 8 and not (tmp_path / "audio").exists()


@pytest.mark.parametrize("form", ["whole", "stream"])
def test_twenty_equal_requests_cost_one_synthesis(rendering: Rendering, anna: str, voice: _Voice, form: str) -> None:
    voice.piece_s, start = 0.05, threading.Barrier(20)

    def ask(_: int) -> tuple[bytes, str]:
        start.wait()
        if form == "whole":
            part = rendering.whole(SpeechOrder(anna, "Hello."), PCM)
            return part.data, part.facts["cache"]
        stream = rendering.stream(SpeechOrder(anna, "Hello."), PCM)
        return b"".join(part.data for part in stream.parts), stream.facts["cache"]

    with ThreadPoolExecutor(20) as threads:
        found = list(threads.map(ask, range(20)))
    assert voice.begun == 1 and len({data for data, _ in found}) == 1
    assert sorted(source for _, source in found) == ["miss"] + ["shared"] * 19


def test_the_first_asker_may_go_away(rendering: Rendering, anna: str, voice: _Voice, shelf: _Shelf) -> None:
    order = SpeechOrder(anna, "Hello.")
    first, second = rendering.stream(order, PCM), rendering.stream(order, PCM)
    next(first.parts)
    first.close()
    assert shelf.leased == 2, "the voice that speaks for the second stays"
    assert sum(part.duration_s for part in second.parts) == 0.75 and voice.begun == 1
    assert shelf.leased == 0 and rendering.speaking.store._pool.held() == frozenset()
    assert rendering.stream(order, PCM).facts["cache"] == "hit"


def test_a_whole_speech_goes_on_while_one_of_its_askers_stays(
    rendering: Rendering, anna: str, voice: _Voice, shelf: _Shelf
) -> None:
    voice.piece_s, gone, order = 0.1, threading.Event(), SpeechOrder(anna, "Hello.")
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(rendering.whole, order, WAV, gone.is_set)
        _wait_until(lambda: voice.begun == 1)
        second = threads.submit(rendering.whole, order, WAV)
        _wait_until(lambda: shelf.leased == 2)
        gone.set()
        assert second.result().facts["cache"] == "shared" and first.result().data == second.result().data
        again = replace(order, text="Nobody waits.")
        with pytest.raises(Overloaded):
            threads.submit(rendering.whole, again, WAV, gone.is_set).result()
    assert voice.begun == 2 and shelf.leased == 0
    assert rendering.whole(again, WAV).facts["cache"] == "miss"


def test_a_failure_is_everybody_s_and_is_not_kept(
    rendering: Rendering, anna: str, voice: _Voice, shelf: _Shelf
) -> None:
    voice.error, order = SynthesisFailed("synthesis_failed", "not finite"), SpeechOrder(anna, "Hello.", seed=1)
    for ask in (rendering.whole, rendering.stream):
        with pytest.raises(SynthesisFailed):
            ask(order, WAV)
    voice.error = None
    assert rendering.whole(order, WAV).facts["cache"] == "miss" and shelf.leased == 0


def test_pruning_passes_over_a_speaker_whose_speech_is_shared(
    rendering: Rendering, anna: str, store: Store, voice: _Voice
) -> None:
    first = rendering.stream(SpeechOrder(anna, "Hello."), PCM)
    second = rendering.stream(SpeechOrder(anna, "Hello."), PCM)
    first.close()
    assert store.prune(PrunePolicy(keep_newest_used=0)).victims == ()
    assert sum(part.duration_s for part in second.parts) == 0.75
    assert len(store.prune(PrunePolicy(keep_newest_used=0)).victims) == 1


def test_a_speaker_deleted_while_it_speaks_leaves_nothing_in_the_cache(
    rendering: Rendering, anna: str, store: Store, tmp_path: Path
) -> None:
    stream = rendering.stream(SpeechOrder(anna, "Hello."), PCM)
    store.delete(anna)
    assert sum(part.duration_s for part in stream.parts) == 0.75, "what was begun is finished"
    assert store._audio is not None and store._audio._place.speakers() == set()


def test_every_hit_counts_as_a_use(rendering: Rendering, anna: str, store: Store) -> None:
    for _ in range(3):
        rendering.whole(SpeechOrder(anna, "Hello."), WAV)
    rendering.speaking.usage.flush()
    assert store.get(anna).uses == 3


def test_a_store_that_cannot_keep_speaks_all_the_same(
    rendering: Rendering, anna: str, voice: _Voice, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from store.audio_cache import PlaceFault

    def fail(*_: object) -> None:
        raise PlaceFault("gone")

    assert store._audio is not None
    for verb in ("get", "put"):
        monkeypatch.setattr(store._audio._place, verb, fail)
    for number in range(1, 4):
        assert rendering.whole(SpeechOrder(anna, "Hello."), WAV).facts["cache"] == "miss" and voice.begun == number


def _wait_until(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_closing_gives_everything_back(rendering: Rendering, anna: str, shelf: _Shelf) -> None:
    with closing(rendering.stream(SpeechOrder(anna, "Hello."), PCM)):
        assert shelf.leased == 1
    assert shelf.leased == 0
