"""What the command line asks about API keys, done here or by a server: two classes with the same verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from api.command_line import ACTOR
from api.errors import RequestRefused

if TYPE_CHECKING:
    from api.key_schemas import KeyChange
    from store.key_types import ApiKey
    from store.service import Store

Document = dict[str, Any]
_PATH = "/v1/admin/keys"
_PAGE = 200


class Keys(Protocol):
    """The verbs; each gives the document that the HTTP route gives."""

    def create(self, fields: Mapping[str, Any]) -> Document: ...
    def every(self) -> Iterator[Document]: ...
    def change(self, key_id: str, fields: Mapping[str, Any]) -> Document: ...
    def delete(self, key_id: str) -> Document: ...


class LocalKeys:
    """Keys in the store of this machine."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, fields: Mapping[str, Any]) -> Document:
        from api.key_schemas import KeyIn, NewKeyOut

        made = self._store.create_key(KeyIn(**fields).terms(), actor=ACTOR)
        return NewKeyOut.of_new(made).model_dump(mode="json")

    def every(self) -> Iterator[Document]:
        from api.key_schemas import KeyListedOut

        cursor: str | None = None
        while True:
            page = self._store.keys(cursor, _PAGE)
            yield from (KeyListedOut.of_listed(key).model_dump(mode="json") for key in page.keys)
            cursor = page.next_cursor
            if cursor is None:
                return

    def change(self, key_id: str, fields: Mapping[str, Any]) -> Document:
        from api.key_schemas import KeyChange, KeyOut

        return KeyOut.of(change_key(self._store, key_id, KeyChange(**fields), ACTOR)).model_dump(mode="json")

    def delete(self, key_id: str) -> Document:
        self._store.delete_key(key_id, actor=ACTOR)
        return {"key_id": key_id}


class RemoteKeys:
    """Keys of a server; `ask` sends a request and gives what was answered."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def create(self, fields: Mapping[str, Any]) -> Document:
        document: Document = self._ask("POST", _PATH, json=dict(fields)).json()
        return document

    def every(self) -> Iterator[Document]:
        cursor: str | None = None
        while True:
            page = self._ask("GET", _PATH, params={"limit": _PAGE, **({"cursor": cursor} if cursor else {})}).json()
            yield from page["keys"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def change(self, key_id: str, fields: Mapping[str, Any]) -> Document:
        document: Document = self._ask("PATCH", f"{_PATH}/{key_id}", json=dict(fields)).json()
        return document

    def delete(self, key_id: str) -> Document:
        self._ask("DELETE", f"{_PATH}/{key_id}")
        return {"key_id": key_id}


def change_key(store: Store, key_id: str, change: KeyChange, actor: str) -> ApiKey:
    """The key with what is asked for, all of it or nothing.

    Raises: RequestRefused where nothing is asked for; KeyNotFound, BadArgument (bad_key).
    """
    if not change.model_fields_set:
        words = "say what is to change: name, scopes, limits, expires_at, expires_in_days or revoked"
        raise RequestRefused("missing_field", words, field="name")
    return store.change_key(key_id, change.apply, revoke=bool(change.revoked), actor=actor)
