"""A query on a cluster that reads Kafka batch by batch and says which executor read which partition, as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import oncelog_kafka
from tests.support.spark.jobs.sessions import spark_session
from tests.support.spark.standalone import executors


def with_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Python's workers are children of one process in each executor."""
    for batch in batches:
        executor = pa.array([os.getppid()] * batch.num_rows, pa.int64())
        yield pa.RecordBatch.from_arrays([batch["partition"], executor], names=["partition", "executor"])


def main(settings: dict[str, Any]) -> None:
    readers: list[dict[str, int]] = []

    def note(rows: DataFrame, _batch_id: int) -> None:
        found = rows.mapInArrow(with_executor, "partition int, executor long").distinct().collect()
        readers.append({str(row.partition): row.executor for row in found})

    with spark_session(settings["master"], {**executors(), "spark.jars": oncelog_kafka.jars()}) as spark:
        rows = spark.readStream.format("oncelog-kafka").options(**settings["source"]).load().select("partition")
        query = (
            rows.writeStream.foreachBatch(note)
            .option("checkpointLocation", settings["checkpoint"])
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    Path(settings["found"]).write_text(json.dumps(readers))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
