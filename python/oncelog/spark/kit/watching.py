"""Tells whoever watches the sinks of this process what became of each batch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from oncelog.spark.kit.sink import ForeachBatchSink


_log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Hears of batches. What it takes is a part of each batch's time."""

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
    try:
        yield
    except BaseException as problem:
        _tell(sink, df, problem)
        raise
    _tell(sink, df, None)


def _tell(sink: ForeachBatchSink[Any, Any], df: DataFrame, problem: BaseException | None) -> None:
    try:
        query_id = df.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        for watcher in WATCHERS:
            watcher.batch_ended(query_id or "", sink, problem)
    except Exception:  # noqa: BLE001 - who watches must not decide what becomes of a batch
        _log.exception("a watcher of sinks failed; the batch goes on")
