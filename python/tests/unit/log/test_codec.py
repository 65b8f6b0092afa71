"""Record batches to blocks and back: what is stored, what is left out, and what a reader touches."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from oncelog.errors import InvalidOptionError, InvariantViolation
from oncelog.log import codec, columns
from oncelog.log.codec import Place
from oncelog.types import Block
from tests.unit.log.batches import EVERYTHING, Row, batch_of, rows_of, values_batch

PLACE = Place("data/a.avro", 100)
SYNC_MARKER = bytes(16)
INCOMPRESSIBLE = np.random.default_rng(1).bytes(10_000)


def block_of(batch: pa.RecordBatch, codec_name: str = "zstd") -> bytes:
    return b"".join(codec.encode_block(batch, codec_name, SYNC_MARKER, PLACE).parts)


def stored(batch: pa.RecordBatch, codec_name: str = "zstd") -> dict[str, Any]:
    """The block as a plain Avro reader sees it."""
    container = codec.file_header(SYNC_MARKER) + block_of(batch, codec_name)
    (record,) = fastavro.reader(BytesIO(container))
    assert isinstance(record, dict)
    return record


def round_trip(batch: pa.RecordBatch, codec_name: str = "zstd") -> pa.RecordBatch:
    records = codec.decode_block(block_of(batch, codec_name), PLACE).records
    records.validate(full=True)
    return records


@pytest.mark.parametrize("codec_name", codec.CODECS)
@pytest.mark.parametrize(
    "rows",
    [
        EVERYTHING,
        EVERYTHING[:1],
        [(None, None, None, 0)],
        [(b"", b"", [], 0)],
        [(None, b"x" * 100, None, 5)] * 1000,
        [(b"k%d" % at, None, None, at) for at in range(300)],
        [(b"k", b"v", [("h", None)] * at, 2**62 if at else 0) for at in range(20)],
    ],
    ids=["everything", "one", "nulls", "empty", "equal", "tombstones", "headers"],
)
def test_a_batch_comes_back_as_it_was(rows: list[Row], codec_name: str) -> None:
    assert rows_of(round_trip(batch_of(rows), codec_name)) == rows


@pytest.mark.parametrize(("start", "length"), [(0, 1), (1, 2), (3, 1), (1, 3)])
def test_a_slice_is_stored_alone(start: int, length: int) -> None:
    batch = batch_of(EVERYTHING)

    assert rows_of(round_trip(batch.slice(start, length))) == EVERYTHING[start : start + length]
    assert block_of(batch.slice(start, length)) == block_of(batch_of(EVERYTHING[start : start + length]))


def test_a_batch_says_where_it_is_its_count_and_bounds_of_time() -> None:
    parts, block = codec.encode_block(batch_of(EVERYTHING), "zstd", SYNC_MARKER, PLACE)
    data = b"".join(parts)
    decoded = codec.decode_block(data, PLACE)

    expected = (4, 1_699_999_999_000, 1_700_000_070_000)
    assert block == Block("data/a.avro", 100, len(data), zlib.crc32(data), *expected)
    assert (decoded.count, decoded.min_timestamp_ms, decoded.max_timestamp_ms) == expected


@pytest.mark.parametrize("columns", [["key"], ["timestamp_ms", "value"], ["headers"], ["value", "headers", "key"]])
def test_a_reader_gets_the_columns_it_asks_for_in_its_order(columns: list[str]) -> None:
    batch = batch_of(EVERYTHING)

    pruned = codec.decode_block(block_of(batch), PLACE, columns).records

    assert pruned.equals(batch.select(columns))


@pytest.mark.parametrize("column", ["key", "value", "headers"])
def test_a_reader_does_not_touch_the_columns_it_did_not_ask_for(column: str) -> None:
    fields = stored(batch_of(EVERYTHING))
    block = bytearray(block_of(batch_of(EVERYTHING)))
    place = (fields[column]["keys"] if column == "headers" else fields[column])["values"]
    body = len(block) - len(SYNC_MARKER) - len(fields["body"])
    start = body + place["position"]
    block[start : start + place["length"]] = b"\xee" * place["length"]
    others = [name for name in codec.RECORD_SCHEMA.names if name != column]

    assert codec.decode_block(bytes(block), PLACE, others).records.equals(batch_of(EVERYTHING).select(others))


def test_only_columns_of_a_record_can_be_asked_for() -> None:
    with pytest.raises(InvariantViolation, match="partition"):
        codec.decode_block(block_of(batch_of(EVERYTHING)), PLACE, ["partition"])


def test_columns_that_are_null_throughout_take_no_buffer() -> None:
    fields = stored(batch_of([(None, None, None, 7)] * 1000))

    assert (fields["key"], fields["value"], fields["headers"], fields["body"]) == (None, None, None, b"")


def test_a_column_without_a_null_has_no_validity() -> None:
    fields = stored(batch_of([(b"a", None, None, 0), (b"b", b"c", None, 0)]))

    assert fields["key"]["validity"] is None
    assert fields["value"]["validity"]["size"] == 1


def test_equal_lengths_and_equal_timestamps_take_no_buffer() -> None:
    fields = stored(values_batch([b"12345"] * 1000, timestamp_ms=9))

    assert fields["timestamps"] is None
    assert fields["value"]["lengths"] is None
    assert fields["value"]["values"]["size"] == 5000


@pytest.mark.parametrize(("longest", "width"), [(255, 1), (256, 2), (65_535, 2), (65_536, 4)])
def test_lengths_take_the_fewest_bytes_that_hold_the_longest(longest: int, width: int) -> None:
    fields = stored(values_batch([b"", b"", b"x" * longest]))

    assert fields["value"]["lengths"]["size"] == 3 * width


@pytest.mark.parametrize(("range_ms", "width"), [(255, 1), (256, 2), (2**32 - 1, 4), (2**32, 8), (2**63 - 1, 8)])
def test_timestamps_take_the_fewest_bytes_that_hold_their_range(range_ms: int, width: int) -> None:
    rows: list[Row] = [(None, None, None, 0), (None, None, None, range_ms)]

    assert stored(batch_of(rows))["timestamps"]["size"] == 2 * width
    assert rows_of(round_trip(batch_of(rows))) == rows


@pytest.mark.parametrize("codec_name", ["lz4", "zstd"])
def test_what_does_not_shrink_is_stored_as_it_is(codec_name: str) -> None:
    place = stored(values_batch([INCOMPRESSIBLE]), codec_name)["value"]["values"]

    assert place["length"] == place["size"] == len(INCOMPRESSIBLE)


@pytest.mark.parametrize("codec_name", ["lz4", "zstd"])
def test_what_shrinks_is_stored_compressed(codec_name: str) -> None:
    place = stored(values_batch([b"text " * 1000]), codec_name)["value"]["values"]

    assert place["length"] < place["size"] / 10


def test_an_lz4_buffer_holds_no_more_than_it_says_and_has_an_end() -> None:
    text = b"text " * 50_000
    frame = pa.Codec("lz4").compress(text, asbytes=True)

    for damaged, size in ((frame, len(text) - 1), (frame[:-4], len(text)), (frame + b"\0", len(text))):
        body = columns._BodyReader(pa.py_buffer(damaged), "lz4")
        with pytest.raises((ValueError, OSError)):
            body.get({"position": 0, "length": len(damaged), "size": size})


def test_values_that_are_not_compressed_are_read_without_a_copy() -> None:
    block = block_of(values_batch([INCOMPRESSIBLE]))

    values = codec.decode_block(block, PLACE, ["value"]).records.column("value").buffers()[2]

    start = pa.py_buffer(block).address
    assert start < values.address < start + len(block)


def test_bytes_below_a_null_do_not_come_back() -> None:
    covered = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x01"), pa.array([0, 1, 7], pa.int32()).buffers()[1], pa.py_buffer(b"asecret")]
    )
    batch = codec.normalise(pa.record_batch({"value": covered}), 0)

    assert b"secret" not in block_of(batch, "null")
    assert batch.column("value").to_pylist() == [b"a", None]


def test_each_file_has_a_sync_marker_of_its_own() -> None:
    assert len({codec.new_sync_marker() for _ in range(10)}) == 10
    assert codec.read_data_header(codec.file_header(SYNC_MARKER), "a").sync_marker == SYNC_MARKER


def test_only_known_codecs_are_written() -> None:
    codec.check_codec("lz4")
    with pytest.raises(InvalidOptionError, match="snappy"):
        codec.check_codec("snappy")


@pytest.mark.parametrize(
    "spoil", [lambda batch: batch.slice(0, 0), lambda batch: batch.select(["value"])], ids=["empty", "other schema"]
)
def test_only_normalised_batches_with_records_are_written(spoil: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
    with pytest.raises(InvariantViolation):
        codec.encode_block(spoil(batch_of(EVERYTHING)), "zstd", SYNC_MARKER, PLACE)
