"""Variants of a test: the same law by another store, reader, writer, door, version of brokers or parameter.

`make test` runs the first variant. The others run by `make once-more`, and in CI by shards. Each differs from
the first in one thing: three stores and two doors make four tests, not six.
"""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def variants(first: str, *others: str) -> list[str | ParameterSet]:
    """Values of a parameter, of which the `others` are for `make once-more`."""
    return [first, *(pytest.param(other, marks=pytest.mark.once_more(by=other)) for other in others)]


FIRST = pytest.StashKey[set[tuple[str, ...]]]()


def take_sample(item: pytest.Item) -> None:
    """Make a variant of a `sampled` test, unless these are the first of its parameters."""
    if item.get_closest_marker("sampled") is None or item.get_closest_marker("walk") is not None:
        return
    others = (marker.kwargs.get("by", "") for marker in item.iter_markers("once_more"))
    test = item.nodeid.partition("[")[0], *others
    first = item.session.stash.setdefault(FIRST, set())
    if test in first:
        item.add_marker(pytest.mark.once_more(by="parameter"))
    first.add(test)


def is_between_variants(item: pytest.Item) -> bool:
    """Whether a test differs from the first variant in several things."""
    return sum(1 for _ in item.iter_markers("once_more")) > 1
