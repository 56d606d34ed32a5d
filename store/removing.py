"""The part of the store's front that lets go of speakers: delete, bring back, purge, prune, and who did it."""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from store import checks
from store.core import StoreCore
from store.pruning import Candidates, Near, Victims, check_policy, choose, report
from store.speakers import SpeakerRepository
from store.types import AuditLine, DeletedSpeaker, PrunePolicy, PruneReport, PurgeReceipt, Speaker
from store.unit_of_work import UnitOfWork


class Removing(StoreCore):
    """Verbs that remove speakers, and that undo it in time."""

    def delete(self, speaker_id: str, actor: str = "api", at_once: bool = False) -> PurgeReceipt | None:
        """Removes the speaker: into the trash where the store has a grace period, else and `at_once` for good.

        The receipt is None while the speaker can be brought back.
        Raises: SpeakerNotFound, StorageFull, StoreUnavailable.
        """
        with self._database.write() as unit:
            speaker = unit.speakers.get(speaker_id)
            receipt, consents = self._remove(unit, [speaker.id], actor, "delete", at_once)
        self._after([speaker.id], receipt, consents)
        return receipt

    def bring_back(self, speaker_id: str, actor: str = "api") -> Speaker:
        """The speaker, back from the trash with its id, clips and uses, under a new revision.

        Raises: SpeakerNotFound, NameTaken, QuotaExceeded, VoiceProtected, StorageFull, StoreUnavailable.
        """
        with self._database.write() as unit:
            speaker = unit.speakers.get(unit.trash.bring_back(speaker_id, unit.revision))
            vectors = unit.speakers.clip_vectors(speaker.id)
            unit.protection.check(vectors, speaker.encoder_id, self._config.protected_cosine)
            unit.key_usage.check_brought_back(speaker.id)
            unit.ledger.note(actor, "bring_back", 1, speaker.n_clips)
        self._follow_commit()
        return speaker

    def deleted(self, limit: int = 100) -> tuple[DeletedSpeaker, ...]:
        """Who is in the trash, deleted last first. Raises: BadArgument (bad_limit), StoreUnavailable."""
        checks.check_limit(limit, "limit")
        return self._database.read_all(lambda unit: unit.trash.list(limit))

    def purge(
        self, speaker_ids: Sequence[str] | None = None, now: datetime | None = None, actor: str = "api"
    ) -> PurgeReceipt:
        """Erases from the trash these speakers, or all whose time is over; those not there are passed over.

        Raises: StorageFull, StoreUnavailable.
        """
        when = now or datetime.now(UTC)
        with self._database.write() as unit:
            if speaker_ids is None:
                ids = unit.trash.expired(when)
            else:
                ids = sorted(unit.trash.existing([each for each in map(checks.as_speaker_id, speaker_ids) if each]))
            _, n_clips = unit.trash.remove(ids)
            unit.ledger.forget_requests(ids)
            consents = _erase_consents(unit, ids, actor)
            receipt = _receipt(unit, ids, n_clips, actor, "purge")
        if ids:
            self._forget(ids, consents)
        return receipt

    def prune(
        self, policy: PrunePolicy, now: datetime | None = None, dry_run: bool = False, actor: str = "api"
    ) -> PruneReport:
        """Removes whom the policy names, or only says whom it would. Raises: BadArgument (bad_policy), StoreError."""
        check_policy(policy)
        when = now or datetime.now(UTC)
        near = self._near(policy)
        if dry_run:
            candidates, n_orphans = self._database.read(lambda speakers: self._candidates(speakers, policy))
            return report(True, candidates, self._choose(candidates, policy, when, near), n_orphans)
        with self._database.write_many() as unit:
            candidates, _ = self._candidates(unit.speakers, policy)
            victims = self._choose(candidates, policy, when, near)
            ids, staying = candidates.parted(victims)
            # A schedule that finds nobody, every minute, is nothing to note.
            receipt, consents = self._remove(unit, ids, actor, "prune", False, staying) if ids else (None, [])
            n_orphans = unit.speakers.remove_orphans() if policy.orphans else 0
        self._after(ids, receipt, consents)
        return report(False, candidates, victims, n_orphans, receipt)

    def audit(self, limit: int = 100) -> tuple[AuditLine, ...]:
        """The last lines of the audit, newest first. Raises: BadArgument (bad_limit), StoreUnavailable."""
        checks.check_limit(limit, "limit")
        return self._database.read_all(lambda unit: unit.ledger.lines(limit))

    def _remove(
        self,
        unit: UnitOfWork,
        ids: Sequence[str],
        actor: str,
        action: str,
        at_once: bool,
        staying: Sequence[str] | None = None,
    ) -> tuple[PurgeReceipt | None, list[str]]:
        """The receipt, where they are gone for good, and the ids of the consents that went with them."""
        now, to_trash = datetime.now(UTC), self._config.grace_s > 0 and not at_once
        if to_trash:
            unit.trash.copy(ids, now, now + timedelta(seconds=self._config.grace_s))
        n_clips = unit.speakers.remove(ids, unit.revision, staying)
        self.jobs.end_of_speakers(unit, ids)
        if to_trash:
            unit.ledger.note(actor, action, len(ids), n_clips)
            return None, []
        unit.ledger.forget_requests(ids)
        consents = _erase_consents(unit, ids, actor)
        return _receipt(unit, ids, n_clips, actor, action), consents

    def _after(self, ids: Sequence[str], receipt: PurgeReceipt | None, consents: Sequence[str]) -> None:
        if receipt is None:
            self._hide(ids)
        else:
            self._forget(ids, consents)

    def _near(self, policy: PrunePolicy) -> Near:
        if policy.duplicates_above is None:
            return {}
        self._follower.follow()
        return self._index.near(policy.duplicates_above)

    def _candidates(self, speakers: SpeakerRepository, policy: PrunePolicy) -> tuple[Candidates, int]:
        return speakers.candidates(policy), speakers.count_orphans() if policy.orphans else 0

    def _choose(self, candidates: Candidates, policy: PrunePolicy, now: datetime, near: Near) -> Victims:
        return choose(candidates, policy, now, self._pool.held(), near)


def _erase_consents(unit: UnitOfWork, speaker_ids: Sequence[str], actor: str) -> list[str]:
    """The ids of the consents that went with these speakers; each is a line of the audit."""
    consents = unit.consents.remove_of(speaker_ids)
    unit.ledger.note_each(actor, "consent_erase", "consent_id", consents)
    return consents


def _receipt(unit: UnitOfWork, ids: Sequence[str], n_clips: int, actor: str, action: str) -> PurgeReceipt:
    """The receipt, which the audit keeps too."""
    digest = hashlib.sha256("\n".join([*sorted(ids), ""]).encode()).hexdigest()
    receipt = PurgeReceipt(
        id=str(uuid.uuid4()),
        at=datetime.now(UTC),
        actor=actor,
        action=action,
        n_speakers=len(ids),
        n_clips=n_clips,
        revision=unit.revision,
        speakers_sha256=digest,
    )
    unit.ledger.note(actor, action, len(ids), n_clips, asdict(receipt) | {"at": receipt.at.isoformat()})
    return receipt
