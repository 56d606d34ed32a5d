"""Run by Alembic: migrates over the connection that `store.schema` hands in, inside its transaction."""

from alembic import context

from store.tables import Base

connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError("migrations run over a connection of the store: use `voicekin doctor --migrate`")

context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
