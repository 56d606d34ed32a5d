"""Whole columns out of SQL in long texts: a million rows without an object for each."""

import numpy as np
from sqlalchemy import text
from sqlalchemy.orm import Session

from store.ids import IntArray, SpeakerIds

# Both databases allow a text of a gigabyte; this many rows are a tenth of one.
_ROWS_PER_TEXT = 2_000_000
_BYTES_PER_ROW = 24
# Each row is its revision and its id, in digits of one length each, so that texts compare as the pairs do.
_PACKED = {
    "sqlite": ("printf('%016x', revision) || replace({id}, '-', '')", "group_concat(packed, '')"),
    "postgresql": ("lpad(to_hex(revision), 16, '0') || replace({id}, '-', '')", "string_agg(packed, '')"),
}


def packed_rows(session: Session, table: str, id_column: str, revision: int) -> tuple[SpeakerIds, IntArray]:
    """The ids of all rows after the revision, in a table that has an index on it, and their revisions.

    Shapes: revisions int64 (n,).
    """
    row, joined = (part.format(id=id_column) for part in _PACKED[session.get_bind().dialect.name])
    position: dict[str, int | str] = {"revision": revision}
    n_rows = session.scalar(text(f"SELECT count(*) FROM {table} WHERE revision > :revision"), position) or 0
    # Sorting costs as much as reading, so only what one text could not hold is sorted.
    part = f"ORDER BY revision, {id_column} LIMIT {_ROWS_PER_TEXT}" if n_rows > _ROWS_PER_TEXT else ""
    after = "revision > :revision"
    texts: list[bytes] = []
    while sum(map(len, texts)) < n_rows * _BYTES_PER_ROW:
        rows = f"SELECT {row} AS packed FROM {table} WHERE {after} {part}"
        packed, last = session.execute(text(f"SELECT {joined}, max(packed) FROM ({rows}) AS part"), position).one()
        texts.append(bytes.fromhex(packed))
        after = f"(revision, {id_column}) > (:revision, :id)"
        position = {"revision": int(last[:16], 16), "id": SpeakerIds.from_bytes(bytes.fromhex(last[16:]))[0]}
    found = np.frombuffer(b"".join(texts), ">u8").reshape(-1, 3)
    return SpeakerIds(found[:, 1:].astype(np.uint64)), found[:, 0].astype(np.int64)
