"""JSON objects that say one thing: where a name stands twice, Python would keep the last value and tell nobody."""

from __future__ import annotations

from typing import Any


class DuplicateNameError(ValueError):
    """A JSON object names the same thing twice."""


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `json.loads` as its ``object_pairs_hook``.

    Raises:
        DuplicateNameError: a name stands twice.
    """
    built = dict(pairs)
    if len(built) != len(pairs):
        raise DuplicateNameError("the same name twice")
    return built
