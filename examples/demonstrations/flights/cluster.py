"""A standalone Spark, all on this machine: a master, and a worker with one core on each of two hosts.

The hosts are 127.0.0.1 and 127.0.0.2, which Spark takes for different ones. A worker with its executor and that one's
Python processes is a session of its own (see `processes`), so killing that session is what the loss of a host is.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pyspark

from flights import steps, waiting
from flights.pipeline import JVM_OPTIONS
from flights.processes import Program, Programs

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
HOSTS = ("127.0.0.1", "127.0.0.2")
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
EXECUTOR_MB = 512


class SparkCluster:
    """A master, and a worker with one core on each host; what dies of them can be replaced.

    Args:
        folder: for the output and the scratch space of all of them.
        programs: where they belong to.
    """

    def __init__(self, folder: Path, programs: Programs) -> None:
        self._folder = folder
        self._programs = programs
        self._environment = {
            **steps.environment(),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JVM_OPTIONS,
            "SPARK_LOCAL_DIRS": str(folder / "spark"),
        }
        self._workers: dict[str, Program] = {}
        self._started = 0
        self.master = ""

    async def start(self) -> None:
        """Start all of it, and wait until the workers are known to the master."""
        master = self._start("master", "master.Master", HOSTS[0])
        await waiting.until(lambda: _url(master) is not None, "serve", master)
        self.master = _url(master) or ""
        for host in HOSTS:
            self.start_worker(host)
        await waiting.until(lambda: all(map(self.is_registered, HOSTS)), "know its workers", *self._workers.values())

    @property
    def is_whole(self) -> bool:
        """Whether each host has an executor."""
        return all(map(self.executors, HOSTS))

    def executors(self, host: str) -> list[int]:
        """Ids of the processes that are executors on a host."""
        return self._workers[host].processes(EXECUTOR)

    def kill_executor(self, host: str) -> list[int]:
        """Kill the executor on a host, and nothing else; returns its id. Its worker starts another one."""
        executors = self.executors(host)
        for executor in executors:
            with suppress(ProcessLookupError):
                os.kill(executor, signal.SIGKILL)
        return executors

    def kill_host(self, host: str) -> None:
        """Kill the worker on a host, with its executor and all processes of that one."""
        self._workers[host].end_session()

    def start_worker(self, host: str) -> None:
        """Start a worker on a host that has none."""
        self._started += 1
        name = f"worker-{self._started}"
        place = ["--cores", "1", "--memory", f"{EXECUTOR_MB + 256}m", "--work-dir", str(self._folder / name)]
        self._workers[host] = self._start(name, "worker.Worker", host, *place, self.master)

    def is_registered(self, host: str) -> bool:
        """Whether the worker on a host is known to the master."""
        return self._workers[host].printed("Successfully (registered) with master") is not None

    def _start(self, name: str, kind: str, host: str, *more: str) -> Program:
        place = ["--host", host, "--port", "0", "--webui-port", "0"]
        command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{kind}", *place, *more]
        environment = {**self._environment, "SPARK_LOCAL_IP": host}
        return self._programs.start(name, command, environment, self._folder / f"{name}.txt")


def _url(master: Program) -> str | None:
    return master.printed(r"Starting Spark master at (spark://\S+)")
