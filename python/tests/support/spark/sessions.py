"""One Spark for all tests of a run that need one, as a user starts it: local, with task retries.

A process holds one JVM, and a JVM takes jars only when it starts: the session has the jars that are built, whichever
test asks first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.harness.parts import missing_part, require_java
from tests.support.servers.s3 import ENVIRONMENT as CREDENTIALS
from tests.support.spark import spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        # For Python's workers, too: the JVM hands it on.
        for name, value in {**spark_home.environment(), **CREDENTIALS}.items():
            environment.setenv(name, value)
        session = _start(SparkSession.builder, folder)
        yield session
        session.stop()


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


def _start(builder: SparkSession.Builder, folder: Path) -> SparkSession:
    session = (
        _with_jars(builder)
        .master("local[2,4]")
        .appName("oncelog-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f"{spark_home.jvm_options()} -Dderby.system.home={folder}")
        .config("spark.local.dir", str(folder))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def _with_jars(builder: SparkSession.Builder) -> SparkSession.Builder:
    from oncelog.spark import packaging as spark
    from oncelog_kafka import packaging as kafka

    for package in (spark, kafka):
        if package.JAR.is_file():
            package.configure(builder)
    return builder
