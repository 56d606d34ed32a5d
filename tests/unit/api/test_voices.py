"""Voices in memory: opened once, bounded, let go when idle, never while they speak."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from api.errors import ModelUnknown, TooBusy
from api.importing import import_coqui
from api.settings import Settings
from api.shelf import BUNDLED, Shelf
from api.voices import Encoders, Held, Voices
from cloning.errors import BadConditioning, BundleError
from cloning.synthesis import Synthesiser
from encoder.bundle import load_encoder
from encoder.engine import SpeakerEncoder

COQUI = Path(__file__).parents[2] / "data" / "coqui"


class Thing:
    """Something that can be open or closed."""

    def __init__(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


def held(most: int = 2, idle_s: float = 1000.0) -> Held[Thing]:
    return Held(most, idle_s, Thing.close)


def test_many_at_once_open_it_once() -> None:
    things, opened, gate = held(), [], threading.Barrier(8)

    def slowly() -> Thing:
        time.sleep(0.1)
        opened.append(Thing())
        return opened[-1]

    def ask(_: int) -> Thing:
        gate.wait()
        with things.lease(("a",), slowly) as thing:
            assert thing.is_open
            return thing

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert len(opened) == 1
    assert all(thing is opened[0] for thing in found)


def test_the_one_used_longest_ago_goes_first() -> None:
    things = held(2)
    opened = {}
    for name in ("a", "b", "a", "c"):
        with things.lease((name,), Thing) as thing:
            opened[name] = thing
    assert things.held() == (("a",), ("c",))
    assert (opened["a"].is_open, opened["b"].is_open, opened["c"].is_open) == (True, False, True)


def test_what_is_in_use_is_never_closed() -> None:
    things = held(1, idle_s=0.0)
    with things.lease(("a",), Thing) as thing:
        with pytest.raises(TooBusy, match="limit of VOICEKIN_MAX_VOICES"), things.lease(("b",), Thing):
            pytest.fail("a second one was opened")
        things.sweep()
        assert thing.is_open
    things.sweep()
    assert not thing.is_open


def test_the_idle_go_but_for_the_one_to_keep() -> None:
    things = held(2, idle_s=0.0)
    with things.lease(("a",), Thing) as kept, things.lease(("b",), Thing) as idle:
        pass
    things.sweep(kept=("a",))
    assert (kept.is_open, idle.is_open) == (True, False)


def test_a_failure_is_everybodys_and_the_next_try_is_fresh() -> None:
    things, gate = held(), threading.Barrier(3)

    def fails() -> Thing:
        time.sleep(0.1)
        raise BundleError("bundle_corrupt", "damaged")

    def ask(_: int) -> str:
        gate.wait()
        with pytest.raises(BundleError) as refused, things.lease(("a",), fails):
            pytest.fail("it was opened")
        return refused.value.code

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(ask, range(3))) == ["bundle_corrupt"] * 3
    assert things.held() == ()
    with things.lease(("a",), Thing) as thing:
        assert thing.is_open


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    found = Shelf(tmp_path_factory.mktemp("state") / "voices", Settings().bundle_dir())
    import_coqui(found, COQUI / "single")
    import_coqui(found, COQUI / "yourtts", "brought")
    return found


@pytest.fixture
def voices(shelf: Shelf) -> Iterator[Voices]:
    found = Voices(shelf, lambda folder: Synthesiser.open(folder, threads=1), 2, 1000.0)
    yield found
    found.close()


def test_voices_are_loaded_on_demand_and_found_by_name_and_id(voices: Voices) -> None:
    assert voices.loaded() == ()
    with voices.lease("single") as single:
        assert single.voice.name == "single"
    with voices.lease(single.voice.model_id) as again:
        assert again is single
    assert voices.loaded() == ("single",)


def test_the_voice_in_use_changes_without_a_restart(voices: Voices) -> None:
    assert voices.describe().voice.name == "default"
    voices.shelf.use("single")
    try:
        with voices.lease() as voice:
            assert voice.voice.name == "single"
    finally:
        voices.shelf.use(BUNDLED)


def test_unknown_voices_name_those_that_there_are(voices: Voices) -> None:
    with pytest.raises(ModelUnknown, match="default, brought, single"), voices.lease("nothing"):
        pytest.fail("a voice was given")


def test_each_voice_is_heard_by_the_encoder_that_it_names(voices: Voices) -> None:
    encoders = Encoders(voices, SpeakerEncoder.load, load_encoder, 2)
    shared, own = encoders.of_voice(), encoders.of_voice("brought")
    assert shared.encoder_id == voices.describe().voice.encoder_id
    assert own.encoder_id == voices.describe("brought").voice.encoder_id
    assert (shared.dim, own.dim) == (256, 512)
    assert encoders.of_voice("single") is shared
    assert encoders.by_id(own.encoder_id) is own
    with pytest.raises(BadConditioning, match="no installed voice brings"):
        encoders.by_id("hasp-000000000000-v1")
