"""How the connector's jar reaches Spark. Spark takes jars when it starts, so all of this comes before `getOrCreate()`.

    spark = oncelog_kafka.configure(SparkSession.builder.appName("copy")).getOrCreate()

or, for `spark-submit` and everything else that takes settings, ``spark.jars`` = `jars()`.
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
    """What ``spark.jars`` needs: the path of the connector's jar, for the driver and, by Spark's transfer, executors.

    Raises:
        UsageError: the jar is not there: this is a source tree in which it was not built.
    """
    with extras(_EXTRAS, part="oncelog_kafka"):
        from oncelog.spark import packaging

    return packaging.built(JAR, _NAME)


@answering
def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the connector's jar to those of the session that `builder` makes; jars named before are kept.

    Args:
        builder: ``SparkSession.builder``, before its ``getOrCreate()``.

    Raises:
        UsageError: the jar is not built, or comes too late: see `oncelog.spark.configure`.
    """
    with extras(_EXTRAS, part="oncelog_kafka"):
        from oncelog.spark import packaging

    return packaging.with_jar(builder, packaging.Jar(JAR, _NAME, "io.oncelog.kafka.KafkaProvider"))
