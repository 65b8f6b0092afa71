"""Calls the connector's Java side, which runs a batch's tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oncelog.errors import UsageError
from oncelog_kafka import columns, outcomes
from oncelog_kafka.target import Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CLASS = "io.oncelog.kafka.sink.BatchWriter"


class SparkJob:
    """The plan of a batch in Spark; see `Job`.

    Args:
        rows: in the sink's columns.
    """

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows

    def parallelism(self) -> int:
        return self._rows.sparkSession.sparkContext.defaultParallelism

    def speculates(self) -> bool:
        return self._rows.sparkSession.sparkContext.getConf().get("spark.speculation", "false") == "true"

    def run(self, settings: Mapping[str, Any], buckets: int | None) -> Written:
        """Run the plan once; each task prepares a participant.

        Raises:
            UsageError: the connector's jar is not in this Spark.
            OncelogError: a task failed; outcomes.py lists the classes.
        """
        rows = self._rows if buckets is None else columns.spread_by_content(self._rows, buckets)
        writer = _find_class(rows)
        text = json.dumps({**settings, "columns": columns.described(rows.schema)})
        return outcomes.written(json.loads(writer.write(rows._jdf, text)))


def _find_class(rows: DataFrame) -> Any:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # not there under Spark Connect

    jvm: Any = rows.sparkSession._jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_CLASS)
    except Py4JError:
        raise UsageError(
            "the Kafka connector's jar is not in this Spark; start the session with oncelog_kafka.configure(builder), "
            "or with spark.jars=oncelog_kafka.jars() (ADD JAR in a running session does not help)",
            missing=_CLASS,
        ) from None
    return jvm.io.oncelog.kafka.sink.BatchWriter
