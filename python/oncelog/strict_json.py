"""JSON objects without duplicate names, of which Python would silently keep only the last value."""

from __future__ import annotations

from typing import Any


class DuplicateNameError(ValueError):
    """A JSON object has the same name twice."""


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An ``object_pairs_hook`` of `json.loads` that raises DuplicateNameError if an object has a name twice."""
    built = dict(pairs)
    if len(built) != len(pairs):
        raise DuplicateNameError("the same name twice")
    return built
