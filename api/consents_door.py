"""What the command line asks about consents and protected voices, done here or by a server: the same verbs twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from api.command_line import ACTOR

if TYPE_CHECKING:
    from api.consenting import Consenting
    from api.settings import Settings
    from store.service import Store

Document = dict[str, Any]
_CONSENTS, _PROTECTED = "/v1/consents", "/v1/admin/protected"
_PAGE = 200


class Consents(Protocol):
    """The verbs; each gives the document that the HTTP route gives."""

    def add(self, fields: Mapping[str, str], recording: bytes | None) -> Document: ...
    def every(self) -> Iterator[Document]: ...
    def export(self, consent_id: str) -> Document: ...
    def revoke(self, consent_id: str) -> Document: ...
    def delete(self, consent_id: str) -> Document: ...
    def protect(self, name: str, clips: Sequence[bytes]) -> Document: ...
    def protected(self) -> Document: ...
    def unprotect(self, protected_id: str) -> Document: ...


class LocalConsents:
    """Consents in the store of this machine."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store

    def add(self, fields: Mapping[str, str], recording: bytes | None) -> Document:
        from api.consent_schemas import ConsentOut
        from api.consenting import ConsentOrder, read_time

        given: dict[str, Any] = dict(fields)
        if "granted_at" in given:
            given["granted_at"] = read_time(given["granted_at"])
        with self._consenting() as consenting:
            added = consenting.add(ConsentOrder(recording=recording, **given), ACTOR)
        return ConsentOut.of(added).model_dump(mode="json")

    def every(self) -> Iterator[Document]:
        from api.consent_schemas import ConsentOut

        cursor: str | None = None
        while True:
            page = self._store.consents(cursor, _PAGE)
            yield from (ConsentOut.of(each).model_dump(mode="json") for each in page.consents)
            cursor = page.next_cursor
            if cursor is None:
                return

    def export(self, consent_id: str) -> Document:
        from api.consent_schemas import ConsentExportOut

        return ConsentExportOut.of_export(self._store.export_consent(consent_id, ACTOR)).model_dump(mode="json")

    def revoke(self, consent_id: str) -> Document:
        from api.consent_schemas import ConsentOut

        return ConsentOut.of(self._store.revoke_consent(consent_id, ACTOR)).model_dump(mode="json")

    def delete(self, consent_id: str) -> Document:
        self._store.delete_consent(consent_id, ACTOR)
        return {"consent_id": consent_id}

    def protect(self, name: str, clips: Sequence[bytes]) -> Document:
        from api.consent_schemas import NewProtectedOut

        with self._consenting() as consenting:
            return NewProtectedOut.of(consenting.protect(name, clips, ACTOR)).model_dump(mode="json")

    def protected(self) -> Document:
        from api.consent_schemas import ProtectedListOut

        return ProtectedListOut.of(self._store.protected()).model_dump(mode="json")

    def unprotect(self, protected_id: str) -> Document:
        self._store.unprotect(protected_id, ACTOR)
        return {"protected_id": protected_id}

    @contextmanager
    def _consenting(self) -> Iterator[Consenting]:
        from api.services import consenting, open_enrolment, open_voices

        with open_voices(self._settings) as loaded, open_enrolment(self._settings, self._store, loaded) as enrolment:
            yield consenting(self._settings, enrolment)


class RemoteConsents:
    """Consents of a server; `ask` sends a request and gives what was answered."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def add(self, fields: Mapping[str, str], recording: bytes | None) -> Document:
        # A part without a file name is a field: so the body is multipart without a recording too.
        parts: list[Any] = [(name, (None, value)) for name, value in fields.items()]
        parts += [] if recording is None else [("recording", ("recording", recording))]
        return self._json("POST", _CONSENTS, files=parts)

    def every(self) -> Iterator[Document]:
        cursor: str | None = None
        while True:
            page = self._json("GET", _CONSENTS, params={"limit": _PAGE, **({"cursor": cursor} if cursor else {})})
            yield from page["consents"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def export(self, consent_id: str) -> Document:
        return self._json("GET", f"{_CONSENTS}/{consent_id}/export")

    def revoke(self, consent_id: str) -> Document:
        return self._json("POST", f"{_CONSENTS}/{consent_id}/revoke")

    def delete(self, consent_id: str) -> Document:
        self._ask("DELETE", f"{_CONSENTS}/{consent_id}")
        return {"consent_id": consent_id}

    def protect(self, name: str, clips: Sequence[bytes]) -> Document:
        files = [("clips", (f"{number}", clip)) for number, clip in enumerate(clips)]
        return self._json("POST", _PROTECTED, data={"name": name}, files=files)

    def protected(self) -> Document:
        return self._json("GET", _PROTECTED)

    def unprotect(self, protected_id: str) -> Document:
        self._ask("DELETE", f"{_PROTECTED}/{protected_id}")
        return {"protected_id": protected_id}

    def _json(self, method: str, path: str, **content: Any) -> Document:
        document: Document = self._ask(method, path, **content).json()
        return document
