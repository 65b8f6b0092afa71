"""Spark Connect: a server in a process of its own, and clients that have neither a JVM nor py4j.

The server is the one of PySpark's wheel, on a free port of 127.0.0.1. Clients run `jobs.connect_client` in an
environment with the package `pyspark-client`, which has the newest release of it that is not newer than the server.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import oncelog
import oncelog.spark
import oncelog_kafka
from tests.support.harness.environments import kept_environment, plain_variables
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.servers.kafka import require_shims
from tests.support.spark import spark_home
from tests.support.spark.processes import Program
from tests.support.spark.queries import PATIENCE_S
from tests.support.spark.readers import require_jar

Call = tuple[str, Mapping[str, Any]]
"""A function of `jobs.connect_client`, and its arguments."""

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


class ConnectServer:
    """A server that may be killed and started again, and its clients.

    Args:
        folder: for all that they write.
        jars: with which Spark starts.
        python: the interpreter of its workers, and no way to these sources; by default this one.
    """

    def __init__(self, folder: Path, jars: Sequence[str], python: Path | None = None) -> None:
        self._folder = folder
        self._jars = jars
        self._python = python
        self._started = 0
        self._asked = 0
        self.program = self._start()

    def restart(self) -> None:
        """Kill it with all that it started, and start another one, on another port."""
        self.program.kill()
        self.program = self._start()

    def ask(self, *calls: Call) -> list[Any]:
        """Have a client make calls one after the other; returns what each of them found, or the text of its error."""
        with self.client(*calls) as client:
            assert client.wait() == 0, client.last_lines()
        found: list[Any] = json.loads(client.output.with_suffix(".found").read_text())
        return found

    def client(self, *calls: Call) -> Program:
        """A client that makes calls one after the other."""
        self._asked += 1
        name = f"client-{self._asked}"
        settings = {"remote": self.url(), "calls": calls, "found": str(self._folder / f"{name}.found")}
        file = self._folder / f"{name}.json"
        file.write_text(json.dumps(settings))
        command = [str(client_python()), "-m", "tests.support.spark.jobs.connect_client", str(file)]
        variables = {**plain_variables(), "PYTHONPATH": str(spark_home.PYTHON_SOURCES)}
        return Program(command, self._folder, name, variables)

    def _start(self) -> Program:
        self._started += 1
        spark_submit = spark_home.lean_spark_home() / "bin" / "spark-submit"
        command = [str(spark_submit), "--class", SERVER, "--master", "local[2,4]"]
        settings = {**SETTINGS, "spark.driver.extraJavaOptions": spark_home.jvm_options()}
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        command += ["--jars", ",".join(self._jars)] if self._jars else []
        elsewhere = {**plain_variables(), **spark_home.elsewhere(self._python)} if self._python else None
        return Program([*command, "spark-internal"], self._folder, f"server-{self._started}", elsewhere)

    def url(self) -> str:
        """Where it serves; waits until it does."""

        def found() -> list[str]:
            self.program.check_runs()
            text = self.program.output.read_text(errors="replace")
            return re.findall(r"Spark Connect server started at: (\S+:\d+)", text)

        return f"sc://{until(found, within_s=PATIENCE_S)[0]}"


def client_python() -> Path:
    """The interpreter of the clients' environment; see `kept_environment`."""
    release = version("pyspark")
    folder = spark_home.BUILD / f"connect-client-{release}-{sys.version_info.major}.{sys.version_info.minor}"
    here = str(spark_home.BUILD.parent)
    return kept_environment(folder, f"pyspark-client>=4,<={release}", "--editable", here)


@contextmanager
def running_server(folder: Path, jars: Sequence[str], python: Path | None = None) -> Iterator[ConnectServer]:
    """A server of one's own, for the time of the block; see `ConnectServer`."""
    require_java()
    client_python()
    server = ConnectServer(folder, jars, python)
    try:
        yield server
    finally:
        server.program.kill()


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """A server with all jars, as the documentation starts it, which the tests of a run share."""
    with running_server(tmp_path_factory.mktemp("connect"), all_jars()) as server:
        yield server


def all_jars() -> list[str]:
    """Skips the running test unless they are built."""
    require_jar()
    require_shims()
    return [oncelog.spark.jars(), oncelog_kafka.jars()]


def jar_of(version: str, folder: Path) -> str:
    """A copy of the Kafka connector's jar, as another version of oncelog would have it."""
    made = folder / "oncelog-kafka.jar"
    with zipfile.ZipFile(oncelog_kafka.jars()) as jar, zipfile.ZipFile(made, "w") as other:
        for name in jar.namelist():
            content = jar.read(name)
            if name == "META-INF/MANIFEST.MF":
                content = content.replace(oncelog.__version__.encode(), version.encode())
            other.writestr(name, content)
    return str(made)
