"""How the tests of the source read: batches, and streams whose batches a list collects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from kafka.errors import TopicAlreadyExistsError
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, require_shims, send

FORMAT = "oncelog-kafka"
EARLIEST: dict[str, Any] = {"startingOffsets": "earliest"}
WITHIN_S = 60


class Source:
    """One way to read one broker: options that all reads of a test share."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, **options: Any) -> None:
        require_shims()
        self.spark = spark
        self.broker = broker
        self.options: dict[str, Any] = {"kafka.bootstrap.servers": broker.address, **options}

    def batch(self, **options: Any) -> DataFrame:
        return self.spark.read.format(FORMAT).options(**{**self.options, **options}).load()

    def stream(self, **options: Any) -> DataFrame:
        return self.spark.readStream.format(FORMAT).options(**{**self.options, **options}).load()

    def values(self, **options: Any) -> list[str]:
        """What a batch reads, by partition and offset."""
        return texts(self.batch(**options).collect())

    def available(self, checkpoint: Path, **options: Any) -> list[list[str]]:
        """What `Trigger.AvailableNow` reads from the checkpoint on, batch by batch."""
        with self.running(checkpoint, available_now=True, **options) as (query, batches):
            assert query.awaitTermination(WITHIN_S)
        return batches

    @contextmanager
    def running(
        self, checkpoint: Path, *, available_now: bool = False, **options: Any
    ) -> Iterator[tuple[StreamingQuery, list[list[str]]]]:
        """A query that runs for the time of the block, and the batches that it has read so far."""
        batches: list[list[str]] = []

        def collect(rows: DataFrame, number: int) -> None:
            batches.append(texts(rows.collect()))

        writer = self.stream(**options).writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint))
        query = (writer.trigger(availableNow=True) if available_now else writer).start()
        try:
            yield query, batches
        finally:
            query.stop()


def texts(rows: list[Row]) -> list[str]:
    """The values, by topic, partition and offset. Spark would run the plan a second time to sort it."""
    return [bytes(row.value).decode() for row in sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))]


def flat(batches: list[list[str]]) -> list[str]:
    return [value for batch in batches for value in batch]


def create_again(kafka: KafkaBroker, name: str, *values: str) -> None:
    """Replace a topic by another one of the same name, with these rows."""

    def is_created() -> bool:
        try:
            kafka.create_topic(name)
        except TopicAlreadyExistsError:  # the deletion goes on
            return False
        return True

    kafka.delete_topic(name)
    until(is_created)
    send(kafka, name, *values)


def write_sparks_checkpoint(checkpoint: Path, initial: object, end: object) -> None:
    """What Spark's own source leaves in a checkpoint after one batch."""
    for folder in ("sources/0", "offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"0a8e8f0e-3d1c-4f4f-9d4e-6a1f0b0d8c11"}')
    (checkpoint / "sources/0/0").write_text("\0v1\n" + json.dumps(initial))
    conf = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}}
    (checkpoint / "offsets/0").write_text(f"v1\n{json.dumps(conf)}\n{json.dumps(end)}")
    (checkpoint / "commits/0").write_text('v1\n{"nextBatchWatermarkMs":0}')


@contextmanager
def warnings(spark: SparkSession, of: str = "io.oncelog.kafka.source") -> Iterator[Any]:
    """What the source, or another part of the jar, warns of in the time of the block, by `toString()`."""
    log4j = cast("Any", spark._jvm).org.apache.logging.log4j
    written = cast("Any", spark._jvm).java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.newBuilder().withPattern("%p %m%n").build()
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, written, "captured", False, True)
    appender.start()
    log4j.core.config.Configurator.setLevel(of, log4j.Level.WARN)
    context = log4j.LogManager.getContext(False)
    logger = context.getConfiguration().getLoggerConfig(of)
    logger.addAppender(appender, log4j.Level.WARN, None)
    try:
        yield written
    finally:
        logger.removeAppender("captured")
