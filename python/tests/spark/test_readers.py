"""Both readers show the same rows and refuse the same files in the same words; a query may change between them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import oncelog
from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.log import codec, generations, partition_log
from oncelog.log.partition_log import Append
from oncelog.log.segment import read_block
from oncelog.runtime import Log
from oncelog.spark import schema
from oncelog.types import Block, ProducerIdAndEpoch
from tests.golden.write_v1 import BATCHES, FOLDER, data_file
from tests.logs import numbered, partition, started, state, write_committed
from tests.readers import READERS, reading_by, require_jar
from tests.spark.queries import copy, place, read_available, stream, table

COLUMNS = (
    "key", "value", "topic", "partition", "offset", "unix_millis(timestamp) AS timestamp", "timestampType", "headers"
)  # fmt: skip
SEEDS = range(3)
READS = 12


@pytest.fixture(autouse=True)
def _jar() -> None:
    require_jar()


def rows_by(spark: SparkSession, name: str, read: Callable[[], DataFrame]) -> list[Row]:
    """What a reader shows, as Spark gives it: unsorted.

    Args:
        spark: the session.
        name: of the reader.
        read: makes the read anew: Spark plans a frame once, and keeps to the reader that it chose then.
    """
    with reading_by(spark, name):
        reads = read()
        assert is_columnar(reads) == (name == "jvm")
        return reads.collect()


def plan_of(reads: DataFrame) -> str:
    return str(reads._jdf.queryExecution().executedPlan().toString())


def is_columnar(reads: DataFrame) -> bool:
    """Whether the jar reads, and not Python."""
    return "ColumnarToRow" in plan_of(reads)


# Which reader reads ---------------------------------------------------------------------------------------------------


def test_with_the_jar_a_read_gives_columns_and_the_switch_turns_that_off(spark: SparkSession, log: Log) -> None:
    with started(log) as producer:
        write_committed(producer, *numbered("a", 3), topic="in")

    found = {}
    for name in READERS:
        with reading_by(spark, name):
            found[name] = is_columnar(table(spark, log))

    assert found == {"jvm": True, "python": False}


def test_a_query_that_names_columns_reads_no_others(spark: SparkSession, log: Log) -> None:
    headers = [("one", b"1"), ("none", None)]
    with log.producer() as producer:
        producer.send("in", b"v", key=b"k", partition=0, headers=headers)
        producer.send("in", None, partition=0)
    rows = table(spark, log, includeHeaders=True)

    assert "struct<value:binary>" in plan_of(rows.select("value"))
    assert [row.value for row in rows.select("value").sort("value").collect()] == [None, b"v"]
    assert [row.offset for row in rows.where("key = 'k'").select("offset").collect()] == [0]
    assert [row[0] for row in rows.select("headers.value").where("value IS NOT NULL").collect()] == [[b"1", None]]
    assert [row[0] for row in rows.selectExpr("headers.key").where("key IS NOT NULL").collect()] == [["one", "none"]]
    assert rows.count() == 2
    chosen = spark.read.format("oncelog").schema("offset bigint, value binary").options(**place(log), subscribe="in")
    assert sorted(map(tuple, chosen.load().collect())) == [(0, b"v"), (1, None)]


def test_a_query_changes_its_reader_at_a_restart_and_misses_nothing(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    seen = []
    for at, name in enumerate(["python", "jvm", "python", "jvm"]):
        with started(log) as producer:
            write_committed(producer, *numbered(f"{at}", 3), number=at % 2, topic="in")
        with reading_by(spark, name):
            limited = stream(spark, log, maxOffsetsPerTrigger=2)
            seen += read_available(limited, tmp_path / "ck").values()

    assert seen == [value for at in range(4) for value in numbered(f"{at}", 3)]


@pytest.mark.parametrize("door", ["foreachBatch", "oncelog"])
def test_what_the_jvm_reads_is_written_by_python_again(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    with started(log) as producer:
        write_committed(producer, *numbered("a", 5), topic="in")

    for _ in range(2):
        copy(stream(spark, log).select("key", "value"), log, door, tmp_path / "ck", transactionalIdPrefix="copies")

    assert sorted(row.value for row in table(spark, log, "out").collect()) == numbered("a", 5)


# Rows -----------------------------------------------------------------------------------------------------------------


def some_bytes(random: Random) -> bytes | None:
    return random.choice([None, b"", random.randbytes(random.randrange(1, 300)), b"same length"])


def write_random(log: Log, random: Random) -> None:
    """Transactions of a few records, committed, aborted or left open, of any codec and over both partitions."""
    for number in range(30):
        kind = random.choice(["plain", "bare", "equal"])
        with started(log, f"writer-{number}", codec=random.choice(codec.CODECS)) as producer:
            producer.begin_transaction()
            for _ in range(random.randrange(1, 60)):
                headers = [(random.choice("abc"), some_bytes(random)) for _ in range(random.randrange(3))]
                producer.send(
                    "in",
                    b"equal" if kind == "equal" else some_bytes(random),
                    key=None if kind == "bare" else some_bytes(random),
                    partition=random.randrange(2),
                    headers=[] if kind == "bare" else headers,
                    timestamp_ms=0 if kind == "equal" else random.randrange(2 ** random.randrange(1, 50)),
                )
                if random.random() < 0.1:
                    producer.flush()
            producer.flush()
            end = random.choice([producer.commit_transaction, producer.commit_transaction, producer.abort_transaction])
            end()


def random_options(log: Log, random: Random) -> dict[str, Any]:
    """Of a read of any part of the topic, which may begin and end within a block."""
    starts, ends = {}, {}
    for at in range(2):
        bounds = sorted(random.randrange(state(log, at, "in").log_end + 1) for _ in range(2))
        starts[str(at)], ends[str(at)] = bounds
    return {
        "startingOffsets": json.dumps({"in": starts}),
        "endingOffsets": json.dumps({"in": ends}),
        "isolationLevel": random.choice(["read_committed", "read_uncommitted"]),
        "minPartitions": random.choice([None, 3]),
    }


def read_all(spark: SparkSession, log: Log, reads: list[dict[str, Any]]) -> DataFrame:
    """Several reads of the topic, each row with the number of its read."""
    tables = [table(spark, log, includeHeaders=True, **options) for options in reads]
    return reduce(DataFrame.union, [rows.selectExpr(f"{at} AS read", *COLUMNS) for at, rows in enumerate(tables)])


@pytest.mark.parametrize("seed", SEEDS)
def test_both_readers_show_the_same_rows_of_random_logs(spark: SparkSession, log: Log, seed: int) -> None:
    random = Random(seed)
    write_random(log, random)
    with started(log, "open") as producer:
        producer.begin_transaction()
        producer.send("in", b"open", partition=0)
        producer.flush()
        write_random(log, random)
        reads = [{"isolationLevel": "read_uncommitted"}, *(random_options(log, random) for _ in range(READS))]

        shown = {name: rows_by(spark, name, lambda: read_all(spark, log, reads)) for name in READERS}
        producer.abort_transaction()

    assert len(shown["python"]) > 1000
    assert shown["jvm"] == shown["python"]


# Files ----------------------------------------------------------------------------------------------------------------


def append(log: Log, data: bytes, *blocks: Block) -> None:
    """Name the blocks of a made-up data file in the index, as a producer does."""
    name = f"{generations.prefix(generations.DATA, generations.current(log.services.store))}{'0' * 32}.avro"
    with Path(log.path, name).open("xb") as file:
        file.write(data)
    named = tuple(replace(block, file=name) for block in blocks)
    request = Append(partition(log, 0, "in"), ProducerIdAndEpoch(7, 0), 0, None, named)
    log.services.store.transact(lambda view: partition_log.append(view, request))


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Log]:
    """A log whose files are made up by the test, and are not verified at its end."""
    from oncelog.spark.logs import close_logs

    with oncelog.open(tmp_path / "bare") as opened:
        opened.create_topic("in", partitions=1)
        Path(opened.path, generations.DATA).mkdir(exist_ok=True)
        yield opened
        close_logs()


@pytest.mark.parametrize("codec_name", codec.CODECS)
def test_the_jvm_reads_the_golden_files(spark: SparkSession, bare: Log, codec_name: str) -> None:
    file = f"data-v1-{codec_name}.avro"
    blocks = [Block(**block) for block in json.loads((FOLDER / "data-v1.json").read_text())[file]]
    append(bare, (FOLDER / file).read_bytes(), *blocks)

    rows = rows_by(spark, "jvm", lambda: table(spark, bare, includeHeaders=True).selectExpr(*COLUMNS))

    in_order = sorted(rows, key=lambda row: row.offset)
    assert [(row.key, row.value, row.timestamp, row.headers) for row in in_order] == [
        (key, value, timestamp, [Row(key=name, value=content) for name, content in headers] if headers else None)
        for batch in BATCHES
        for key, value, headers, timestamp in batch
    ]


def crc32_of(data: bytes, block: Block) -> int:
    return zlib.crc32(data[block.position : block.position + block.length])


CONTENT = b"\x02\x0a"  # version 1, five records
Damage = Callable[[bytes, Block], tuple[bytes, Block]]


def changed(at: int, byte: int) -> Damage:
    """Another byte in the block's content, known to the index."""

    def change(data: bytes, block: Block) -> tuple[bytes, Block]:
        place = data.index(CONTENT, block.position) + at
        return data[:place] + bytes([byte]) + data[place + 1 :], block

    return change


DAMAGES: dict[str, tuple[Damage, type[Exception], str]] = {
    "a newer format": (changed(0, 4), UnsupportedFormatError, "a newer oncelog wrote this file; upgrade oncelog"),
    "no format": (changed(0, 0), CorruptDataError, "no version of oncelog writes this"),
    "another count": (
        lambda data, block: (data, replace(block, count=4)), CorruptDataError,
        "differs='count', expected=4, found=5"),
    "no records": (changed(1, 0), CorruptDataError, "a block of a data file does not hold a record batch"),
    "an endless number": (changed(1, 0xFF), CorruptDataError, "a block of a data file does not hold a record batch"),
    "other times": (
        lambda data, block: (data, replace(block, max_timestamp_ms=9)), CorruptDataError, "differs='max_timestamp_ms'"),
    "no framing": (
        lambda data, block: (data[: block.position] + b"\x04" + data[block.position + 1 :], block),
        CorruptDataError, "a block of a data file does not hold a record batch"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGES)
def test_both_readers_refuse_a_file_in_the_same_words(spark: SparkSession, bare: Log, case: str) -> None:
    damage, kind, text = DAMAGES[case]
    whole, (first, *_) = data_file("zstd", "made-up")
    data, block = damage(whole, first)
    append(bare, data, replace(block, crc32=crc32_of(data, block)))

    for name in READERS:
        with pytest.raises(PySparkException, match=kind.__name__) as caught, reading_by(spark, name):
            table(spark, bare).collect()
        assert text in str(caught.value), name
        assert "0000.avro" in str(caught.value)


class JvmBlocks:
    """The JVM's reader of blocks alone, without a query around it."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        jvm: Any = spark._jvm
        self._types = jvm.org.apache.spark.sql.types.DataType
        self._vector = jvm.org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
        self._blocks = jvm.io.oncelog.spark.blocks
        self._reader = self._blocks.BlockReader(jvm.java.io.File(folder).toPath())

    def close(self) -> None:
        self._reader.close()

    def read(self, block: Block) -> list[Any] | None:
        """The records of a block; None where it is refused as damaged."""
        kinds = ("binary", "binary", "timestamp", "array<struct<key:binary,value:binary>>")
        key, value, timestamp, headers = vectors = [self._vector(1, self._types.fromDDL(kind)) for kind in kinds]
        named = self._blocks.Block(
            block.file, block.position, block.length, block.crc32, block.count, block.min_timestamp_ms,
            block.max_timestamp_ms,
        )  # fmt: skip
        try:
            self._reader.read(named, 0, block.count, self._blocks.RecordVectors(*vectors))
        except PySparkException as error:
            if any(name in str(error) for name in REFUSALS):
                return None
            raise
        return [
            (binary(key, row), binary(value, row), timestamp.getLong(row), None if headers.isNullAt(row) else [
                (binary(entry, 0), binary(entry, 1))
                for entry in map(headers.getArray(row).getStruct, range(headers.getArray(row).numElements()), [2] * 99)
            ])
            for row in range(block.count)
        ]  # fmt: skip


REFUSALS = (CorruptDataError.__name__, UnsupportedFormatError.__name__)


def binary(holder: Any, at: int) -> bytes | None:
    return None if holder.isNullAt(at) else holder.getBinary(at)


def python_rows(log: Log, block: Block) -> list[Any] | None:
    """The same by Python."""
    columns = schema.read_columns(schema.read_schema(include_headers=True))
    try:
        records = read_block(log.services.files, block)
        shown = schema.to_read_batch(records, "t", 0, 0, columns)
    except (CorruptDataError, UnsupportedFormatError, pa.ArrowInvalid):  # the last: a time beyond Spark's
        return None
    headers = shown.column("headers").cast(pa.list_(pa.struct({"key": pa.binary(), "value": pa.binary()})))
    lists = [row and [(header["key"], header["value"]) for header in row] for row in headers.to_pylist()]
    timestamps = shown.column("timestamp").cast(pa.int64())
    return list(zip(*(column.to_pylist() for column in (shown["key"], shown["value"], timestamps)), lists, strict=True))


def test_both_readers_make_the_same_of_any_damage_that_its_index_does_not_know(spark: SparkSession, bare: Log) -> None:
    """Bytes that are wrong and have the right CRC: none may be taken for other records by one reader only."""
    blocks = JvmBlocks(spark, bare.path)
    random = Random(0)
    rows = refused = 0
    for number in range(150):
        data, written = data_file(random.choice(codec.CODECS), "made-up")
        block = random.choice([written[0], written[3], written[4]])
        name = f"{generations.DATA}/{number:08d}-made-up.avro"
        place = block.position + random.randrange(block.length - codec.SYNC_BYTES)
        damaged = data[:place] + bytes([data[place] ^ 1 << random.randrange(8)]) + data[place + 1 :]
        Path(bare.path, name).write_bytes(damaged)
        named = replace(block, file=name, crc32=crc32_of(damaged, block))

        by_jvm, by_python = blocks.read(named), python_rows(bare, named)

        assert by_jvm == by_python, (named, place)
        rows, refused = rows + (by_jvm is not None), refused + (by_jvm is None)
    blocks.close()
    assert min(rows, refused) > 10
