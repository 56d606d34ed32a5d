"""Speakers, clips, usage, and the revision that an index follows."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _create_state()
    _create_speakers()
    _create_clips()
    _create_logs()


def downgrade() -> None:
    for table in ("audit", "tombstones", "clips", "usage", "speakers", "encoders", "state"):
        op.drop_table(table)


def _create_state() -> None:
    state = op.create_table(
        "state",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("store_id", sa.String(36), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_state"),
    )
    op.bulk_insert(state, [{"id": 1, "store_id": str(uuid.uuid4()), "revision": 0}])


def _create_speakers() -> None:
    op.create_table(
        "encoders",
        sa.Column("id", sa.String(200), nullable=False),
        sa.Column("width", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_encoders"),
    )
    op.create_table(
        "speakers",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False),
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
        sa.PrimaryKeyConstraint("id", name="pk_speakers"),
        sa.UniqueConstraint("name_key", name="uq_speakers_name_key"),
        sa.ForeignKeyConstraint(["encoder_id"], ["encoders.id"], name="fk_speakers_encoder_id"),
    )
    op.create_index("ix_speakers_created_at_id", "speakers", ["created_at", "id"])
    op.create_index("ix_speakers_revision", "speakers", ["revision"])


def _create_clips() -> None:
    op.create_table(
        "clips",
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
        sa.PrimaryKeyConstraint("id", name="pk_clips"),
        sa.UniqueConstraint("speaker_id", "sha256", name="uq_clips_speaker_id_sha256"),
        sa.ForeignKeyConstraint(["speaker_id"], ["speakers.id"], name="fk_clips_speaker_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["encoder_id"], ["encoders.id"], name="fk_clips_encoder_id"),
    )
    op.create_index("ix_clips_sha256_encoder_id", "clips", ["sha256", "encoder_id"])


def _create_logs() -> None:
    op.create_table(
        "usage",
        sa.Column("speaker_id", sa.String(36), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.Column("uses", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("speaker_id", name="pk_usage"),
        sa.ForeignKeyConstraint(["speaker_id"], ["speakers.id"], name="fk_usage_speaker_id", ondelete="CASCADE"),
    )
    op.create_table(
        "tombstones",
        sa.Column("speaker_id", sa.String(36), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("speaker_id", name="pk_tombstones"),
    )
    op.create_index("ix_tombstones_revision", "tombstones", ["revision"])
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("n_speakers", sa.Integer, nullable=False),
        sa.Column("n_clips", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
