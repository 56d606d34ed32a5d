"""Speakers and their embeddings: the SQL tables, the FAISS index that follows them, and pruning."""
