"""Which tests a shard of the test run leaves out (``--shard=2/4``, see `simulation.shards`).

A shard leaves out only what repeats a rule: walks, and variants of a test. Every shard tests the rule itself, by the
test without these markers, or else by some of its variants. Tests whose ``walk`` or ``sampled`` names the same rule, as
in ``walk("a copy is exact")``, count as variants of one test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest

from simulation.shards import Shard

REPEATED = ("walk", "variant")
"""Markers of tests that come in shards."""


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--shard", type=Shard.parse, help="run one shard of walks and of tests on other stores, as in 2/4")


def configure(config: pytest.Config) -> None:
    shard = config.getoption("--shard")
    if shard is not None:
        config.pluginmanager.register(ShardedRun(shard))


class ShardedRun:
    """The plugin of a run of one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def pytest_report_header(self) -> str:
        return f"shard {self._shard} of walks and of tests on other stores; to repeat it: --shard={self._shard}"

    @pytest.hookimpl(tryfirst=True)  # before -m deselects: the rule needs all variants of a test
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = set(in_shard(items, self._shard))
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def in_shard(items: Sequence[pytest.Item], shard: Shard) -> Iterator[pytest.Item]:
    """The tests that run in a shard."""
    variants: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        variants[_law(item)].append(item)
    for name, same in variants.items():
        if all(map(_is_repeated, same)):
            yield from shard.share(same, name)
        else:
            yield from (item for item in same if not _is_repeated(item) or shard.holds(item.nodeid))


def _law(item: pytest.Item) -> str:
    named = (marker for name in ("walk", "sampled") for marker in item.iter_markers(name))
    return next((str(marker.args[0]) for marker in named if marker.args), item.nodeid.partition("[")[0])


def _is_repeated(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(marker) for marker in REPEATED)
