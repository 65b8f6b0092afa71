"""Tasks in the JVM and tasks in Python write the same blocks, and refuse the same rows in the same words."""

from __future__ import annotations

from pathlib import Path
from random import Random

import fastavro
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from oncelog import limits
from oncelog.errors import (
    FileWriteError,
    InvalidRecordError,
    OncelogError,
    RecordTooLargeError,
    UnknownPartitionError,
    UnknownTopicError,
)
from oncelog.log import codec, generations
from oncelog.log.files import LocalFileStore
from oncelog.log.records import concatenated
from oncelog.log.segment import read_block
from oncelog.runtime import Log
from oncelog.spark import jvm_tasks, schema
from oncelog.spark.kit.options import Use
from oncelog.spark.log_target import write_task
from oncelog.spark.options import parse_sink_options
from oncelog.spark.writing import Written
from tests.support.harness.variants import variants
from tests.support.log.logs import numbered, started, values, write_committed
from tests.support.spark.queries import DOORS, copy, place, stream
from tests.support.spark.readers import require_jar
from tests.support.spark.writers import WRITERS, writer, writing_by

pytestmark = pytest.mark.sampled

__all__ = ["writer"]

SEEDS = range(3)


@pytest.fixture(autouse=True)
def _jar() -> None:
    require_jar()


def write(log: Log, rows: DataFrame, topic: str | None = None, **options: str) -> list[Written]:
    """What the tasks of a batch write."""
    given = {"path": log.path, **({} if topic is None else {"topic": topic}), **options}
    task = write_task(log, parse_sink_options(given, Use.FOREACH_BATCH))
    return jvm_tasks.run_job(schema.to_sink_columns(rows, topic), task)


def some_bytes(random: Random) -> bytes | None:
    return random.choice([None, b"", random.randbytes(random.randrange(1, 300)), b"same length"])


def random_rows(random: Random, count: int) -> list[tuple[object, ...]]:
    """Rows for all partitions of two topics, with times in milliseconds; often all of them share something."""
    kind = random.choice(["plain", "bare", "equal"])
    return [
        (
            None if kind == "bare" else random.randbytes(random.randrange(30)),
            b"equal" if kind == "equal" else some_bytes(random),
            random.choice(["in", "out"]),
            random.choice([0, 1, 0 if kind == "bare" else None]),
            0 if kind == "equal" else random.randrange(2 ** random.randrange(1, 48)),
            [(random.choice("abcé"), some_bytes(random)) for _ in range(random.randrange(1, 3))],
        )
        for _ in range(count)
    ]


def frame(spark: SparkSession, rows: list[tuple[object, ...]]) -> DataFrame:
    """The rows for one task."""
    headers = "headers array<struct<key: string, value: binary>>"
    columns = f"key binary, value binary, topic string, partition int, ms bigint, {headers}"
    raw = spark.createDataFrame(rows, columns).coalesce(1)
    return raw.selectExpr("key", "value", "topic", "partition", "timestamp_millis(ms) AS timestamp", "headers")


def bytes_of(log: Log, written: list[Written]) -> dict[tuple[str, int], bytes]:
    """The blocks of a job that writes one for each partition, without the random markers at their ends."""
    files = LocalFileStore(log.path)
    blocks = {(piece.topic, piece.partition): piece.block for piece in written}
    assert len(blocks) == len(written)
    return {
        place: files.read(block.file, block.position, block.length)[: -codec.SYNC_BYTES]
        for place, block in blocks.items()
    }


def records_of(log: Log, written: list[Written]) -> dict[tuple[str, int], pa.RecordBatch]:
    """The records of each partition, in order."""
    found: dict[tuple[str, int], list[pa.RecordBatch]] = {}
    for piece in written:
        records = read_block(LocalFileStore(log.path), piece.block)
        found.setdefault((piece.topic, piece.partition), []).append(records)
    return {place: concatenated(some) for place, some in found.items()}


def files_of(log: Log) -> list[Path]:
    return list(Path(log.path, generations.DATA).glob("*.avro"))


# Which tasks write ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", variants(*DOORS))
def test_with_the_jar_the_jvm_writes_and_the_switch_turns_that_off(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    """What tells them apart: in Python a column of empty lists is stored."""
    with started(log) as producer:
        write_committed(producer, b"a", topic="in")
    rows = stream(spark, log).selectExpr("value", "CAST(array() AS array<struct<key:string,value:binary>>) AS headers")
    found, before = {}, set(files_of(log))
    for name in WRITERS:
        with writing_by(spark, name):
            copy(rows, log, door, tmp_path / name)
        (file,) = set(files_of(log)) - before
        before.add(file)
        with file.open("rb") as data:
            found[name] = [batch["headers"] is None for batch in fastavro.reader(data)]  # type: ignore[call-overload, index]

    assert found == {"jvm": [True], "python": [False]}


# Blocks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_both_write_the_same_bytes(spark: SparkSession, log: Log, seed: int) -> None:
    random = Random(seed)
    rows = frame(spark, random_rows(random, random.randrange(1, 400)))
    found = {}
    for name in WRITERS:
        with writing_by(spark, name):
            found[name] = bytes_of(log, write(log, rows, codec="null"))

    assert found["jvm"] == found["python"]


@pytest.mark.parametrize("codec_name", codec.CODECS)
def test_small_blocks_and_files_hold_the_records_of_large_ones(
    spark: SparkSession, log: Log, monkeypatch: pytest.MonkeyPatch, codec_name: str
) -> None:
    """Small enough that blocks fill, and that the buffer of all of them does."""
    rows = frame(spark, random_rows(Random(1), 1000))
    with writing_by(spark, "python"):
        large = write(log, rows, codec=codec_name)
    before = len(files_of(log))
    for name, size in {"BLOCK_TARGET_BYTES": 10_000, "WRITER_BUFFER_BYTES": 25_000, "FILE_ROLL_BYTES": 30_000}.items():
        monkeypatch.setattr(limits, name, size)

    with writing_by(spark, "jvm"):
        small = write(log, rows, codec=codec_name)

    assert records_of(log, small) == records_of(log, large)
    assert len(small) > 2 * len(large)
    assert len({piece.block.file for piece in small}) == len(files_of(log)) - before > 1


@pytest.mark.sampled("writers of tasks")
@pytest.mark.parametrize("door", variants(*DOORS))
def test_a_query_changes_its_writer_at_a_restart_and_leaves_one_copy(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    for at, name in enumerate(["python", "jvm", "python"]):
        with started(log) as producer:
            write_committed(producer, *numbered(f"{at}", 3), topic="in")
        with writing_by(spark, name):
            copy(stream(spark, log), log, door, tmp_path / "ck")

    assert values(log, topic="out") == [value for at in range(3) for value in numbered(f"{at}", 3)]


def test_a_batch_write_is_written_by_both(spark: SparkSession, log: Log, writer: str) -> None:
    rows = spark.sql("SELECT 'a' AS value UNION ALL SELECT 'b'")

    rows.write.format("oncelog").mode("append").options(**place(log), topic="out").save()

    assert sorted(filter(None, values(log, topic="out"))) == [b"a", b"b"], writer


# What is refused ------------------------------------------------------------------------------------------------------

HEADER = "array(named_struct('key', {}, 'value', x'00')) AS headers"
REFUSED: dict[str, tuple[str, type[OncelogError]]] = {
    "a record that its header makes too large": (
        "array(named_struct('key', repeat('k', 17 * 1024 * 1024), 'value', x'00')) AS headers", RecordTooLargeError),
    "a header without a key": (HEADER.format("CAST(null AS STRING)"), InvalidRecordError),
    "a time before 1970": ("timestamp_millis(-1) AS timestamp", InvalidRecordError),
    "a partition that is not there": ("2 AS partition", UnknownPartitionError),
    "a negative partition": ("CAST(-1 AS TINYINT) AS partition", UnknownPartitionError),
    "a topic that is not there": ("'nowhere' AS topic", UnknownTopicError),
    "no topic": ("CAST(null AS STRING) AS topic", InvalidRecordError),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_both_refuse_a_row_in_the_same_words_and_leave_no_file(spark: SparkSession, log: Log, case: str) -> None:
    column, kind = REFUSED[case]
    rows = spark.sql(f"SELECT 'a' AS value, {column}")
    found = {}
    for name in WRITERS:
        with pytest.raises(kind) as caught, writing_by(spark, name):
            write(log, rows, None if "AS topic" in column else "out")
        found[name] = str(caught.value)

    assert found["jvm"] == found["python"]
    assert files_of(log) == []


def test_both_refuse_a_headers_key_that_is_no_text(spark: SparkSession, log: Log, writer: str) -> None:
    header = HEADER.format("CAST(x'ff' AS STRING)")
    rows = spark.sql(f"SELECT 'a' AS value, {header}")

    with pytest.raises(InvalidRecordError, match=r"a header's key is not valid text \[column='headers'"):
        write(log, rows, "out")


def test_both_say_which_file_could_not_be_written(spark: SparkSession, log: Log, writer: str) -> None:
    Path(log.path, generations.DATA).touch()

    with pytest.raises(FileWriteError, match=r"could not be written and was discarded; .*file='data/0000.*, reason='"):
        write(log, spark.sql("SELECT 'a' AS value"), "out")

    Path(log.path, generations.DATA).unlink()


def test_a_task_that_fails_behind_its_rows_leaves_no_file(spark: SparkSession, log: Log, writer: str) -> None:
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        write(log, spark.range(0, 20_000, numPartitions=1).selectExpr("string(1 / (19999 - id)) AS value"), "out")

    assert files_of(log) == []
