"""What is special about the sink as a format: its batches are committed by a worker of Spark's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import SparkSession

from oncelog.crash_points import CrashPoint
from oncelog.log import generations
from oncelog.runtime import Log
from oncelog.znodes import paths
from tests.support.log.logs import numbered, records, started, state, values, write_committed
from tests.support.spark.faults import armed_source, passed_on
from tests.support.spark.queries import copy, into, stream
from tests.support.spark.readers import require_jar


def write(log: Log, *sent: bytes) -> None:
    """Commit values to the topic that is copied, in one transaction."""
    with started(log, "writer") as producer:
        write_committed(producer, *sent, topic="in")


@pytest.mark.walk
@pytest.mark.parametrize("point", [CrashPoint.ROUND_APPENDED, CrashPoint.ROUND_DECIDE, CrashPoint.ROUND_DECIDED])
def test_a_committing_worker_that_dies_alone_fails_the_query_and_the_next_run_finishes_its_batch(
    spark: SparkSession, log: Log, tmp_path: Path, point: CrashPoint
) -> None:
    """conformance: 52, 53."""
    copy(stream(spark, log), log, "oncelog", tmp_path / "ck")
    write(log, *numbered("a", 5))

    with (
        armed_source(spark, passed_on(log, point), tmp_path / "mark") as door,
        pytest.raises(StreamingQueryException, match="Python worker exited unexpectedly"),
    ):
        copy(stream(spark, log), log, door, tmp_path / "ck")

    assert values(log, topic="out") == (numbered("a", 5) if point is CrashPoint.ROUND_DECIDED else [])
    copy(stream(spark, log), log, "oncelog", tmp_path / "ck")
    assert values(log, topic="out") == numbered("a", 5)


def test_continuous_processing_is_refused(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    """Spark would run the query, and hand Python's sink no rows."""
    require_jar()
    ticks = spark.readStream.format("rate").option("numPartitions", 1).load().selectExpr("string(value) value")
    writer = into(ticks, log, "oncelog").option("checkpointLocation", str(tmp_path / "ck"))
    with pytest.raises(IllegalArgumentException, match=r"leave trigger\(continuous=\.\.\.\) out"):
        writer.trigger(continuous="1 second").start()


def test_a_long_run_neither_piles_up_unsettled_rounds_and_holds_nor_writes_files_of_an_old_generation(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    """Each batch has writers of its own, in one or another of the processes that Spark keeps.

    A process settles what was decided before an earlier batch of its own; where steps are dear, with every fourth one.
    """
    written: list[bytes] = []

    def is_settled() -> bool:
        return len(state(log, 0, "out").owners) + len(state(log, 1, "out").owners) < len(written)

    writer = into(stream(spark, log), log, "oncelog").option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.trigger(processingTime="300 milliseconds").start()
    try:
        while len(written) < 6 or (not is_settled() and len(written) < 40):
            written.append(b"%d" % len(written))
            write(log, written[-1])
            query.processAllAvailable()
            raise_generation(log)
    finally:
        query.stop()

    assert values(log, topic="out") == written
    assert is_settled()
    assert len(log.services.store.children(paths.HOLDS)) <= 1, "of a batch in the midst of which the query was stopped"


def raise_generation(log: Log) -> None:
    """What a collection does, without its hour of waiting."""
    now = generations.current(log.services.store)
    data = paths.encode({"generation": now + 1})
    log.services.store.transact(lambda view: view.set(paths.GENERATION, data))


def test_a_checkpoint_location_that_only_sparks_configuration_knows_is_asked_for(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    write(log, b"a")
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "ck"))
    try:
        query = into(stream(spark, log), log, "oncelog").trigger(availableNow=True).start()
        with pytest.raises(StreamingQueryException, match="give its location as an option of writeStream"):
            query.awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")

    assert records(log, "out") == []
