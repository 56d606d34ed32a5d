"""/health and /metrics: for probes and scrapers, open to all."""

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from api.context import ContextDep
from api.routes.documented import READY, errors
from api.schemas import LiveOut, ReadyOut

router = APIRouter(tags=["health"])


@router.get("/health/live")
async def live() -> LiveOut:
    """The process answers."""
    return LiveOut()


@router.get("/health/ready", responses=errors(READY))
async def ready(context: ContextDep) -> ReadyOut:
    """A real sentence has been spoken since the start, the database answers, and new work is welcome."""
    services = context.host.check_ready()
    await context.queries.run(services.store.health)
    info = await context.queries.run(services.speaking.voices.describe)
    return ReadyOut(
        model=info.model_id,
        languages=list(info.voice.text.languages),
        encoder_id=info.voice.encoder_id,
        engines=services.speaking.voices.engines(),
        start_s=round(context.host.start_s, 3),
    )


@router.get("/metrics", response_class=Response)
async def metrics(context: ContextDep) -> Response:
    """Counters in Prometheus' text format."""
    return Response(generate_latest(context.metrics.registry), media_type=CONTENT_TYPE_LATEST)
