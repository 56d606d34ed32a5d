"""Data that the store takes and gives; all of it frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the tables and the derived files live. From `exact_below` voices on a search looks through codes first."""

    database_url: str
    state_dir: Path
    pool_bytes: int = 64 * 2**20
    busy_timeout_s: float = 10.0
    exact_below: int = 100_000


@dataclass(frozen=True, slots=True)
class ClipRecord:
    """Metadata of one reference clip and its own embedding. Shapes: vector float32 (d,), L2 norm 1."""

    sha256: str
    vector: FloatArray
    duration_s: float
    voiced_s: float
    n_partials: int
    snr_db: float | None = None


@dataclass(frozen=True, slots=True)
class NewSpeaker:
    """What enrolment hands to the store; the speaker's mean vector is derived from the clips."""

    name: str
    encoder_id: str
    clips: tuple[ClipRecord, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    report: Mapping[str, object] = field(default_factory=dict)
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Speaker:
    """A stored speaker. Shapes: vector float32 (d,), L2 norm 1. Times are UTC and timezone-aware.

    `revision` is the store's monotonic counter at this speaker's last change of voice: it is part of every cache key.
    """

    id: str
    name: str
    vector: FloatArray
    encoder_id: str
    labels: Mapping[str, str]
    report: Mapping[str, object]
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None
    uses: int
    pinned: bool
    revision: int
    n_clips: int
    speech_s: float


@dataclass(frozen=True, slots=True)
class Match:
    """A neighbour and its cosine."""

    speaker_id: str
    name: str
    cosine: float


@dataclass(frozen=True, slots=True)
class Page:
    """Speakers in order of (created_at, id), and the cursor of the next page, None at the end."""

    speakers: tuple[Speaker, ...]
    next_cursor: str | None
    total: int


@dataclass(frozen=True, slots=True)
class PrunePolicy:
    """Who goes; the conditions that are set are united. Pinned speakers never go."""

    unused_for_days: float | None = None
    older_than_days: float | None = None
    keep_newest_used: int | None = None


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What a run removed, or would remove."""

    dry_run: bool
    victims: tuple[tuple[str, str, str], ...]  # (speaker_id, name, reason)
    kept: int
    freed_bytes: int


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Counts and sizes. `index_repaired` is how many index entries were wrong or missing when the store was opened."""

    n_speakers: int
    n_clips: int
    revision: int
    encoder_ids: tuple[str, ...]
    index_size: int
    index_revision: int
    index_repaired: int
    snapshot_revision: int | None
    database_bytes: int
    pool_vectors: int
    pool_bytes: int
    pool_hits: int
    pool_misses: int
    index_bytes: int = 0
    index_kinds: Mapping[str, str] = field(default_factory=dict)
