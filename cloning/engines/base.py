"""What every engine offers to the scheduler; nothing here knows torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cloning.engines.windows import Span
from cloning.types import FloatArray, IntArray, Sentence


@dataclass(frozen=True, slots=True)
class Planned:
    """A sentence after the first phase: its durations are on the host, the prior stays where the engine keeps it.

    Shapes: durations int64 (T_text,) frames. `row` is its place in the engine's own `prior`.
    """

    sentence: Sentence
    durations: IntArray
    prior: object
    row: int

    @property
    def n_frames(self) -> int:
        return int(self.durations.sum())

    def whole(self) -> "Part":
        """All of the sentence."""
        return Part(self, Span(0, self.n_frames))


@dataclass(frozen=True, slots=True)
class Part:
    """Some frames of a planned sentence."""

    plan: Planned
    span: Span


class Engine(Protocol):
    """Runs the two phases. `max_batch` is the most sentences that a call takes; `name` and `device` are for people.

    `first_part_frames` is how long the first part of a sentence is best.
    """

    name: str
    device: str
    max_batch: int
    first_part_frames: int

    def prior(self, sentences: Sequence[Sentence]) -> list[Planned]:
        """First phase, in the order given."""

    def decode(self, parts: Sequence[Part]) -> list[FloatArray]:
        """Second phase: samples of each part, the same whatever other parts its sentence is cut into.

        Shapes: float32 (n_frames of the part * hop,).
        """

    def close(self) -> None:
        """Gives the device's memory back."""
