"""The shapes of what an admin asks and is answered."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from api.schemas import EXAMPLE_ID, Strict
from store.types import AuditLine, DeletedSpeaker, PruneReport, PurgeReceipt


class PruneIn(Strict):
    """Who goes: the conditions that are set are united. Pinned speakers never go."""

    unused_for_days: float | None = Field(default=None, ge=0, examples=[90])
    older_than_days: float | None = Field(default=None, ge=0)
    keep_newest_used: int | None = Field(default=None, ge=0, description="Keep this many, those used last.")
    keep_bytes: int | None = Field(default=None, ge=0, description="Keep this many bytes of vectors, used last first.")
    duplicates_above: float | None = Field(
        default=None,
        ge=0.5,
        le=1,
        description="Of speakers so near to each other only the one used last stays.",
    )
    speech_below_s: float | None = Field(default=None, ge=0, description="Remove those with less speech than this.")
    coherence_below: float | None = Field(default=None, ge=0, le=1, description="Remove enrolments less coherent.")
    retired_encoders: list[str] = Field(default_factory=list, max_length=100, description="Remove vectors of these.")
    orphans: bool = Field(default=False, description="Remove rows of a damaged database that have no speaker.")
    dry_run: bool = Field(default=False, description="Only say who would go.")


class VictimOut(BaseModel):
    """A speaker that was removed, or would be."""

    speaker_id: str
    name: str
    reason: str


class ReceiptOut(BaseModel):
    """What was erased for good; the digest is over the sorted ids, a newline after each."""

    id: str
    at: datetime
    actor: str
    action: str
    n_speakers: int
    n_clips: int
    revision: int
    speakers_sha256: str

    @classmethod
    def of(cls, receipt: PurgeReceipt) -> "ReceiptOut":
        return cls(**asdict(receipt))


class PruneOut(BaseModel):
    """What a run removed, or would remove."""

    dry_run: bool
    victims: list[VictimOut]
    kept: int
    freed_bytes: int
    n_orphans: int
    receipt: ReceiptOut | None = Field(description="Null for a dry run, and while the removed can be brought back.")

    @classmethod
    def of(cls, report: PruneReport) -> "PruneOut":
        return cls(
            dry_run=report.dry_run,
            victims=[VictimOut(speaker_id=item[0], name=item[1], reason=item[2]) for item in report.victims],
            kept=report.kept,
            freed_bytes=report.freed_bytes,
            n_orphans=report.n_orphans,
            receipt=None if report.receipt is None else ReceiptOut.of(report.receipt),
        )


class PurgeIn(Strict):
    """Whom to erase from the trash."""

    speaker_ids: list[str] | None = Field(
        default=None, max_length=10000, description="By default all whose time is over.", examples=[[EXAMPLE_ID]]
    )


class DeletedOut(BaseModel):
    """A speaker in the trash."""

    speaker_id: str
    name: str
    deleted_at: datetime
    purge_after: datetime
    n_clips: int


class DeletedListOut(BaseModel):
    """Speakers in the trash, deleted last first."""

    deleted: list[DeletedOut]

    @classmethod
    def of(cls, deleted: Sequence[DeletedSpeaker]) -> "DeletedListOut":
        found = [{**asdict(each), "speaker_id": each.id} for each in deleted]
        return cls(deleted=[DeletedOut(**each) for each in found])


class AuditLineOut(BaseModel):
    """Who did what, when, to how many; never to whom."""

    at: datetime
    actor: str
    action: str
    n_speakers: int
    n_clips: int
    receipt: dict[str, Any] | None


class AuditOut(BaseModel):
    """Lines of the audit, newest first."""

    lines: list[AuditLineOut]

    @classmethod
    def of(cls, lines: Sequence[AuditLine]) -> "AuditOut":
        return cls(lines=[AuditLineOut(**asdict(line)) for line in lines])
