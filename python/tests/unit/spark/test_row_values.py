"""The check of Arrow batches: which values it refuses, at any depth, and what the error says."""

from __future__ import annotations

import pyarrow as pa
import pytest

from oncelog.errors import InvalidRecordError
from oncelog.spark.kit import row_values
from oncelog.spark.kit.row_values import FIRST_DAY, FIRST_MICRO, LAST_DAY, LAST_MICRO


def texts(*values: bytes | None) -> pa.Array:
    """Texts of any bytes, as Spark hands them to a task."""
    return pa.array(values, pa.binary()).view(pa.string())


def days(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int32()).view(pa.date32())


def moments(*values: int | None, zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.int64()).view(pa.timestamp("us", zone))


def in_lists(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, 1, None, len(values)], pa.int32()), values)


def in_structs(values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values], ["f"])


def as_keys(values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays([0, len(values)], values, pa.nulls(len(values), pa.int32()))


def as_values(values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays([0, len(values)], pa.array(range(len(values))), values)


LATIN_1, SURROGATE, CUT = b"Z\xfcrich", b"\xed\xa0\xbd", "Zürich".encode()[:2]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (texts(b"a", None, LATIN_1), r"not valid UTF-8.*column='c', value=0x5afc72696368\]"),
        (texts(SURROGATE), r"not valid UTF-8.*value=0xeda0bd\]"),
        (texts(CUT), r"not valid UTF-8.*value=0x5ac3\]"),
        (texts(b"\xff" * 1000), r"not valid UTF-8.*value=0x(ff){64}\]"),
        (texts(LATIN_1).cast(pa.large_binary()).view(pa.large_string()), "not valid UTF-8"),
        (in_structs(texts(b"a", LATIN_1)), r"UTF-8.*column='c\.f'"),
        (in_lists(texts(b"a", LATIN_1)), r"UTF-8.*column='c\.element'"),
        (as_keys(texts(b"a", LATIN_1)), r"UTF-8.*column='c\.key'"),
        (as_values(texts(b"a", LATIN_1)), r"UTF-8.*column='c\.value'"),
        (in_lists(in_structs(as_values(texts(LATIN_1)))), r"UTF-8.*column='c\.element\.f\.value'"),
        (days(0, LAST_DAY + 1), r"years 1 to 9999.*column='c', value=10000-01-01\]"),
        (days(FIRST_DAY - 1, None), r"years 1 to 9999.*value=0000-12-31\]"),
        (moments(LAST_MICRO + 1), r"years 1 to 9999.*value=10000-01-01 00:00:00\.000000\]"),
        (moments(FIRST_MICRO - 1, zone="Asia/Tokyo"), r"years 1 to 9999.*value=0000-12-31 23:59:59\.999999\]"),
        (moments(2**63 - 1), "years 1 to 9999.*value=.*9223372036854775807"),
        (moments(-(2**63)), "years 1 to 9999"),
        (as_values(days(LAST_DAY + 1)), r"years 1 to 9999.*column='c\.value'"),
    ],
)
def test_a_value_that_stores_do_not_hold_is_refused_with_its_column(column: pa.Array, said: str) -> None:
    with pytest.raises(InvalidRecordError, match=said):
        row_values.check(pa.record_batch({"c": column}))


@pytest.mark.parametrize(
    "column",
    [
        texts(b"", None, "Zürich \U0010ffff".encode()),
        texts(LATIN_1, b"a").slice(1),
        in_lists(texts(b"a", b"b")),
        days(FIRST_DAY, None, LAST_DAY),
        moments(FIRST_MICRO, None, LAST_MICRO),
        moments(FIRST_MICRO, LAST_MICRO, zone="America/Los_Angeles"),
        pa.array([LATIN_1], pa.binary()),
        pa.nulls(3, pa.string()),
        texts(),
        days(),
        pa.array([[]], pa.map_(pa.string(), pa.date32())),
    ],
)
def test_other_values_pass(column: pa.Array) -> None:
    row_values.check(pa.record_batch({"c": column}))


def test_a_sink_whose_store_knows_other_years_checks_texts_only() -> None:
    batch = pa.record_batch({"d": days(LAST_DAY + 1, 0), "t": texts(b"a", LATIN_1)})

    with pytest.raises(InvalidRecordError, match="column='t'"):
        row_values.check(batch, moments=False)
