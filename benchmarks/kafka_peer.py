"""Spark's own Kafka connector, and the environment in which it runs beside the one of oncelog.

The newest release of the connector on Maven Central is the one for Spark 4.2. Hence both are measured on PySpark 4.2,
in an environment of their own: each connector on a Spark that it was made for.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from oncelog.testing import maven

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "bench-kafka"

SPARK = "4.2.0"
JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK),
    # Used with delegation tokens only, but loaded always. Maven Central does not have that of 4.2.
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
"""The connector, and what its own build file names beside Spark."""


def python() -> Path:
    """The interpreter of an environment with PySpark of the peer's version and this tree; made when it is missing."""
    environment = FOLDER / f"pyspark-{SPARK}"
    interpreter = environment / "bin" / "python"
    if not (environment / ".ready").exists():
        print(f"creating an environment with PySpark {SPARK} ...", flush=True)
        venv.create(environment, with_pip=True, clear=True)
        packages = [f"pyspark[sql]=={SPARK}", "confluent-kafka", "--editable", f"{ROOT}[kafka]"]
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", *packages], check=True)
        (environment / ".ready").touch()
    return interpreter


def jars() -> list[Path]:
    """The peer's jars, brought by Maven once."""
    return sorted(maven.jars("spark-sql-kafka", SPARK, JARS, with_dependencies=False).glob("*.jar"))


def is_here() -> bool:
    """Whether this process runs in the peer's environment."""
    return Path(sys.prefix) == FOLDER / f"pyspark-{SPARK}"
