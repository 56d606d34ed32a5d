"""The limit of device memory as a setting, and how what fits it is shown. Nothing here needs a device."""

import os

import pytest

from api.errors import SettingsError
from api.memory import in_words, memory_of
from api.settings import PREFIX, Settings, load_settings
from cloning.engines.memory import CONTEXT_BYTES, LIBRARIES_BYTES
from cloning.errors import EngineError
from cloning.training.recipes import default_voice

VOICE = default_voice("test-v1")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("VOICEKIN_DEVICE", "cuda")
    monkeypatch.setenv("VOICEKIN_MAX_VOICES", "1")
    return monkeypatch


def limited(environment: pytest.MonkeyPatch, text: str, **settings: str) -> Settings:
    environment.setenv("VOICEKIN_VRAM_LIMIT_BYTES", text)
    for name, value in settings.items():
        environment.setenv(f"VOICEKIN_{name}", value)
    return load_settings()


@pytest.mark.parametrize(("text", "n_bytes"), [("1500MB", 1500 * 10**6), ("2GiB", 2**31), ("1000000000", 10**9)])
def test_a_size_has_a_unit_or_is_bytes(environment: pytest.MonkeyPatch, text: str, n_bytes: int) -> None:
    assert limited(environment, text).shown()["VOICEKIN_VRAM_LIMIT_BYTES"] == n_bytes


@pytest.mark.parametrize("text", ["much", "0", "-1", "15 parsecs"])
def test_another_size_is_refused_with_its_name(environment: pytest.MonkeyPatch, text: str) -> None:
    with pytest.raises(SettingsError, match="VOICEKIN_VRAM_LIMIT_BYTES: "):
        limited(environment, text)


def test_a_limit_on_the_cpu_is_refused_with_the_remedy(environment: pytest.MonkeyPatch) -> None:
    settings = limited(environment, "1500MB", DEVICE="cpu")
    with pytest.raises(SettingsError, match=r"VOICEKIN_VRAM_LIMIT_BYTES.*VOICEKIN_DEVICE=cuda"):
        settings.engine_choice()


def test_the_parts_fit_the_limit_and_are_said(environment: pytest.MonkeyPatch) -> None:
    found = memory_of(limited(environment, "1500MB", ENGINE="cuda-graph"), VOICE)
    assert found is not None
    parts = [name for name in found if name.endswith("_bytes") and name != "limit_bytes"]
    assert sum(found[name] for name in parts) <= found["limit_bytes"] == 1500 * 10**6
    assert (found["engine"], found["max_batch"], found["pool_bytes"]) == ("cuda-graph", 8, 0)
    assert (found["context_bytes"], found["libraries_bytes"]) == (CONTEXT_BYTES, LIBRARIES_BYTES)
    words = in_words(found)
    assert words.startswith("limit 1430 MiB, 8 sentences at once")
    assert all(f"{name.removesuffix('_bytes')} {found[name] // 2**20}" in words for name in parts)


def test_the_engine_that_takes_the_place_of_one_that_does_not_fit_is_shown(environment: pytest.MonkeyPatch) -> None:
    for engine, limit in (("tensorrt", "1500MB"), ("cuda-graph", "1050MiB")):
        settings = limited(environment, limit, ENGINE=engine)
        found = memory_of(settings, VOICE)
        assert found is not None
        assert found["engine"] == "eager"
        with pytest.raises(EngineError):
            memory_of(settings.model_copy(update={"engine_falls_back": False}), VOICE)
    with pytest.raises(EngineError, match="eager needs"):
        memory_of(limited(environment, "700MiB"), VOICE)


def test_what_is_not_estimated_is_not_said() -> None:
    settings = load_settings()
    assert memory_of(settings.model_copy(update={"device": "cpu"}), VOICE) is None
    assert memory_of(settings.model_copy(update={"engine": "tensorrt"}), VOICE) is None
    unlimited = memory_of(settings, VOICE)
    assert unlimited is not None
    assert in_words(unlimited).startswith("no limit, 32 sentences at once")
