"""Both readers show the same rows and refuse the same files in the same words; a query may change between them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import oncelog
from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.log import codec, columns, generations, partition_log
from oncelog.log.partition_log import Append
from oncelog.log.segment import read_block
from oncelog.runtime import Log
from oncelog.spark import schema
from oncelog.types import Block, ProducerIdAndEpoch, block_row
from tests.fuzz.mutators import varint
from tests.golden.write_v1 import BATCHES, FOLDER, data_file
from tests.support.log.logs import numbered, partition, started, state, write_committed
from tests.support.spark.queries import copy, place, read_available, stream, table
from tests.support.spark.readers import READERS, reading_by, require_jar
from tests.support.spark.writers import writing_by

pytestmark = pytest.mark.sampled("both readers")

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
def test_what_the_jvm_reads_is_written_by_python(spark: SparkSession, log: Log, tmp_path: Path, door: str) -> None:
    with started(log) as producer:
        write_committed(producer, *numbered("a", 5), topic="in")

    for _ in range(2):
        with writing_by(spark, "python"):
            copy(stream(spark, log).select("key", "value"), log, door, tmp_path / "ck", transactionalIdPrefix="copies")

    assert sorted(row.value for row in table(spark, log, "out").collect()) == numbered("a", 5)


# Rows -----------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("reader")
def test_a_querys_progress_says_how_far_it_is_behind_and_names_source_and_sink(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    with started(log) as producer:
        write_committed(producer, *numbered("a", 7), topic="in")
    log.admin.settle()  # or the marker comes while the query runs

    query = copy(stream(spark, log, maxOffsetsPerTrigger=3), log, "oncelog", tmp_path / "ck")

    found = [(p.sources[0].description, p.sink.description, dict(p.sources[0].metrics)) for p in query.recentProgress]
    most = [int(metrics["maxOffsetsBehindLatest"]) for _, _, metrics in found]
    assert {names[:2] for names in found} == {("oncelog", "oncelog")}
    assert most[0] >= 7
    assert most == sorted(most, reverse=True)
    assert found[-1][2] == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "0",
        "avgOffsetsBehindLatest": "0.0",
    }


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
    "an endless length": (
        lambda data, block: (data, replace(block, length=2**40)), CorruptDataError,
        "differs='length', expected=1099511627776"),
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
        named = self._blocks.Block(*block_row(block))
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
    wanted = schema.read_columns(schema.read_schema(include_headers=True))
    try:
        records = read_block(log.services.files, block)
        shown = schema.to_read_batch(records, "t", 0, 0, wanted)
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


# Frames of LZ4 --------------------------------------------------------------------------------------------------------

MAGIC = b"\x04\x22\x4d\x18"
LINKED = MAGIC + b"\x40\x40\xc0"
"""How pyarrow begins a frame of more than 64 KiB: blocks of as much each, linked."""

INDEPENDENT = MAGIC + b"\x60\x40\x82"
END = bytes(4)


def large(random: Random, size: int) -> bytes:
    """Bytes that do not shrink, and repetitions of one byte, of a few, and of what came some blocks before."""
    made = bytearray()
    while len(made) < size:
        period = random.choice([1, 2, 3, 7, 8, 15, 40, 20_000, 60_000, 70_000])
        made += random.randbytes(period) * random.randrange(1, 100_000 // period + 2)
    return bytes(made[:size])


def test_both_readers_show_the_same_rows_of_linked_lz4_blocks(spark: SparkSession, log: Log) -> None:
    random = Random(0)
    values = [b"a" * 200_000, b"abc" * 70_000, bytes(random.choices(b"abcd", k=500_000)), large(random, 9 << 20)]
    values += [large(random, 300_000) for _ in range(4)]
    sent = []
    with log.producer(codec="lz4") as producer:
        for value in values:
            headers = [("gr\u00f6\u00dfe" * 20_000, large(random, 150_000)), ("empty", b"")]
            key = large(random, 100_000)
            producer.send("in", value, key=key, partition=0, headers=headers)
            producer.flush()
            sent.append((key, value, [Row(key=name, value=content) for name, content in headers]))

    shown = {
        name: rows_by(spark, name, lambda: table(spark, log, includeHeaders=True).selectExpr(*COLUMNS))
        for name in READERS
    }

    files = Path(log.path, generations.DATA).rglob("*.avro")
    assert sum(file.read_bytes().count(LINKED) for file in files) >= 3 * len(values)
    assert [(row.key, row.value, row.headers) for row in sorted(shown["jvm"], key=lambda row: row.offset)] == sent
    assert sorted(shown["jvm"]) == sorted(shown["python"])


def write_frame(log: Log, frame: bytes, size: int) -> Block:
    """A data file of one record, whose value is in this frame; the frame should hold as many bytes."""
    value = {"validity": None, "lengths": None, "values": {"position": 0, "length": len(frame), "size": size}}
    fields: dict[str, Any] = {"version": 1, "count": 1, "min_timestamp_ms": 0, "max_timestamp_ms": 0}
    fields |= {"compression": "lz4", "timestamps": None, "key": None, "value": value, "headers": None, "body": frame}
    content = BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(columns.BATCH_SCHEMA), fields)
    data = varint(1) + varint(content.tell()) + content.getvalue() + bytes(codec.SYNC_BYTES)
    name = f"{generations.DATA}/{zlib.crc32(data):08d}-frame.avro"
    Path(log.path, name).write_bytes(data)
    return Block(name, 0, len(data), zlib.crc32(data), 1, 0, 0)


def block_of_lz4(content: bytes) -> bytes:
    return len(content).to_bytes(4, "little") + content


def frame_with_checksums(spark: SparkSession, content: bytes) -> bytes:
    """As lz4-java writes it: independent blocks, each with a checksum; size and checksum of all."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    output = jvm.net.jpountz.lz4.LZ4FrameOutputStream
    flags = ("BLOCK_INDEPENDENCE", "BLOCK_CHECKSUM", "CONTENT_SIZE", "CONTENT_CHECKSUM")
    bits = gateway.new_array(output.FLG.Bits, len(flags))
    for at, name in enumerate(flags):
        bits[at] = output.FLG.Bits.valueOf(name)
    written = jvm.java.io.ByteArrayOutputStream()
    frame = output(written, output.BLOCKSIZE.SIZE_64KB, len(content), bits)
    frame.write(content)
    frame.close()
    return bytes(written.toByteArray())


BACK = b"\x10a%b\x50bcdef"
"""A block: a literal, a match of four bytes at a distance, five literals."""

CONTENT_OF_FRAME = large(Random(1), 400_000)
FRAME = bytes(pa.Codec("lz4").compress(CONTENT_OF_FRAME))
SOUND: dict[str, tuple[bytes, bytes]] = {
    "as pyarrow writes it": (FRAME, CONTENT_OF_FRAME),
    "a match that repeats one byte": (LINKED + block_of_lz4(BACK % b"\1\0") + END, b"aaaaabcdef"),
    "a match in the block before": (
        LINKED + block_of_lz4(BACK % b"\1\0") + block_of_lz4(BACK % b"\6\0") + END, b"aaaaabcdefabcdebcdef"),
    "a stored block": (LINKED + b"\3\0\0\x80xyz" + block_of_lz4(BACK % b"\3\0") + END, b"xyzayzaybcdef"),
}  # fmt: skip
DAMAGED: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 400_000),
    "cut within the descriptor": (FRAME[:5], 400_000),
    "cut within a block": (FRAME[:-9], 400_000),
    "without its end": (FRAME[:-4], 400_000),
    "bytes behind it": (FRAME + b"\0", 400_000),
    "another frame behind it": (FRAME + FRAME, 400_000),
    "more than it should hold": (FRAME, 399_999),
    "less than it should hold": (FRAME, 400_001),
    "more than any buffer holds": (FRAME, 2**31 - 9),
    "another magic number": (b"\5" + FRAME[1:], 400_000),
    "another version": (FRAME[:4] + b"\x80" + FRAME[5:], 400_000),
    "no size of blocks": (FRAME[:5] + b"\x30" + FRAME[6:], 400_000),
    "another flag": (FRAME[:4] + b"\x44" + FRAME[5:], 400_000),
    "a block beyond its largest size": (LINKED + block_of_lz4(b"\xf0" + b"\xff" * 0x10000) + END, 1000),
    "a stored block beyond the content": (LINKED + b"\3\0\0\x80xyz" + END, 2),
    "a block without a token": (LINKED + block_of_lz4(b"\x10a\1\0") + END, 5),
    "a length without an end": (LINKED + block_of_lz4(b"\xf0\xff\xff") + END, 1000),
    "literals beyond the block": (LINKED + block_of_lz4(b"\x60abcde") + END, 6),
    "a match before the first byte": (LINKED + block_of_lz4(BACK % b"\2\0") + END, 10),
    "a match beyond the content": (LINKED + block_of_lz4(b"\x1fa\1\0\xff\xff\xff\0\x50bcdef") + END, 10),
    "a match before an independent block": (
        INDEPENDENT + block_of_lz4(BACK % b"\1\0") + block_of_lz4(BACK % b"\6\0") + END, 20),
}  # fmt: skip
DAMAGED_FOR_THE_JVM: dict[str, tuple[bytes, int]] = {
    "a match of its own first byte": (LINKED + block_of_lz4(BACK % b"\0\0") + END, 10),
    "a dictionary": (MAGIC + b"\x41\x40\1\0\0\0\x38" + block_of_lz4(BACK % b"\1\0") + END, 10),
}
"""Arrow's lz4 does not look at these."""


@pytest.mark.parametrize("case", SOUND)
def test_both_readers_read_a_frame(spark: SparkSession, bare: Log, case: str) -> None:
    blocks = JvmBlocks(spark, bare.path)
    frame, content = SOUND[case]
    block = write_frame(bare, frame, len(content))

    assert blocks.read(block) == python_rows(bare, block) == [(None, content, 0, None)]
    blocks.close()


@pytest.mark.parametrize("case", [*DAMAGED, *DAMAGED_FOR_THE_JVM])
def test_a_frame_that_is_damaged_is_refused(spark: SparkSession, bare: Log, case: str) -> None:
    blocks = JvmBlocks(spark, bare.path)
    block = write_frame(bare, *{**DAMAGED, **DAMAGED_FOR_THE_JVM}[case])

    assert blocks.read(block) is None
    assert case in DAMAGED_FOR_THE_JVM or python_rows(bare, block) is None
    blocks.close()


@pytest.mark.parametrize("case", ["cut within a block", "a match before the first byte"])
def test_both_readers_say_where_a_damaged_frame_is(spark: SparkSession, bare: Log, case: str) -> None:
    block = write_frame(bare, *DAMAGED[case])
    append(bare, Path(bare.path, block.file).read_bytes(), block)

    for name in READERS:
        with pytest.raises(PySparkException, match=CorruptDataError.__name__) as caught, reading_by(spark, name):
            table(spark, bare).collect()
        assert "a block of a data file does not hold a record batch" in str(caught.value), name
        assert "0000.avro', position=0" in str(caught.value), name


@pytest.mark.parametrize("kind", ["linked", "with checksums"])
def test_no_damage_of_a_frame_makes_the_jvm_show_what_python_does_not(
    spark: SparkSession, bare: Log, kind: str
) -> None:
    blocks = JvmBlocks(spark, bare.path)
    random = Random(0)
    content = large(random, 200_000)
    frame = FRAME if kind == "linked" else frame_with_checksums(spark, content)
    size = len(CONTENT_OF_FRAME) if kind == "linked" else len(content)
    assert blocks.read(write_frame(bare, frame, size)) is not None
    refused = 0
    for number in range(100):
        place = random.randrange(20 if number % 2 else len(frame))
        flipped = frame[:place] + bytes([frame[place] ^ 1 << random.randrange(8)]) + frame[place + 1 :]
        damaged = random.choice([flipped, flipped, frame[:place]])
        block = write_frame(bare, damaged, size)

        by_jvm = blocks.read(block)

        assert by_jvm is None or by_jvm == python_rows(bare, block), (number, place)
        refused += by_jvm is None
    blocks.close()
    assert refused > 50
