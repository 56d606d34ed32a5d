"""Clips and speakers to store, each determined by a number; and a wait for what happens elsewhere."""

import hashlib
import time
from collections.abc import Callable, Sequence

import numpy as np

from store.types import ClipRecord, FloatArray, NewSpeaker

ENCODER = "ge2e-test"


def unit_vector(number: int, width: int = 32) -> FloatArray:
    vector = np.random.default_rng(number).standard_normal(width)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def sha256(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def clip(number: int, width: int = 32) -> ClipRecord:
    return ClipRecord(sha256(number), unit_vector(number, width), 5.5, 4.25, 3, 21.5)


def new_speaker(name: str, numbers: Sequence[int], **fields: object) -> NewSpeaker:
    return NewSpeaker(name=name, encoder_id=ENCODER, clips=tuple(map(clip, numbers)), **fields)  # type: ignore[arg-type]


def wait_until(happened: Callable[[], bool], within_s: float = 5.0) -> None:
    until = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.02)
