"""The device memory that the service takes, part by part, as it is shown to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from api.settings import Settings
    from cloning.config import VoiceConfig


def memory_of(settings: Settings, voice: VoiceConfig, running: str | None = None) -> dict[str, Any] | None:
    """What a voice does at once on the device and what each part takes, by estimate; None where nothing is estimated.

    `running` is the engine that runs the voice, where it is in memory; else it is the one that would. Without a limit
    it is what the engine's largest batch takes, of sentences of 512 frames.

    Raises: EngineError where a voice does not fit the limit; SettingsError.
    """
    from cloning.engines import memory
    from cloning.errors import EngineError

    bound = settings.memory_bound()
    if settings.device == "cpu":
        return None
    engine = running or settings.engine_name()
    try:
        plan = memory.plan_of(voice, engine, bound) if bound else memory.full_plan(voice, engine)
    except EngineError:
        if bound is None:
            return None
        if running or not settings.engine_falls_back:
            raise
        plan = memory.plan_of(voice, "eager", bound)
    return {
        "engine": plan.engine,
        "limit_bytes": bound and bound.limit_bytes,
        "max_batch": plan.room.max_batch,
        "most_frames": plan.room.most_area,
        "weights_bytes": plan.weights_bytes,
        "activations_bytes": plan.activations_bytes,
        "graphs_bytes": plan.graphs_bytes,
        "waiting_bytes": plan.waiting_bytes,
        "encoder_bytes": settings.encoder_bytes(),
        "libraries_bytes": memory.LIBRARIES_BYTES,
        "context_bytes": memory.CONTEXT_BYTES,
        # The pool of d-vectors is in the host's memory.
        "pool_bytes": 0,
    }


def in_words(found: dict[str, Any]) -> str:
    """The same in a line."""
    limit = found["limit_bytes"]
    sizes = {name.removesuffix("_bytes"): size for name, size in found.items() if name.endswith("_bytes")}
    head = "no limit" if limit is None else f"limit {limit // 2**20} MiB"
    listed = ", ".join(f"{name} {size // 2**20}" for name, size in sizes.items() if name != "limit")
    return f"{head}, {found['max_batch']} sentences at once, {found['most_frames']} frames; MiB by part: {listed}"
