"""The newest Spark for which a format of tables has jars: what it finds in a table is the format's own word."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oncelog.testing import maven
from oncelog.testing.maven import Artifact
from tests.support.harness.environments import kept_environment, plain_variables
from tests.support.harness.parts import missing_part, require_java
from tests.support.spark.spark_home import BUILD, QUICK

RELEASE = "4.1.4"

Artifacts = tuple[Artifact, ...]

DELTA_JARS: Artifacts = (("io.delta", "delta-spark_4.1_2.13", "4.4.0"),)
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # 50 tasks for each state of a table take most of the time
}

ICEBERG_JARS: Artifacts = (
    ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0"),
    ("org.xerial", "sqlite-jdbc", "3.49.1.0"),
)
ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
    "spark.sql.catalog.lake.jdbc.schema-version": "V1",
}
"""Its catalog keeps its tables as pyiceberg's SQL catalog does; the settings `uri` and `warehouse` are to be added."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.sql.shuffle.partitions": "2",
}


class ForeignSpark:
    """A session of that Spark, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], output: Path) -> None:
        self._process = process
        self._output = output

    def ask(self, statement: str) -> list[dict[str, Any]]:
        """The rows that a statement gives."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(statement)}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("RESULT "):
                found: list[dict[str, Any]] = json.loads(line.removeprefix("RESULT "))
                return found
        raise AssertionError(self._output.read_text(errors="replace")[-6000:])


@contextmanager
def running(folder: Path, jars: Artifacts, settings: Mapping[str, str]) -> Iterator[ForeignSpark]:
    """Start such a session with these jars."""
    require_java()
    python = kept_environment(BUILD / f"table-reader-{RELEASE}", f"pyspark=={RELEASE}", "pandas<3", "pyarrow")
    script = Path(__file__).with_name("spark_with_jars.py")
    own = {"spark.jars": _downloaded(jars), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    given = {**SETTINGS, **own, **settings}
    output = folder / "foreign-spark.out"
    with (
        output.open("w") as errors,
        subprocess.Popen(
            [str(python), str(script), json.dumps(given)],
            cwd=folder,
            env={**plain_variables(), "PYSPARK_PYTHON": str(python)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        yield ForeignSpark(process, output)  # at the end of its input it stops its JVM


def _downloaded(jars: Artifacts) -> str:
    """The jars, and what they need, as Spark takes them."""
    _, name, version = jars[0]
    if shutil.which("mvn") is None and not maven.kept_jars(name, version).is_dir():
        missing_part("Maven", "install it: it brings the jars of Delta and Iceberg")
    return ",".join(map(str, sorted(maven.jars(name, version, jars).glob("*.jar"))))
