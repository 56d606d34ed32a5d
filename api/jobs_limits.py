"""What may be asked for in jobs, and how many are spoken at once."""

from dataclasses import dataclass

from store.jobs_types import JobBounds


@dataclass(frozen=True, slots=True)
class JobLimits:
    """What may be asked for. `max_text_chars` is the longest text that is spoken in one go."""

    max_chars: int
    max_text_chars: int
    bounds: JobBounds


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    """How many jobs a process speaks at once, how long others believe that it lives, and how much room there is."""

    n_workers: int
    lease_s: float
    max_bytes: int
