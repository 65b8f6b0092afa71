"""Whatever records a user hands in, in whatever Arrow layout, come back as they were, from blocks of any cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.log import codec
from oncelog.log.codec import Place
from oncelog.log.segment import BlockBuffer, SegmentWriter, read_block, scan_file
from oncelog.types import Block
from tests.logs import MemoryFiles
from tests.unit.log.batches import Row, batch_of, rows_of

PLACE = Place("data/a.avro")
SYNC_MARKER = bytes(16)

byte_strings = st.binary(max_size=8) | st.binary(max_size=4).map(lambda part: part * 100)
header_lists = st.lists(st.tuples(st.text(max_size=4), st.none() | byte_strings), max_size=3)
timestamps = st.integers(0, 2**63 - 1) | st.integers(1_700_000_000_000, 1_700_000_000_300)
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

    block = b"".join(codec.encode_block(data.draw(cut_out(wanted)), codec_name, SYNC_MARKER).parts)
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
