"""YARN with one node, on this machine, from Maven's jars."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oncelog.testing import maven
from tests.support.harness.java import java
from tests.support.harness.parts import missing_part, require_java
from tests.support.harness.waiting import until
from tests.support.spark.processes import Program
from tests.support.spark.queries import PATIENCE_S

VERSION = "3.5.0"
ARTIFACTS = (
    ("org.apache.hadoop", "hadoop-client-minicluster", VERSION),
    # What its classes are made with, and its own list leaves out.
    ("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
    ("org.junit.jupiter", "junit-jupiter-api", "5.14.4"),
    ("org.slf4j", "slf4j-reload4j", "1.7.36"),
)


@contextmanager
def running_yarn(folder: Path) -> Iterator[Path]:
    """The folder that ``HADOOP_CONF_DIR`` names, for the time of the block."""
    require_java()
    if shutil.which("mvn") is None and not maven.kept_jars("yarn", VERSION).is_dir():
        missing_part("Maven", "install it: it brings the jars of YARN")
    jars = maven.jars("yarn", VERSION, ARTIFACTS)
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
