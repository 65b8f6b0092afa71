"""Variants of a test: the same rule with another store, reader, writer, entry point, broker version or parameter.

`make test` runs the first variant. `make once-more` runs the others, and CI runs them in shards. Each differs from the
first in one thing: three stores and two entry points make four tests, not six.

`sampled` makes variants, too. Of an expensive test's parameters all but the first become variants by `PARAMETER`. Of a
named group of expensive tests, such as ``sampled("logins")``, all become variants by `GROUP`.
"""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet

PARAMETER = "parameter"
GROUP = "group"


def variants(first: str, *others: str) -> list[str | ParameterSet]:
    """Values of a parameter. Only `make once-more` runs the `others`."""
    return [first, *(pytest.param(other, marks=pytest.mark.variant(by=other)) for other in others)]


FIRST = pytest.StashKey[set[tuple[str, ...]]]()


def take_sample(item: pytest.Item) -> None:
    """Mark a `sampled` test as a variant, unless it has the first of its parameters and belongs to no group."""
    groups = [marker.args for marker in item.iter_markers("sampled")]
    if not groups or item.get_closest_marker("walk") is not None:
        return
    if () in groups and not _is_first(item):
        item.add_marker(pytest.mark.variant(by=PARAMETER))
    if any(groups) and item.get_closest_marker("variant") is None:
        item.add_marker(pytest.mark.variant(by=GROUP))


def _is_first(item: pytest.Item) -> bool:
    """Whether no test before this one had the same function and the same variants."""
    test = item.nodeid.partition("[")[0], *(marker.kwargs.get("by", "") for marker in item.iter_markers("variant"))
    first = item.session.stash.setdefault(FIRST, set())
    if test in first:
        return False
    first.add(test)
    return True


def is_between_variants(item: pytest.Item) -> bool:
    """Whether a test differs from the first variant in several things."""
    return sum(1 for _ in item.iter_markers("variant")) > 1
