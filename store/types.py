"""Data that the store takes and gives; all of it frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
# What a speaker needs before it is enrolled or spoken with: nothing, a record, a record with a recording.
OFF, STATEMENT, RECORDING = CONSENT_LEVELS = ("off", "statement", "recording")


@dataclass(frozen=True, slots=True)
class ConsentPolicy:
    """What a consent must be, by its level. With `words` its recording must have been found to say the statement.

    Each clip of a speaker must reach `cosine` with the recording, where there is one.
    """

    level: str = OFF
    words: bool = False
    cosine: float = 0.74


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the tables and the derived files live. From `exact_below` voices on a search looks through codes first.

    A speaker that was deleted or pruned can be brought back for `grace_s`; with 0 it is gone at once.
    With `watch_every_s` above 0 a thread follows what other processes change even while nobody searches.
    `audio_cache` is where finished speeches are kept: nowhere, `memory`, `disk`, a Redis or S3 URL.
    A finished job is kept for `job_keep_s`, a consent that nobody uses for `consent_unused_s`.
    Who reaches `protected_cosine` with a protected voice is not enrolled.
    """

    database_url: str
    state_dir: Path
    pool_bytes: int = 64 * 2**20
    busy_timeout_s: float = 10.0
    exact_below: int = 100_000
    grace_s: float = 0.0
    watch_every_s: float = 0.0
    audio_cache: str = ""
    audio_cache_bytes: int = 256 * 2**20
    audio_cache_s: float = 86400.0
    job_keep_s: float = 7 * 86400.0
    consent: ConsentPolicy = ConsentPolicy()
    consent_unused_s: float = 30 * 86400.0
    protected_cosine: float = 0.8


@dataclass(frozen=True, slots=True)
class Owner:
    """On whose behalf a store is used: `key_id` is the API key that pays, where there is one.

    Only the speakers and jobs of `tenant` are there, all with None; what is new belongs to it, with None to "".
    `actor` is who did it in the audit, where it says more than what a verb is given.
    """

    key_id: str | None = None
    tenant: str | None = None
    actor: str = ""


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
class Naming:
    """A name and labels that replace a speaker's; None leaves them."""

    name: str | None = None
    labels: Mapping[str, str] | None = None


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
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class SpeakerRecord:
    """A speaker as it moves between stores: all but what the new store decides."""

    id: str
    new: NewSpeaker
    created_at: datetime
    last_used_at: datetime | None
    uses: int
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """How many speakers came, and who did not: (id, name, reason)."""

    imported: int
    refused: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class RequestKey:
    """What makes a repeated enrolment the same one: a client's key, and a digest of all that it sent with it."""

    key: str
    request_sha256: str
    valid_for_s: float = 86400.0

    def of(self, tenant: str | None) -> "RequestKey":
        """The same key, told apart from the keys that other tenants send."""
        return replace(self, key=f"{tenant}\x1f{self.key}") if tenant else self


@dataclass(frozen=True, slots=True)
class DeletedSpeaker:
    """A speaker in the trash, who can be brought back until `purge_after`."""

    id: str
    name: str
    deleted_at: datetime
    purge_after: datetime
    n_clips: int


@dataclass(frozen=True, slots=True)
class PurgeReceipt:
    """What was erased for good. `speakers_sha256` is over the sorted ids, a newline after each, so that whoever has
    them can show that they were among the erased."""

    id: str
    at: datetime
    actor: str
    action: str
    n_speakers: int
    n_clips: int
    revision: int
    speakers_sha256: str


@dataclass(frozen=True, slots=True)
class AuditLine:
    """Who did what, when, to how many."""

    at: datetime
    actor: str
    action: str
    n_speakers: int
    n_clips: int
    receipt: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class KeptSpeech:
    """A finished speech as it was sent, its length, and what was said about it."""

    data: bytes
    duration_s: float
    facts: Mapping[str, str] = field(default_factory=dict)


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
class ChartPoint:
    """A speaker's place on a plane, and its cosine to the speaker that was chosen, None where none was."""

    speaker_id: str
    name: str
    x: float
    y: float
    cosine: float | None


@dataclass(frozen=True, slots=True)
class Chart:
    """Speakers of one encoder on a plane, out of `total`. `explained` is each axis' share of how they differ."""

    encoder_id: str
    total: int
    explained: tuple[float, float]
    points: tuple[ChartPoint, ...]


@dataclass(frozen=True, slots=True)
class PrunePolicy:
    """Who goes; the conditions that are set are united. Pinned speakers never go.

    `keep_newest_used` and `keep_bytes` bound what stays, those used last first; `duplicates_above` is a cosine from
    which two speakers are one too many; `speech_below_s` and `coherence_below` judge the enrolment; `orphans` are rows
    whose speaker is missing, which only a damaged database has.
    """

    unused_for_days: float | None = None
    older_than_days: float | None = None
    keep_newest_used: int | None = None
    keep_bytes: int | None = None
    duplicates_above: float | None = None
    speech_below_s: float | None = None
    coherence_below: float | None = None
    retired_encoders: tuple[str, ...] = ()
    orphans: bool = False


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What a run removed, or would remove."""

    dry_run: bool
    victims: tuple[tuple[str, str, str], ...]  # (speaker_id, name, reason)
    kept: int
    freed_bytes: int
    n_orphans: int = 0
    receipt: PurgeReceipt | None = None


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
    n_deleted: int = 0
    clip_bytes: int = 0
    audio_hits: int = 0
    audio_misses: int = 0
    audio_faults: int = 0
