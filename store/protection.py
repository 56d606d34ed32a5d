"""The repository of protected voices, inside a transaction that someone else opened. They are no speakers."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from store.checks import as_speaker_id, mean_vector
from store.consent_tables import ProtectedVectorRow, ProtectedVoiceRow
from store.consent_types import ProtectedVoice
from store.errors import ProtectedNotFound, VoiceProtected
from store.types import FloatArray
from store.voices import affected, to_bytes, to_vector


class ProtectionRepository:
    """Voices that may not be enrolled."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, name: str, vectors: Mapping[str, FloatArray]) -> ProtectedVoice:
        """The new protected voice, as these encoders hear it."""
        row = ProtectedVoiceRow(id=str(uuid.uuid4()), name=name, created_at=datetime.now(UTC))
        self._session.add(row)
        self._session.flush()
        for encoder_id, vector in vectors.items():
            self._session.add(ProtectedVectorRow(voice_id=row.id, encoder_id=encoder_id, vector=to_bytes(vector)))
        self._session.flush()
        return self._voice(row)

    def every(self) -> tuple[ProtectedVoice, ...]:
        """All of them, oldest first."""
        rows = self._session.scalars(
            select(ProtectedVoiceRow).order_by(ProtectedVoiceRow.created_at, ProtectedVoiceRow.id)
        )
        return tuple(map(self._voice, rows.all()))

    def ids(self) -> set[str]:
        """The ids of all."""
        return set(self._session.scalars(select(ProtectedVoiceRow.id)))

    def remove(self, voice_id: str) -> str:
        """The id of the voice, which is protected no longer. Raises: ProtectedNotFound."""
        canonical = as_speaker_id(voice_id)
        if canonical is None or self._session.get(ProtectedVoiceRow, canonical) is None:
            words = "there is no protected voice of this id: list them to see those there are"
            raise ProtectedNotFound("protected_not_found", words)
        affected(self._session, delete(ProtectedVectorRow).where(ProtectedVectorRow.voice_id == canonical))
        affected(self._session, delete(ProtectedVoiceRow).where(ProtectedVoiceRow.id == canonical))
        return canonical

    def check(self, vectors: Sequence[FloatArray], encoder_id: str, threshold: float) -> None:
        """Raises: VoiceProtected, where a clip, or all of them together, may not be enrolled.

        Shapes: vectors n times float32 (d,), L2 norm 1.
        """
        n_voices = self._session.scalar(select(func.count()).select_from(ProtectedVoiceRow)) or 0
        if not n_voices:
            return
        stored = select(ProtectedVectorRow.vector).where(ProtectedVectorRow.encoder_id == encoder_id)
        heard = map(to_vector, self._session.scalars(stored))
        # Of another width is of another encoder, whatever it calls itself.
        known = [vector for vector in heard if len(vector) == len(vectors[0])]
        if len(known) < n_voices:
            words = (
                f"{n_voices - len(known)} protected voices were not heard by the encoder {encoder_id}, so nobody can "
                "tell whether this is one of them: whoever runs this service must add them anew"
            )
            raise VoiceProtected("protected_unheard", words)
        if float(np.max(np.stack(known) @ np.stack([*vectors, mean_vector(vectors)]).T)) >= threshold:
            words = "this voice may not be enrolled here; if it is your own, ask whoever runs this service"
            raise VoiceProtected("voice_protected", words)

    def _voice(self, row: ProtectedVoiceRow) -> ProtectedVoice:
        of = select(ProtectedVectorRow.encoder_id).where(ProtectedVectorRow.voice_id == row.id)
        encoders = tuple(self._session.scalars(of.order_by(ProtectedVectorRow.encoder_id)))
        return ProtectedVoice(row.id, row.name, row.created_at, encoders)
