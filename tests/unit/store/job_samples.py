"""Jobs to store, what is kept of them, and what is left when they have ended."""

from pathlib import Path

from store.jobs_types import JobBounds, NewJob, NewPiece, SpokenPiece
from store.service import Store

BOUNDS = JobBounds(100, 10**9)
ROOM = 10**9
UNKNOWN = "00000000-0000-4000-8000-000000000000"
OPTIONS = {"seed": 1}


def job_of(*speaker_ids: str, text: str = "One. Two. Three.") -> NewJob:
    pieces = tuple(NewPiece(speaker_id, 5 * n, 5 * n + 4, 0.2) for n, speaker_id in enumerate(speaker_ids))
    return NewJob("A title", text, OPTIONS, (("", 0),), pieces, 1000)


def spoken(number: int, data: bytes = b"sound", voice: str = "v") -> SpokenPiece:
    return SpokenPiece(number, data, len(data) // 2, 24000, "model-1", voice, 0.5)


def files(store: Store) -> list[Path]:
    return [path for path in (store._config.state_dir / "jobs").rglob("*") if path.is_file()]


def ended(store: Store, job_id: str) -> tuple[str, str, int, int]:
    job = store.jobs.get(job_id)
    return job.state, store.jobs.text(job_id), len(store.jobs.pieces(job_id)), len(files(store))


def done_job(store: Store, *speaker_ids: str) -> str:
    job = store.jobs.add(job_of(*speaker_ids), BOUNDS)
    store.jobs.lease("owner", 60, job.id)
    for number in range(len(speaker_ids)):
        store.jobs.keep(job.id, "owner", spoken(number), ROOM)
    assert store.jobs.finish(job.id, "owner", "done")
    return job.id
