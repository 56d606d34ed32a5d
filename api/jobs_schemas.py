"""The shapes of jobs in requests and replies."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from api.audio_out import Chapter
from api.jobs import Heard, JobOrder, expected_left_s
from api.jobs_files import chapters_of
from api.schemas import EXAMPLE_ID, Lexicon, Strict
from api.speech import MAX_SEED, SPEED_RANGE
from store.jobs_types import AUDIBLE, BAD, Job, JobPage, Piece

if TYPE_CHECKING:
    from store.service import Store

_EXAMPLE_TEXT = "# The first chapter\n\nIt was late.\n\n[speaker: Ada] Who is there?"


class JobIn(Strict):
    """A long text, with chapters and speakers in it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"speaker_id": EXAMPLE_ID, "text": _EXAMPLE_TEXT}]})

    text: str = Field(
        description="Plain text or the markup of /v1/speech. [speaker: NAME_OR_ID] at the start of a line changes the "
        "voice; a heading (# Title, or a line such as Chapter 7) begins a chapter."
    )
    speaker_id: str | None = Field(
        default=None, max_length=200, description="Who speaks before the first tag: an id or a name."
    )
    title: Annotated[str, StringConstraints(max_length=200)] = Field(default="", description="Names the files.")
    language: str | None = Field(default=None, max_length=35, examples=["en"])
    speed: float = Field(default=1.0, ge=SPEED_RANGE[0], le=SPEED_RANGE[1])
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED, description="The same seed gives the same recording.")
    lexicon: Lexicon = Field(default_factory=dict, description="How words are said: /IPA/ or a respelling.")
    model: str | None = Field(
        default=None, max_length=200, description="An installed voice; by default the one in use."
    )

    def order(self) -> JobOrder:
        fields = self.model_dump()
        return JobOrder(speaker=fields.pop("speaker_id"), **fields)


class JobOut(BaseModel):
    """A job and how far it is."""

    job_id: str = Field(examples=[EXAMPLE_ID])
    title: str
    state: str = Field(
        description="waiting, running; done, partial (pieces could not be spoken), failed, cancelled, speaker_gone.",
        examples=["running"],
    )
    code: str | None = Field(description="Why it failed or is partial, or why it waits.")
    detail: str | None
    progress: float = Field(description="The share of its characters that is handled, 0 to 1.")
    left_s: float | None = Field(description="Time until it is done, as its pieces went so far; null before the first.")
    n_chars: int
    n_pieces: int
    n_done: int = Field(description="Pieces that are handled.")
    n_bad: int = Field(description="Pieces of them that could not be spoken.")
    audio_s: float = Field(description="Seconds that are spoken.")
    n_bytes: int = Field(description="What its pieces take on the disk.")
    model: str | None = Field(description="The voice model and its revision.")
    seed: int
    speed: float
    language: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None = Field(description="When it and its audio go by themselves.")

    @classmethod
    def of(cls, job: Job) -> "JobOut":
        return cls(**_fields(job))


class ChapterOut(BaseModel):
    """A chapter and when it is heard."""

    title: str
    start_s: float
    stop_s: float


class BadPieceOut(BaseModel):
    """A part of the text that could not be spoken, and why."""

    start_char: int
    stop_char: int
    code: str | None
    detail: str | None


class JobDetailOut(JobOut):
    """A job with its chapters, once it is done, and what could not be spoken."""

    chapters: list[ChapterOut]
    bad_pieces: list[BadPieceOut]

    @classmethod
    def of_parts(cls, job: Job, chapters: Sequence[Chapter], bad: Sequence[Piece]) -> "JobDetailOut":
        names = BadPieceOut.model_fields
        return cls(
            **_fields(job),
            chapters=[ChapterOut(title=each.title, start_s=each.start_s, stop_s=each.stop_s) for each in chapters],
            bad_pieces=[BadPieceOut(**{name: getattr(piece, name) for name in names}) for piece in bad],
        )


class JobPageOut(BaseModel):
    """One page of jobs, the newest first; `next_cursor` is null at the end."""

    jobs: list[JobOut]
    next_cursor: str | None
    total: int

    @classmethod
    def of(cls, page: JobPage) -> "JobPageOut":
        return cls(jobs=[JobOut.of(job) for job in page.jobs], next_cursor=page.next_cursor, total=page.total)


def job_detail(store: "Store", job_id: str) -> JobDetailOut:
    """The job as a document. Raises: JobNotFound."""
    job = store.jobs.get(job_id)
    bad = store.jobs.pieces(job.id, BAD) if job.n_bad else []
    if job.state not in AUDIBLE:
        return JobDetailOut.of_parts(job, (), bad)
    heard = Heard(job, tuple(store.jobs.pieces(job.id)), job.sample_rate or 1)
    return JobDetailOut.of_parts(job, chapters_of(heard), bad)


def _fields(job: Job) -> dict[str, Any]:
    same = ("title", "state", "code", "detail", "n_chars", "n_pieces", "n_done", "n_bad", "n_bytes", "model")
    times = ("created_at", "started_at", "finished_at", "expires_at")
    left_s = expected_left_s(job)
    return {
        **{name: getattr(job, name) for name in (*same, *times)},
        **{name: job.options[name] for name in ("seed", "speed", "language")},
        "job_id": job.id,
        "progress": round(job.chars_done / job.n_chars, 4) if job.n_chars else 1.0,
        "left_s": None if left_s is None else round(left_s, 1),
        "audio_s": round(job.n_samples / job.sample_rate, 3) if job.sample_rate else 0.0,
    }
