"""The brokers, the doors and the stores of the connector's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from driven_batches import world
from oncelog import metadata
from oncelog.ports import ZnodeStore
from tests.support.harness.variants import variants
from tests.support.log.logs import STORES
from tests.support.servers.kafka import KafkaBroker, topic
from tests.support.servers.shared import SHARED

__all__ = ["topic", "world"]

VERSIONS = {"kafka": 2, "kafka_tv1": 1}
"""The transaction version of each shared broker."""


@pytest.fixture(scope="session", params=variants(*VERSIONS))
def broker(request: pytest.FixtureRequest) -> KafkaBroker:
    """One of each transaction version after the other."""
    found: KafkaBroker = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def version(request: pytest.FixtureRequest) -> int:
    """The transaction version of `broker`."""
    return VERSIONS[request.node.callspec.params["broker"]]


@pytest.fixture(scope="session")
def shared_broker(request: pytest.FixtureRequest) -> KafkaBroker:
    """That with transactions of version 2, unless a test names another one."""
    found: KafkaBroker = request.getfixturevalue(getattr(request, "param", "kafka"))
    return found


@pytest.fixture(params=variants("format", "foreachBatch"))
def door(request: pytest.FixtureRequest) -> str:
    """The two ways into the sink."""
    found: str = request.param
    return found


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ZnodeStore]:
    """An empty store for ledgers, on each of the stores."""
    if request.param in SHARED:
        place = request.getfixturevalue(request.param).url()
    else:
        place = "memory" if request.param == "memory" else str(tmp_path / "ledger")
    opened = metadata.open_metadata(place)
    yield opened
    opened.close()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The folder of a query's checkpoint."""
    return tmp_path / "checkpoint"
