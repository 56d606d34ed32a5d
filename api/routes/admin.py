"""/v1/admin: pruning, the trash, the audit and figures, behind the admin key."""

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query

from api.admin_schemas import AuditOut, DeletedListOut, PruneIn, PruneOut, PurgeIn, ReceiptOut
from api.context import ADMIN, ContextDep, ServicesDep
from api.keeping import prune_policy
from api.memory import memory_of
from api.routes.documented import ANY, errors

router = APIRouter(prefix="/v1/admin", tags=["admin"], dependencies=[ADMIN])
Limit = Annotated[int, Query(ge=1, le=1000, description="How many.")]
_ERRORS = errors("admin_disabled", ANY)


@router.post("/prune", responses=errors("admin_disabled", "missing_field", "bad_policy", ANY))
async def prune(body: PruneIn, context: ContextDep, services: ServicesDep) -> PruneOut:
    """Remove speakers by age, last use, number, size, quality or likeness; a dry run says who would go."""
    policy = prune_policy(body.model_dump())
    await context.queries.run(services.speaking.usage.flush)
    work = partial(services.store.prune, policy, dry_run=body.dry_run, actor="http")
    return PruneOut.of(await context.queries.run(work))


@router.get("/deleted", responses=_ERRORS)
async def deleted(context: ContextDep, services: ServicesDep, limit: Limit = 100) -> DeletedListOut:
    """List the speakers that were deleted and can still be brought back."""
    return DeletedListOut.of(await context.queries.run(partial(services.store.deleted, limit)))


@router.post("/purge", responses=errors("admin_disabled", "bad_field", "storage_full", ANY))
async def purge(body: PurgeIn, context: ContextDep, services: ServicesDep) -> ReceiptOut:
    """Erase deleted speakers for good, those named or all whose time is over, and give a receipt."""
    work = partial(services.store.purge, body.speaker_ids, actor="http")
    return ReceiptOut.of(await context.queries.run(work))


@router.get("/audit", responses=_ERRORS)
async def audit(context: ContextDep, services: ServicesDep, limit: Limit = 100) -> AuditOut:
    """Read who did what, newest first; it names no speaker."""
    return AuditOut.of(await context.queries.run(partial(services.store.audit, limit)))


@router.get("/stats", responses=_ERRORS)
async def stats(context: ContextDep, services: ServicesDep) -> dict[str, Any]:
    """Figures of the store and of the requests under way."""
    figures = asdict(await context.queries.run(services.store.stats))
    info = await context.queries.run(services.speaking.voices.describe)
    engine = await context.queries.run(services.speaking.voices.engine_of_in_use)
    return {
        **figures,
        "speech_under_way": context.speech.under_way,
        "enrolments_under_way": context.enrolment.under_way,
        "model": info.model_id,
        "voices_loaded": list(services.speaking.voices.loaded()),
        "device_memory": await context.queries.run(partial(memory_of, context.settings, info.voice, engine)),
    }
