"""One Spark for all tests of this folder, as a user starts it: local, with task retries."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import oncelog
from oncelog.runtime import Log
from tests import invariants
from tests.parts import missing_part, require_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = str(Path(__file__).parents[2])


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores that tries a task four times. All it writes goes to temporary folders."""
    require_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        missing_part("PySpark", "install oncelog[spark]")
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as environment:
        # The JVM starts Python's workers from its own environment: they take this interpreter and these sources.
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        environment.setenv("PYTHONPATH", SOURCES, prepend=os.pathsep)
        session = _start(SparkSession.builder, folder)
        yield session
        session.stop()


def _start(builder: SparkSession.Builder, folder: Path) -> SparkSession:
    session = (
        builder.master("local[2,4]")
        .appName("oncelog-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder}")
        .config("spark.local.dir", str(folder))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


@pytest.fixture(params=[os.environ.get("ONCELOG_TEST_ZNODES", "sqlite")])
def znodes(request: pytest.FixtureRequest) -> str | None:
    """Where the logs of these tests keep their metadata: ``ONCELOG_TEST_ZNODES=zookeeper`` puts it on a real server."""
    return request.getfixturevalue("zookeeper").url() if request.param == "zookeeper" else None


@pytest.fixture
def log(tmp_path: Path, znodes: str | None) -> Iterator[Log]:
    """A log with the topics `in` and `out`, of two partitions each, that Spark's processes open by its place."""
    from oncelog.spark.logs import close_logs

    with oncelog.open(tmp_path / "log", znodes) as opened:
        for topic in ("in", "out"):
            opened.create_topic(topic, partitions=2)
        yield opened
        close_logs()
        opened.admin.settle()
        invariants.check(opened)


@pytest.fixture(autouse=True)
def _leaves_no_query_running(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "spark" not in request.fixturenames:
        return
    running = request.getfixturevalue("spark").streams.active
    for query in running:
        query.stop()
    if running:
        names = [query.name or query.id for query in running]
        pytest.fail(f"the test left streaming queries running: {names}", pytrace=False)
