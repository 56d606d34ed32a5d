"""Speakers in the trash, keys of requests, receipts, and an index that compares revisions without reading vectors."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.drop_index("ix_speakers_revision", "speakers")
    op.create_index("ix_speakers_revision_id", "speakers", ["revision", "id"])
    _create_trash()
    _create_request_keys()
    op.add_column("audit", sa.Column("receipt", sa.JSON))
    op.create_index("ix_audit_at", "audit", ["at"])


def downgrade() -> None:
    op.drop_index("ix_audit_at", "audit")
    with op.batch_alter_table("audit") as table:
        table.drop_column("receipt")
    for name in ("request_keys", "trashed_clips", "trashed_speakers"):
        op.drop_table(name)
    op.drop_index("ix_speakers_revision_id", "speakers")
    op.create_index("ix_speakers_revision", "speakers", ["revision"])


def _create_trash() -> None:
    op.create_table(
        "trashed_speakers",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("encoder_id", sa.String(200), nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("report", sa.JSON, nullable=False),
        sa.Column("pinned", sa.Boolean, nullable=False),
        sa.Column("n_clips", sa.Integer, nullable=False),
        sa.Column("speech_s", sa.Float, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.Column("uses", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("purge_after", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trashed_speakers"),
        sa.ForeignKeyConstraint(["encoder_id"], ["encoders.id"], name="fk_trashed_speakers_encoder_id"),
    )
    op.create_index("ix_trashed_speakers_purge_after", "trashed_speakers", ["purge_after"])
    op.create_table(
        "trashed_clips",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("speaker_id", sa.String(36), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("encoder_id", sa.String(200), nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.Column("duration_s", sa.Float, nullable=False),
        sa.Column("voiced_s", sa.Float, nullable=False),
        sa.Column("n_partials", sa.Integer, nullable=False),
        sa.Column("snr_db", sa.Float),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trashed_clips"),
        sa.ForeignKeyConstraint(
            ["speaker_id"], ["trashed_speakers.id"], name="fk_trashed_clips_speaker_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["encoder_id"], ["encoders.id"], name="fk_trashed_clips_encoder_id"),
    )
    op.create_index("ix_trashed_clips_speaker_id", "trashed_clips", ["speaker_id"])


def _create_request_keys() -> None:
    op.create_table(
        "request_keys",
        sa.Column("key_sha256", sa.String(64), nullable=False),
        sa.Column("request_sha256", sa.String(64), nullable=False),
        sa.Column("speaker_id", sa.String(36), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key_sha256", name="pk_request_keys"),
    )
    op.create_index("ix_request_keys_speaker_id", "request_keys", ["speaker_id"])
    op.create_index("ix_request_keys_expires_at", "request_keys", ["expires_at"])
