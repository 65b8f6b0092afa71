"""Readers that plan while a sink writes over topics and partitions, with transactions of others beside it.

Every record says which unit it is of, a micro-batch or a transaction, and how many records that has. Whatever a reader
plans, and whenever: of each unit it gets all or nothing, and nothing of an aborted one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelog.runtime import Log
from tests.support.harness.waiting import until
from tests.support.spark.processes import start_job
from tests.support.spark.queries import DOORS, PATIENCE_S, Rows, into, place, stream

TOPICS = ["left", "right"]
PARTITIONS = 3
ROWS_PER_BATCH = 30
BATCHES = 12


def units(values: Iterable[bytes]) -> Counter[tuple[str, int]]:
    """How many records there are of each unit, which is named with the number it should have."""
    found: Counter[tuple[str, int]] = Counter()
    for value in values:
        fate, name, count = value.decode().split("/")
        found[f"{fate}/{name}", int(count)] += 1
    return found


def check_whole(values: Iterable[bytes]) -> Counter[tuple[str, int]]:
    """Assert that there is no part of a unit, and nothing of an aborted one."""
    found = units(values)
    assert [(unit, seen) for unit, seen in found.items() if seen != unit[1]] == []
    assert [unit for unit in found if unit[0].startswith("abort/")] == []
    return found


class Reader(threading.Thread):
    """Plans again and again: everything from the beginning, and what is new since its last plan."""

    def __init__(self, log: Log) -> None:
        super().__init__(name="reader")
        self._log = log
        self._is_over = threading.Event()
        self.plans = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            with self._log.consumer(auto_offset_reset="earliest") as following:
                following.subscribe(TOPICS)
                while not self._is_over.wait(0.01):
                    self._read_all()
                    check_whole(record.value or b"" for record in following.poll(max_records=10**6))
                    self.plans += 1
        except BaseException as problem:  # noqa: BLE001 - the test raises it
            self.problem = problem

    def _read_all(self) -> None:
        with self._log.consumer(auto_offset_reset="earliest") as consumer:
            consumer.subscribe(TOPICS)
            check_whole(record.value or b"" for record in consumer.poll(max_records=10**6))

    def end(self) -> None:
        self._is_over.set()
        self.join()
        if self.problem is not None:
            raise self.problem


@contextmanager
def reading(log: Log) -> Iterator[Reader]:
    reader = Reader(log)
    reader.start()
    try:
        yield reader
    finally:
        reader.end()


def batches(spark: SparkSession) -> DataFrame:
    """Micro-batches whose rows go to every partition of both topics."""
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_PER_BATCH)
    unit = f"concat('batch/', CAST(value DIV {ROWS_PER_BATCH} AS STRING), '/{ROWS_PER_BATCH}')"
    return (
        numbers.option("numPartitions", 2)
        .load()
        .selectExpr(
            f"{unit} AS value",
            f"CAST(value % {PARTITIONS} AS INT) AS partition",
            f"CASE WHEN value % {2 * PARTITIONS} < {PARTITIONS} THEN 'left' ELSE 'right' END AS topic",
        )
    )


@pytest.mark.walk
@pytest.mark.parametrize("door", DOORS)
def test_no_reader_ever_sees_a_part_of_a_batch_or_of_a_transaction(
    spark: SparkSession, log: Log, znodes: str | None, tmp_path: Path, door: str
) -> None:
    """conformance: 27, 36, 37."""
    for topic in TOPICS:
        log.create_topic(topic, partitions=PARTITIONS)
    pause_s = 1 if znodes and znodes.startswith("s3:") else 0  # a bucket is for one or two writers, and here are three
    rows = Rows()
    with ExitStack() as stack:
        for seed in (1, 2):
            settings = {"log": place(log), "topics": TOPICS, "seed": seed, "pause_s": pause_s}
            stack.enter_context(start_job("neighbours", settings, tmp_path, f"neighbour-{seed}"))
        follower = stream(spark, log, None, subscribe=",".join(TOPICS)).writeStream.foreachBatch(rows)
        following = follower.option("checkpointLocation", str(tmp_path / "follower")).start()
        stack.callback(following.stop)
        writer = into(batches(spark), log, door, topic=None, transactionalIdPrefix="copier")
        query = writer.option("checkpointLocation", str(tmp_path / "ck")).start()
        stack.callback(query.stop)
        reader = stack.enter_context(reading(log))
        until(
            lambda: (
                (decided_batches(log) >= BATCHES and reader.plans > BATCHES)
                or not (query.isActive and following.isActive and reader.is_alive())
            ),
            within_s=PATIENCE_S,
        )
        query.stop()
        until(lambda: followed(rows) >= BATCHES or not following.isActive, within_s=PATIENCE_S)
        assert (query.exception(), following.exception()) == (None, None)

    assert reader.plans > BATCHES
    for batch in rows.batches.values():
        check_whole(bytes(row.value) for row in batch)
    seen = check_whole(bytes(row.value) for row in rows.all())
    assert {f"batch/{number}" for number in range(BATCHES)} <= {name for name, _ in seen}
    assert any(name.startswith("commit/") for name, _ in seen)
    for hanging in log.admin.find_hanging(max_age_ms=0):
        log.admin.abort_transaction(hanging.transactional_id or "")


def decided_batches(log: Log) -> int:
    if "copier" not in log.admin.list_prefixes():
        return 0
    last = log.admin.describe_ledger("copier").last_batch_id
    return 0 if last is None else last + 1


def followed(rows: Rows) -> int:
    return sum(1 for name, _ in units(bytes(row.value) for row in rows.all()) if name.startswith("batch/"))
