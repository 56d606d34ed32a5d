"""/v1/admin/keys: API keys, behind the admin scope."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.context import ADMIN, CallerDep, ContextDep, ServicesDep
from api.key_schemas import KeyChange, KeyIn, KeyOut, KeyPageOut, NewKeyOut
from api.keys_door import change_key
from api.routes.documented import ANY, errors

router = APIRouter(prefix="/v1/admin/keys", tags=["keys"], dependencies=[ADMIN])
_ERRORS = errors("admin_disabled", ANY)
_ONE = errors("admin_disabled api_key_not_found bad_key bad_field storage_full", ANY)


@router.post("", status_code=201, responses=errors("admin_disabled bad_key bad_field storage_full", ANY))
async def create(
    body: KeyIn, response: Response, caller: CallerDep, context: ContextDep, services: ServicesDep
) -> NewKeyOut:
    """Make a key. Its secret is in this reply and nowhere else."""
    made = await context.queries.run(partial(services.store.create_key, body.terms(), actor=caller.actor))
    response.headers["Cache-Control"] = "no-store"
    return NewKeyOut.of_new(made)


@router.get("", responses=errors("admin_disabled bad_cursor bad_limit", ANY))
async def list_keys(
    context: ContextDep,
    services: ServicesDep,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> KeyPageOut:
    """List keys in the order in which they were made, page by page; none shows its secret."""
    return KeyPageOut.of(await context.queries.run(partial(services.store.keys, cursor, limit)))


@router.patch("/{key_id}", responses=_ONE)
async def change(key_id: str, body: KeyChange, caller: CallerDep, context: ContextDep, services: ServicesDep) -> KeyOut:
    """Change a key's name, scopes, limits or end, or revoke it. It holds at once, in every process."""
    return KeyOut.of(await context.queries.run(partial(change_key, services.store, key_id, body, caller.actor)))


@router.delete("/{key_id}", status_code=204, responses=_ONE)
async def delete(key_id: str, caller: CallerDep, context: ContextDep, services: ServicesDep) -> Response:
    """End a key and forget it; the audit keeps that it was."""
    await context.queries.run(partial(services.store.delete_key, key_id, actor=caller.actor))
    return Response(status_code=204)
