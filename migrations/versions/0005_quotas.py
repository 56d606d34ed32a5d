"""What a key has used, and which key enrolled a speaker."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    for table in ("speakers", "trashed_speakers"):
        op.add_column(table, sa.Column("key_id", sa.String(36)))
    op.create_index("ix_speakers_key_id", "speakers", ["key_id"])
    op.create_table(
        "key_usage",
        sa.Column("key_id", sa.String(36), nullable=False),
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("characters", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("key_id", "month", name="pk_key_usage"),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name="fk_key_usage_key_id", ondelete="CASCADE"),
    )


def downgrade() -> None:
    op.drop_table("key_usage")
    op.drop_index("ix_speakers_key_id", "speakers")
    for table in ("trashed_speakers", "speakers"):
        # Not by a copy of the table: dropping the old one would take along what hangs on it.
        op.drop_column(table, "key_id")
