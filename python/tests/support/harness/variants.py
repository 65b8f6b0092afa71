"""Variants of a test: the same law by another store, reader, writer, door or version of brokers.

`make test` runs the first variant. The others run by `make once-more`, and in CI by shards. Each differs from
the first in one thing: three stores and two doors make four tests, not six.
"""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def variants(first: str, *others: str) -> list[str | ParameterSet]:
    """Values of a parameter, of which the `others` are for `make once-more`."""
    return [first, *(pytest.param(other, marks=pytest.mark.once_more(by=other)) for other in others)]


def is_between_variants(item: pytest.Item) -> bool:
    """Whether a test differs from the first variant in several things."""
    return sum(1 for _ in item.iter_markers("once_more")) > 1
