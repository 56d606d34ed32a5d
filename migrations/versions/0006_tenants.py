"""Whose keys, speakers and jobs these are: all that was there before belongs to the tenant without a name."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_TABLES = ("speakers", "trashed_speakers", "jobs", "api_keys")


def upgrade() -> None:
    for table in _TABLES:
        op.add_column(table, sa.Column("tenant", sa.String(64), nullable=False, server_default=""))
    op.create_index("ix_speakers_tenant_created_at_id", "speakers", ["tenant", "created_at", "id"])
    op.create_index("ix_jobs_tenant_created_at_id", "jobs", ["tenant", "created_at", "id"])


def downgrade() -> None:
    op.drop_index("ix_jobs_tenant_created_at_id", "jobs")
    op.drop_index("ix_speakers_tenant_created_at_id", "speakers")
    for table in reversed(_TABLES):
        # Not by a copy of the table: dropping the old one would take along what hangs on it.
        op.drop_column(table, "tenant")
