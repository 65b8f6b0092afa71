"""Records that are gone when the query comes to them: topics created again or unseen, and ranges that retention took.

Without failOnDataLoss the query continues with what there is, each row once, and a warning names what is missing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from reads import EARLIEST, WITHIN_S, Source, create_again, flat, warnings
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name, send
from tests.support.spark.queries import last_batch

pytestmark = pytest.mark.sampled

TOLD: dict[str, Any] = {"failOnDataLoss": False, "kafkaConsumer.pollTimeoutMs": 5_000, **EARLIEST}


@pytest.fixture
def name(kafka: KafkaBroker) -> str:
    return kafka.create_topic(fresh_name("lossy"))


@pytest.fixture
def source(spark: SparkSession, kafka: KafkaBroker, name: str) -> Source:
    return Source(spark, kafka, subscribe=name)


def plan_and_crash(source: Source, checkpoint: Path, **options: Any) -> None:
    """Leave a batch in the checkpoint that is planned and not done."""

    def crash(_rows: DataFrame, _number: int) -> None:
        raise RuntimeError("crash")

    writer = (
        source.stream(**{**EARLIEST, **options})
        .writeStream.foreachBatch(crash)
        .option("checkpointLocation", str(checkpoint))
    )
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="crash"):
        query.awaitTermination(WITHIN_S)


def set_end_of_last_batch(checkpoint: Path, end: dict[str, dict[str, int]]) -> None:
    """Change the offsets of a checkpoint, beside which Spark keeps a checksum."""
    last = checkpoint / "offsets" / str(last_batch(checkpoint))
    version, metadata, offset = last.read_text().splitlines()
    last.write_text("\n".join([version, metadata, json.dumps(json.loads(offset) | end)]))
    last.with_name(f".{last.name}.crc").unlink()


def test_rows_of_a_recreated_topic_that_is_shorter_are_read_once(
    spark: SparkSession, source: Source, kafka: KafkaBroker, name: str, checkpoint: Path
) -> None:
    send(kafka, name, *[f"old {n}" for n in range(5)])
    assert len(flat(source.available(checkpoint, **EARLIEST))) == 5
    create_again(kafka, name, "new 0", "new 1")

    with pytest.raises(StreamingQueryException, match=rf"deleted and created again.*topic={name}.*failOnDataLoss"):
        source.available(checkpoint, **EARLIEST)
    with warnings(spark) as warned:
        assert flat(source.available(checkpoint, **TOLD)) == ["new 0", "new 1"]
    send(kafka, name, "new 2")
    assert flat(source.available(checkpoint, **TOLD)) == ["new 2"]
    assert f"WARN a topic was deleted and created again: the query's offsets belong to the old one; topic={name}" in (
        warned.toString()
    )


def test_a_topic_that_is_recreated_under_a_running_query_is_read_once(
    source: Source, kafka: KafkaBroker, name: str, checkpoint: Path
) -> None:
    with source.running(checkpoint, **TOLD) as (query, batches):
        send(kafka, name, "old 0", "old 1", "old 2")
        query.processAllAvailable()
        create_again(kafka, name, "new 0", "new 1")
        until(lambda: len(flat(batches)) == 5)
        send(kafka, name, "new 2")
        query.processAllAvailable()
    assert flat(batches) == ["old 0", "old 1", "old 2", "new 0", "new 1", "new 2"]


@pytest.mark.sampled("losses of data")
def test_a_batch_that_was_planned_of_a_topic_since_recreated_reads_the_new_one_once(
    spark: SparkSession, source: Source, kafka: KafkaBroker, name: str, checkpoint: Path
) -> None:
    """The new topic is longer than the planned range."""
    send(kafka, name, "old 0")
    source.available(checkpoint, **EARLIEST)
    send(kafka, name, "old 1", "old 2", "old 3")
    plan_and_crash(source, checkpoint)
    new = [f"new {n}" for n in range(6)]
    create_again(kafka, name, *new)

    with pytest.raises(StreamingQueryException, match=rf"deleted and created again.*topic={name}.*failOnDataLoss"):
        source.available(checkpoint, **EARLIEST)
    with warnings(spark) as warned:
        found = flat(source.available(checkpoint, **TOLD))
    send(kafka, name, "late")
    found += flat(source.available(checkpoint, **TOLD))

    assert found == [*new, "late"]
    assert "WARN a topic was deleted and created again" in warned.toString()


@pytest.mark.parametrize(("start", "left"), [(2, ["2", "3"]), (4, [])], ids=["in part", "as a whole"])
def test_of_a_planned_range_what_retention_left_is_read_once(
    spark: SparkSession,
    source: Source,
    kafka: KafkaBroker,
    name: str,
    checkpoint: Path,
    start: int,
    left: list[str],
) -> None:
    send(kafka, name, *[str(n) for n in range(4)])
    plan_and_crash(source, checkpoint)
    send(kafka, name, "behind")
    kafka.delete_records(name, 0, before=start)

    lost = rf"log begins after .*topic={name}, partition=0, offset=0, log start={start}.*failOnDataLoss"
    with pytest.raises(StreamingQueryException, match=lost):
        source.available(checkpoint, **EARLIEST)
    with warnings(spark) as warned:
        assert flat(source.available(checkpoint, **TOLD)) == [*left, "behind"]
    assert f"topic={name}, partition=0, offset=0, log start={start}" in warned.toString()


def test_a_log_that_retention_shortens_while_a_task_reads_it_is_gone_on_with_at_its_new_start(
    spark: SparkSession, source: Source, kafka: KafkaBroker, name: str, checkpoint: Path
) -> None:
    """The ranges are planned when the batch begins; its job runs behind that."""
    send(kafka, name, *[str(n) for n in range(4)])
    found: list[str] = []

    def shorten_first(rows: DataFrame, _number: int) -> None:
        if not found:
            kafka.delete_records(name, 0, before=3)
        found.extend(bytes(row.value).decode() for row in rows.collect())

    writer = source.stream(**TOLD).writeStream.foreachBatch(shorten_first)
    with warnings(spark) as warned:
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(WITHIN_S)

    assert found == ["3"]
    assert f"WARN the log no longer has a planned offset; topic={name}, partition=0, offset=0" in (warned.toString())


ANOTHER = "a topic was deleted and created again: the query's offsets belong to the old one"
"""What the driver says, if it looks before the tasks do."""


@pytest.mark.parametrize("rows", [0, 2, 3])
@pytest.mark.parametrize("is_told", [True, False], ids=["told", "by default"])
def test_a_topic_that_is_created_again_while_tasks_read_it_is_loss_of_data_and_gone_on_with_only_when_told(
    spark: SparkSession, source: Source, kafka: KafkaBroker, name: str, checkpoint: Path, is_told: bool, rows: int
) -> None:
    """The broker answers a fetch at the end of the new log with nothing, and beyond it with an error."""
    send(kafka, name, "old 0", "old 1", "old 2")
    assert flat(source.available(checkpoint, **EARLIEST)) == ["old 0", "old 1", "old 2"]
    send(kafka, name, "old 3", "old 4")
    new = [f"new {number}" for number in range(rows)]
    found: list[str] = []
    numbers: list[int] = []

    def recreate_under_the_first(frame: DataFrame, number: int) -> None:
        if not numbers:
            create_again(kafka, name, *new)
        numbers.append(number)
        found.extend(bytes(row.value).decode() for row in frame.collect())

    options = {**TOLD, "failOnDataLoss": not is_told, "kafkaConsumer.pollTimeoutMs": 60_000}
    writer = source.stream(**options).writeStream.foreachBatch(recreate_under_the_first)
    with warnings(spark) as warned:
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        if is_told:
            assert query.awaitTermination(WITHIN_S // 2)
            said = warned.toString()
            assert f"topic={name}, partition=0, offset=3" in said or f"{ANOTHER}; topic={name}," in said
        else:
            by_task = rf"topic={name}, partition=0, offset=3, .*log end={rows}"
            lost = rf"({by_task}|{ANOTHER}; topic={name},).*failOnDataLoss"
            with pytest.raises(StreamingQueryException, match=lost):
                query.awaitTermination(WITHIN_S // 2)

    assert found in ([], ["old 3", "old 4"])  # a consumer that is kept may have fetched them before
    assert flat(source.available(checkpoint, **TOLD)) == new


@pytest.mark.sampled("losses of data")
def test_an_end_beyond_the_log_is_waited_for_and_then_loss_of_data(
    spark: SparkSession, source: Source, kafka: KafkaBroker, name: str
) -> None:
    send(kafka, name, "a", "b")
    beyond = {"endingOffsets": json.dumps({name: {"0": 5}}), "kafkaConsumer.pollTimeoutMs": 3_000}

    with pytest.raises(Exception, match=rf"log ends before .*topic={name}, partition=0, offset=2, .*log end=2"):
        source.values(**beyond)
    with warnings(spark) as warned:
        assert source.values(failOnDataLoss=False, **beyond) == ["a", "b"]
    assert f"WARN the log ends before the planned range; topic={name}, partition=0, offset=2" in warned.toString()


# Which topic an offset is of ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_a_batch_that_crashed_behind_a_recreation_is_repeated_from_the_start_of_the_new_topic(
    source: Source, kafka: KafkaBroker, name: str, checkpoint: Path, rows: int
) -> None:
    send(kafka, name, "old 0", "old 1", "old 2")
    source.available(checkpoint, **EARLIEST)
    new = [f"new {number}" for number in range(rows)]
    create_again(kafka, name, *new)
    plan_and_crash(source, checkpoint, **TOLD)

    assert flat(source.available(checkpoint, **EARLIEST)) == new  # that the old one is lost was accepted by its plan


def test_a_new_topic_that_is_as_long_as_the_old_one_is_read(
    source: Source, kafka: KafkaBroker, name: str, checkpoint: Path
) -> None:
    send(kafka, name, "old 0", "old 1", "old 2")
    source.available(checkpoint, **EARLIEST)
    create_again(kafka, name, "new 0", "new 1", "new 2")
    found = flat(source.available(checkpoint, **TOLD))
    send(kafka, name, "new 3")
    found += flat(source.available(checkpoint, **EARLIEST))

    assert found == ["new 0", "new 1", "new 2", "new 3"]


def test_a_new_topic_is_read_in_batches_of_the_wanted_size(
    source: Source, kafka: KafkaBroker, name: str, checkpoint: Path
) -> None:
    send(kafka, name, *[f"old {number}" for number in range(5)])
    source.available(checkpoint, **EARLIEST)
    new = [f"new {number}" for number in range(10)]
    create_again(kafka, name, *new)
    batches = source.available(checkpoint, maxOffsetsPerTrigger=2, **TOLD)

    assert batches == [new[first : first + 2] for first in range(0, 10, 2)]


def test_a_query_that_waits_for_more_rows_of_a_new_topic_does_not_forget_that_it_is_new(
    spark: SparkSession, source: Source, kafka: KafkaBroker, name: str, checkpoint: Path
) -> None:
    send(kafka, name, "old 0", "old 1", "old 2")
    waiting = {"minOffsetsPerTrigger": 4, "maxTriggerDelay": "1h", **TOLD}
    with warnings(spark) as warned, source.running(checkpoint, **waiting) as (_, batches):
        until(lambda: len(flat(batches)) == 3)
        create_again(kafka, name, "new 0", "new 1")
        until(lambda: "created again" in warned.toString())
        assert len(flat(batches)) == 3
        send(kafka, name, "new 2", "new 3")
        until(lambda: len(flat(batches)) == 7)

    assert flat(batches)[3:] == ["new 0", "new 1", "new 2", "new 3"]
    assert warned.toString().count("created again") == 1


def test_a_batch_that_was_planned_of_a_topic_longer_than_the_one_that_replaced_it_reads_nothing_of_that(
    source: Source, kafka: KafkaBroker, name: str, checkpoint: Path
) -> None:
    send(kafka, name, *[f"old {number}" for number in range(5)])
    plan_and_crash(source, checkpoint)
    create_again(kafka, name, "new 0", "new 1")

    batches = source.available(checkpoint, **TOLD)
    assert [batch for batch in batches if batch] == [["new 0", "new 1"]]


def test_a_topic_that_is_created_again_and_again_is_read_from_its_start_each_time(
    source: Source, kafka: KafkaBroker, name: str, checkpoint: Path
) -> None:
    generations = [[f"{letter} 0", f"{letter} 1"] for letter in "abc"]
    found = []
    for values in generations:
        create_again(kafka, name, *values)
        found.append(flat(source.available(checkpoint, **TOLD)))
    create_again(kafka, name)
    with pytest.raises(StreamingQueryException, match="deleted and created again"):
        source.available(checkpoint, **EARLIEST)

    assert found == generations


def test_a_log_that_lost_its_end_stops_the_query_or_is_waited_for_and_nothing_is_read_twice(
    spark: SparkSession, source: Source, kafka: KafkaBroker, name: str, checkpoint: Path
) -> None:
    """As after the election of a leader that lacked the last records: the query read offsets that are free again."""
    send(kafka, name, "0", "1", "2")
    assert flat(source.available(checkpoint, **EARLIEST)) == ["0", "1", "2"]
    set_end_of_last_batch(checkpoint, {name: {"0": 5}})

    with pytest.raises(StreamingQueryException, match="the log ends before an offset that was read or planned"):
        source.available(checkpoint, **EARLIEST)
    with warnings(spark) as warned, source.running(checkpoint, **TOLD) as (query, batches):
        until(lambda: "waiting until it is that long again" in warned.toString())
        send(kafka, name, "3", "4", "5", "6")
        until(lambda: flat(batches))
        query.processAllAvailable()

    assert flat(batches) == ["5", "6"]


def test_a_consumer_that_was_kept_with_records_of_the_old_topic_does_not_serve_them_as_the_new_ones(
    source: Source, kafka: KafkaBroker, name: str
) -> None:
    old, new = ([f"{age} {number}" for number in range(10)] for age in ("old", "new"))
    send(kafka, name, *old)
    assert source.values(endingOffsets=json.dumps({name: {"0": 5}})) == old[:5]
    create_again(kafka, name, *new)

    assert source.values(startingOffsets=json.dumps({name: {"0": 5}})) == new[5:]


def test_the_group_of_a_query_follows_it_into_the_new_topic(
    source: Source, kafka: KafkaBroker, name: str, checkpoint: Path
) -> None:
    group = fresh_name("group")
    send(kafka, name, "old 0", "old 1", "old 2")
    source.available(checkpoint, groupId=group, **EARLIEST)
    create_again(kafka, name, "new 0")
    source.available(checkpoint, groupId=group, **TOLD)
    send(kafka, name, "new 1")

    with source.running(checkpoint, groupId=group, **TOLD) as (query, batches):
        query.processAllAvailable()
        send(kafka, name, "new 2")
        query.processAllAvailable()
        assert flat(batches) == ["new 1", "new 2"]
        until(lambda: kafka.group_offsets(group).get((name, 0)) == 2)  # that of a batch comes with the next one


# Topics that are out of sight -----------------------------------------------------------------------------------------


@pytest.fixture
def pair(spark: SparkSession, kafka: KafkaBroker, name: str) -> tuple[str, Source, Source]:
    """A second topic, and sources that see both or only the first."""
    other = kafka.create_topic(fresh_name("lossy"))
    both = Source(spark, kafka, subscribePattern=f"{name}|{other}")
    return other, both, Source(spark, kafka, subscribePattern=name)


def last_offset(checkpoint: Path) -> dict[str, Any]:
    _version, _metadata, offset = (checkpoint / "offsets" / str(last_batch(checkpoint))).read_text().splitlines()
    return dict(json.loads(offset))


@pytest.mark.sampled("losses of data")
def test_a_topic_that_was_out_of_sight_for_a_while_is_gone_on_with_where_it_was(
    spark: SparkSession, kafka: KafkaBroker, name: str, pair: tuple[str, Source, Source], checkpoint: Path
) -> None:
    other, both, only = pair
    send(kafka, name, "a 0")
    send(kafka, other, "b 0", "b 1")
    assert sorted(flat(both.available(checkpoint, **TOLD))) == ["a 0", "b 0", "b 1"]
    with warnings(spark) as warned:
        for number in (1, 2):
            send(kafka, name, f"a {number}")
            assert flat(only.available(checkpoint, **TOLD)) == [f"a {number}"]
    assert last_offset(checkpoint) == {name: {"0": 3}, "@absent": {other: {"0": 2}}}
    assert (
        warned.toString().count(
            f"options no longer select; select it again, or start with a new checkpoint; topic={other}"
        )
        == 1
    )
    send(kafka, other, "b 2")

    assert flat(both.available(checkpoint, **EARLIEST)) == ["b 2"]
    assert last_offset(checkpoint) == {name: {"0": 3}, other: {"0": 3}}


@pytest.mark.sampled("losses of data")
def test_a_topic_that_comes_back_as_another_one_is_read_from_its_start(
    kafka: KafkaBroker, name: str, pair: tuple[str, Source, Source], checkpoint: Path
) -> None:
    other, both, only = pair
    send(kafka, name, "a 0")
    send(kafka, other, "b 0", "b 1")
    both.available(checkpoint, **EARLIEST)
    send(kafka, name, "a 1")
    only.available(checkpoint, **TOLD)
    create_again(kafka, other, "c 0", "c 1", "c 2")
    assert flat(both.available(checkpoint, **EARLIEST)) == ["c 0", "c 1", "c 2"]
    send(kafka, name, "a 2")
    only.available(checkpoint, **TOLD)
    assert last_offset(checkpoint).keys() == {name, "@absent", "@topicIds"}
    send(kafka, other, "c 3")

    assert flat(both.available(checkpoint, **EARLIEST)) == ["c 3"]


@pytest.mark.parametrize("selects", ["subscribe", "subscribePattern", "assign"])
def test_another_source_on_the_same_checkpoint_is_told_that_it_is_another_one(
    spark: SparkSession, kafka: KafkaBroker, name: str, checkpoint: Path, selects: str
) -> None:
    other = kafka.create_topic(fresh_name("lossy"), partitions=2)
    send(kafka, name, "a")
    send(kafka, other, "b", partition=1)
    first = {"subscribe": name, "subscribePattern": f"{name}|{other}", "assign": json.dumps({other: [0, 1]})}
    then = {"subscribe": other, "subscribePattern": other, "assign": json.dumps({other: [0]})}
    Source(spark, kafka, **{selects: first[selects]}).available(checkpoint, **EARLIEST)

    left_out = f"topic={other}, partition=1" if selects == "assign" else f"topic={name}"
    with pytest.raises(StreamingQueryException, match=rf"the options no longer select; select it again.*; {left_out}"):
        Source(spark, kafka, **{selects: then[selects]}).available(checkpoint, **EARLIEST)


def test_an_offset_whose_absent_partitions_are_none_is_refused(source: Source, checkpoint: Path) -> None:
    stream = micro_batch_stream(source, checkpoint)
    good = '{"seen":{"0":1},"@absent":{"gone":{"0":5}},"@topicIds":{"gone":"id"}}'
    assert stream.deserializeOffset(good).json() == good

    wrong: list[Any] = [17, None, {"a": 5}, {"a": {}}, {"a": {"0": -1}}, {"a": {"0": "5"}}, {"seen": {"0": 1}}]
    for absent in wrong:
        with pytest.raises(IllegalArgumentException, match=r"expected JSON of the shape .*@absent"):
            stream.deserializeOffset(json.dumps({"seen": {"0": 1}, "@absent": absent}))


# Topics that are created again between two looks ----------------------------------------------------------------------


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "by default"])
def test_a_topic_that_is_created_again_between_two_batches_of_available_now_is_noticed(
    source: Source, kafka: KafkaBroker, name: str, checkpoint: Path, is_told: bool
) -> None:
    send(kafka, name, *[f"old {number}" for number in range(4)])
    new = [f"new {number}" for number in range(6)]
    found: list[str] = []

    def recreate_behind_the_first(rows: DataFrame, _number: int) -> None:
        found.extend(bytes(row.value).decode() for row in rows.collect())
        if len(found) == 2:
            create_again(kafka, name, *new)

    options = {**(TOLD if is_told else EARLIEST), "maxOffsetsPerTrigger": 2}
    writer = source.stream(**options).writeStream.foreachBatch(recreate_behind_the_first)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    if is_told:
        assert query.awaitTermination(WITHIN_S)
    else:
        with pytest.raises(StreamingQueryException, match=rf"deleted and created again.*topic={name}.*failOnDataLoss"):
            query.awaitTermination(WITHIN_S)

    assert found == ["old 0", "old 1"]
    assert flat(source.available(checkpoint, **TOLD)) == new


@pytest.mark.sampled("losses of data")
def test_the_ids_of_topics_are_only_added_to_a_checkpoint(
    spark: SparkSession, kafka: KafkaBroker, checkpoint: Path
) -> None:
    """A file that is replaced can be lost in a crash, and with it what tells a topic from one created again."""
    stem = fresh_name("watched")
    source = Source(spark, kafka, subscribePattern=f"{stem}-.*")

    def read_with_another(letter: str) -> dict[str, bytes]:
        send(kafka, kafka.create_topic(f"{stem}-{letter}"), letter)
        assert flat(source.available(checkpoint, **EARLIEST)) == [letter]
        return {file.name: file.read_bytes() for file in checkpoint.glob("sources/0/oncelog-topic-ids*")}

    one, two, three = (read_with_another(letter) for letter in "abc")
    assert (len(one), len(two), len(three)) == (1, 2, 3)
    assert one.items() < two.items() < three.items()

    for letter in "ab":
        create_again(kafka, f"{stem}-{letter}", f"new {letter}")
        with pytest.raises(StreamingQueryException, match=rf"deleted and created again.*topic={stem}-{letter}"):
            source.available(checkpoint, **EARLIEST)
        assert flat(source.available(checkpoint, **TOLD)) == [f"new {letter}"]


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "by default"])
def test_a_topic_that_is_created_again_before_its_batch_has_tasks_gives_it_none(
    spark: SparkSession, source: Source, kafka: KafkaBroker, name: str, checkpoint: Path, is_told: bool
) -> None:
    """What Spark asks of the source, step by step: nothing else comes between the two."""
    send(kafka, name, "old 0", "old 1")
    stream = micro_batch_stream(source, checkpoint, **(TOLD if is_told else EARLIEST))
    try:
        start = stream.initialOffset()
        end = stream.latestOffset(start, stream.getDefaultReadLimit())
        assert json.loads(end.json()) == {name: {"0": 2}}
        assert len(stream.planInputPartitions(start, end)) == 1
        create_again(kafka, name, "new 0", "new 1", "new 2")
        if is_told:
            assert len(stream.planInputPartitions(start, end)) == 0
            next_end = stream.latestOffset(end, stream.getDefaultReadLimit())
            (planned,) = stream.planInputPartitions(end, next_end)
            assert (planned.start(), planned.end()) == (0, 3)
        else:
            with pytest.raises(Py4JJavaError, match="deleted and created again"):
                stream.planInputPartitions(start, end)
    finally:
        stream.stop()


def micro_batch_stream(source: Source, checkpoint: Path, **options: Any) -> Any:
    """The source's driver side, as Spark makes it."""
    jvm = cast("Any", source.spark._jvm)
    given = jvm.java.util.HashMap()
    for key, value in {**source.options, **options}.items():
        given.put(key, str(value).lower() if isinstance(value, bool) else str(value))
    texts = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(given)
    provider = jvm.io.oncelog.kafka.KafkaProvider()
    table = provider.getTable(provider.inferSchema(texts), None, given)
    return table.newScanBuilder(texts).build().toMicroBatchStream(checkpoint.as_uri())
