"""What all voices whose answers are scripted have in common: what they say of themselves, and whom they speak as."""

from dataclasses import dataclass

import numpy as np

from cloning.types import FloatArray
from store.types import ClipRecord

RATE = 24000


@dataclass(frozen=True)
class VoiceInfo:
    """What a voice says of itself."""

    model_id: str = "voice-1"
    engine: str = "eager"
    device: str = "cpu"
    sample_rate: int = RATE
    ids_per_sound: int = 1
    frame_s: float = 0.01


def unit(seed: int) -> FloatArray:
    """A d-vector. Shapes: -> float32 (64,), L2 norm 1."""
    vector = np.random.default_rng(seed).standard_normal(64).astype(np.float32)
    return vector / np.linalg.norm(vector)


def clip(seed: int) -> ClipRecord:
    return ClipRecord(f"{seed:064x}", unit(seed), 5.0, 4.0, 3)
