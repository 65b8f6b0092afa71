"""YARN with one node, on this machine, from Maven's jars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.harness.java import java
from tests.support.harness.waiting import until
from tests.support.servers.hadoop import require_hadoop
from tests.support.spark.processes import Program
from tests.support.spark.queries import PATIENCE_S


@contextmanager
def running_yarn(folder: Path) -> Iterator[Path]:
    """The folder that ``HADOOP_CONF_DIR`` names, for the time of the block."""
    jars = require_hadoop()
    clients = folder / "yarn"
    clients.mkdir()
    settings = clients / "yarn-site.xml"
    source = str(Path(__file__).with_name("Yarn.java"))
    command = [java() or "", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", source, str(settings)]
    with Program(command, folder, "yarn") as program:

        def is_up() -> bool:
            program.check_runs()
            return settings.exists()

        until(is_up, within_s=PATIENCE_S)
        yield clients
