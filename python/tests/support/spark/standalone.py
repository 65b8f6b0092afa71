"""A standalone Spark cluster: a master, and workers on 127.0.0.1 and 127.0.0.2, all on free ports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.spark import spark_home
from tests.support.spark.processes import Program
from tests.support.spark.queries import PATIENCE_S

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
"""The master of a session that starts two executors with one core each, in processes of their own, on this host."""

HOSTS = ("127.0.0.1", "127.0.0.2")
"""To Spark, two hosts. Linux answers on the whole of 127.0.0.0/8; macOS needs ``ifconfig lo0 alias``."""


@contextmanager
def standalone_cluster(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """The URL of a master, for the time of the block; all of the cluster is killed at its end.

    Args:
        folder: for what it writes.
        environment: its variables; by default what leads to Spark and to the sources.
    """
    require_java()
    with ExitStack() as stack:
        program = stack.enter_context(_start(folder, "master", "master.Master", "127.0.0.1", environment=environment))
        url = _printed(program, r"Starting Spark master at (spark://\S+)")
        workers = []
        for host in HOSTS:
            more = ["--cores", "1", "--memory", "600m", "--work-dir", str(folder / f"work-{host}"), url]
            worker = _start(folder, f"worker-{host}", "worker.Worker", host, *more, environment=environment)
            workers.append(stack.enter_context(worker))
        for worker in workers:
            _printed(worker, "Successfully (registered) with master")
        yield url


def executors() -> dict[str, str]:
    """Settings of a session on this cluster: an executor with one core on each host."""
    return {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": spark_home.jvm_options(),
    }


def awaited_executors() -> dict[str, str]:
    """The same, for a session whose first job waits until both are there."""
    return {**executors(), "spark.cores.max": "2", "spark.scheduler.minRegisteredResourcesRatio": "1"}


def speculating_executors() -> dict[str, str]:
    """The same, for a session that copies a slow task as soon as half of the tasks are done."""
    return {
        **executors(),
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "100ms",
    }


def _start(folder: Path, name: str, kind: str, host: str, *more: str, environment: Mapping[str, str] | None) -> Program:
    spark_class = spark_home.lean_spark_home() / "bin" / "spark-class"
    place = ["--host", host, "--port", "0", "--webui-port", "0"]
    return Program([str(spark_class), f"org.apache.spark.deploy.{kind}", *place, *more], folder, name, environment)


def _printed(program: Program, pattern: str) -> str:
    """Wait until a program prints the pattern; returns its group."""

    def found() -> list[str]:
        program.check_runs()
        return re.findall(pattern, program.output.read_text(errors="replace"))

    until(found, within_s=PATIENCE_S)
    return found()[0]
