"""Voices from other programs, made into bundles."""
