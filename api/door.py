"""What the command line asks for, done here without a server or by one: two classes with the same verbs."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from api.command_line import ACTOR
from api.consents_door import Consents, LocalConsents, RemoteConsents
from api.errors import RequestRefused, ServerRefused
from api.jobs_door import JobsDoor, LocalJobs, RemoteJobs
from api.keys_door import Keys, LocalKeys, RemoteKeys
from api.settings import Settings

if TYPE_CHECKING:
    from api.timing import SentenceOut

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Audio:
    """A finished file, what is known about it by name, and when what is heard, where that was asked for."""

    data: bytes
    facts: Mapping[str, str]
    sentences: Sequence[SentenceOut] = ()

    @classmethod
    def of_reply(cls, data: bytes, facts: Mapping[str, str], timestamps: bool) -> Audio:
        from api.timing import TimedSpeechOut

        if not timestamps:
            return cls(data, facts)
        timed = TimedSpeechOut.model_validate_json(data)
        return cls(base64.b64decode(timed.audio), facts, timed.sentences)


class Door(Protocol):
    """The verbs of the service; each gives the document that the HTTP route gives."""

    @property
    def keys(self) -> Keys: ...
    @property
    def jobs(self) -> JobsDoor: ...
    @property
    def consents(self) -> Consents: ...
    def enrol(
        self,
        name: str,
        clips: Sequence[Path],
        labels: Mapping[str, str],
        model: str | None = None,
        consent_id: str | None = None,
    ) -> Document: ...
    def speak(self, speaker: str, order: Mapping[str, Any]) -> Audio: ...
    def voices(self) -> Iterator[Document]: ...
    def similar(self, speaker: str, k: int) -> Document: ...
    def prune(self, conditions: Mapping[str, Any]) -> Document: ...
    def delete(self, speaker: str, at_once: bool) -> Document: ...
    def undelete(self, speaker_id: str) -> Document: ...
    def deleted(self, limit: int) -> Document: ...
    def purge(self, speaker_ids: Sequence[str] | None) -> Document: ...
    def audit(self, limit: int) -> Document: ...


@contextmanager
def open_door(settings: Settings, server: str | None) -> Iterator[Door]:
    """The door to the rooms of this machine, or to a server where one is named."""
    url = server or settings.server
    with ExitStack() as stack:
        if url:
            yield stack.enter_context(_remote(url, settings))
        else:
            yield stack.enter_context(_local(settings))


def read_clips(paths: Sequence[Path]) -> list[bytes]:
    """The bytes of files. Raises: RequestRefused, with the name of one that cannot be read."""
    try:
        return [path.read_bytes() for path in paths]
    except OSError as error:
        raise RequestRefused("bad_field", f"{error.filename} cannot be read: {error.strerror}", field="clips") from None


class LocalDoor:
    """Opens only the rooms that a verb needs."""

    def __init__(self, settings: Settings, store: Any) -> None:
        self._settings = settings
        self._store = store
        self.keys: Keys = LocalKeys(store)
        self.jobs: JobsDoor = LocalJobs(settings, store)
        self.consents: Consents = LocalConsents(settings, store)

    def enrol(
        self,
        name: str,
        clips: Sequence[Path],
        labels: Mapping[str, str],
        model: str | None = None,
        consent_id: str | None = None,
    ) -> Document:
        from api.schemas import EnrolledOut
        from api.services import open_enrolment, open_voices

        data = read_clips(clips)
        with open_voices(self._settings) as loaded, open_enrolment(self._settings, self._store, loaded) as enrolment:
            enrolled = enrolment.enrol(name, data, labels, model=model, consent_id=consent_id)
        return EnrolledOut.of_enrolled(enrolled).model_dump(mode="json")

    def speak(self, speaker: str, order: Mapping[str, Any]) -> Audio:
        from api.audio_out import find_format
        from api.forms import AudioForm, timed_form
        from api.rendering import Rendering
        from api.schemas import SpeechIn
        from api.services import open_speaking, open_voices

        body = SpeechIn(speaker_id=self._store.find(speaker).id, **order)
        audio_format = find_format(body.format)
        form = timed_form(audio_format, streamed=False) if body.timestamps else AudioForm(audio_format)
        with open_voices(self._settings) as loaded, open_speaking(self._settings, self._store, loaded) as speaking:
            found = Rendering(speaking).whole(body.order(), form)
        return Audio.of_reply(found.data, found.facts, body.timestamps)

    def voices(self) -> Iterator[Document]:
        from api.listing import every_speaker
        from api.schemas import SpeakerOut

        return (SpeakerOut.of(speaker).model_dump(mode="json") for speaker in every_speaker(self._store))

    def similar(self, speaker: str, k: int) -> Document:
        from api.schemas import MatchesOut

        found = self._store.similar_to(self._store.find(speaker).id, k)
        return MatchesOut.of(found).model_dump(mode="json")

    def prune(self, conditions: Mapping[str, Any]) -> Document:
        from api.admin_schemas import PruneIn, PruneOut
        from api.keeping import prune_policy

        body = PruneIn(**conditions)
        report = self._store.prune(prune_policy(body.model_dump()), dry_run=body.dry_run, actor=ACTOR)
        return PruneOut.of(report).model_dump(mode="json")

    def delete(self, speaker: str, at_once: bool) -> Document:
        speaker_id = self._store.find(speaker).id
        self._store.delete(speaker_id, actor=ACTOR, at_once=at_once)
        return {"speaker_id": speaker_id}

    def undelete(self, speaker_id: str) -> Document:
        from api.schemas import SpeakerOut

        return SpeakerOut.of(self._store.bring_back(speaker_id, actor=ACTOR)).model_dump(mode="json")

    def deleted(self, limit: int) -> Document:
        from api.admin_schemas import DeletedListOut

        return DeletedListOut.of(self._store.deleted(limit)).model_dump(mode="json")

    def purge(self, speaker_ids: Sequence[str] | None) -> Document:
        from api.admin_schemas import ReceiptOut

        return ReceiptOut.of(self._store.purge(speaker_ids, actor=ACTOR)).model_dump(mode="json")

    def audit(self, limit: int) -> Document:
        from api.admin_schemas import AuditOut

        return AuditOut.of(self._store.audit(limit)).model_dump(mode="json")


class RemoteDoor:
    """Asks a server."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.keys: Keys = RemoteKeys(self._ask)
        self.jobs: JobsDoor = RemoteJobs(self._client, self._ask, _refusal)
        self.consents: Consents = RemoteConsents(self._ask)

    def enrol(
        self,
        name: str,
        clips: Sequence[Path],
        labels: Mapping[str, str],
        model: str | None = None,
        consent_id: str | None = None,
    ) -> Document:
        files = [("clips", (path.name, data)) for path, data in zip(clips, read_clips(clips), strict=True)]
        fields = {"name": name, "labels": json.dumps(dict(labels)), **({"model": model} if model else {})}
        fields |= {"consent_id": consent_id} if consent_id else {}
        return self._json("POST", "/v1/speakers", data=fields, files=files)

    def speak(self, speaker: str, order: Mapping[str, Any]) -> Audio:
        body = {"speaker_id": self._id_of(speaker), **order}
        response = self._ask("POST", "/v1/speech", json=body)
        prefix = "x-voicekin-"
        facts = {name[len(prefix) :]: value for name, value in response.headers.items() if name.startswith(prefix)}
        return Audio.of_reply(response.content, facts, bool(order.get("timestamps")))

    def voices(self) -> Iterator[Document]:
        cursor: str | None = None
        while True:
            page = self._json("GET", "/v1/speakers", params={"limit": 200, **({"cursor": cursor} if cursor else {})})
            yield from page["speakers"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def similar(self, speaker: str, k: int) -> Document:
        return self._json("GET", f"/v1/speakers/{self._id_of(speaker)}/similar", params={"k": k})

    def prune(self, conditions: Mapping[str, Any]) -> Document:
        return self._json("POST", "/v1/admin/prune", json=dict(conditions))

    def delete(self, speaker: str, at_once: bool) -> Document:
        speaker_id = self._id_of(speaker)
        self._ask("DELETE", f"/v1/speakers/{speaker_id}", params={"at_once": at_once})
        return {"speaker_id": speaker_id}

    def undelete(self, speaker_id: str) -> Document:
        return self._json("POST", f"/v1/speakers/{speaker_id}/undelete")

    def deleted(self, limit: int) -> Document:
        return self._json("GET", "/v1/admin/deleted", params={"limit": limit})

    def purge(self, speaker_ids: Sequence[str] | None) -> Document:
        return self._json("POST", "/v1/admin/purge", json={"speaker_ids": speaker_ids})

    def audit(self, limit: int) -> Document:
        return self._json("GET", "/v1/admin/audit", params={"limit": limit})

    def _id_of(self, speaker: str) -> str:
        if _is_id(speaker):
            return speaker
        same_name = (item for item in self.voices() if item["name"].casefold() == speaker.casefold())
        found = next(same_name, None)
        return str(found["speaker_id"]) if found else speaker

    def _json(self, method: str, path: str, **content: Any) -> Document:
        document: Document = self._ask(method, path, **content).json()
        return document

    def _ask(self, method: str, path: str, **content: Any) -> Any:
        import httpx

        try:
            response = self._client.request(method, path, **content)
        except httpx.HTTPError as error:
            raise ServerRefused("server_unreachable", f"the server does not answer: {error}") from None
        if response.is_success:
            return response
        raise _refusal(response)


@contextmanager
def _local(settings: Settings) -> Iterator[LocalDoor]:
    from api.services import open_store

    with open_store(settings) as store:
        yield LocalDoor(settings, store)


@contextmanager
def _remote(url: str, settings: Settings) -> Iterator[RemoteDoor]:
    import httpx

    key = settings.client_key.get_secret_value()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with httpx.Client(base_url=url, headers=headers, timeout=settings.request_timeout_s) as client:
        yield RemoteDoor(client)


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _refusal(response: Any) -> ServerRefused:
    try:
        document = response.json()
        return ServerRefused(document["code"], document["detail"], status=response.status_code)
    except (ValueError, KeyError, TypeError):
        return ServerRefused(
            "server_failed", f"the server answered {response.status_code}", status=response.status_code
        )
