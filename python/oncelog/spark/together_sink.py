"""One function for ``foreachBatch`` that writes each batch with several sinks, under one decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from oncelog.batches.attempt import Target
from oncelog.errors import InvalidOptionError, UsageError
from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark.kit.committer_sink import CommitterSink, Completion
from oncelog.spark.kit.options import HistoryOptions
from oncelog.spark.kit.sink import ForeachBatchSink, finish_replay
from oncelog.spark.versions import require_classic

AnySink = ForeachBatchSink[Any, Any]
RowsOf = Callable[[DataFrame], DataFrame]


class TogetherSink(ForeachBatchSink[HistoryOptions, Target[Any]]):
    """Writes each micro-batch with all of its sinks, exactly once. Create it with `together`.

    Attributes:
        sinks: in the order in which they write. The `last_report` of each says what it did with the last batch; how
            long the phases took is in that of all.
    """

    @checked
    def __init__(self, sinks: Sequence[Any], rows_of: Sequence[Any]) -> None:
        super().__init__(HistoryOptions())
        self.sinks: tuple[AnySink, ...] = tuple(sinks)
        self._rows_of: tuple[RowsOf | None, ...] = tuple(rows_of)
        _refuse_same_history(self.sinks)
        self._keeper = _keeper_of_ledgers(self.sinks)

    def __repr__(self) -> str:
        return f"together({', '.join(map(repr, self.sinks))})"

    @property
    def parts(self) -> tuple[AnySink, ...]:
        return self.sinks

    @property
    def target_name(self) -> str:
        return "together"

    @checked
    def complete(self, spark: SparkSession) -> list[Completion]:
        """Complete what is decided and not visible in each sink but logs and Kafka; see `CommitterSink.complete`."""
        self._targets()
        return [sink.complete(spark) for sink in self.sinks if isinstance(sink, CommitterSink)]

    def _write(self, df: DataFrame, batch_id: int) -> None:
        if df.storageLevel != StorageLevel.NONE:
            self._write_kept(df, batch_id)
            return
        df.persist()  # the plan runs once, and all sinks see the same rows
        try:
            self._write_kept(df, batch_id)
        finally:
            df.unpersist()

    def _write_kept(self, df: DataFrame, batch_id: int) -> None:
        parts = zip(self.sinks, self._rows_of, strict=True)
        rows = [sink.columns(_rows(df, rows_of)) for sink, rows_of in parts]
        batch = self._running_batch(df, batch_id)
        targets = self._targets()
        driver, asked = self._driver(df, *targets), zip(self.sinks, rows, targets, strict=True)
        self.last_report = driver.run(*(sink.batch(some, batch, target) for sink, some, target in asked))
        for sink, report in zip(self.sinks, driver.reports, strict=True):
            sink.last_report = report
        finish_replay(df, batch, self.last_report)

    def open_target(self, known: Target[Any] | None, ledger: ZnodeStore | None) -> Target[Any]:
        """The target with the ledger that all sinks share."""
        target: Target[Any] = self._keeper.open(ledger)
        return target

    def _targets(self) -> list[Target[Any]]:
        """The targets of all sinks; each sink looks after its own."""
        store = self.open().store
        targets = [sink.open(store) for sink in self.sinks]
        for sink, target in zip(self.sinks, targets, strict=True):
            if target.store is not store:
                raise InvalidOptionError(
                    "together decides a batch in one ledger, and these sinks write to several logs, each of which has "
                    "its own",
                    places=[self._keeper.named_ledger(), sink.named_ledger()],
                )
        return targets


def _refuse_same_history(sinks: tuple[AnySink, ...]) -> None:
    seen = set()
    for sink in sinks:
        history = type(sink), sink.options.transactional_id_prefix, sink.options.sink_name
        if history in seen:
            raise InvalidOptionError(
                "two of the sinks have the same history; give each a sinkName of its own",
                transactionalIdPrefix=history[1],
                sinkName=history[2],
            )
        seen.add(history)


def _keeper_of_ledgers(sinks: tuple[AnySink, ...]) -> AnySink:
    """The sink whose ledger all of them share: one that writes to a log, else the first."""
    keeper = next((sink for sink in sinks if sink.keeps_its_ledger), sinks[0])
    for sink in sinks:
        named = sink.named_ledger()
        if not sink.keeps_its_ledger and named not in {None, keeper.named_ledger()}:
            raise InvalidOptionError(
                "together decides a batch in one ledger: that of the log, if one of the sinks writes to a log, else "
                "that of the first sink; leave its place out of the other sinks' options",
                ledger=keeper.named_ledger() or "where the first sink keeps it by default",
                other=named,
            )
    return keeper


@checked
def together(*sinks: AnySink | tuple[AnySink, RowsOf]) -> TogetherSink:
    """One sink for ``writeStream.foreachBatch`` that writes each micro-batch with several: in all of them, or in none.

    The ledgers of all sinks are in one place: in the log, if one of them writes to a log; otherwise where the first
    sink keeps its own. The rows of a batch are persisted while they are written, so that the plan runs once.

    Args:
        sinks: two or more, such as `oncelog.spark.sink`, `oncelog_kafka.sink` and `oncelog_postgres.sink` make. They
            write in this order and, after the decision, commit in this order. A pair of a sink and a function writes
            what the function makes of the batch: other columns, or some of the rows.

    Returns:
        A function of (DataFrame, batch id).

    Raises:
        UsageError: there are fewer than two sinks, or one of them is no sink of oncelog.
        InvalidOptionError: two of them have the same history, or name two places for the ledger.

    Example:
        both = oncelog.spark.together(
            oncelog_postgres.sink(url="postgresql://host/db", table="public.delayed"),
            (kafka_sink, lambda df: df.selectExpr("to_json(struct(*)) AS value")),
        )
        query = df.writeStream.foreachBatch(both).option("checkpointLocation", "/data/ck").start()
    """
    require_classic()
    pairs = [_pair(one) for one in sinks]
    if len(pairs) < 2 or not all(_is_sink(sink) for sink, _ in pairs):
        raise UsageError(
            "together takes two or more sinks of oncelog, such as oncelog.spark.sink(...), or pairs of a sink and a "
            "function of the DataFrame",
            given=[type(one).__name__ for one in sinks],
        )
    return TogetherSink([sink for sink, _ in pairs], [rows_of for _, rows_of in pairs])


def _pair(given: Any) -> tuple[Any, Any]:
    is_pair = isinstance(given, tuple) and len(given) == 2 and callable(given[1])
    return given if is_pair else (given, None)


def _is_sink(given: object) -> bool:
    return isinstance(given, ForeachBatchSink) and not isinstance(given, TogetherSink)


def _rows(df: DataFrame, rows_of: RowsOf | None) -> DataFrame:
    """What one of the sinks writes of a batch."""
    rows = df if rows_of is None else rows_of(df)
    if not isinstance(rows, DataFrame):
        raise UsageError("the function that is given with a sink must return a DataFrame", returned=type(rows).__name__)
    return rows
