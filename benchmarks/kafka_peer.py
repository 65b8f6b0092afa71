"""Spark's own Kafka connector, and the environments in which it runs beside the one of oncelog.

The newest release of the connector on Maven Central is the one for Spark 4.2. Hence both are measured on PySpark 4.2,
in an environment of their own: each connector on a Spark that it was made for.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pyspark

from oncelog.testing import maven

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "bench-kafka"

CONNECTORS = {"4.2.0": "4.2.0", "4.0.5": "4.0.0"}
"""By the release of PySpark: the newest connector on Maven Central that was made for it. The first is the default."""

RELEASES = tuple(CONNECTORS)


def python(spark: str) -> Path:
    """The interpreter of an environment with this PySpark and this tree; made when it is missing."""
    environment = _environment(spark)
    interpreter = environment / "bin" / "python"
    if not (environment / ".ready").exists():
        print(f"creating an environment with PySpark {spark} ...", flush=True)
        venv.create(environment, with_pip=True, clear=True)
        packages = [f"pyspark[sql]=={spark}", "confluent-kafka", "--editable", f"{ROOT}[kafka,zookeeper]"]
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", *packages], check=True)
        (environment / ".ready").touch()
    return interpreter


def jars() -> list[Path]:
    """The peer's jars for this process's PySpark, brought by Maven once."""
    release = CONNECTORS[pyspark.__version__]
    jars = (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", release),
        # Used with delegation tokens only, but loaded always. Maven Central does not have that of 4.2.
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.2"),
        ("org.apache.commons", "commons-pool2", "2.13.1"),
    )
    return sorted(maven.jars("spark-sql-kafka", release, jars, with_dependencies=False).glob("*.jar"))


def is_here(spark: str) -> bool:
    """Whether this process runs in the environment with this PySpark."""
    return Path(sys.prefix) == _environment(spark)


def _environment(spark: str) -> Path:
    return FOLDER / f"pyspark-{spark}"
