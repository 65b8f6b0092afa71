"""Planted faults, and the tests that must catch them: ``python -m tests.mutation``."""
