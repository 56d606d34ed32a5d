"""What pruning knows of the speakers, read by columns: past the mapped rows, which cost several times as much."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BigInteger, ColumnElement, String, cast, func, select, type_coerce
from sqlalchemy.orm import Session

from store.ids import IntArray, SpeakerIds
from store.pruning import Candidates
from store.tables import SpeakerRow, UsageRow, UtcDateTime
from store.tenants import tenant_of
from store.types import PrunePolicy

# More at a time are not quicker: the collector of garbage then looks at them again and again.
_ROWS_PER_FETCH = 1000
_MICROSECONDS = 1_000_000


def read_candidates(session: Session, policy: PrunePolicy) -> Candidates:
    """Every speaker that the session sees, with the columns that the policy asks for."""
    in_texts = session.get_bind().dialect.name == "sqlite"
    created_at: ColumnElement[Any] = type_coerce(SpeakerRow.created_at, UtcDateTime)
    used_at = func.coalesce(UsageRow.last_used_at, created_at)
    asked: dict[str, Any] = {
        "ids": SpeakerRow.id,
        "names": SpeakerRow.name,
        "used_us": _instant(used_at, in_texts),
        "pinned": SpeakerRow.pinned,
        # The mean and the clips are vectors of one width.
        "n_bytes": func.length(SpeakerRow.vector) * (1 + SpeakerRow.n_clips),
    }
    if policy.older_than_days is not None:
        asked["created_us"] = _instant(created_at, in_texts)
    if policy.retired_encoders:
        asked["encoder_ids"] = SpeakerRow.encoder_id
    if policy.speech_below_s is not None:
        asked["speech_s"] = SpeakerRow.speech_s
    if policy.coherence_below is not None:
        asked["coherence"] = SpeakerRow.report["coherence"].as_float()
    columns = _read(session, list(asked.values()))
    return _candidates(dict(zip(asked, columns, strict=True)))


def _read(session: Session, asked: Sequence[Any]) -> list[list[Any]]:
    statement = select(*asked).outerjoin_from(SpeakerRow, UsageRow, UsageRow.speaker_id == SpeakerRow.id)
    # The session's own filter acts on mapped rows only.
    if (tenant := tenant_of(session)) is not None:
        statement = statement.where(SpeakerRow.tenant == tenant)
    columns: list[list[Any]] = [[] for _ in asked]
    cursor = session.connection().execute(statement).cursor
    while cursor is not None and (rows := cursor.fetchmany(_ROWS_PER_FETCH)):
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            column.extend(values)
    return columns


def _candidates(columns: dict[str, list[Any]]) -> Candidates:
    def numbers(name: str, kind: type[np.generic]) -> NDArray[Any]:
        return np.array(columns.get(name, ()), kind)

    return Candidates(
        ids=SpeakerIds.of(columns["ids"]),
        names=numbers("names", np.object_),
        created_us=_microseconds(columns.get("created_us", ())),
        used_us=_microseconds(columns["used_us"]),
        pinned=numbers("pinned", np.bool_),
        n_bytes=numbers("n_bytes", np.int64),
        encoder_ids=numbers("encoder_ids", np.object_),
        speech_s=numbers("speech_s", np.float64),
        coherence=numbers("coherence", np.float64),
    )


def _instant(column: ColumnElement[Any], in_texts: bool) -> ColumnElement[Any]:
    if in_texts:
        return type_coerce(column, String)
    return cast(func.extract("epoch", column) * _MICROSECONDS, BigInteger)


def _microseconds(values: Sequence[Any]) -> IntArray:
    """Since 1970, of numbers that say so already, or of the texts that SQLite keeps of times in UTC."""
    kind = "datetime64[us]" if values and isinstance(values[0], str) else np.int64
    return np.array(values, kind).astype(np.int64)
