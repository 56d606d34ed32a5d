"""What was done, by whom, and which requests were answered already."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import ScalarResult, delete, insert, literal, select, update
from sqlalchemy.orm import Session

from store.errors import KeyReused
from store.tables import AuditRow, RequestKeyRow, UtcDateTime
from store.tenants import actor_of
from store.types import AuditLine, RequestKey
from store.voices import chunks

_ACTOR_CHARACTERS = 200


class Ledger:
    """The audit and the keys of requests, inside a transaction that someone else opened."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def note(
        self, actor: str, action: str, n_speakers: int, n_clips: int = 0, receipt: Mapping[str, object] | None = None
    ) -> None:
        """Adds a line to the audit."""
        self._session.add(
            AuditRow(
                at=datetime.now(UTC),
                actor=(actor_of(self._session) or actor)[:_ACTOR_CHARACTERS],
                action=action,
                n_speakers=n_speakers,
                n_clips=n_clips,
                receipt=None if receipt is None else dict(receipt),
            )
        )

    def note_each(self, actor: str, action: str, name: str, values: Sequence[str]) -> None:
        """Adds a line for each of these values, which stands in its receipt under this name."""
        who, now = (actor_of(self._session) or actor)[:_ACTOR_CHARACTERS], datetime.now(UTC)
        line = {"at": now, "actor": who, "action": action, "n_speakers": 0, "n_clips": 0}
        if values:
            self._session.execute(insert(AuditRow), [{**line, "receipt": {name: value}} for value in values])

    def lines(self, limit: int) -> tuple[AuditLine, ...]:
        """The last lines of the audit, newest first."""
        return _lines(self._session.scalars(select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)))

    def lines_about(self, name: str, value: str) -> tuple[AuditLine, ...]:
        """The lines whose receipt says so, oldest first."""
        about = select(AuditRow).where(AuditRow.receipt[name].as_string() == value)
        return _lines(self._session.scalars(about.order_by(AuditRow.id)))

    def answered(self, key: RequestKey) -> str | None:
        """The speaker that was enrolled under this key, None if nobody was. Raises: KeyReused."""
        row = self._session.get(RequestKeyRow, _digest(key.key))
        if row is None or row.expires_at <= datetime.now(UTC):
            return None
        if row.request_sha256 not in (key.request_sha256, ""):
            message = "Idempotency-Key was used for another request: send a new key, or the same request again"
            raise KeyReused("key_reused", message, field="Idempotency-Key")
        return row.speaker_id

    def remember(self, key: RequestKey, speaker_id: str) -> None:
        """Notes who was enrolled under the key, and forgets keys whose time is over."""
        now, digest = datetime.now(UTC), _digest(key.key)
        over = RequestKeyRow.expires_at <= literal(now, UtcDateTime)
        self._session.execute(delete(RequestKeyRow).where(over))
        expires_at = now + timedelta(seconds=key.valid_for_s)
        row = RequestKeyRow(
            key_sha256=digest, request_sha256=key.request_sha256, speaker_id=speaker_id, expires_at=expires_at
        )
        self._session.add(row)
        self._session.flush()

    def forget_requests(self, speaker_ids: Sequence[str]) -> None:
        """Empties the digests of requests that enrolled these speakers: they could tell a recording again."""
        gone = frozenset(speaker_ids)
        kept = select(RequestKeyRow.speaker_id).where(RequestKeyRow.request_sha256 != "")
        # There are as many as a day had enrolments, and often fewer than there are speakers to remove.
        for ids in chunks([each for each in self._session.scalars(kept) if each in gone]):
            statement = update(RequestKeyRow).where(RequestKeyRow.speaker_id.in_(ids)).values(request_sha256="")
            self._session.execute(statement, execution_options={"synchronize_session": False})


def _lines(rows: ScalarResult[AuditRow]) -> tuple[AuditLine, ...]:
    return tuple(AuditLine(row.at, row.actor, row.action, row.n_speakers, row.n_clips, row.receipt) for row in rows)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
