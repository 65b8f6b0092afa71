"""How the connector's jar reaches Spark. Spark takes jars when it starts, so all of this comes before `getOrCreate()`.

    spark = oncelog_kafka.configure(SparkSession.builder.appName("copy")).getOrCreate()

or, for `spark-submit` and everything else that takes settings, ``spark.jars`` = `jars()`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from oncelog.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAR = Path(__file__).parent / "jars" / "oncelog-kafka.jar"

SPARK_JARS = "spark.jars"


def jars() -> str:
    """What ``spark.jars`` needs: the path of the connector's jar, for the driver and, by Spark's transfer, executors.

    Raises:
        UsageError: the jar is not there: this is a source tree in which it was not built.
    """
    if not JAR.is_file():
        raise UsageError("the Kafka connector's jar is not built; in a source tree run: make shims", expected=str(JAR))
    return str(JAR)


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the connector's jar to those of the session that `builder` makes; jars named before are kept.

    Args:
        builder: ``SparkSession.builder``, before its ``getOrCreate()``.

    Raises:
        UsageError: the jar is not built, or a session runs already in this process without it: Spark takes jars when it
            starts, and neither ``ADD JAR`` nor another ``getOrCreate()`` brings a data source into a running one.
    """
    path = jars()
    _refuse_running_session(path)
    options: dict[str, str] = builder._options  # the builder has no public way to read what was set
    named = [jar for jar in options.get(SPARK_JARS, "").split(",") if jar]
    return builder.config(SPARK_JARS, ",".join([*named, path] if path not in named else named))


def _refuse_running_session(path: str) -> None:
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is None:
        return
    loaded = running.conf.get(SPARK_JARS, "") or ""
    if not any(Path(jar).name == Path(path).name for jar in loaded.split(",")):
        raise UsageError(
            "Spark runs in this process already, without the Kafka connector's jar, and takes none later (ADD JAR does "
            "not help); call stop() on the running session first, or start the program with spark.jars set to the jar",
            jar=path,
        )
