"""Keys of clients, and whether any was ever made."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("state", sa.Column("keys_needed", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("prefix", sa.String(16), nullable=False),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("requests_per_minute", sa.Integer),
        sa.Column("characters_per_month", sa.BigInteger),
        sa.Column("max_speakers", sa.Integer),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("secret_sha256", name="uq_api_keys_secret_sha256"),
    )
    op.create_index("ix_api_keys_created_at_id", "api_keys", ["created_at", "id"])


def downgrade() -> None:
    op.drop_table("api_keys")
    with op.batch_alter_table("state") as table:
        table.drop_column("keys_needed")
