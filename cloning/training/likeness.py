"""Whom speech sounds like: cosines to the people of an evaluation, and whether the right one comes first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cloning.training.people import Person
from cloning.types import FloatArray

ENROLLING_ENCODER = "resemblyzer"


@dataclass(frozen=True, slots=True)
class Likeness:
    """Cosines by one speaker encoder, and whether the right person came first among all.

    `enrolled` is to the clips that the voice was enrolled from, `held_out` to the mean of the person's other clips,
    `others` the mean over all other people; None where the person has no other clip to compare with.
    """

    enrolled: float
    held_out: float | None
    others: float
    first_by_enrolled: bool
    first_by_held_out: bool | None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one person before the voice speaks. Shapes: vectors float32 (n_clips, d) of each encoder.

    Clips from `held_out_from` on are never enrolled; `d_vectors` holds the reference for each number of clips.
    """

    person: Person
    held_out_from: int
    audio: tuple[FloatArray, ...]
    vectors: Mapping[str, FloatArray]
    d_vectors: Mapping[int, FloatArray]
    f0_hz: float | None

    def used(self, n_clips: int) -> int:
        """How many clips there were to enrol from."""
        return min(n_clips, self.held_out_from)

    @property
    def compared(self) -> slice:
        """The clips that other people's speech is compared with: those held out, or all where there is only one."""
        return slice(self.held_out_from if self.held_out_from < len(self.audio) else 0, None)


class Gallery:
    """All people, to be recognised among."""

    def __init__(self, known: Sequence[Known]) -> None:
        self.known = known
        self.encoders = tuple(known[0].vectors)
        self._means = {e: np.stack([_unit(k.vectors[e][k.compared]) for k in known]) for e in self.encoders}

    def compare(
        self, who: int, n_clips: int, vectors: Mapping[str, FloatArray], clip: int | None
    ) -> dict[str, Likeness]:
        """Likeness of vectors to all people; a recording (`clip` is its number) is not compared with itself."""
        return {encoder: self._compare(encoder, who, n_clips, vector, clip) for encoder, vector in vectors.items()}

    def _compare(self, encoder: str, who: int, n_clips: int, vector: FloatArray, clip: int | None) -> Likeness:
        enrolled = np.stack([self._enrolled(encoder, k, n_clips) for k in self.known]) @ vector
        held_out = self._to_held_out(encoder, who, clip, vector)
        others = np.delete(self._means[encoder] @ vector, who)
        return Likeness(
            float(enrolled[who]),
            held_out,
            float(others.mean()) if len(others) else float("nan"),
            int(enrolled.argmax()) == who,
            None if held_out is None else bool(held_out > others.max(initial=-1.0)),
        )

    def _enrolled(self, encoder: str, known: Known, n_clips: int) -> FloatArray:
        if encoder == ENROLLING_ENCODER:
            return known.d_vectors[n_clips]
        return _unit(known.vectors[encoder][: known.used(n_clips)])

    def _to_held_out(self, encoder: str, who: int, clip: int | None, vector: FloatArray) -> float | None:
        known = self.known[who]
        rest = [i for i in range(known.held_out_from, len(known.audio)) if i != clip]
        return float(_unit(known.vectors[encoder][rest]) @ vector) if rest else None


def _unit(vectors: FloatArray) -> FloatArray:
    mean = vectors.mean(axis=0)
    unit: FloatArray = (mean / np.linalg.norm(mean)).astype(np.float32)
    return unit
