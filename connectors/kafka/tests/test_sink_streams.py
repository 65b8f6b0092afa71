"""Queries into the sink, from start to end: what a reader that is not ours finds."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

import oncelog_kafka
from oncelog import errors
from oncelog.batches.attempt import BatchReport
from oncelog.crash_points import CrashPoint
from oncelog.errors import (
    BatchRefusedError,
    InvalidRecordError,
    InvalidTransactionTimeoutError,
    NotPreparedError,
    OncelogError,
    RecordTooLargeError,
    UnknownPartitionError,
    UnknownTopicError,
)
from oncelog.metadata import open_metadata
from oncelog.testing.target_contract import always_at, at
from oncelog_kafka import connections
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.operations import inspection
from oncelog_kafka.protocol.kafka_rounds import KafkaRound
from tests.support.connectors.kafka_sink import options, read, values
from tests.support.harness.variants import variants
from tests.support.servers.kafka import KafkaBroker, fresh_name
from tests.support.servers.postgres import PostgresServer
from tests.support.spark.faults import failing_always, failing_once
from tests.support.spark.queries import forget_last_commit, run_available


class Query:
    """A query from files of JSON rows into a topic, over many runs, by one of the sink's doors."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, folder: Path, topic: str | None, door: str) -> None:
        self.spark = spark
        self.door = door
        self.broker = broker
        self.folder = folder
        self.topic = topic
        self.checkpoint = folder / "checkpoint"
        self.reports: list[BatchReport] = []
        self._files = 0
        (folder / "in").mkdir()

    def add(self, *rows: dict[str, Any]) -> None:
        """One more file, which is one more batch."""
        text = "\n".join(json.dumps(row) for row in rows)
        hidden = self.folder / f".{self._files}"
        hidden.write_text(text)
        hidden.rename(self.folder / "in" / f"{self._files:04d}.json")
        self._files += 1

    def source(self, schema: str = "value string") -> DataFrame:
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / "in"))

    def run(self, df: DataFrame | None = None, *, sinks: int = 1, **more: Any) -> None:
        """Write what there is; raises what the sink raised: to Spark that is text within an error of its own."""
        rows = self.source().repartition(2) if df is None else df
        self.reports = []
        if self.door == "format":
            self._run_by_name(rows, **more)
            return
        made = [oncelog_kafka.sink(**options(self.broker, self.folder, self.topic, **more)) for _ in range(sinks)]
        problems: list[Exception] = []

        def write(batch: DataFrame, batch_id: int) -> None:
            try:
                for sink in made:
                    sink(batch, batch_id)
                    assert sink.last_report is not None
                    self.reports.append(sink.last_report)
            except Exception as problem:
                problems.append(problem)
                raise

        try:
            run_available(rows.writeStream.foreachBatch(write), self.checkpoint)
        except StreamingQueryException:
            raise problems[0] from None

    def _run_by_name(self, rows: DataFrame, **more: Any) -> None:
        given = options(self.broker, self.folder, self.topic, **more)
        try:
            ran = run_available(rows.writeStream.format("oncelog-kafka").options(**given), self.checkpoint)
        except StreamingQueryException as problem:
            raise _named(str(problem)) from problem
        assert {progress.sink.description for progress in ran.recentProgress} == {"oncelog-kafka"}
        self.reports = [_report(progress.sink.metrics) for progress in ran.recentProgress]

    def abort(self) -> None:
        """What `oncelog kafka txn abort` does."""
        brokers = Brokers({"bootstrap_servers": self.broker.address})
        store = open_metadata(str(self.folder / "ledger"))
        (prefix,) = KAFKA_LEDGERS.prefixes(store)
        inspection.abort_open(brokers, store, prefix)
        store.close()
        brokers.close()

    def values(self) -> list[str]:
        assert self.topic is not None
        return values(self.broker, self.topic)


def _report(metrics: dict[str, str]) -> BatchReport:
    fields = {field.name for field in dataclasses.fields(BatchReport)} - {"size_bytes"}  # which brokers do not tell
    assert metrics.keys() == fields
    return BatchReport(**{name: json.loads(text) for name, text in metrics.items()})


def _named(text: str) -> Exception:
    """The sink's error that Spark carried here as text, without a page of Spark's around it."""
    said = re.search(r"terminated with exception: (?P<kind>\w+Error): (?P<said>.*)", text)
    if said is None:
        return RuntimeError(text)
    assert "\tat " not in text
    kind: type[OncelogError] = getattr(errors, said["kind"])
    return kind(said["said"])


@pytest.fixture(params=variants("format", "foreachBatch"))
def query(
    kafka: KafkaBroker, spark: SparkSession, tmp_path: Path, topic: str, request: pytest.FixtureRequest
) -> Iterator[Query]:
    yield Query(spark, kafka, tmp_path, topic, request.param)
    connections.close_connections()


of_foreach_batch = pytest.mark.parametrize("query", ["foreachBatch"], indirect=True)
"""What another process does not show: the steps of the sink by name run in workers of Spark's."""


def some(*values: str) -> list[dict[str, str]]:
    return [{"value": value} for value in values]


@pytest.mark.every_spark
def test_each_batch_arrives_once_over_batches_and_runs(query: Query) -> None:
    query.add(*some("a", "b", "c"))
    query.add(*some("d"))
    query.run()
    query.add(*some("e", "f"))
    query.run()

    assert query.values() == ["a", "b", "c", "d", "e", "f"]
    assert [report.rows for report in query.reports] == [2]


@pytest.mark.walk("znodes on PostgreSQL")
def test_the_ledger_may_be_in_a_database(query: Query, postgres: PostgresServer) -> None:
    ledger = postgres.url()
    for rows in (("a", "b", "c"), ("d",)):
        query.add(*some(*rows))
        query.run(znodes=ledger)
    forget_last_commit(query.checkpoint)
    query.add(*some("e"))
    query.run(znodes=ledger)

    assert query.values() == ["a", "b", "c", "d", "e"]
    assert not (query.folder / "ledger").exists()


@of_foreach_batch
@pytest.mark.parametrize("point", [KafkaCrashPoint.WRITTEN, CrashPoint.ROUND_DECIDE])
def test_a_batch_that_others_aborted_before_its_decision_is_written_once_more_in_its_run(
    query: Query, point: str
) -> None:
    """An operator, or a time-out, ends the transactions; behind the look at them, the round too."""
    query.add(*some("a", "b", "c"))

    with at(point, query.abort):
        query.run()
    query.add(*some("d"))
    query.run()

    assert query.values() == ["a", "b", "c", "d"]


@of_foreach_batch
def test_a_batch_that_others_abort_again_and_again_stops_the_query_and_is_written_by_its_restart(query: Query) -> None:
    query.add(*some("a", "b", "c"))

    with always_at(KafkaCrashPoint.WRITTEN, query.abort) as passed, pytest.raises(NotPreparedError):
        query.run()
    assert passed.count(KafkaCrashPoint.WRITTEN) == 2
    query.run()

    assert query.values() == ["a", "b", "c"]


@of_foreach_batch
def test_a_plan_with_state_is_run_once_in_a_batch(query: Query) -> None:
    query.add(*some("a", "a", "b"))
    distinct = query.source().dropDuplicates(["value"])

    with always_at(KafkaCrashPoint.WRITTEN, query.abort) as passed, pytest.raises(NotPreparedError):
        query.run(distinct)
    assert passed.count(KafkaCrashPoint.WRITTEN) == 1
    query.run(distinct)

    assert query.values() == ["a", "b"]


@pytest.mark.every_spark
def test_a_batch_that_spark_replays_is_not_written_again(query: Query) -> None:
    """conformance: 57."""
    query.add(*some("a", "b", "c"))
    query.run()
    assert forget_last_commit(query.checkpoint) == 0
    query.run()

    assert [report.is_replay for report in query.reports] == [True]
    assert query.values() == ["a", "b", "c"]


def test_a_batch_of_a_query_that_keeps_state_is_replayed_without_being_written_again(query: Query) -> None:
    """Spark fails a batch after which its state was not kept: the plan runs again, and nothing is written."""
    query.add(*some("a", "b", "a"))
    query.run(query.source().dropDuplicates(["value"]))
    forget_last_commit(query.checkpoint)
    query.run(query.source().dropDuplicates(["value"]))
    assert [report.is_replay for report in query.reports] == [True]

    query.add(*some("b", "c"))
    query.run(query.source().dropDuplicates(["value"]))
    assert query.values() == ["a", "b", "c"]


def test_a_replay_with_other_numbers_of_partitions_is_still_a_replay(query: Query) -> None:
    query.add(*some("a", "b", "c", "d"))
    query.run(query.source().repartition(3))
    forget_last_commit(query.checkpoint)
    query.add(*some("e"))
    query.run(query.source().coalesce(1))

    assert query.values() == ["a", "b", "c", "d", "e"]


def test_the_tasks_of_one_run_keep_their_ids_over_its_batches(query: Query) -> None:
    for value in "abc":
        query.add(*some(value))
    query.run(query.source().coalesce(1), transactionalIdPrefix="keeps")

    with open_ledger(query) as rounds:
        assert {p.transactional_id for one in rounds.values() for p in one.participants} == {"keeps-0-1.0.0"}
        assert all(one.is_complete for one in rounds.values())


def test_a_task_that_is_tried_again_leaves_one_copy(query: Query, tmp_path: Path) -> None:
    """conformance: 54."""
    query.add(*some(*"abcdefgh"))
    df = query.source().repartition(2)

    query.run(df.mapInArrow(failing_once(tmp_path), df.schema))

    assert query.values() == [*"abcdefgh"]
    assert values(query.broker, str(query.topic), isolation="read_uncommitted") != []


def test_a_batch_behind_a_retried_one_has_ids_of_its_own(query: Query, tmp_path: Path) -> None:
    query.add(*some("a"))
    query.add(*some("b"))
    df = query.source().coalesce(1)
    query.run(df.mapInArrow(failing_once(tmp_path), df.schema), transactionalIdPrefix="renews")

    with open_ledger(query) as rounds:
        assert [p.transactional_id for one in rounds.values() for p in one.participants] == [
            "renews-0-1.0.1",
            "renews-0-2.0.0",
        ]


def test_a_batch_whose_job_fails_leaves_nothing_and_holds_back_no_reader(query: Query) -> None:
    query.add(*some("a"))
    df = query.source()
    with pytest.raises(Exception, match="a task fails on purpose"):
        query.run(df.mapInArrow(failing_always, df.schema))
    assert query.values() == []

    query.run()
    assert query.values() == ["a"]


def test_what_fails_in_a_plan_behind_its_first_rows_is_told_as_spark_tells_it(query: Query) -> None:
    query.add(*some("a", "b"))
    failing = F.when(F.col("value") == "a", F.col("value")).otherwise(F.raise_error(F.lit("no letter but a")))

    with pytest.raises(Exception, match="no letter but a") as error:
        query.run(query.source().coalesce(1).select(failing.alias("value")))

    assert not isinstance(error.value, OncelogError)
    assert query.values() == []


def test_an_empty_batch_is_decided_too(query: Query) -> None:
    query.add(*some("a"))
    query.run(query.source().where("value > 'm'"))
    forget_last_commit(query.checkpoint)
    query.run(query.source().where("value > 'm'"))

    assert [(report.is_replay, report.participants) for report in query.reports] == [(True, 0)]


# Rows


def test_keys_headers_and_partitions_arrive_as_they_were(query: Query) -> None:
    hashed = {"k": "key", "v": "hashed", "p": None}  # Kafka's partitioner has this key in partition 1
    query.add({"k": "key", "v": "named", "p": 0}, {"k": None, "v": None, "p": 1}, hashed)
    df = query.source("k string, v string, p int").select(
        F.col("k").alias("key"),
        F.col("v").cast("binary").alias("value"),
        F.col("p").alias("partition"),
        F.expr(
            "array(struct('h' as key, cast('1' as binary) as value), struct('h' as key, cast(null as binary) as value))"
        ).alias("headers"),
    )
    query.run(df)

    found = [(m.partition(), m.key(), m.value(), m.headers()) for m in read(query.broker, str(query.topic))]
    headers = [("h", b"1"), ("h", None)]
    assert found == [(0, b"key", b"named", headers), (1, None, None, headers), (1, b"key", b"hashed", headers)]


def test_rows_go_to_the_topics_they_name_in_one_batch(query: Query) -> None:
    topics = [query.broker.create_topic(fresh_name("named")) for _ in range(2)]
    query.add(*({"topic": topics[at % 2], "value": str(at)} for at in range(10)))
    query.topic = None
    query.run(query.source("topic string, value string").repartition(2))

    assert [values(query.broker, topic) for topic in topics] == [[*"02468"], [*"13579"]]


def test_the_option_topic_comes_before_the_column(query: Query) -> None:
    query.add({"topic": "elsewhere", "value": "a"})
    query.run(query.source("topic string, value string"))

    assert query.values() == ["a"]


def test_what_else_the_rows_have_is_left_out(query: Query) -> None:
    query.add({"value": "a", "timestamp": "noon"})
    query.run(query.source("value string, timestamp string"))

    assert query.values() == ["a"]


# Bad input


@pytest.mark.parametrize("columns", ["key string", "value int", "value string, partition string"])
def test_rows_without_the_sinks_columns_are_refused_by_name(query: Query, columns: str) -> None:
    query.add({"value": "1"})

    with pytest.raises(InvalidRecordError):
        query.run(query.source(columns))


def test_a_topic_that_does_not_exist_is_named_before_anything_is_written(query: Query) -> None:
    query.add(*some("a"))
    query.topic = "not-there"

    with pytest.raises(UnknownTopicError, match="not-there"):
        query.run()


def test_a_row_that_names_no_topic_is_refused(query: Query) -> None:
    query.add({"value": "a"})
    query.topic = None

    with pytest.raises(InvalidRecordError, match="names no topic"):
        query.run(query.source("topic string, value string"))


def test_a_row_that_names_a_topic_which_is_not_there_is_refused(query: Query) -> None:
    query.add({"topic": "not-there", "value": "a"})
    query.topic = None

    with pytest.raises(UnknownTopicError, match="not-there"):
        query.run(query.source("topic string, value string"), **{"kafka.max.block.ms": 1000})


def test_a_row_that_names_a_partition_which_is_not_there_is_refused(query: Query) -> None:
    query.add({"partition": 7, "value": "a"})

    with pytest.raises(UnknownPartitionError, match="Partition 7"):
        query.run(query.source("partition int, value string"), **{"kafka.max.block.ms": 1000})


def test_a_row_that_names_a_partition_below_0_is_refused(query: Query) -> None:
    query.add({"partition": -1, "value": "a"})

    with pytest.raises(UnknownPartitionError, match="partition -1"):
        query.run(query.source("partition int, value string"))


@pytest.mark.parametrize("limit", ["producer", "topic"])
def test_a_record_that_is_too_large_is_refused_and_nothing_of_its_batch_shows(query: Query, limit: str) -> None:
    query.add(*some("small", "x" * 200_000))
    more: dict[str, Any] = {"kafka.max.request.size": 100_000}
    if limit == "topic":
        query.topic = query.broker.create_topic(fresh_name("narrow"), max_message_bytes="1000")
        more = {}

    with pytest.raises(RecordTooLargeError):
        query.run(**more)
    assert query.values() == []


def test_a_time_out_above_the_brokers_maximum_is_refused_at_the_start(query: Query) -> None:
    query.add(*some("a"))

    with pytest.raises(InvalidTransactionTimeoutError, match="maximum_ms=900000"):
        query.run(transactionTimeoutMs=900_001)


def test_a_checkpoint_that_was_deleted_is_noticed_under_a_named_prefix(query: Query) -> None:
    """conformance: 59."""
    query.add(*some("a"))
    query.run(transactionalIdPrefix="named")
    query.checkpoint = query.folder / "another"

    with pytest.raises(BatchRefusedError, match="another query has history"):
        query.run(transactionalIdPrefix="named")
    assert query.values() == ["a"]


@of_foreach_batch
def test_two_sinks_of_one_query_need_names(query: Query) -> None:
    query.add(*some("a"))
    with pytest.raises(BatchRefusedError, match="sinkName"):
        query.run(sinks=2)


@contextmanager
def open_ledger(query: Query) -> Iterator[dict[int, KafkaRound]]:
    """The rounds of the query's only prefix."""
    store = open_metadata(str(query.folder / "ledger"), create=False)
    try:
        (prefix,) = KAFKA_LEDGERS.prefixes(store)
        yield KAFKA_LEDGERS.read_rounds(store, prefix)
    finally:
        store.close()


def test_each_batch_goes_on_with_the_producers_of_the_one_before(query: Query) -> None:
    """A producer that is opened raises the epoch too; then it would be twice as high."""
    for batch in range(5):
        query.add({"value": f"{batch}/0"}, {"value": f"{batch}/1"})
    prefix = f"{fresh_name('keeps')}.p"
    query.run(query.source().coalesce(1), transactionalIdPrefix=prefix)

    brokers = Brokers({"bootstrap_servers": query.broker.address})
    (name,) = [name for name, _ in brokers.list_ids() if name.startswith(f"{prefix}-")]
    assert brokers.describe([name])[name].epoch == 5
    brokers.close()
    assert len(query.values()) == 10
