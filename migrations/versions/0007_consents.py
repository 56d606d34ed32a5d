"""Consents with their recordings, voices that may not be enrolled, and an audit that is only added to."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_VERBS = ("UPDATE", "DELETE")


def upgrade() -> None:
    _create_consents()
    _create_protected_voices()
    _seal_audit()


def downgrade() -> None:
    _unseal_audit()
    for name in ("protected_vectors", "protected_voices", "consent_recordings", "consents"):
        op.drop_table(name)


def _create_consents() -> None:
    op.create_table(
        "consents",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("statement", sa.Text, nullable=False),
        sa.Column("language", sa.Text, nullable=False),
        sa.Column("granted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.Column("speaker_id", sa.String(36)),
        sa.Column("recording_sha256", sa.String(64)),
        sa.Column("encoder_id", sa.String(200)),
        sa.Column("vector", sa.LargeBinary),
        sa.Column("voice_cosine", sa.Float),
        sa.Column("voice_threshold", sa.Float),
        sa.Column("word_error_rate", sa.Float),
        sa.Column("word_error_limit", sa.Float),
        sa.Column("tenant", sa.String(64), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("id", name="pk_consents"),
    )
    op.create_index("ix_consents_created_at_id", "consents", ["created_at", "id"])
    op.create_index("ix_consents_speaker_id", "consents", ["speaker_id"])
    op.create_table(
        "consent_recordings",
        sa.Column("consent_id", sa.String(36), nullable=False),
        sa.Column("audio", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("consent_id", name="pk_consent_recordings"),
        sa.ForeignKeyConstraint(
            ["consent_id"], ["consents.id"], name="fk_consent_recordings_consent_id", ondelete="CASCADE"
        ),
    )


def _create_protected_voices() -> None:
    op.create_table(
        "protected_voices",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_protected_voices"),
    )
    op.create_table(
        "protected_vectors",
        sa.Column("voice_id", sa.String(36), nullable=False),
        sa.Column("encoder_id", sa.String(200), nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("voice_id", "encoder_id", name="pk_protected_vectors"),
        sa.ForeignKeyConstraint(
            ["voice_id"], ["protected_voices.id"], name="fk_protected_vectors_voice_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_protected_vectors_encoder_id", "protected_vectors", ["encoder_id"])


def _seal_audit() -> None:
    """Has the database itself refuse to change or remove a line."""
    if op.get_bind().dialect.name == "sqlite":
        for verb in _VERBS:
            refusal = "BEGIN SELECT RAISE(ABORT, 'the audit is only added to'); END"
            op.execute(f"CREATE TRIGGER audit_no_{verb.lower()} BEFORE {verb} ON audit {refusal}")
        return
    body = "BEGIN RAISE EXCEPTION 'the audit is only added to'; END"
    op.execute(f"CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
    events = " OR ".join((*_VERBS, "TRUNCATE"))
    op.execute(f"CREATE TRIGGER audit_sealed BEFORE {events} ON audit EXECUTE FUNCTION audit_refuse()")


def _unseal_audit() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for verb in _VERBS:
            op.execute(f"DROP TRIGGER audit_no_{verb.lower()}")
        return
    op.execute("DROP TRIGGER audit_sealed ON audit")
    op.execute("DROP FUNCTION audit_refuse()")
