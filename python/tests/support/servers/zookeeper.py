"""The ZooKeeper servers of tests.

The fixture `zookeeper` is one server for all tests of a run; each test takes a chroot of its own. Tests that stop,
pause or kill servers start their own by `running_server` and `running_ensemble`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog.testing import zookeeper_server
from oncelog.testing.server_process import free_ports
from oncelog.testing.zookeeper_server import ZookeeperEnsemble, ZookeeperServer
from tests.support.harness.parts import missing_part, require_java

__all__ = ["ZookeeperEnsemble", "ZookeeperServer", "free_ports"]


@contextmanager
def running_server(
    folder: Path, *, settings: Sequence[str] = (), java: Sequence[str] = ()
) -> Iterator[ZookeeperServer]:
    """A server of one's own, for the time of the block."""
    require_zookeeper()
    with zookeeper_server.running_server(folder, settings=settings, java=java) as server:
        yield server


@contextmanager
def running_ensemble(folder: Path) -> Iterator[ZookeeperEnsemble]:
    """Three servers of one's own, for the time of the block."""
    require_zookeeper()
    with zookeeper_server.running_ensemble(folder) as ensemble:
        yield ensemble


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperServer]:
    """A server that all tests of a run share; none of them stops it."""
    with running_server(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


def require_zookeeper() -> None:
    require_java()
    if importlib.util.find_spec("pyspark") is None:
        missing_part("ZooKeeper", "install oncelog[spark]: PySpark's wheel carries ZooKeeper's jars")
