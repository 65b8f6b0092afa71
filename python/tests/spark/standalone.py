"""A standalone Spark cluster: a master, and workers on 127.0.0.1 and 127.0.0.2, all on free ports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.parts import require_java
from tests.spark.jobs.sessions import JVM_OPTIONS
from tests.spark.processes import Program
from tests.spark.queries import until

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
HOSTS = ("127.0.0.1", "127.0.0.2")
"""To Spark, two hosts. Linux answers on the whole of 127.0.0.0/8; macOS needs ``ifconfig lo0 alias``."""

EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": JVM_OPTIONS,
}
"""Settings of a session on this cluster: an executor with one core on each host."""


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """The URL of a master, for the time of the block; all of the cluster is killed at its end."""
    require_java()
    with ExitStack() as stack:
        program = stack.enter_context(_start(folder, "master", "master.Master", "127.0.0.1"))
        until(lambda: _found(program, r"Starting Spark master at (spark://\S+)") is not None)
        url = _found(program, r"Starting Spark master at (spark://\S+)") or ""
        workers = []
        for host in HOSTS:
            more = ["--cores", "1", "--memory", "600m", "--work-dir", str(folder / f"work-{host}"), url]
            workers.append(stack.enter_context(_start(folder, f"worker-{host}", "worker.Worker", host, *more)))
        for worker in workers:
            until(lambda worker=worker: _found(worker, "Successfully (registered) with master") is not None)  # type: ignore[misc]
        yield url


def _start(folder: Path, name: str, kind: str, host: str, *more: str) -> Program:
    place = ["--host", host, "--port", "0", "--webui-port", "0"]
    return Program([str(SPARK_CLASS), f"org.apache.spark.deploy.{kind}", *place, *more], folder, name)


def _found(program: Program, pattern: str) -> str | None:
    program.check_runs()
    found = re.search(pattern, program.output.read_text(errors="replace"))
    return found[1] if found else None
