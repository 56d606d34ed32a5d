"""Sessions that see one tenant's speakers: the filter is added to each query, so that no query can forget it."""

from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import ORMExecuteState, Session, with_loader_criteria

from store.tables import Owned

# Stands between a tenant and what belongs to it: no text that is cleaned holds it.
_BETWEEN = "\x1f"
_TENANT, _ACTOR = "tenant", "actor"


class TenantSession(Session):
    """A session on behalf of one tenant, "" being the one without a name; with None it sees all."""

    def __init__(self, bind: Any, tenant: str | None, actor: str) -> None:
        super().__init__(bind, info={_TENANT: tenant, _ACTOR: actor})


def tenant_of(session: Session) -> str | None:
    """On whose behalf the session is, None for all."""
    tenant: str | None = session.info.get(_TENANT)
    return tenant


def actor_of(session: Session) -> str:
    """Who does what this session does, "" where that is not known."""
    return str(session.info.get(_ACTOR, ""))


@event.listens_for(TenantSession, "do_orm_execute")
def _only_its_own(state: ORMExecuteState) -> None:
    tenant = tenant_of(state.session)
    if tenant is not None and not state.is_column_load and not state.is_relationship_load:
        state.statement = state.statement.options(
            with_loader_criteria(Owned, lambda row: row.tenant == tenant, include_aliases=True)
        )


def of_tenant(tenant: str | None, text: str) -> str:
    """The text, told apart from the same text of other tenants."""
    return f"{tenant}{_BETWEEN}{text}" if tenant else text


def without_tenant(text: str) -> str:
    """The text that `of_tenant` was given."""
    return text.rpartition(_BETWEEN)[2]
