"""What holds for every test of the connectors: it leaves nothing behind; servers and Spark are shared by a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import (
    _leaves_nothing_behind,
    pytest_collection_modifyitems,
    pytest_make_collect_report,
    pytest_runtest_makereport,
)
from tests.support.harness.variants import take_sample
from tests.support.servers.certificates import certificates
from tests.support.servers.kafka import kafka, kafka_ledgers, kafka_tv1
from tests.support.servers.opensearch import opensearch
from tests.support.servers.postgres import password, postgres, tls_postgres
from tests.support.servers.s3 import bucket
from tests.support.servers.shared import start_before_leak_check
from tests.support.servers.zookeeper import zookeeper
from tests.support.spark.sessions import _leaves_no_query_running, spark

__all__ = [
    "_leaves_no_query_running",
    "_leaves_nothing_behind",
    "bucket",
    "certificates",
    "kafka",
    "kafka_ledgers",
    "kafka_tv1",
    "opensearch",
    "password",
    "postgres",
    "pytest_collection_modifyitems",
    "pytest_make_collect_report",
    "pytest_runtest_makereport",
    "spark",
    "tls_postgres",
    "zookeeper",
]

HERE = Path(__file__).parent


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the connectors' tests, take samples of them, and start the servers that they share."""
    if item.path.is_relative_to(HERE):
        item.add_marker("slow")
        take_sample(item)
        start_before_leak_check(item)
