"""What holds for every test of the connector: it leaves nothing behind; the server and Spark are shared by a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import (
    _leaves_nothing_behind,
    pytest_collection_modifyitems,
    pytest_make_collect_report,
    pytest_runtest_makereport,
)
from tests.support.servers.postgres import postgres
from tests.support.spark.sessions import _leaves_no_query_running, spark

__all__ = [
    "_leaves_no_query_running",
    "_leaves_nothing_behind",
    "postgres",
    "pytest_collection_modifyitems",
    "pytest_make_collect_report",
    "pytest_runtest_makereport",
    "spark",
]

HERE = Path(__file__).parent


def pytest_itemcollected(item: pytest.Item) -> None:
    """All tests of this folder have the marker `servers`."""
    if item.path.is_relative_to(HERE):
        item.add_marker("servers")
