"""The part of the store's front that moves speakers to another store: export, import.

An archive holds shards of at most 1,000 speakers of one encoder: `speakers-N.json`, a list of speakers with the figures
of their clips, and `speakers-N.safetensors`, whose tensor `clips` has one row for each of these clips, in their order.
Where kept clips come along they lie beside these, as `store.archived_clips` says.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from store import checks
from store.archive import ArchiveReader, ArchiveWriter, reading, writing
from store.archived_clips import ArchivedClips, write_clips
from store.blobs import ClipFolder
from store.errors import ArchiveRefused, StoreError
from store.keeping import Keeping
from store.types import ClipRecord, ImportReport, NewSpeaker, SpeakerRecord, StoreConfig
from store.unit_of_work import Reading, UnitOfWork

FORMAT = "voicekin-speakers-1"
_SPEAKERS_PER_SHARD = 1000
# Each has its folder locked while it comes.
_SPEAKERS_PER_STEP_WITH_CLIPS = 50


class Moving(Keeping):
    """Verbs that take speakers out of a store and into one, with vectors, labels, reports and uses."""

    def export(
        self, path: Path, speaker_ids: Sequence[str] | None = None, actor: str = "api", with_clips: bool = False
    ) -> int:
        """Writes an archive of these speakers, or of all, as they are at one moment; how many they are.

        With `with_clips` the clips that are kept come along.
        Raises: SpeakerNotFound, ArchiveRefused, StorageFull, StoreUnavailable.
        """
        facts: dict[str, Any] = {"format": FORMAT, "created_at": datetime.now(UTC).isoformat()}
        with writing(path, facts) as archive:
            folder = self._clips if with_clips else None
            n_speakers, n_clips = self._database.read_all(lambda unit: _write(unit, archive, speaker_ids, folder))
            facts |= {"n_speakers": n_speakers, "n_clips": n_clips}
        with self._database.write() as unit:
            unit.ledger.note(actor, "export", n_speakers, n_clips)
        return n_speakers

    def import_speakers(self, path: Path, actor: str = "api", keep_clips: bool = False) -> ImportReport:
        """Adds the archive's speakers under their own ids; who cannot be added is listed with the reason.

        The whole archive is checked before anything is added. With `keep_clips` the clips in it are kept.
        Raises: ArchiveRefused, StorageFull, StoreUnavailable.
        """
        imported, refused = 0, list[tuple[str, str, str]]()
        with reading(path, FORMAT) as archive:
            for _ in _read(archive):
                pass
            clips = ArchivedClips(archive)
            size = _SPEAKERS_PER_STEP_WITH_CLIPS if keep_clips and len(clips) else _SPEAKERS_PER_SHARD
            for records in _read(archive):
                for start in range(0, len(records), size):
                    step = records[start : start + size]
                    reasons = self._import(step, clips if keep_clips else None, actor)
                    why = [(e.id, e.new.name, reason) for e, reason in zip(step, reasons, strict=True) if reason]
                    imported, refused = imported + len(step) - len(why), refused + why
        return ImportReport(imported, tuple(refused))

    def _import(self, records: Sequence[SpeakerRecord], clips: ArchivedClips | None, actor: str) -> list[str | None]:
        """Adds these speakers in one transaction, or says for each why not."""
        erased, ids = self._erasures.read(), [record.id for record in records]
        there = self._database.read_all(lambda unit: {*unit.speakers.existing(ids), *unit.trash.existing(ids)}) | erased
        with ExitStack() as kept:
            for record in records if clips else ():
                audio = {} if clips is None or record.id in there else clips.of(record.id)
                kept.enter_context(self._keeping(record.id, record.new.clips, audio))
            with self._database.write() as unit:
                reasons = [_take(unit, record, erased, self._config) for record in records]
                found = [record for record, reason in zip(records, reasons, strict=True) if reason is None]
                unit.ledger.note(actor, "import", len(found), sum(len(each.new.clips) for each in found))
        self._follow_commit()
        return reasons


def _write(
    unit: Reading, archive: ArchiveWriter, speaker_ids: Sequence[str] | None, folder: ClipFolder | None
) -> tuple[int, int]:
    ids = unit.speakers.ids_by_encoder() if speaker_ids is None else unit.speakers.encoders_of(speaker_ids)
    n_clips = number = n_shards = 0
    for _, group in groupby(ids, key=lambda pair: pair[1]):
        mine = [speaker_id for speaker_id, _ in group]
        for start in range(0, len(mine), _SPEAKERS_PER_SHARD):
            records = unit.speakers.records(mine[start : start + _SPEAKERS_PER_SHARD])
            vectors = np.stack([clip.vector for record in records for clip in record.new.clips])
            archive.add(f"speakers-{number:06}.json", json.dumps([_document(each) for each in records]).encode())
            archive.add(f"speakers-{number:06}.safetensors", safetensors.numpy.save({"clips": vectors}))
            n_clips, number = n_clips + len(vectors), number + 1
            if folder is not None:
                digests = {each.id: [clip.sha256 for clip in each.new.clips] for each in records}
                n_shards = write_clips(archive, folder, digests, n_shards)
    return len(ids), n_clips


def _document(record: SpeakerRecord) -> dict[str, Any]:
    new = asdict(record.new)
    clips = [{name: value for name, value in clip.items() if name != "vector"} for clip in new["clips"]]
    last_used_at = None if record.last_used_at is None else record.last_used_at.isoformat()
    own = {
        "id": record.id,
        "tenant": record.tenant,
        "created_at": record.created_at.isoformat(),
        "last_used_at": last_used_at,
    }
    return {**new, **own, "uses": record.uses, "clips": clips}


def _read(archive: ArchiveReader) -> Iterator[list[SpeakerRecord]]:
    for name in sorted(archive.manifest["sha256"]):
        if not name.endswith(".json"):
            continue
        try:
            vectors = safetensors.numpy.load(archive.read(name.removesuffix(".json") + ".safetensors"))["clips"]
            yield _records(archive.json(name), vectors)
        except ArchiveRefused:
            raise
        except (KeyError, TypeError, ValueError, StopIteration, safetensors.SafetensorError, StoreError) as error:
            message = f"the archive is damaged: {name} lacks or mistakes {error}; take another copy"
            raise ArchiveRefused("archive_refused", message) from error


def _records(documents: Sequence[Mapping[str, Any]], vectors: "np.ndarray[Any, Any]") -> list[SpeakerRecord]:
    rows = iter(vectors)
    records = [_record(document, rows) for document in documents]
    if next(rows, None) is not None:
        raise ValueError("vectors without clips")
    return records


def _record(document: Mapping[str, Any], rows: Iterator[Any]) -> SpeakerRecord:
    figures = ("sha256", "duration_s", "voiced_s", "n_partials", "snr_db")
    clips = [ClipRecord(vector=next(rows), **{name: clip[name] for name in figures}) for clip in document["clips"]]
    speaker_id = checks.as_speaker_id(document["id"])
    if speaker_id is None:
        raise ValueError("the id of a speaker")
    new = NewSpeaker(
        name=checks.clean_name(document["name"]),
        encoder_id=checks.check_encoder_id(document["encoder_id"]),
        clips=checks.check_clips(clips),
        labels=checks.clean_labels(document["labels"]),
        report=checks.clean_report(document["report"]),
        pinned=bool(document["pinned"]),
    )
    used = document["last_used_at"]
    last_used_at = None if used is None else _time(used)
    # Archives from before there were tenants name none.
    tenant = checks.check_tenant(str(document.get("tenant", "")))
    created_at, uses = _time(document["created_at"]), int(document["uses"])
    return SpeakerRecord(speaker_id, new, created_at, last_used_at, uses, tenant)


def _time(spelt: str) -> datetime:
    when = datetime.fromisoformat(spelt)
    if when.tzinfo is None:
        raise ValueError("the offset of a time")
    return when


def _take(unit: UnitOfWork, record: SpeakerRecord, erased: set[str], config: StoreConfig) -> str | None:
    """Adds the speaker, or says why not."""
    if unit.speakers.existing([record.id]) or unit.trash.existing([record.id]):
        return "exists"
    if record.id in erased or unit.speakers.is_gone(record.id):
        return "erased"
    new = record.new
    try:
        # An archive holds no consents.
        unit.consents.usable(None, record.tenant, config.consent)
        unit.protection.check([clip.vector for clip in new.clips], new.encoder_id, config.protected_cosine)
        unit.speakers.put(record, unit.revision)
    except StoreError as error:
        return error.code
    return None
