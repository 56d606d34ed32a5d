"""Data about jobs that the store takes and gives; all of it frozen."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

WAITING, RUNNING, DONE, PARTIAL, FAILED, CANCELLED, SPEAKER_GONE = STATES = (
    "waiting", "running", "done", "partial", "failed", "cancelled", "speaker_gone",
)  # fmt: skip
UNFINISHED = (WAITING, RUNNING)
# What can be heard; of all other finished jobs nothing is kept but their row.
AUDIBLE = (DONE, PARTIAL)
GONE_DETAIL = "a speaker was deleted, or the consent to its voice was revoked"
# Of a piece: besides waiting and done, nothing could be made of it.
BAD = "bad"


@dataclass(frozen=True, slots=True)
class JobBounds:
    """How many jobs may be unfinished, and how many bytes all of them may hold."""

    max_unfinished: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class NewPiece:
    """A place in a job's text, half open, in code points; who says it, and the silence after it."""

    speaker_id: str
    start_char: int
    stop_char: int
    pause_s: float


@dataclass(frozen=True, slots=True)
class NewJob:
    """What is handed in. A chapter is its title and the number of its first piece."""

    title: str
    text: str
    options: Mapping[str, object]
    chapters: tuple[tuple[str, int], ...]
    pieces: tuple[NewPiece, ...]
    expected_bytes: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece and what became of it. `voice_sha256` is over what shaped its sound besides the job's options."""

    number: int
    speaker_id: str
    start_char: int
    stop_char: int
    pause_s: float
    state: str
    code: str | None
    detail: str | None
    voice_sha256: str | None
    file: str | None
    sha256: str | None
    n_samples: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class SpokenPiece:
    """A piece that was spoken, as it is kept: the bytes of its file, and what they came from."""

    number: int
    data: bytes
    n_samples: int
    sample_rate: int
    model: str
    voice_sha256: str
    spent_s: float


@dataclass(frozen=True, slots=True)
class Job:
    """A job without its text. `tenant` is whose it is. Times are UTC and timezone-aware.

    `n_chars` are those that are spoken, `chars_done` and `n_done` count pieces that are handled, `n_bad` those of them
    of which nothing could be made. `code` and `detail` say why it failed, or why it waits.
    """

    id: str
    title: str
    options: Mapping[str, object]
    chapters: tuple[tuple[str, int], ...]
    state: str
    code: str | None
    detail: str | None
    model: str | None
    n_chars: int
    chars_done: int
    n_pieces: int
    n_done: int
    n_bad: int
    n_samples: int
    n_bytes: int
    sample_rate: int | None
    spent_s: float
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, the newest first, and the cursor of the next page, None at the end."""

    jobs: tuple[Job, ...]
    next_cursor: str | None
    total: int
