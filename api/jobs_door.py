"""What the command line asks about jobs, done here or by a server: two classes with the same verbs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from api.errors import ServerRefused

if TYPE_CHECKING:
    from api.settings import Settings
    from store.service import Store

Document = dict[str, Any]
Follow = Callable[[Document], None]
_PATH = "/v1/jobs"
_PAGE = 200
_LOOK_EVERY_S = 0.5
_UNFINISHED = frozenset(("waiting", "running"))


class JobsDoor(Protocol):
    """The verbs; each gives the document that the HTTP route gives."""

    is_here: bool

    def submit(self, order: Mapping[str, Any]) -> Document: ...
    def every(self) -> Iterator[Document]: ...
    def get(self, job_id: str) -> Document: ...
    def wait(self, job_id: str, follow: Follow) -> Document: ...
    def save_audio(self, job_id: str, format_name: str, path: Path) -> None: ...
    def save_times(self, job_id: str, kind: str, path: Path) -> None: ...
    def cancel(self, job_id: str) -> Document: ...
    def delete(self, job_id: str) -> Document: ...


class LocalJobs:
    """Jobs in the store of this machine; whoever waits for one speaks it."""

    is_here = True

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store

    def submit(self, order: Mapping[str, Any]) -> Document:
        from api.jobs import Jobs
        from api.jobs_schemas import JobIn, JobOut
        from api.services import open_voices

        with open_voices(self._settings) as loaded:
            jobs = Jobs(self._store, loaded.voices, self._settings.job_limits())
            return JobOut.of(jobs.submit(JobIn(**order).order())).model_dump(mode="json")

    def every(self) -> Iterator[Document]:
        from api.jobs_schemas import JobOut

        cursor: str | None = None
        while True:
            page = self._store.jobs.page(cursor, _PAGE)
            yield from (JobOut.of(job).model_dump(mode="json") for job in page.jobs)
            cursor = page.next_cursor
            if cursor is None:
                return

    def get(self, job_id: str) -> Document:
        from api.jobs_schemas import job_detail

        return job_detail(self._store, job_id).model_dump(mode="json")

    def wait(self, job_id: str, follow: Follow) -> Document:
        """Speaks the job, or, while a server does, waits for it."""
        from api.services import open_runner, open_speaking, open_voices

        # The one job that is waited for, and no other.
        settings = self._settings.model_copy(update={"job_workers": 0})
        with (
            open_voices(settings) as loaded,
            open_speaking(settings, self._store, loaded) as speaking,
            ThreadPoolExecutor(1) as threads,
            open_runner(settings, self._store, speaking) as runner,
        ):
            runner.start()
            speech: Future[bool] | None = None
            while (document := self.get(job_id))["state"] in _UNFINISHED:
                follow(document)
                if speech is None or speech.done():
                    if speech is not None:
                        speech.result()
                    speech = threads.submit(runner.run, document["job_id"])
                time.sleep(_LOOK_EVERY_S)
        return document

    def save_audio(self, job_id: str, format_name: str, path: Path) -> None:
        from api.jobs import audible
        from api.jobs_files import JobFiles

        _save(path, JobFiles(self._store.jobs).audio(audible(self._store, job_id), format_name).parts)

    def save_times(self, job_id: str, kind: str, path: Path) -> None:
        from api.jobs import audible
        from api.jobs_files import JobFiles

        _save(path, JobFiles(self._store.jobs).times(audible(self._store, job_id), kind).parts)

    def cancel(self, job_id: str) -> Document:
        from api.jobs_schemas import JobOut

        return JobOut.of(self._store.jobs.cancel(job_id)).model_dump(mode="json")

    def delete(self, job_id: str) -> Document:
        self._store.jobs.delete(job_id)
        return {"job_id": job_id}


class RemoteJobs:
    """Jobs of a server; `ask` sends a request and gives what was answered, `refusal` is what a refused one means."""

    is_here = False

    def __init__(self, client: Any, ask: Callable[..., Any], refusal: Callable[[Any], ServerRefused]) -> None:
        self._client, self._ask, self._refusal = client, ask, refusal

    def submit(self, order: Mapping[str, Any]) -> Document:
        return self._json("POST", _PATH, json=dict(order))

    def every(self) -> Iterator[Document]:
        cursor: str | None = None
        while True:
            page = self._json("GET", _PATH, params={"limit": _PAGE, **({"cursor": cursor} if cursor else {})})
            yield from page["jobs"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def get(self, job_id: str) -> Document:
        return self._json("GET", f"{_PATH}/{job_id}")

    def wait(self, job_id: str, follow: Follow) -> Document:
        """Looks until the job has ended; a connection is needed for each look only."""
        while (document := self.get(job_id))["state"] in _UNFINISHED:
            follow(document)
            time.sleep(_LOOK_EVERY_S)
        return document

    def save_audio(self, job_id: str, format_name: str, path: Path) -> None:
        self._fetch(f"{_PATH}/{job_id}/audio", format_name, path)

    def save_times(self, job_id: str, kind: str, path: Path) -> None:
        self._fetch(f"{_PATH}/{job_id}/timestamps", kind, path)

    def cancel(self, job_id: str) -> Document:
        return self._json("POST", f"{_PATH}/{job_id}/cancel")

    def delete(self, job_id: str) -> Document:
        self._ask("DELETE", f"{_PATH}/{job_id}")
        return {"job_id": job_id}

    def _json(self, method: str, path: str, **content: Any) -> Document:
        document: Document = self._ask(method, path, **content).json()
        return document

    def _fetch(self, path: str, format_name: str, target: Path) -> None:
        import httpx

        # Some files are made whole before their first byte, which takes minutes for hours.
        patience = httpx.Timeout(30.0, read=None)
        try:
            with self._client.stream("GET", path, params={"format": format_name}, timeout=patience) as response:
                if not response.is_success:
                    response.read()
                    raise self._refusal(response)
                _save(target, response.iter_bytes())
        except httpx.HTTPError as error:
            words = f"the download broke off: {error}; nothing was written, ask again"
            raise ServerRefused("server_unreachable", words) from None


def _save(path: Path, parts: Iterable[bytes]) -> None:
    with _whole(path) as file:
        for part in parts:
            file.write(part)


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """The file, which has this name once the block is left without an error."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
