"""How the query's process is started; the query is the same each time.

With `python`, Spark's driver is a child of the query's process, with `spark-submit` its parent. With `connect` it is a
server, and the query is its client, in an environment that has neither a JVM nor py4j.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path

from flights.pipeline import JVM_OPTIONS
from flights.processes import Program, Programs
from flights.waiting import until

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent

QUERY = "kafka_flights.query"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SERVES = r"Spark Connect server started at: (\S+:\d+)"

SPARK = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JVM_OPTIONS,
}
ONLY_HERE = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0"}

ELSEWHERE = {"PYSPARK_PYTHON", "SPARK_HOME", "SPARK_REMOTE"}
"""Environment variables that would lead a client to another Spark than its own."""


class Door(StrEnum):
    """What starts the query's process."""

    PYTHON = "python"
    SPARK_SUBMIT = "spark-submit"
    CONNECT = "connect"


class Starter:
    """Starts the query in one of these ways, in a folder.

    Args:
        programs: starts and ends the processes.
        folder: for the programs' output.
        name: of this start.
    """

    def __init__(self, programs: Programs, folder: Path, name: str) -> None:
        self._programs = programs
        self._folder = folder
        self._name = name

    async def start(self, door: Door, settings: Mapping[str, str], moment: str = "") -> list[Program]:
        """Start the query, and return its programs; the first one is that with Spark's driver.

        Args:
            settings: of the query.
            moment: crash point at which the driver's session is killed; empty for none.
        """
        spark = {**SPARK, "spark.local.dir": str(self._folder / "spark")}
        match door:
            case Door.PYTHON:
                command = [sys.executable, "-m", QUERY, json.dumps({**settings, "spark": spark})]
                return [self._driver(command, moment)]
            case Door.SPARK_SUBMIT:
                program = str(ROOT / "examples" / "demonstrations" / "kafka_flights" / "query.py")
                return [self._driver([*_spark_submit(spark), program, json.dumps(settings)], moment)]
            case Door.CONNECT:
                server = self._driver(
                    [*_spark_submit({**spark, **ONLY_HERE}), "--class", SERVER, "spark-internal"], moment
                )
                await until(lambda: server.printed(SERVES) is not None, "serve", server)
                remote = f"sc://{server.printed(SERVES)}"
                command = [str(_client_python()), "-m", QUERY, json.dumps({**settings, "remote": remote})]
                return [server, self._program(f"{self._name}-client", command, _plain_environment())]

    def _driver(self, command: Sequence[str], moment: str) -> Program:
        mark = str(self._folder / f"{self._name}.mark")
        doomed = [sys.executable, "-m", "kafka_flights.doomed", moment, mark] if moment else []
        variables = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        return self._program(self._name, [*doomed, *command], variables)

    def _program(self, name: str, command: Sequence[str], variables: Mapping[str, str]) -> Program:
        path = os.pathsep.join([str(ROOT / "examples" / "demonstrations"), os.environ.get("PYTHONPATH", "")])
        return self._programs.start(name, command, {**variables, "PYTHONPATH": path}, self._folder / f"{name}.out")


def _spark_submit(settings: Mapping[str, str]) -> list[str]:
    """The start of the command line: ``spark-submit --jars "$(oncelog jars)"``, with Spark's settings."""
    jars = subprocess.run([BIN / "oncelog", "jars"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    more = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return [str(BIN / "spark-submit"), "--jars", jars, *more]


def _plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ELSEWHERE}


def _client_python() -> Path:
    """The client's Python; the first run creates its environment: ``pip install oncelog pyspark-client``."""
    release = version("pyspark")
    folder = ROOT / "build" / f"kafka-client-{release}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        venv.create(folder, with_pip=True)
        packages = [f"pyspark-client>=4,<={release}", "--editable", str(ROOT)]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], env=_plain_environment(), check=True)
        ready.touch()
    return python
