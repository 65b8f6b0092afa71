"""Spark's own Kafka connector, and the environment in which it runs beside the one of oncelog.

The newest release of the connector on Maven Central is the one for Spark 4.2. Hence both are measured on PySpark 4.2,
in an environment of their own: each connector on a Spark that it was made for.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from xml.sax.saxutils import escape

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
    folder = FOLDER / "jars"
    if not (folder / ".ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(_project())
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
        subprocess.run(["mvn", "-B", "-ntp", "-q", "-f", folder / "pom.xml", *goal], check=True)
        (folder / ".ready").touch()
    return sorted(folder.glob("*.jar"))


def is_here() -> bool:
    """Whether this process runs in the peer's environment."""
    return Path(sys.prefix) == FOLDER / f"pyspark-{SPARK}"


def _project() -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{escape(version)}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for group, name, version in JARS
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>io.oncelog</groupId><artifactId>peer</artifactId><version>0</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
