"""Jobs: long texts, and the pieces in which they are spoken."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("options", sa.JSON, nullable=False),
        sa.Column("chapters", sa.JSON, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("code", sa.Text),
        sa.Column("detail", sa.Text),
        sa.Column("model", sa.Text),
        sa.Column("n_chars", sa.Integer, nullable=False),
        sa.Column("chars_done", sa.Integer, nullable=False),
        sa.Column("n_pieces", sa.Integer, nullable=False),
        sa.Column("n_done", sa.Integer, nullable=False),
        sa.Column("n_bad", sa.Integer, nullable=False),
        sa.Column("n_samples", sa.BigInteger, nullable=False),
        sa.Column("n_bytes", sa.BigInteger, nullable=False),
        sa.Column("expected_bytes", sa.BigInteger, nullable=False),
        sa.Column("sample_rate", sa.Integer),
        sa.Column("spent_s", sa.Float, nullable=False),
        sa.Column("owner", sa.String(36)),
        sa.Column("owned_until", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_created_at_id", "jobs", ["created_at", "id"])
    op.create_index("ix_jobs_expires_at", "jobs", ["expires_at"])
    op.create_table(
        "job_pieces",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("speaker_id", sa.String(36), nullable=False),
        sa.Column("start_char", sa.Integer, nullable=False),
        sa.Column("stop_char", sa.Integer, nullable=False),
        sa.Column("pause_s", sa.Float, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("code", sa.Text),
        sa.Column("detail", sa.Text),
        sa.Column("voice_sha256", sa.String(64)),
        sa.Column("file", sa.Text),
        sa.Column("sha256", sa.String(64)),
        sa.Column("n_samples", sa.BigInteger, nullable=False),
        sa.Column("n_bytes", sa.BigInteger, nullable=False),
        sa.Column("spent_s", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_job_pieces"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_pieces_job_id", ondelete="CASCADE"),
    )
    op.create_index("ix_job_pieces_speaker_id", "job_pieces", ["speaker_id"])


def downgrade() -> None:
    op.drop_table("job_pieces")
    op.drop_table("jobs")
