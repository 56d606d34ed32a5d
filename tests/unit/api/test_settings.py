import os

import pytest

from api.access import check_binding
from api.errors import SettingsError
from api.settings import PREFIX, Settings, forbid_tf32, load_settings


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_defaults_are_loopback_and_sqlite_in_the_state_folder(environment: pytest.MonkeyPatch) -> None:
    settings = load_settings()
    assert settings.host == "127.0.0.1"
    config = settings.store_config()
    assert config.database_url == f"sqlite:///{config.state_dir / 'voicekin.db'}"


def test_an_unknown_variable_is_refused_with_the_nearest_name(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("VOICEKIN_MAX_CLIP_BYTE", "5")
    with pytest.raises(SettingsError, match="VOICEKIN_MAX_CLIP_BYTE is not a setting; did you mean VOICEKIN_MAX_CLIP"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("VOICEKIN_PORT", "abc", "VOICEKIN_PORT: .*integer"),
        ("VOICEKIN_PORT", "70000", "VOICEKIN_PORT: .*less than or equal to 65535"),
        ("VOICEKIN_REQUEST_TIMEOUT_S", "0", "VOICEKIN_REQUEST_TIMEOUT_S: .*greater than 0"),
        ("VOICEKIN_DEVICE", "gpu", "VOICEKIN_DEVICE: .*pattern"),
        ("VOICEKIN_LOG_LEVEL", "loud", "VOICEKIN_LOG_LEVEL: .*'debug'"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_range(
    environment: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    environment.setenv(name, value)
    with pytest.raises(SettingsError, match=words):
        load_settings()


def test_secrets_are_hidden_where_settings_are_shown(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("VOICEKIN_API_KEYS", "first-secret, second-secret")
    environment.setenv("VOICEKIN_DATABASE_URL", "postgresql://u:third-secret@host/db")
    settings = load_settings()
    assert settings.keys() == ["first-secret", "second-secret"]
    assert "secret" not in f"{settings.shown()} {settings!r}"


def test_every_setting_is_shown_and_described(environment: pytest.MonkeyPatch) -> None:
    assert set(load_settings().shown()) == {PREFIX + name.upper() for name in Settings.model_fields}
    assert all(field.description and field.description.endswith(".") for field in Settings.model_fields.values())


def test_the_network_needs_keys_or_an_explicit_word(environment: pytest.MonkeyPatch) -> None:
    settings = load_settings()
    check_binding(settings, "127.0.0.1")
    check_binding(settings, "::1")
    check_binding(settings, "localhost")
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(SettingsError, match="--allow-open"):
            check_binding(settings, host)
    for word in ("allow_open", "require_keys"):
        check_binding(settings.model_copy(update={word: True}), "0.0.0.0")
    environment.setenv("VOICEKIN_API_KEYS", "k")
    check_binding(load_settings(), "0.0.0.0")


@pytest.mark.parametrize(
    ("asked", "device", "tried"),
    [("auto", "cpu", "eager"), ("auto", "cuda:1", "cuda-graph"), ("eager", "cuda", "eager"), ("onnx", "cpu", "onnx")],
)
def test_the_engine_follows_the_device_unless_one_is_chosen(
    environment: pytest.MonkeyPatch, asked: str, device: str, tried: str
) -> None:
    assert load_settings().engine == "auto"
    environment.setenv("VOICEKIN_ENGINE", asked)
    environment.setenv("VOICEKIN_DEVICE", device)
    assert load_settings().engine_choice().name == tried


def test_float32_is_not_rounded_unless_somebody_wants_it(environment: pytest.MonkeyPatch) -> None:
    # What is set here is taken back after the test.
    environment.setenv("NVIDIA_TF32_OVERRIDE", "1")
    forbid_tf32()
    assert os.environ["NVIDIA_TF32_OVERRIDE"] == "1"
    environment.delenv("NVIDIA_TF32_OVERRIDE")
    forbid_tf32()
    assert os.environ["NVIDIA_TF32_OVERRIDE"] == "0"
