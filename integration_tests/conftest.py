"""What holds for every test here: what holds for the others too, and that its containers are gone when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator

# Its reaper is an image of its own, and needs the engine's socket: engine.py removes leftovers without it. Read when
# testcontainers is imported, so it is set before.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"

import docker
import pytest

from integration_tests.engine import running_engine
from integration_tests.servers import (
    S3Server,
    ZookeeperEnsemble,
    ZookeeperServer,
    running_ensemble,
    running_s3,
    running_zookeeper,
)
from tests.conftest import (
    _leaves_nothing_behind,
    pytest_addoption,
    pytest_configure,
    pytest_make_collect_report,
    pytest_runtest_makereport,
)

__all__ = [
    "_leaves_nothing_behind",
    "pytest_addoption",
    "pytest_configure",
    "pytest_make_collect_report",
    "pytest_runtest_makereport",
]


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    with running_engine() as client:
        yield client


@pytest.fixture
def zookeeper(engine: docker.DockerClient) -> Iterator[ZookeeperServer]:
    """A server of its own for the test."""
    with running_zookeeper(engine) as server:
        yield server


@pytest.fixture
def ensemble(engine: docker.DockerClient) -> Iterator[ZookeeperEnsemble]:
    """Three servers of its own for the test."""
    with running_ensemble(engine) as servers:
        yield servers


@pytest.fixture
def s3(engine: docker.DockerClient) -> Iterator[S3Server]:
    """A server of its own for the test, and its credentials in the environment."""
    with running_s3(engine) as server:
        yield server
