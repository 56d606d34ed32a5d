"""How a voice is trained; every figure that a run depends on is here and is written beside its result."""

from dataclasses import dataclass, field

from cloning.training.data import Mix, Shape
from cloning.training.discriminators import DiscriminatorConfig


@dataclass(frozen=True, slots=True)
class Weights:
    """Factors of the generator's losses."""

    mel: float = 45.0
    prior_mel: float = 15.0
    kl: float = 1.0
    duration: float = 1.0
    adversarial: float = 1.0
    matching: float = 1.0
    conversion: float = 3.0
    movement: float = 15.0
    ear: float = 6.0
    ear_matching: float = 10.0
    sounds: float = 2.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Learning rates follow the share of `total_s` that is spent, over all slices, not the steps.

    `adversary_from`, `conversion_from` and `duration_from` (for utterances without their own alignment) are steps, and
    so is `aligned_until`, up to which the corpus's own alignments are used: they show a young prior where to look, but
    held to them it never finds the borders that its flow can undo.
    """

    total_s: float = 1500.0
    flat_share: float = 0.4
    floor: float = 0.05
    warmup_steps: int = 400
    learning_rate: float = 4e-4
    discriminator_learning_rate: float = 3e-4
    adversary_from: int = 1500
    conversion_from: int = 3000
    conversion_every: int = 4
    duration_from: int = 1500
    aligned_until: int = 1000


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """One run. `vector_noise` is added to each entry of a d-vector.

    `prior_share` of the `n_segments` pieces that are decoded in a step are made from what the prior expects, with up to
    `prior_noise` of its spread.
    """

    shapes: tuple[Shape, ...] = (Shape(384, 104, 56), Shape(640, 160, 32), Shape(1024, 224, 20))
    n_segments: int = 64
    prior_share: float = 0.375
    segment_frames: int = 32
    prior_noise: float = 0.4
    conversion_rows: int = 16
    ema_decay: float = 0.999
    clip_norm: float = 20.0
    discriminator_clip_norm: float = 50.0
    vector_noise: float = 0.006
    seed: int = 1
    report_every: int = 100
    mix: Mix = field(default_factory=Mix)
    weights: Weights = field(default_factory=Weights)
    schedule: Schedule = field(default_factory=Schedule)
    discriminators: DiscriminatorConfig = field(default_factory=DiscriminatorConfig)

    @property
    def n_prior_segments(self) -> int:
        """How many of the pieces of a step are made from what the prior expects."""
        return int(self.n_segments * self.prior_share)
