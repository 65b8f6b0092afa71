"""What only the sink by name does: between its steps are Spark's own tasks, and its options come by a table."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.streaming.readwriter import DataStreamWriter

import oncelog_kafka
from oncelog.batches.attempt import Batch
from oncelog.batches.run import BatchDriver
from oncelog.crash_points import CrashPoint
from oncelog.metadata import open_metadata
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog.znodes.schemes import ZNODES_FILE
from oncelog_kafka import connections
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.options.sink_options import parse
from oncelog_kafka.sinks import batch_writes
from oncelog_kafka.sinks.data_plane import SparkJob
from oncelog_kafka.sinks.target import KafkaTarget
from tests.support.connectors import kafka_sink
from tests.support.connectors.kafka_sink import options, values
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name
from tests.support.spark.processes import Program
from tests.support.spark.queries import forget_last_commit, run_available

pytestmark = pytest.mark.sampled


class World(kafka_sink.World):
    """The same query by both ways into the sink."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.problems: list[str] = []

    def by_name(self, df: DataFrame | None = None, **more: Any) -> DataStreamWriter:
        writer = (self.rows() if df is None else df).writeStream.format("oncelog-kafka")
        return writer.options(**options(self.broker, self.folder, **{"topic": self.topic, **more}))

    def by_function(self, df: DataFrame | None = None, **more: Any) -> DataStreamWriter:
        sink = oncelog_kafka.sink(**options(self.broker, self.folder, **{"topic": self.topic, **more}))

        def write(batch: DataFrame, batch_id: int) -> None:
            try:
                sink(batch, batch_id)
            except Exception as problem:
                self.problems.append(str(problem))
                raise

        return (self.rows() if df is None else df).writeStream.foreachBatch(write)

    def prefixes(self) -> list[str]:
        store = open_metadata(str(self.folder / "ledger"), create=False)
        try:
            return KAFKA_LEDGERS.prefixes(store)
        finally:
            store.close()


Door = Callable[..., DataStreamWriter]


@pytest.fixture
def world(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path, topic: str) -> Iterator[World]:
    yield World(spark, kafka, tmp_path, topic)
    connections.close_connections()


# Moving a query -------------------------------------------------------------------------------------------------------


@pytest.mark.sampled("queries by name")
def test_a_query_moves_from_foreach_batch_to_the_format_and_back_on_its_checkpoint(world: World) -> None:
    for number, writer in enumerate([world.by_function, world.by_name, world.by_function, world.by_name]):
        world.add(f"{number}a", f"{number}b")
        run_available(writer(), world.checkpoint)
        forget_last_commit(world.checkpoint)  # the next door has the batch to replay

    assert world.values() == ["0a", "0b", "1a", "1b", "2a", "2b", "3a", "3b"]


def test_the_ledger_is_in_the_cluster_unless_another_place_is_named(world: World) -> None:
    for number, writer in enumerate([world.by_name, world.by_function, world.by_name]):
        world.add(f"{number}a", f"{number}b")
        run_available(writer(znodes=None), world.checkpoint)
        forget_last_commit(world.checkpoint)  # the next life has the batch to replay

    assert world.values() == ["0a", "0b", "1a", "1b", "2a", "2b"]
    assert not (world.folder / "ledger").exists()


@pytest.mark.parametrize("is_same_process", [False, True])
@pytest.mark.parametrize("batches", [2, 1])
def test_a_query_whose_ledger_was_deleted_is_refused_and_writes_nothing(
    world: World, batches: int, is_same_process: bool
) -> None:
    ledger: dict[str, Any] = {"znodes": None, "ledgerTopic": fresh_name("ledger")}
    for number in range(batches):
        world.add(f"{number}")
        run_available(world.by_function(**ledger), world.checkpoint)
    forget_last_commit(world.checkpoint)
    world.broker.delete_topic(ledger["ledgerTopic"])
    if is_same_process:
        with pytest.raises(StreamingQueryException, match="was deleted, and with it the history"):
            run_available(world.by_function(**ledger), world.checkpoint)
    else:
        connections.close_connections()

    with pytest.raises(StreamingQueryException, match="the history of this query is in another ledger"):
        run_available(world.by_function(**ledger), world.checkpoint)
    assert world.values() == ["0", "1"][:batches]


@pytest.mark.parametrize("door", [World.by_name, World.by_function])
def test_a_sink_whose_topic_changed_is_told_so_and_goes_on_under_another_name(world: World, door: Door) -> None:
    new = world.broker.create_topic(fresh_name("new"))
    world.add("a")
    run_available(door(world), world.checkpoint)
    world.add("b")

    changed = rf"topic of this sink changed.*former_topic='{world.topic}', topic='{new}'"
    with pytest.raises(StreamingQueryException, match=changed):
        run_available(door(world, topic=new), world.checkpoint)
    run_available(door(world, topic=new, sinkName="new"), world.checkpoint)

    assert (world.values(), values(world.broker, new)) == (["a"], ["b"])


def test_a_batch_write_in_a_foreach_batch_function_is_refused(world: World) -> None:
    """A failure after it would make Spark run the batch again, which appends its rows again."""
    given = options(world.broker, world.folder, topic=world.topic)

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.format("oncelog-kafka").options(**given).save()

    world.add("a", "b")
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match=r"not exactly once.*call oncelog_kafka\.sink"):
            run_available(world.rows().writeStream.foreachBatch(write), world.checkpoint)
    assert world.values() == []

    run_available(world.by_function(), world.checkpoint)
    assert world.values() == ["a", "b"]


def test_a_query_moves_from_sparks_own_sink_on_its_checkpoint(world: World) -> None:
    world.add("a", "b")
    rows = world.rows().writeStream.format("console")  # any other sink: Spark's Kafka connector is no part of PySpark
    run_available(rows, world.checkpoint)
    world.add("c", "d")
    run_available(world.by_name(), world.checkpoint)

    assert world.values() == ["c", "d"]


# Output modes ---------------------------------------------------------------------------------------------------------


@pytest.mark.every_spark(java=True)
@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_what_a_mode_makes_of_each_batch_is_appended(world: World, mode: str) -> None:
    counted = world.rows().groupBy("value").count().select(F.concat_ws("=", "value", "count").alias("value"))
    df = world.rows() if mode == "append" else counted
    for texts in (["a", "b", "a"], ["c", "a"]):
        world.add(*texts)
        run_available(world.by_name(df).outputMode(mode), world.checkpoint)

    assert (
        world.values()
        == {
            "append": ["a", "a", "a", "b", "c"],
            "update": ["a=2", "a=3", "b=1", "c=1"],
            "complete": ["a=2", "a=3", "b=1", "b=1", "c=1"],
        }[mode]
    )


# Batch writes ---------------------------------------------------------------------------------------------------------


@pytest.mark.every_spark
@pytest.mark.parametrize("mode", [None, "append"])
def test_a_batch_write_arrives_whole_and_leaves_no_ledger(world: World, mode: str | None) -> None:
    df = world.spark.range(100).selectExpr("cast(id as string) as key", "cast(id as string) as value").repartition(3)
    writer = df.write.format("oncelog-kafka").options(**options(world.broker, world.folder, world.topic))
    (writer if mode is None else writer.mode(mode)).save()

    assert world.values() == sorted(map(str, range(100)))
    assert world.prefixes() == []


def test_a_batch_write_that_fails_shows_nothing_and_says_why_in_one_sentence(world: World) -> None:
    df = world.spark.range(10).selectExpr("'x' as value", "cast(id as int) as partition").coalesce(1)
    given = options(world.broker, world.folder, world.topic, transactionalIdPrefix=world.prefix)
    writer = df.write.format("oncelog-kafka").options(**given)

    with pytest.raises(Exception, match=r"UnknownPartitionError: .*Partition 2 of topic") as error:
        writer.option("kafka.max.block.ms", "1000").save()
    assert "\tat " not in str(error.value).split("JVM stacktrace")[0]
    assert world.values() == []
    assert world.prefixes() == [], "it is never replayed, and its ledger would be undecided for ever"
    _check_nothing_is_open(world)


@pytest.mark.parametrize("value", ["assert_true(id < 0)", "raise_error('bad row')"])
def test_a_batch_write_whose_plan_fails_leaves_no_ledger(world: World, value: str) -> None:
    df = world.spark.range(10).selectExpr(f"cast({value} as string) as value").repartition(2)
    given = options(world.broker, world.folder, world.topic, transactionalIdPrefix=world.prefix)

    with pytest.raises(Exception, match=r"bad row|is not true"):
        df.write.format("oncelog-kafka").options(**given).save()
    assert world.prefixes() == []
    _check_nothing_is_open(world)


@pytest.mark.parametrize("is_old", [True, False])
def test_a_batch_write_that_was_killed_before_its_decision_is_aborted_by_one_a_day_later(
    world: World, is_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(world.broker, world.folder, world.topic, transactionalIdPrefix=world.prefix)
    store, brokers = open_metadata(given["znodes"]), Brokers({"bootstrap_servers": world.broker.address})
    target = KafkaTarget(store, brokers, parse(given))
    request = batch_writes.request_of(target.options, "killed")
    with at(CrashPoint.SINK_PLANNED, stop), pytest.raises(StoppedOnPurposeError):
        BatchDriver(target).run(Batch(request, SparkJob(world.spark.range(5).selectExpr("cast('x' as binary) value"))))
    assert KAFKA_LEDGERS.prefixes(store) == [request.prefix]

    if is_old:
        monkeypatch.setattr(batch_writes, "ABANDONED_MS", -1)
    batch_writes.finish_others(brokers, store, target.options)
    assert KAFKA_LEDGERS.prefixes(store) == ([] if is_old else [request.prefix]), "a write may take hours to begin"
    brokers.close()
    store.close()


def test_a_batch_write_that_died_behind_its_decision_is_finished_by_the_next_one(world: World) -> None:
    given = options(world.broker, world.folder, world.topic)
    store, brokers = open_metadata(given["znodes"]), Brokers({"bootstrap_servers": world.broker.address})
    target = KafkaTarget(store, brokers, parse(given))
    rows = world.spark.range(5).selectExpr("cast('first' as binary) as value")
    request = batch_writes.request_of(target.options, "dead")
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        BatchDriver(target).run(Batch(request, SparkJob(rows)))
    assert world.values() == []

    df = world.spark.range(5).selectExpr("'second' as value")
    df.write.format("oncelog-kafka").options(**given).save()

    assert world.values() == ["first"] * 5 + ["second"] * 5
    assert world.prefixes() == []
    brokers.close()
    store.close()


@pytest.mark.parametrize("mode", ["overwrite", "ignore"])
def test_a_batch_write_in_another_mode_is_refused(world: World, mode: str) -> None:
    df = world.spark.range(1).selectExpr("'x' as value")
    with pytest.raises(Exception, match="a topic can only be appended to"):
        df.write.format("oncelog-kafka").options(**options(world.broker, world.folder, world.topic)).mode(mode).save()


def test_an_option_of_streams_is_refused_in_a_batch_write(world: World) -> None:
    df = world.spark.range(1).selectExpr("'x' as value")
    given = options(world.broker, world.folder, world.topic, groupId="g")
    with pytest.raises(Exception, match="the option does not apply here"):
        df.write.format("oncelog-kafka").options(**given).save()


# Bad input and faults -------------------------------------------------------------------------------------------------


def test_an_unknown_option_is_refused_by_name(world: World) -> None:
    world.add("a")
    with pytest.raises(Exception, match=r"InvalidOptionError: unknown option .*did_you_mean='topic'"):
        run_available(world.by_name(topik="x"), world.checkpoint)


def test_a_refusal_is_a_sentence_in_sparks_log_without_frames_around_it(world: World) -> None:
    world.add("a")
    query = world.by_name(topic="not-there").option("checkpointLocation", str(world.checkpoint)).start()
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(60)

    refusal = query._jsq.exception().get().cause()
    assert refusal.getMessage().startswith("UnknownTopicError: the sink's topic does not exist; create it first")
    assert len(refusal.getStackTrace()) == 0


def test_continuous_processing_is_refused(world: World) -> None:
    ticks = world.spark.readStream.format("rate").option("numPartitions", 1).load()
    writer = world.by_name(ticks.selectExpr("string(value) value"))
    with pytest.raises(IllegalArgumentException, match=r"leave trigger\(continuous=\.\.\.\) out"):
        writer.option("checkpointLocation", str(world.checkpoint)).trigger(continuous="1 second").start()


def test_a_query_without_a_checkpoint_of_its_own_is_refused(world: World) -> None:
    """Spark wants one for a format, and takes a new one at each start where only the session says where they are."""
    world.add("a")
    name = "spark.sql.streaming.checkpointLocation"
    world.spark.conf.set(name, str(world.folder / "checkpoints"))
    try:
        query = world.by_name().trigger(availableNow=True).start()
    finally:
        world.spark.conf.unset(name)
    with pytest.raises(Exception, match="InvalidOptionError: the query has no checkpoint of its own"):
        query.awaitTermination(60)
    assert world.values() == []


@pytest.mark.parametrize("door", [World.by_name, World.by_function])
def test_a_query_that_is_stopped_while_its_tasks_run_leaves_nothing_open(world: World, door: Door) -> None:
    world.add("a", "b")
    sleeping = F.expr("if(value = 'b', java_method('java.lang.Thread', 'sleep', 20000L), null)")
    slow = world.rows().select(F.coalesce(sleeping, "value").alias("value"))
    writer = door(world, slow, transactionalIdPrefix=world.prefix)
    query = writer.option("checkpointLocation", str(world.checkpoint)).start()
    until(lambda: bool(_open_ids(world)))
    query.stop()

    assert query.exception() is None
    # Spark's search for its own interrupt does not come to the end of a long text.
    assert [len(text) < 1000 for text in world.problems] == [True] * (door is World.by_function), world.problems
    _check_nothing_is_open(world)
    run_available(door(world, transactionalIdPrefix=world.prefix), world.checkpoint)
    assert world.values() == ["a", "b"]


@contextmanager
def held_ledger(world: World) -> Iterator[None]:
    """No step of the sink writes to its ledger for the time of the block."""
    with closing(sqlite3.connect(world.folder / "ledger" / ZNODES_FILE, isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        yield
        file.execute("ROLLBACK")


@pytest.mark.parametrize("step", ["plan", "commit"])
@pytest.mark.parametrize("door", [World.by_name, World.by_function])
def test_a_query_that_is_stopped_while_the_driver_is_at_work_leaves_its_batch_whole_or_not_at_all(
    world: World, door: Door, step: str
) -> None:
    world.add("a")
    run_available(door(world, transactionalIdPrefix=world.prefix), world.checkpoint)
    world.add("b", "c")
    slowly = F.expr("concat(value, substr(java_method('java.lang.Thread', 'sleep', 1000L), 0, 0)) as value")
    writer = door(world, world.rows().select(slowly), transactionalIdPrefix=world.prefix)
    tracker = world.spark.sparkContext.statusTracker()

    with ExitStack() as stack:
        if step == "plan":
            stack.enter_context(held_ledger(world))
        query = writer.option("checkpointLocation", str(world.checkpoint)).start()
        if step == "plan":
            until((world.checkpoint / "offsets" / "1").exists)
        else:
            until(lambda: tracker.getActiveStageIds() or (world.checkpoint / "commits" / "1").exists())
            stack.enter_context(held_ledger(world))
            until(lambda: not tracker.getActiveStageIds())
        stopping = Thread(target=query.stop)
        stopping.start()
        until(lambda: not query.isActive)
    stopping.join()

    assert query.exception() is None
    _check_nothing_is_open(world)
    assert world.values() in (["a"], ["a", "b", "c"])
    run_available(door(world, transactionalIdPrefix=world.prefix), world.checkpoint)
    assert world.values() == ["a", "b", "c"]


@pytest.mark.parametrize("others", [World.by_name, World.by_function])
@pytest.mark.parametrize("door", [World.by_name, World.by_function])
def test_two_queries_under_one_prefix_are_told_apart_by_whatever_doors_they_come(
    world: World, door: Door, others: Door
) -> None:
    world.add("a")
    run_available(door(world, transactionalIdPrefix=world.prefix), world.checkpoint)
    with pytest.raises(Exception, match="BatchRefusedError: another query has history"):
        run_available(others(world, transactionalIdPrefix=world.prefix), world.folder / "another")

    assert world.values() == ["a"]


@pytest.mark.parametrize("door", [World.by_name, World.by_function])
@pytest.mark.parametrize("is_replayed", [False, True])
def test_a_query_that_was_taken_over_is_refused_with_its_former_checkpoint(
    world: World, door: Door, is_replayed: bool
) -> None:
    world.add("a")
    run_available(door(world, transactionalIdPrefix=world.prefix), world.checkpoint)
    former = json.loads((world.checkpoint / "metadata").read_text())["id"]
    (world.folder / "in" / "a.json").unlink()  # the heir starts where the other one stopped
    world.add("b")
    run_available(door(world, transactionalIdPrefix=world.prefix, takeover=former), world.folder / "heir")
    if is_replayed:
        world.add("a")
        forget_last_commit(world.checkpoint)

    with pytest.raises(StreamingQueryException, match="another query has history under this prefix"):
        run_available(door(world, transactionalIdPrefix=world.prefix), world.checkpoint)
    assert world.values() == ["a", "b"]


ENDS_EARLY = """
import socket
import oncelog_kafka
from tests.support.harness.waiting import until
from tests.support.spark.jobs.sessions import spark_session

silent = socket.create_server(("127.0.0.1", 0))
with spark_session(settings={"spark.jars": oncelog_kafka.jars()}) as spark:
    rows = spark.readStream.format("rate").load().selectExpr("string(value) value")
    writer = rows.writeStream.format("oncelog-kafka")
    broker = f"127.0.0.1:{silent.getsockname()[1]}"
    writer.options(**{"kafka.bootstrap.servers": broker, "znodes": "./ledger", "topic": "out"})
    writer.start(checkpointLocation="checkpoint")
    silent.accept()  # Python was started in advance, and waits for an answer
    threads = spark._jvm.java.lang.Thread
until(lambda: not any("warm-up" in thread.getName() for thread in threads.getAllStackTraces().keySet()))
"""


@pytest.mark.sampled("queries by name")
@pytest.mark.slow
def test_a_program_that_does_not_wait_for_its_query_ends_without_an_error_of_the_sink(tmp_path: Path) -> None:
    with Program([sys.executable, "-c", ENDS_EARLY], tmp_path, "program") as program:
        assert program.wait() == 0, program.last_lines()

    assert "warm-up" not in program.output.read_text()


def _check_nothing_is_open(world: World) -> None:
    until(lambda: not _open_ids(world), tell=lambda: _open_ids(world))


def _open_ids(world: World) -> list[str]:
    brokers = Brokers({"bootstrap_servers": world.broker.address})
    found = [name for name, _ in brokers.list_ids(["Ongoing"]) if name.startswith(world.prefix)]
    brokers.close()
    return found
