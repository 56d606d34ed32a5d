"""Alembic migrations of the store's tables; `store.schema` runs them."""
