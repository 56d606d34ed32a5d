"""/v1/admin: pruning and figures, behind the admin key."""

from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import APIRouter

from api.context import ADMIN, ContextDep, ServicesDep
from api.enrolment import prune_policy
from api.routes.documented import ANY, errors
from api.schemas import PruneIn, PruneOut

router = APIRouter(prefix="/v1/admin", tags=["admin"], dependencies=[ADMIN])
_ERRORS = errors("admin_disabled", ANY)


@router.post("/prune", responses=errors("admin_disabled", "missing_field", "bad_policy", ANY))
async def prune(body: PruneIn, context: ContextDep, services: ServicesDep) -> PruneOut:
    """Remove speakers by age, by last use or by count; a dry run says who would go."""
    policy = prune_policy(body.unused_for_days, body.older_than_days, body.keep_newest_used)
    await context.queries.run(services.speaking.usage.flush)
    work = partial(services.store.prune, policy, dry_run=body.dry_run, actor="http")
    return PruneOut.of(await context.queries.run(work))


@router.get("/stats", responses=_ERRORS)
async def stats(context: ContextDep, services: ServicesDep) -> dict[str, Any]:
    """Figures of the store and of the requests under way."""
    figures = asdict(await context.queries.run(services.store.stats))
    return {
        **figures,
        "speech_under_way": context.speech.under_way,
        "enrolments_under_way": context.enrolment.under_way,
        "model": services.speaking.model,
    }
