"""What people type wrongly at Spark's doors of the log: each is answered by one sentence that names it.

The calls are texts, as people type them. What goes wrong with rows and in queries that run stands in test_bad_input.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import oncelog.spark
from oncelog.errors import OncelogError
from oncelog.runtime import Log
from oncelog.spark import sink
from tests.support.log.logs import numbered, started, write_committed
from tests.support.spark.queries import PATIENCE_S, place

pytestmark = pytest.mark.sampled

# fmt: off
CALLS = {
    # The sink of foreachBatch
    "sink()": "a required option is missing [option='path', use='foreachBatch(sink(...))']",
    'sink("/data/log")': "sink takes its arguments by name [given_by_position=1, takes=['options']]",
    'sink({"path": "/data/log"})': "sink takes its arguments by name [given_by_position=1, takes=['options']]",
    'sink(path="", topic="out")':
        "the option's value is malformed [option='path', value='', expected='a text that is not empty']",
    'sink(path=None, topic="out")': "a required option is missing [option='path', use='foreachBatch(sink(...))']",
    "sink(path=7.5)": "the option's value must be text, a whole number of 64 bits or a bool [option='path', value=7.5]",
    'sink(**at, PATH="/data/log")': "the option is given twice [option='path']",
    'sink(**at, topic=" ")':
        "the option's value is malformed [option='topic', value=' ', expected='a text that is not empty']",
    'sink(**at, topics="out")': "unknown option [option='topics', use='foreachBatch(sink(...))', did_you_mean='topic']",
    'sink(**at, topic=["out"])':
        "the option's value must be text, a whole number of 64 bits or a bool [option='topic', value=['out']]",
    'sink(**at, subscribe="in")':
        "the option does not apply here [option='subscribe', use='foreachBatch(sink(...))', applies_to=['read',",
    'sink(**at, startingOffsets="earliest")':
        "the option does not apply here [option='startingOffsets', use='foreachBatch(sink(...))',",
    'sink(**at, codec="gzip")':
        "the option's value is malformed [option='codec', value='gzip', expected='one of null, lz4, zstd']",
    'sink(**at, codec=None, compression="lz4")':
        "unknown option [option='compression', use='foreachBatch(sink(...))', did_you_mean='codec'",
    'sink(**at, **{"kafka.bootstrap.servers": "h1:9092"})':
        "has no brokers; for a Kafka cluster use the format oncelog-kafka [option='kafka.bootstrap.servers', use=",
    'sink(**at, **{"kafka.compression.type": "lz4"})':
        "unknown option [option='kafka.compression.type', use='foreachBatch(sink(...))', did_you_mean='codec']",
    'sink(**at, **{"kafka.transactional.id": "copier"})':
        "unknown option [option='kafka.transactional.id', use='foreachBatch(sink(...))',",
    'sink(**at, transactional_id_prefix="copier")':
        "unknown option [option='transactional_id_prefix', use='foreachBatch(sink(...))',",
    'sink(**at, transactionalIdPrefix="copier-0")':
        "the option's value is malformed [option='transactionalIdPrefix', value='copier-0', expected='a text that",
    'sink(**at, transactionalIdPrefix="")':
        "the option's value is malformed [option='transactionalIdPrefix', value='', expected='a text that is not",
    'sink(**at, transactionalIdPrefix="x" * 1100)': "the option's value is malformed [option='transactionalIdPrefix',",
    'sink(**at, sinkName="out-1")':
        "the option's value is malformed [option='sinkName', value='out-1', expected='a text that does not end in",
    'sink(**at, groupId="g")':
        "the option needs a transactionalIdPrefix, because a new checkpoint gets a new query id",
    'sink(**at, takeover="query")':
        "the option needs a transactionalIdPrefix, because a new checkpoint gets a new query id",
    "sink(**at, roundTimeoutMs=0)":
        "the option's value is malformed [option='roundTimeoutMs', value='0', expected='a whole number above 0,",
    'sink(**at, roundTimeoutMs="1m")':
        "the option's value is malformed [option='roundTimeoutMs', value='1m', expected='a whole number above 0,",
    "sink(**at, roundTimeoutMs=2**64)":
        "the option's value must be text, a whole number of 64 bits or a bool [option='roundTimeoutMs',",
    'sink(**at, checkpointLocation="/data/ck")':
        "the option does not apply here [option='checkpointLocation', use='foreachBatch(sink(...))',",
    'sink(**at, queryName="copy")':
        "the option does not apply here [option='queryName', use='foreachBatch(sink(...))',",
    'sink(**at, failOnDataLoss="no")':
        "the option does not apply here [option='failOnDataLoss', use='foreachBatch(sink(...))',",
    "sink(**at)(rows)":
        "ForeachBatchSink.__call__ needs the argument batch_id, which is missing [takes=['df', 'batch_id']]",
    "sink(**at)(0, rows)": "df must be DataFrame [call='ForeachBatchSink.__call__', found=0, type='int']",
    'sink(**at)(rows, "0")': "batch_id must be int [call='ForeachBatchSink.__call__', found='0', type='str']",
    "sink(**at)(rows, 0)":
        "the rows lack a column of the sink; add it, or rename one [column='topic', found=['value']]",
    "oncelog.spark.configure()": "configure needs the argument builder, which is missing [takes=['builder']]",
    "oncelog.spark.configure(spark)": "builder must be Builder; pass SparkSession.builder, before getOrCreate()",
    'oncelog.spark.jars("/a.jar")': "jars takes no arguments [given_by_position=1, takes=[]]",
    # Batch reads
    "read().load()": "a required option is missing [option='path', use='read']",
    'read(subscribe="in").load()': "a required option is missing [option='path', use='read']",
    'read(subscribe="in").load("h1:9092")':
        "a log is a folder, and this names a server; to read or write Kafka use oncelog_kafka:",
    'read(subscribe="in").load("/nowhere/at/all")':
        "there is no log here; check the path, or create one with oncelog.open(path) or `oncelog topic create`",
    'read(subscribe="in", **{"kafka.bootstrap.servers": "h1:9092"}).load()':
        "has no brokers; for a Kafka cluster use the format oncelog-kafka",
    "read(**at).load()":
        "one of these options is required [one_of=['subscribe', 'subscribePattern', 'assign'], use='read']",
    'read(**at, subscribe="").load()':
        "the option's value is malformed [option='subscribe', value='', expected='topic names, separated by",
    'read(**at, topic="in").load()':
        "the option does not apply here [option='topic', use='read', applies_to=['foreachBatch(sink(...))',",
    'read(**at, topics="in").load()': "unknown option [option='topics', use='read', did_you_mean='subscribe'",
    'read(**at, subscribe="in", assign=\'{"in":[0]}\').load()':
        "these options exclude each other; give one of them [given=['subscribe', 'assign']]",
    'read(**at, subscribePattern="[").load()':
        "the option's value is malformed [option='subscribePattern', value='[', expected='a regular expression",
    'read(**at, assign="in-0").load()':
        "the option's value is malformed [option='assign', value='in-0', expected='JSON of the shape",
    'read(**at, assign=\'{"in":0}\').load()':
        'the option\'s value is malformed [option=\'assign\', value=\'{"in":0}\', expected=\'JSON of the shape',
    'read(**at, subscribe="in", startingOffsets="first").load()':
        "the option's value is malformed [option='startingOffsets', value='first', expected='earliest, group, or",
    'read(**at, subscribe="in", startingOffsets="latest").load()':
        "the option's value is malformed [option='startingOffsets', value='latest', expected='earliest, group, or",
    'read(**at, subscribe="in", startingOffsets=0).load()':
        "the option's value is malformed [option='startingOffsets', value='0', expected='earliest, group, or JSON",
    'read(**at, subscribe="in", endingOffsets="earliest").load()':
        "the option's value is malformed [option='endingOffsets', value='earliest', expected='latest, or JSON of",
    'read(**at, subscribe="in", startingTimestamp="yesterday").load()':
        "the option's value is malformed [option='startingTimestamp', value='yesterday', expected='milliseconds",
    'read(**at, subscribe="in", startingTimestamp=0, startingOffsets="earliest").load()':
        "these options exclude each other; give one of them [given=['startingOffsets', 'startingTimestamp']]",
    'read(**at, subscribe="in", startingOffsets="group").load()':
        "startingOffsets=group needs the option groupId [missing='groupId']",
    'read(**at, subscribe="in", isolationLevel="serializable").load()':
        "the option's value is malformed [option='isolationLevel', value='serializable', expected='one of",
    'read(**at, subscribe="in", **{"kafka.isolation.level": "read_committed"}).load()':
        "unknown option [option='kafka.isolation.level', use='read', did_you_mean='isolationLevel']",
    'read(**at, subscribe="in", maxOffsetsPerTrigger=0).load()':
        "the option's value is malformed [option='maxOffsetsPerTrigger', value='0', expected='a whole number",
    'read(**at, subscribe="in", minPartitions="many").load()':
        "the option's value is malformed [option='minPartitions', value='many', expected='a whole number above 0,",
    'read(**at, subscribe="in", maxTriggerDelay="soon").load()':
        "the option's value is malformed [option='maxTriggerDelay', value='soon', expected='a duration such as",
    'read(**at, subscribe="in", groupId=" ").load()':
        "the option's value is malformed [option='groupId', value=' ', expected='a text that is not empty']",
    'read(**at, subscribe="in", failOnDataLoss="maybe").load()':
        "the option's value is malformed [option='failOnDataLoss', value='maybe', expected='true or false']",
    'read(**at, subscribe="in", includeHeader="true").load()':
        "unknown option [option='includeheader', use='read', did_you_mean='includeHeaders']",
    'read(**at, subscribe="in", includeHeaders="yes").load()':
        "the option's value is malformed [option='includeHeaders', value='yes', expected='true or false']",
    'read(path=at["path"], znodes="h1:2181", subscribe="in").load()':
        "the URL of a ZooKeeper begins with zk:// [znodes='h1:2181', write='zk://h1:2181']",
    'read(path=at["path"], znodes="sqlit", subscribe="in").load()':
        "not a znode store: give a folder (./name), sqlite:/a/file, zk://host:port/chroot, postgresql://",
    'read(**at, subscribe="in").schema("value string").load()':
        "schema() may only name columns of the source, with their types [column='value', found='string',",
    # Streams
    'follow(subscribe="in")': "a required option is missing [option='path', use='readStream']",
    'follow(**at, subscribe="in", endingOffsets="latest")':
        "the option does not apply here [option='endingOffsets', use='readStream', applies_to=['read']]",
    'follow(**at, subscribe="in", startingOffsets="beginning")':
        "the option's value is malformed [option='startingOffsets', value='beginning', expected='earliest,",
    'follow(**at, subscribe="in", minOffsetsPerTrigger=5, maxOffsetsPerTrigger=4)':
        "minOffsetsPerTrigger is above maxOffsetsPerTrigger [minOffsetsPerTrigger=5, maxOffsetsPerTrigger=4]",
    # Writes by name
    'rows.write.format("oncelog").save()':
        '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "oncelog" cannot be written in the "ErrorIfExists"',
    'rows.write.format("oncelog").options(**at).mode("append").save()':
        "the rows lack a column of the sink; add it, or rename one [column='topic', found=['value']]",
    'rows.write.format("oncelog").options(**at, topic="out").mode("overwrite").save()':
        "a log cannot be overwritten; use mode('append') [mode='overwrite']",
    'rows.write.format("oncelog").options(**at, topic="out").mode("ignore").save()':
        '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "oncelog" cannot be written in the "Ignore" mode.',
    'rows.write.format("oncelog").options(**at, topic="nowhere").mode("append").save()':
        "no such topic; create it with `oncelog topic create` or create_topic() [topic='nowhere']",
    'rows.write.format("oncelog").options(**at, topic="out", transactionalIdPrefix="a").mode("append").save()':
        "the option does not apply here [option='transactionalIdPrefix', use='write',",
    'rows.write.format("oncelog").options(**at, topic="out", codec="snappy").mode("append").save()':
        "the option's value is malformed [option='codec', value='snappy', expected='one of null, lz4, zstd']",
    'rows.selectExpr("value AS v").write.format("oncelog").options(**at, topic="out").mode("append").save()':
        "the rows lack a column of the sink; add it, or rename one [column='value', found=['v']]",
    'run(stream.writeStream.format("oncelog").options(**at, topic="out"))':
        'checkpointLocation must be specified either through option("checkpointLocation", ...) or',
    'run(stream.writeStream.format("oncelog").options(**at, topics="out", checkpointLocation=ck))':
        "unknown option [option='topics', use='writeStream.format', did_you_mean='topic']",
    'run(stream.writeStream.format("oncelog").options(**at, topic="out", groupId="g", checkpointLocation=ck))':
        "the option needs a transactionalIdPrefix, because a new checkpoint gets a new query id",
    'run(stream.writeStream.foreachBatch(sink(**at, topic="out")))':
        "the query has no checkpoint of its own: each start would begin from scratch and write its rows again;",
}
# fmt: on
"""The call, and what its error says."""


@pytest.fixture
def znodes() -> None:
    """In the log's folder: the doors are before all stores."""


def held(spark: SparkSession, log: Log, folder: Path) -> dict[str, Any]:
    """What the calls name."""
    at = place(log)

    def read(**options: Any) -> Any:
        return spark.read.format("oncelog").options(**options)

    def run(writer: Any) -> None:
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination(PATIENCE_S)
        finally:
            query.stop()

    def follow(**options: Any) -> None:
        rows = spark.readStream.format("oncelog").options(**options).load()
        run(rows.writeStream.format("noop").option("checkpointLocation", str(folder / "ck")))

    rows, stream = spark.sql("SELECT 'a' AS value"), spark.readStream.format("rate").load().selectExpr("'a' AS value")
    return {"oncelog": oncelog, "sink": sink, **locals(), "ck": str(folder / "ck")}


def call_of(text: str, names: dict[str, Any]) -> object:
    """What the call returns; a read is read."""
    found = eval(text, names)
    return found.collect() if text.startswith("read(") else found


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_call_is_answered_by_a_sentence_that_names_it_and_nothing_is_written(
    spark: SparkSession, log: Log, tmp_path: Path, call: str
) -> None:
    with started(log) as producer:
        write_committed(producer, *numbered("a", 3), topic="in")

    with pytest.raises((OncelogError, PySparkException)) as refused:
        call_of(call, held(spark, log, tmp_path))

    assert CALLS[call] in str(refused.value), str(refused.value)
    assert [found.log_end for found in log.admin.describe_topic("out").partitions] == [0, 0]
