"""The part of the store's front that keeps reference clips in step with SQL, and moves speakers to another encoder."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from store import checks
from store.errors import StoreError, StoreUnavailable
from store.removing import Removing
from store.types import ClipRecord, Speaker
from store.voices import VoiceQueries

_log = logging.getLogger(__name__)


class Keeping(Removing):
    """Verbs about the clips that speakers were enrolled from."""

    def kept_clips(self, speaker_id: str) -> Mapping[str, bytes | None]:
        """The bytes of each of the speaker's clips by sha256, None for one that was not kept or is damaged.

        Raises: SpeakerNotFound, StoreUnavailable, OSError.
        """
        canonical, _, _ = self._database.read(lambda speakers: speakers.voice_key(speaker_id))
        known = self._database.read(lambda speakers: speakers.clip_digests([canonical]))
        return {sha256: self._clips.read(canonical, sha256) for sha256 in sorted(known[canonical])}

    def reembed(
        self,
        speaker_id: str,
        encoder_id: str,
        clips: Sequence[ClipRecord],
        report: Mapping[str, object] | None = None,
        actor: str = "api",
    ) -> Speaker:
        """The speaker, with each of its clips heard by this encoder; its mean is renewed, its revision rises.

        Raises: SpeakerNotFound, BadArgument where these are not all of its clips, BadVector, VoiceProtected,
        StorageFull, StoreUnavailable.
        """
        checked = checks.check_clips(clips)
        checks.check_encoder_id(encoder_id)
        cleaned = None if report is None else checks.clean_report(report)
        with self._database.write() as unit:
            unit.protection.check([clip.vector for clip in checked], encoder_id, self._config.protected_cosine)
            speaker = unit.speakers.reembed(speaker_id, encoder_id, checked, cleaned, unit.revision)
            unit.ledger.note(actor, "reembed", 1, speaker.n_clips)
        self._pool.drop(speaker.id)
        self._follow_commit()
        return speaker

    @contextmanager
    def _keeping(self, speaker_id: str, clips: Sequence[ClipRecord], audio: Mapping[str, bytes]) -> Iterator[None]:
        """Keeps the clips' bytes before the block commits their rows; what has no row afterwards goes again."""
        kept = {clip.sha256: audio[clip.sha256] for clip in clips if clip.sha256 in audio}
        if not kept:
            yield
            return
        if not self._clips.belongs_to(self._database.read(VoiceQueries.position).store_id):
            message = "the clips kept in the state folder belong to another database: move its folder clips away"
            raise StoreUnavailable("store_unavailable", message)
        with self._clips.turn(speaker_id):
            try:
                self._clips.write(speaker_id, kept)
                yield
            finally:
                self._tidy(speaker_id)

    def _tidy(self, speaker_id: str) -> None:
        try:
            self._match_clips(speaker_id)
        except (StoreError, OSError) as error:
            _log.warning("clips without a speaker could not be removed now and will at the next start: %s", error)
