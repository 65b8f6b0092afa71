"""Calls the connector's Java side, which runs a batch's tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oncelog.spark.kit import context
from oncelog.spark.kit.jvm import find_class
from oncelog_kafka.errors import missing_jar
from oncelog_kafka.sinks import columns, outcomes
from oncelog_kafka.sinks.jobs import Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from oncelog.spark.kit.context import BatchContext

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
        return self._rows.sparkSession.conf.get("spark.speculation", "false") == "true"

    def run(self, settings: Mapping[str, Any], buckets: int | None) -> Written:
        """Run the plan once; each task prepares a participant.

        Raises:
            UsageError: the connector's jar is not in this Spark.
            OncelogError: a task failed; outcomes.py lists the classes.
        """
        rows = self._rows if buckets is None else columns.spread_by_content(self._rows, buckets)
        text = json.dumps({**settings, "columns": columns.described(rows.schema)})
        return outcomes.written(json.loads(_writer_in(rows).write(rows._jdf, text)))


def context_of(df: DataFrame, batch_id: int, *, with_clusters: bool) -> BatchContext:
    """What `context.of_foreach_batch` finds, in one call.

    Args:
        with_clusters: whether to name the clusters of the query's Kafka sources.

    Raises:
        UsageError: the connector's jar is not in this Spark.
        OncelogError: see `context.of_facts`.
    """
    writer = _writer_in(df)
    with context.known_internals():
        facts = writer.queryOf(df._jdf, batch_id, with_clusters)
    return context.of_facts(json.loads(facts))


def _writer_in(rows: DataFrame) -> Any:
    return _find_class(rows.sparkSession._jvm)


@lru_cache(maxsize=1)
def _find_class(jvm: Any) -> Any:
    found = find_class(jvm, _CLASS)
    if found is None:
        raise missing_jar()
    return found
