"""What ends a run: a broken law."""

from __future__ import annotations


class LawBrokenError(Exception):
    """A law is broken; the message says which one, and where."""
