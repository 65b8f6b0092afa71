"""The door for a user's columns: what is welcome, what is refused, and what the refusal names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oncelog import limits
from oncelog.errors import InvalidRecordError, RecordTooLargeError
from oncelog.log import codec, records
from tests.unit.log.batches import EVERYTHING, batch_of, rows_of

DEFAULT_MS = 42
HEADER = [("key", pa.string()), ("value", pa.binary())]


def normalised(**columns: Any) -> dict[str, list[Any]]:
    batch = codec.normalise(pa.record_batch(columns), DEFAULT_MS)
    assert batch.schema.equals(codec.RECORD_SCHEMA)
    batch.validate(full=True)
    columns_of: dict[str, list[Any]] = batch.to_pydict()
    return columns_of


def refusal(**columns: Any) -> dict[str, Any]:
    """The fields of the error that refuses the columns."""
    with pytest.raises(InvalidRecordError) as caught:
        codec.normalise(pa.record_batch(columns), DEFAULT_MS)
    return caught.value.fields


def test_columns_that_are_not_given_are_null_and_the_time_is_the_default() -> None:
    assert normalised(value=[b"a", None]) == {
        "key": [None, None],
        "value": [b"a", None],
        "headers": [None, None],
        "timestamp_ms": [DEFAULT_MS, DEFAULT_MS],
    }


def test_a_normalised_batch_stays_what_it_is() -> None:
    batch = batch_of(EVERYTHING)

    assert codec.normalise(batch, DEFAULT_MS).equals(batch)
    assert rows_of(codec.normalise(batch.slice(1, 2), DEFAULT_MS)) == EVERYTHING[1:3]


def test_a_batch_without_rows_is_normalised_to_one() -> None:
    assert normalised(value=pa.array([], pa.string()))["value"] == []
    assert codec.normalise(pa.table({"value": pa.chunked_array([], pa.string())}), DEFAULT_MS).num_rows == 0


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.binary(2),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.binary()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ],
    ids=str,
)
def test_every_layout_of_bytes_and_text_is_welcome(kind: pa.DataType) -> None:
    given = pa.array(["aa", None, "bb", "aa"], pa.string()).cast(kind).slice(1)

    assert normalised(key=given, value=given)["key"] == [None, b"bb", b"aa"]
    assert normalised(key=given, value=given)["value"] == [None, b"bb", b"aa"]


def test_a_column_of_the_null_type_is_welcome() -> None:
    nothing = pa.nulls(2)

    assert normalised(key=nothing, value=nothing, headers=nothing, timestamp_ms=nothing) == {
        "key": [None, None],
        "value": [None, None],
        "headers": [None, None],
        "timestamp_ms": [DEFAULT_MS, DEFAULT_MS],
    }


def test_chunks_are_combined() -> None:
    table = pa.table({"value": pa.chunked_array([["a"], [], ["b", None]])})

    assert codec.normalise(table, DEFAULT_MS).column("value").to_pylist() == [b"a", b"b", None]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.struct(HEADER)),
        pa.list_(pa.field("element", pa.struct(HEADER))),
        pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.binary_view())])),
        pa.list_(pa.struct([("key", pa.string_view()), ("value", pa.string())])),
        pa.list_(pa.struct(HEADER), 1),
        pa.map_(pa.string(), pa.binary()),
    ],
    ids=str,
)
def test_every_layout_of_headers_is_welcome(kind: pa.DataType) -> None:
    row: Any = [("a", b"1")] if pa.types.is_map(kind) else [{"key": "a", "value": b"1"}]

    assert normalised(value=["x", "y"], headers=pa.array([row, None], kind))["headers"] == [
        [{"key": "a", "value": b"1"}],
        None,
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pa.array([5, None], pa.int64()), [5, DEFAULT_MS]),
        (pa.array([5, 6], pa.uint16()), [5, 6]),
        (pa.array([5_999, None], pa.timestamp("us", "UTC")), [5, DEFAULT_MS]),
        (pa.array([5, 6], pa.timestamp("s", "America/New_York")), [5_000, 6_000]),
    ],
    ids=lambda column: str(getattr(column, "type", "")),
)
def test_timestamps_are_milliseconds_or_instants(given: pa.Array, expected: list[int]) -> None:
    assert normalised(value=["a", "b"], timestamp_ms=given)["timestamp_ms"] == expected


def test_a_missing_value_column_is_named() -> None:
    assert refusal(key=["a"]) == {"column": "value", "found": ["key"]}


def test_an_unknown_column_is_named_and_so_are_the_known_ones() -> None:
    assert refusal(value=["a"], payload=["b"]) == {
        "column": "payload",
        "known": ["key", "value", "headers", "timestamp_ms"],
    }


def test_a_column_that_comes_twice_is_named() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["value", "value"])

    with pytest.raises(InvalidRecordError, match=r"twice \[column='value'\]"):
        codec.normalise(twice, DEFAULT_MS)


@pytest.mark.parametrize(
    ("column", "given", "found"),
    [
        ("value", pa.array([1]), "int64"),
        ("key", pa.array([["a"]]), "list<item: string>"),
        ("timestamp_ms", pa.array(["now"]), "string"),
        ("timestamp_ms", pa.array([1.5]), "double"),
        ("timestamp_ms", pa.array([0], pa.timestamp("ms")), "timestamp[ms]"),
        ("headers", pa.array(["a"]), "string"),
        (
            "headers",
            pa.array([[]], pa.list_view(pa.struct(HEADER))),
            "list_view<item: struct<key: string, value: binary>>",
        ),
        ("headers", pa.array([[{"key": "a"}]]), "list<item: struct<key: string>>"),
        (
            "headers",
            pa.array([[]], pa.list_(pa.struct(HEADER[::-1]))),
            "list<item: struct<value: binary, key: string>>",
        ),
        ("headers", pa.array([[{"key": 1, "value": b""}]]), "list<item: struct<key: int64, value: binary>>"),
        ("headers", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "map<string, int64>"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_type_is_named_with_the_wanted_one(column: str, given: pa.Array, found: str) -> None:
    fields = refusal(**{"value": ["x"], column: given})

    assert (fields["column"], fields["found"], bool(fields["wanted"])) == (column, found, True)


@pytest.mark.parametrize(
    ("rows", "row"),
    [
        ([None, [{"key": "a", "value": b""}, {"key": None, "value": b""}]], 1),
        ([[{"key": "a", "value": b""}], [], [None]], 2),
    ],
    ids=["key", "header"],
)
def test_a_header_without_a_key_is_refused_with_its_row(rows: list[Any], row: int) -> None:
    headers = pa.array(rows, pa.list_(pa.struct(HEADER)))

    assert refusal(value=["x"] * len(rows), headers=headers) == {"column": "headers", "row": row}
    assert refusal(value=["x"], headers=headers.slice(row))["row"] == 0


def test_a_header_key_that_is_no_text_is_refused() -> None:
    keys = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    entries = pa.StructArray.from_arrays([keys, pa.array([b""])], fields=[pa.field(*field) for field in HEADER])

    assert refusal(value=["x"], headers=pa.ListArray.from_arrays([0, 1], entries))["column"] == "headers"


def test_a_timestamp_before_1970_is_refused_with_its_row() -> None:
    assert refusal(value=["a", "b"], timestamp_ms=[0, -3]) == {
        "column": "timestamp_ms",
        "row": 1,
        "found": -3,
        "maximum": limits.MAX_TIMESTAMP_MS,
    }


def test_a_timestamp_beyond_64_bits_is_refused() -> None:
    assert refusal(value=["a"], timestamp_ms=pa.array([2**64 - 1], pa.uint64()))["column"] == "timestamp_ms"


@pytest.mark.parametrize("part", ["key", "value", "headers"])
def test_a_record_over_the_limit_is_refused_with_its_row_and_size(part: str) -> None:
    big = b"x" * (limits.MAX_RECORD_BYTES + 1)
    column = [None, [{"key": "", "value": big}]] if part == "headers" else [b"", big]
    columns = {"value": ["", ""], part: pa.array(column, codec.RECORD_SCHEMA.field(part).type)}

    with pytest.raises(RecordTooLargeError) as caught:
        codec.normalise(pa.record_batch(columns), DEFAULT_MS)

    overhead = records.HEADER_OVERHEAD_BYTES if part == "headers" else 0
    assert caught.value.fields == {
        "row": 1,
        "size_bytes": len(big) + overhead,
        "maximum": limits.MAX_RECORD_BYTES,
    }


def test_a_record_of_exactly_the_limit_is_taken_and_so_are_many_small_ones() -> None:
    half = limits.MAX_RECORD_BYTES // 2

    assert normalised(key=[b"k" * half], value=[b"v" * half])["value"] == [b"v" * half]
    assert len(normalised(value=[b"v" * 1000] * (2 * half // 1000 + 100))["value"]) > half // 1000


def test_sizes_count_key_value_and_headers_of_each_row_of_a_slice() -> None:
    sizes = records.record_sizes(batch_of([*EVERYTHING, *EVERYTHING]).slice(3, 3))

    overhead = records.HEADER_OVERHEAD_BYTES
    expected = [2 + 400 + len("größe".encode()) + overhead, 2 + 500 + 5 + 2 + 5 + 2 * overhead, 0]
    assert sizes.tolist() == expected


def test_a_header_value_below_a_null_is_dropped() -> None:
    covered = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x02"), pa.array([0, 6, 7], pa.int32()).buffers()[1], pa.py_buffer(b"secretb")]
    )
    entries = pa.StructArray.from_arrays([pa.array(["a", "b"]), covered], fields=[pa.field(*field) for field in HEADER])
    headers = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), entries)

    kept = codec.normalise(pa.record_batch({"value": ["x"], "headers": headers}), DEFAULT_MS).column("headers")

    assert kept.to_pylist() == [[{"key": "a", "value": None}, {"key": "b", "value": b"b"}]]
    assert kept.values.field("value").buffers()[2].to_pybytes()[:7].rstrip(b"\0") == b"b"


def test_a_copy_of_a_slice_lets_go_of_what_it_was_cut_from() -> None:
    whole = batch_of([(b"k", np.random.default_rng(1).bytes(1000), [("h", b"v")], at) for at in range(1000)])

    copied = records.concatenated([whole.slice(500, 10)])

    assert copied.equals(whole.slice(500, 10))
    assert copied.get_total_buffer_size() < 20_000 < whole.slice(500, 10).get_total_buffer_size()
