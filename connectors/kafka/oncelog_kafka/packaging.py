"""Gives Spark the connector's jar. Spark loads jars only when it starts, so this comes before `getOrCreate()`.

    spark = oncelog_kafka.configure(SparkSession.builder.appName("copy")).getOrCreate()

For `spark-submit` and everything else that takes settings, set ``spark.jars`` to `jars()`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from oncelog.extras import extras
from oncelog.habits import answering

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAR = Path(__file__).parent / "jars" / "oncelog-kafka.jar"
_NAME = "the Kafka connector's jar"
_EXTRAS = "spark,kafka"


@answering
def jars() -> str:
    """The path of the connector's jar, for ``spark.jars``; Spark sends it to the executors.

    Raises:
        UsageError: the jar was not built for this source tree.
    """
    with extras(_EXTRAS, part="oncelog_kafka"):
        from oncelog.spark import packaging

    return packaging.built(JAR, _NAME)


@answering
def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the connector's jar to ``spark.jars`` of the session that `builder` creates; other jars stay.

    Args:
        builder: ``SparkSession.builder``, before its ``getOrCreate()``.

    Raises:
        UsageError: the jar is not built, or Spark has already started; see `oncelog.spark.configure`.
    """
    with extras(_EXTRAS, part="oncelog_kafka"):
        from oncelog.spark import packaging

    return packaging.with_jar(builder, packaging.Jar(JAR, _NAME, "io.oncelog.kafka.KafkaProvider"))
