"""HDFS with a NameNode and one DataNode, on this machine, from Maven's jars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.harness.java import java
from tests.support.harness.waiting import until
from tests.support.servers.hadoop import require_hadoop
from tests.support.servers.s3 import free_port
from tests.support.spark.processes import Program
from tests.support.spark.queries import PATIENCE_S


class HdfsServer:
    """Both nodes in one process, which can be killed, and started again with what was on its disk.

    Attributes:
        url: of the NameNode.
    """

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"hdfs://127.0.0.1:{port}"
        self._folder = folder
        self._mark = folder / "hdfs-is-up"
        source = str(Path(__file__).with_name("Hdfs.java"))
        options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{require_hadoop()}/*"]
        self._command = [java() or "", *options, source, str(folder / "hdfs"), str(port), str(self._mark)]
        self._program: Program | None = None

    def start(self) -> None:
        self._mark.unlink(missing_ok=True)
        self._program = program = Program(self._command, self._folder, "hdfs")

        def is_up() -> bool:
            program.check_runs()
            return self._mark.exists()

        until(is_up, within_s=PATIENCE_S)

    def kill(self) -> None:
        if self._program is not None:
            self._program.kill()


@contextmanager
def running_hdfs(folder: Path) -> Iterator[HdfsServer]:
    """A server for the time of the block."""
    server = HdfsServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
