"""The only reader of the environment: every setting, its limits, and the frozen configuration of each room."""

import difflib
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ByteSize, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from api.errors import SettingsError
from api.jobs_limits import JobLimits, RunnerConfig
from api.shelf import Shelf
from encoder.types import AudioLimits
from store.jobs_types import JobBounds
from store.types import ConsentPolicy, StoreConfig

if TYPE_CHECKING:
    from cloning.engines.choice import EngineChoice, EngineName
    from cloning.engines.memory import Bound

PREFIX = "VOICEKIN_"
# ONNX Runtime, which reads unknown words, otherwise keeps a device's id in the home folder and reports to its maker.
_NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}
# What one process deletes has left the memory of all others within a second.
WATCH_EVERY_S = 0.5


class Settings(BaseSettings):
    """Everything that can be set, from variables that start with VOICEKIN_."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    allow_open: bool = Field(default=False, description="Listen beyond loopback even though no API keys are set.")
    cors_origins: str = Field(
        default="", description="Comma-separated origins that browsers may call from; none by default."
    )
    api_keys: SecretStr = Field(
        default=SecretStr(""),
        description="Comma-separated keys that may speak and enrol; no key at all is open, on loopback.",
    )
    require_keys: bool = Field(
        default=False,
        description="Need a key even before the first was made, so that the server may listen beyond loopback.",
    )
    rate_storage: SecretStr = Field(
        default=SecretStr("memory"),
        description="Where a key's requests are counted: memory (each process for itself) or redis://HOST/NUMBER.",
    )
    admin_key: SecretStr = Field(
        default=SecretStr(""), description="Key that may do everything; `voicekin keys` makes others."
    )
    state_dir: Path = Field(default=Path("state"), description="Folder of the database and of files derived from it.")
    database_url: SecretStr = Field(
        default=SecretStr(""), description="SQLAlchemy URL; by default SQLite in the state folder."
    )
    voice_dir: Path | None = Field(
        default=None, description="Folder of the voice bundle; by default the bundled voice."
    )
    max_voices: int = Field(default=3, ge=1, le=100, description="Most voices held in memory at once.")
    voice_idle_s: float = Field(
        default=900.0, gt=0, description="Time after which a voice that nobody asks for is let go, in seconds."
    )
    device: str = Field(
        default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$", description="Where the networks run: cpu or cuda:N."
    )
    engine: Literal["auto", "eager", "cuda-graph", "onnx", "tensorrt"] = Field(
        default="auto",
        description="How the networks run: eager, cuda-graph (GPU), or after `voicekin engines build` onnx (CPU) "
        "or tensorrt (GPU); auto is cuda-graph on a GPU, else eager.",
    )
    engine_falls_back: bool = Field(
        default=True,
        description="Let eager take the place of an engine that cannot be opened; see /health/ready.",
    )
    vram_limit_bytes: ByteSize | None = Field(
        default=None,
        gt=0,
        description="Most device memory of the service, such as 1500MB or 2GiB; batches become as small as it needs. "
        "GPU only.",
    )
    threads: int | None = Field(
        default=None, ge=1, le=1024, description="CPU threads of the networks; by default the quota."
    )
    grace_days: float = Field(
        default=0.0, ge=0, le=3650, description="Days in which a deleted speaker can be brought back; 0 erases at once."
    )
    keep_clips: bool = Field(
        default=False, description="Keep the clips of enrolments as uploaded, so that `voicekin reembed` can hear them."
    )
    consent: Literal["off", "statement", "recording"] = Field(
        default="off",
        description="What a speaker needs before it is enrolled or spoken with: nothing (off), a consent (statement), "
        "or one with a recorded statement (recording).",
    )
    consent_statement: str = Field(
        default="I agree that a copy of my voice is made and used to speak texts.",
        min_length=1,
        max_length=2000,
        description="The sentence of a consent that brings none, which a recording must say where words are checked.",
    )
    consent_cosine: float = Field(
        default=0.74, ge=0, le=1, description="Least cosine of a recorded statement to each clip of its speaker."
    )
    consent_words: bool = Field(
        default=False,
        description="Check the words of recorded statements, in English; needs `pip install 'voicekin[evaluate]'`.",
    )
    consent_word_errors: float = Field(
        default=0.3, ge=0, le=1, description="Share of a recorded statement's words that may be heard wrongly."
    )
    consent_unused_days: float = Field(
        default=30.0, gt=0, le=3650, description="Days that a consent which no speaker uses is kept."
    )
    protected_cosine: float = Field(
        default=0.8, ge=0, le=1, description="Cosine to a protected voice from which nobody is enrolled."
    )
    audio_cache: SecretStr = Field(
        default=SecretStr(""),
        description="Keep finished speeches: memory, disk, redis://HOST/NUMBER or s3://BUCKET/PREFIX; by default none.",
    )
    audio_cache_bytes: int = Field(default=256 * 2**20, ge=2**16, description="Room for kept speeches, in bytes.")
    audio_cache_s: float = Field(default=86400.0, gt=0, description="Time that a speech is kept, in seconds.")
    prune_every_s: float = Field(
        default=0.0, ge=0, description="Seconds between scheduled prunings; 0 is never. The next four say who goes."
    )
    prune_unused_for_days: float | None = Field(default=None, ge=0, description="Prune those not used for so long.")
    prune_older_than_days: float | None = Field(default=None, ge=0, description="Prune those enrolled so long ago.")
    prune_keep_newest_used: int | None = Field(default=None, ge=0, description="Keep this many, those used last.")
    prune_keep_bytes: int | None = Field(default=None, ge=0, description="Keep this many bytes of vectors.")
    pool_bytes: int = Field(default=64 * 2**20, ge=2**16, description="Memory for hot d-vectors, in bytes.")
    max_upload_bytes: int = Field(default=64 * 2**20, ge=2**10, description="Largest upload, all clips together.")
    max_clip_bytes: int = Field(default=32 * 2**20, ge=2**10, description="Largest clip, in bytes.")
    max_clip_s: float = Field(default=1800.0, gt=0, description="Longest clip once decoded, in seconds.")
    max_clips: int = Field(default=16, ge=1, le=1000, description="Most clips in one upload.")
    max_text_chars: int = Field(default=5000, ge=1, description="Longest text, in code points.")
    max_requests: int = Field(
        default=64,
        ge=1,
        le=10000,
        description="Speech and enrolment requests under way at once; see docs/keys.md for fair shares.",
    )
    request_timeout_s: float = Field(
        default=120.0, gt=0, description="Time in which a speech must be finished, in seconds."
    )
    max_conversations: int = Field(default=256, ge=1, le=10000, description="WebSocket conversations open at once.")
    conversation_idle_s: float = Field(
        default=60.0, ge=1, le=3600, description="Time after which a conversation in which nothing happens is ended."
    )
    job_workers: int = Field(
        default=1, ge=0, le=64, description="Jobs that one server speaks at once; 0 leaves them to other servers."
    )
    job_max_chars: int = Field(default=100_000, ge=1, le=10_000_000, description="Longest text of a job.")
    job_max_unfinished: int = Field(default=100, ge=1, description="Most jobs that wait or are spoken.")
    job_max_bytes: int = Field(
        default=4 * 2**30, ge=2**20, description="Room for what jobs have spoken, and what those that wait will."
    )
    job_keep_days: float = Field(
        default=7.0, gt=0, le=3650, description="Days that a finished job and its audio are kept."
    )
    job_lease_s: float = Field(
        default=15.0, ge=1, le=3600, description="Time after which a job whose server died is taken up by another."
    )
    send_timeout_s: float = Field(default=30.0, gt=0, description="Time a stream waits for a slow reader, in seconds.")
    drain_s: int = Field(default=20, ge=1, description="Time that running requests are given at SIGTERM, in seconds.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="What is logged.")
    server: str = Field(default="", description="Command line: URL of a running server to use.")
    client_key: SecretStr = Field(default=SecretStr(""), description="Command line: key sent to that server.")

    @field_validator("rate_storage")
    @classmethod
    def _check_rate_storage(cls, value: SecretStr) -> SecretStr:
        url = value.get_secret_value()
        if url != "memory" and not url.startswith(("redis://", "rediss://", "redis+unix://")):
            raise ValueError("give memory or redis://HOST/NUMBER")
        return value

    def store_config(self) -> StoreConfig:
        url = self.database_url.get_secret_value() or f"sqlite:///{(self.state_dir / 'voicekin.db').absolute()}"
        return StoreConfig(
            database_url=url,
            state_dir=self.state_dir.absolute(),
            pool_bytes=self.pool_bytes,
            grace_s=self.grace_days * 86400.0,
            watch_every_s=WATCH_EVERY_S,
            audio_cache=self.audio_cache.get_secret_value(),
            audio_cache_bytes=self.audio_cache_bytes,
            audio_cache_s=self.audio_cache_s,
            job_keep_s=self.job_keep_days * 86400.0,
            consent=ConsentPolicy(self.consent, self.consent_words, self.consent_cosine),
            consent_unused_s=self.consent_unused_days * 86400.0,
            protected_cosine=self.protected_cosine,
        )

    def job_limits(self) -> JobLimits:
        bounds = JobBounds(self.job_max_unfinished, self.job_max_bytes)
        return JobLimits(self.job_max_chars, self.max_text_chars, bounds)

    def job_runner(self) -> RunnerConfig:
        return RunnerConfig(self.job_workers, self.job_lease_s, self.job_max_bytes)

    def engine_name(self) -> "EngineName":
        """The engine that is tried first."""
        if self.engine == "auto":
            return "eager" if self.device == "cpu" else "cuda-graph"
        return self.engine

    def engine_choice(self) -> "EngineChoice":
        from cloning.engines.choice import EngineChoice

        return EngineChoice(
            self.engine_name(), self.device, self.threads, self.engine_falls_back, self.plans_dir(), self.memory_bound()
        )

    def memory_bound(self) -> "Bound | None":
        """The device memory that there is. Raises: SettingsError where the device is the CPU."""
        if self.vram_limit_bytes is None:
            return None
        if self.device == "cpu":
            words = f"{PREFIX}VRAM_LIMIT_BYTES bounds a GPU's memory: set {PREFIX}DEVICE=cuda, or take the limit away"
            raise SettingsError("settings_invalid", words)
        from cloning.engines.memory import Bound

        return Bound(int(self.vram_limit_bytes), self.max_voices, self.encoder_bytes())

    def encoder_bytes(self) -> int:
        """What the speaker encoder takes on a device."""
        from encoder.networks.ge2e import DEVICE_BYTES

        return DEVICE_BYTES

    def plans_dir(self) -> Path:
        return self.state_dir / "engines"

    def schedule(self) -> dict[str, object]:
        """The conditions of scheduled pruning."""
        prefix = "prune_"
        names = ("prune_unused_for_days", "prune_older_than_days", "prune_keep_newest_used", "prune_keep_bytes")
        return {name.removeprefix(prefix): getattr(self, name) for name in names}

    def audio_limits(self) -> AudioLimits:
        return AudioLimits(max_bytes=self.max_clip_bytes, max_duration_s=self.max_clip_s)

    def bundle_dir(self) -> Path:
        return self.voice_dir or Path(str(files("voices"))) / "default"

    def shelf(self) -> Shelf:
        return Shelf(self.state_dir / "voices", self.bundle_dir())

    def origins(self) -> list[str]:
        return _listed(self.cors_origins)

    def keys(self) -> list[str]:
        return _listed(self.api_keys.get_secret_value())

    def shown(self) -> dict[str, object]:
        """Settings by variable name, with the secrets hidden."""
        values = self.model_dump(mode="json")
        return {PREFIX + name.upper(): values[name] for name in type(self).model_fields}


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process, which from here on tells nobody else what it does.

    Raises: SettingsError for an unknown variable or a value outside its range.
    """
    os.environ.update(_NO_TELEMETRY)
    _refuse_unknown(os.environ if environment is None else environment)
    try:
        return Settings()
    except ValidationError as error:
        raise SettingsError("settings_invalid", _words(error)) from None


def forbid_tf32() -> None:
    """Keeps NVIDIA's libraries from rounding float32 in this process; call it before they are loaded.

    TensorRT-RTX was seen to round although its builder had been told not to; only this variable kept it from that.
    """
    os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")


def _refuse_unknown(environment: Mapping[str, str]) -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for name in sorted(environment):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            near = difflib.get_close_matches(name.upper(), sorted(known), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingsError("settings_invalid", f"{name} is not a setting{hint} `voicekin settings` lists them.")


def _words(error: ValidationError) -> str:
    # The input is left out: it may be a secret.
    return "; ".join(f"{PREFIX}{str(item['loc'][0]).upper()}: {item['msg']}" for item in error.errors())


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
