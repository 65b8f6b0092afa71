"""Whatever records a user hands in, in whatever Arrow layout, come back as they were, from blocks of any cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog import limits
from oncelog.clients import partitioner
from oncelog.clients.accumulator import Receipt
from oncelog.clients.producer import Producer
from oncelog.errors import CorruptDataError, RecordTooLargeError, UnsupportedFormatError
from oncelog.log import codec
from oncelog.log.codec import Place
from oncelog.log.records import HEADER_OVERHEAD_BYTES
from oncelog.log.segment import BlockBuffer, SegmentWriter, read_block, scan_file
from oncelog.runtime import Log
from oncelog.types import Block
from tests.support import strategies
from tests.support.log import logs
from tests.support.log.logs import TOPIC, MemoryFiles, log_world, started
from tests.unit.log.batches import Row, batch_of, rows_of

PLACE = Place("data/a.avro")
SYNC_MARKER = bytes(16)

byte_strings = strategies.byte_strings() | st.binary(max_size=4).map(lambda part: part * 100)
header_lists = st.lists(st.tuples(strategies.texts(4), st.none() | byte_strings), max_size=3)
timestamps = strategies.integers(0, limits.MAX_TIMESTAMP_MS) | st.integers(1_700_000_000_000, 1_700_000_000_300)
rows = st.tuples(st.none() | byte_strings, st.none() | byte_strings, st.none() | header_lists, timestamps)
codecs = st.sampled_from(codec.CODECS)


@st.composite
def columns_alike(draw: st.DrawFn) -> list[Row]:
    """Rows whose columns may each be null, or equal, throughout."""
    several = draw(st.lists(rows, min_size=1, max_size=30))
    sources = [draw(st.sampled_from(["as drawn", "all equal", "all null"])) for _ in range(3)]

    def column(at: int) -> list[Any]:
        drawn = [row[at] for row in several]
        if sources[at] == "as drawn":
            return drawn
        return [drawn[0] if sources[at] == "all equal" else None] * len(drawn)

    keys, values, headers = column(0), column(1), column(2)
    times = [row[3] for row in several]
    return list(zip(keys, values, headers, times, strict=True))


@st.composite
def cut_out(draw: st.DrawFn, wanted: Sequence[Row]) -> pa.RecordBatch:
    """`wanted` as a slice of a longer batch."""
    before, after = draw(st.lists(rows, max_size=9)), draw(st.lists(rows, max_size=3))
    return batch_of([*before, *wanted, *after]).slice(len(before), len(wanted))


@given(st.data(), columns_alike(), codecs)
def test_any_slice_of_any_batch_comes_back_and_so_does_any_choice_of_its_columns(
    data: st.DataObject, wanted: list[Row], codec_name: str
) -> None:
    columns = data.draw(st.lists(st.sampled_from(codec.RECORD_SCHEMA.names), unique=True, min_size=1))

    block = b"".join(codec.encode_block(data.draw(cut_out(wanted)), codec_name, SYNC_MARKER, PLACE).parts)
    whole = codec.decode_block(block, PLACE).records
    pruned = codec.decode_block(block, PLACE, columns).records

    whole.validate(full=True)
    assert rows_of(whole) == wanted
    assert pruned.equals(whole.select(columns))


layouts_of_bytes = [pa.binary(), pa.large_binary(), pa.binary_view()]
layouts_of_text = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@st.composite
def layout_of(draw: st.DrawFn, values: list[bytes | None]) -> pa.Array:
    """The values in some Arrow type, as text where they allow it, and as a slice."""
    try:
        given_values: list[Any] = [value if value is None else value.decode() for value in values]
        kind = draw(st.sampled_from([*layouts_of_text, *layouts_of_bytes]))
    except UnicodeDecodeError:
        given_values, kind = list(values), draw(st.sampled_from(layouts_of_bytes))
    skipped = draw(st.integers(0, 3))
    return pa.array(["x"] * skipped + given_values, pa.string() if kind in layouts_of_text else pa.binary()).cast(kind)[
        skipped:
    ]


@given(st.data(), st.lists(rows, max_size=20))
def test_any_arrow_layout_is_normalised_to_the_same_records(data: st.DataObject, wanted: list[Row]) -> None:
    given_batch = batch_of(wanted)
    columns = {
        "key": data.draw(layout_of([row[0] for row in wanted])),
        "value": data.draw(layout_of([row[1] for row in wanted])),
        "headers": given_batch.column("headers"),
        "timestamp_ms": given_batch.column("timestamp_ms"),
    }

    normalised = codec.normalise(pa.record_batch(columns), default_timestamp_ms=0)

    normalised.validate(full=True)
    assert normalised.schema.equals(codec.RECORD_SCHEMA)
    assert rows_of(normalised) == wanted


@given(
    st.lists(st.tuples(st.integers(0, 4), st.lists(rows, max_size=12)), max_size=12),
    st.integers(1, 3000),
    st.integers(1, 9000),
    st.integers(1, 9000),
    codecs,
)
def test_gathered_records_of_each_key_come_back_in_order_whatever_the_sizes(
    appends: list[tuple[int, list[Row]]], target_bytes: int, roll_bytes: int, budget_bytes: int, codec_name: str
) -> None:
    files = MemoryFiles()
    writer = SegmentWriter(files, "data/0-", codec=codec_name, block_target_bytes=target_bytes, roll_bytes=roll_bytes)
    buffer: BlockBuffer[int] = BlockBuffer(writer, budget_bytes=budget_bytes)
    written: list[tuple[int, Block]] = []
    for key, records in appends:
        written += buffer.append(key, batch_of(records))
    written += buffer.flush()
    writer.finish()

    for key in range(5):
        wanted = [row for other, records in appends if other == key for row in records]
        blocks = [block for other, block in written if other == key]
        assert [row for block in blocks for row in rows_of(read_block(files, block))] == wanted
    scanned = {(name, each.position, each.crc32) for name in files.contents for each in scan_file(files, name)}
    assert scanned == {(block.file, block.position, block.crc32) for _, block in written}


@given(st.binary(max_size=300))
def test_bytes_of_nobody_are_refused(data: bytes) -> None:
    for read in (codec.decode_block, lambda data, place: codec.read_data_header(data, place.file)):
        try:
            read(data, PLACE)
        except (CorruptDataError, UnsupportedFormatError):
            continue
        raise AssertionError(f"{data!r} was read")


# Through a producer, into files, and back -----------------------------------------------------------------------------

PARTITIONS = 40

header_names = strategies.texts() | strategies.names()
rows_to_send = st.tuples(
    st.none() | byte_strings,
    st.none() | byte_strings,
    st.none() | st.lists(st.tuples(header_names, st.none() | byte_strings), max_size=4),
    timestamps,
)
sends = st.tuples(
    st.sampled_from([None, 0, 1, PARTITIONS - 1]),
    st.sampled_from(["columns", "rows"]),
    st.lists(rows_to_send, max_size=12),
)
layouts_of_headers = [
    codec.RECORD_SCHEMA.field("headers").type,
    pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.binary_view())])),
    pa.map_(pa.string(), pa.binary()),
]


@st.composite
def handed_in(draw: st.DrawFn, wanted: Sequence[Row]) -> pa.RecordBatch | pa.Table:
    """The records as users have them: columns of any layout, sliced, in chunks of their own, left out where null."""
    headers: list[Any] = [row[2] and [{"key": name, "value": value} for name, value in row[2]] for row in wanted]
    kind = draw(st.sampled_from(layouts_of_headers))
    if pa.types.is_map(kind):
        headers = [row[2] for row in wanted]
    columns = {
        "key": draw(layout_of([row[0] for row in wanted])),
        "value": draw(layout_of([row[1] for row in wanted])),
        "headers": pa.array([[], *headers], kind)[1:],
        "timestamp_ms": pa.array([row[3] for row in wanted], pa.int64()),
    }
    for name in ("key", "headers"):
        if columns[name].null_count == len(wanted) and draw(st.booleans()):
            del columns[name]
    if draw(st.booleans()):
        return pa.record_batch(columns)
    cuts = st.lists(st.integers(0, len(wanted)), max_size=3).map(sorted)
    return pa.table({name: in_chunks(column, draw(cuts)) for name, column in columns.items()})


def in_chunks(column: pa.Array, cuts: Sequence[int]) -> pa.ChunkedArray:
    return pa.chunked_array([column[start:end] for start, end in pairwise([0, *cuts, len(column)])], column.type)


def placed(rows: Sequence[Row], partition: int | None) -> list[tuple[int, list[Row]]]:
    """The rows by partition: the one that is named for all of them, or that of each row's key, which all have then."""
    parts: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        number = partitioner.partition_for_key(row[0] or b"", PARTITIONS) if partition is None else partition
        parts[number].append(row)
    return sorted(parts.items())


def send_rows(producer: Producer, rows: Sequence[Row], partition: int | None) -> list[Receipt]:
    """Send rows one by one; returns the receipt of the first one in each partition."""
    receipts: dict[int, Receipt] = {}
    for row in rows:
        key, value, headers, timestamp_ms = row
        ((number, _),) = placed([row], partition)
        sent = producer.send(
            TOPIC, value, key=key, partition=partition, headers=headers or (), timestamp_ms=timestamp_ms
        )
        receipts.setdefault(number, sent)
    return [receipt for _, receipt in sorted(receipts.items())]


def read_back(log: Log) -> dict[int, list[tuple[int, Row]]]:
    """What a consumer gets of each partition, with the offsets; no headers are an empty list."""
    found: dict[int, list[tuple[int, Row]]] = defaultdict(list)
    for record in logs.records(log):
        row = (record.key, record.value, list(record.headers), record.timestamp_ms)
        found[record.partition].append((record.offset, row))
    return found


@given(st.data(), st.lists(sends, max_size=8), st.booleans(), codecs)
def test_what_is_sent_comes_back_from_the_files_in_its_order_and_where_the_receipts_say(
    data: st.DataObject, sent: list[tuple[int | None, str, list[Row]]], is_transaction: bool, codec_name: str
) -> None:
    wanted: dict[int, list[Row]] = defaultdict(list)
    told: list[tuple[Receipt, tuple[int, int]]] = []
    with log_world(Path("memory")) as world:
        world.log.create_topic(TOPIC, partitions=PARTITIONS)
        producer = started(world.log, codec=codec_name) if is_transaction else world.log.producer(codec=codec_name)
        if is_transaction:
            producer.begin_transaction()
        for partition, how, drawn in sent:
            rows = drawn if partition is not None else [(key or b"", value, h, time) for key, value, h, time in drawn]
            parts = placed(rows, partition)
            if how == "rows":
                receipts = send_rows(producer, rows, partition)
            else:
                receipts = producer.send_batch(TOPIC, data.draw(handed_in(rows)), partition=partition)
            told += [
                (receipt, (number, len(wanted[number]))) for receipt, (number, _) in zip(receipts, parts, strict=True)
            ]
            for number, part in parts:
                wanted[number] += [(key, value, headers or [], time_ms) for key, value, headers, time_ms in part]
            if data.draw(st.booleans()):
                producer.flush()
        if is_transaction:
            producer.commit_transaction()
        producer.close()

        found = read_back(world.log)

    assert found == {number: list(enumerate(part)) for number, part in wanted.items() if part}
    for receipt, (number, offset) in told:
        assert (receipt.result().partition, receipt.result().offset) == (number, offset)


@pytest.mark.parametrize("codec_name", codec.CODECS)
def test_records_at_the_limit_come_back_among_small_ones_and_what_is_beyond_it_leaves_nothing(codec_name: str) -> None:
    """Six of them are more than a file holds, and more than a producer holds back."""
    random = Random(codec_name)
    name, key, content = "größe", b"key", b"content"
    room = limits.MAX_RECORD_BYTES - len(name.encode()) - len(key) - len(content) - HEADER_OVERHEAD_BYTES
    value = random.randbytes(1024) * (room // 1024) + bytes(room % 1024)
    largest: list[Row] = [(key, value, [(name, content)], 1)]
    beyond: list[Row] = [(key, value + b"x", [(name, content)], 2)]
    small: list[Row] = [(None, b"small", [], 3)]

    with log_world(Path("memory")) as world, world.log.producer(codec=codec_name) as producer:
        world.log.create_topic(TOPIC, partitions=3)
        for number in range(3):
            producer.send_batch(TOPIC, batch_of([*small, *largest, *small]), partition=number)
            with pytest.raises(RecordTooLargeError):
                producer.send_batch(TOPIC, batch_of([*small, *beyond]), partition=number)
            producer.send_batch(TOPIC, batch_of(largest), partition=number)
        producer.flush()

        found = read_back(world.log)

    assert found == {number: list(enumerate([*small, *largest, *small, *largest])) for number in range(3)}
