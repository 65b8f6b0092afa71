"""Tells whoever watches the sinks of this process what became of each batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from oncelog.spark.kit.sink import ForeachBatchSink


class Watcher(Protocol):
    """Hears of batches. It must not raise, and costs a part of each batch's time."""

    def batch_ended(self, query_id: str, sink: ForeachBatchSink[Any, Any], problem: BaseException | None) -> None:
        """A call of a sink ended.

        Args:
            query_id: of the query.
            sink: its `last_report` is that of the batch, unless there is a problem.
            problem: what the call raises.
        """


WATCHERS: list[Watcher] = []


@contextmanager
def told(sink: ForeachBatchSink[Any, Any], df: DataFrame) -> Iterator[None]:
    """Tell all watchers how the block ends."""
    if not WATCHERS:
        yield
        return
    query_id = str(df.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or "")
    try:
        yield
    except BaseException as problem:
        _tell(query_id, sink, problem)
        raise
    _tell(query_id, sink, None)


def _tell(query_id: str, sink: ForeachBatchSink[Any, Any], problem: BaseException | None) -> None:
    for watcher in WATCHERS:
        watcher.batch_ended(query_id, sink, problem)
