"""What PostgreSQL would cut, round or store as another value is refused in the task, with column and value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from oncelog.errors import InvalidRecordError
from oncelog_postgres.kept import CUT, NULL_BYTE, OUT_OF_RANGE, ROUNDED, Kept, check

NTZ, TZ = pa.timestamp("us"), pa.timestamp("us", "UTC")
NOON = 1_709_208_000_000_000
FIRST_DAY, LAST_DAY = -2_440_588, 2_145_042_905
DAY_MICROS = 86_400_000_000


def moments(kind: pa.DataType, *values: int | None) -> pa.Array:
    return pa.array(values, pa.int32() if kind == pa.date32() else pa.int64()).view(kind)


def not_utf8(*texts: bytes) -> pa.Array:
    return pa.array(texts, pa.binary()).view(pa.string())


@pytest.mark.parametrize(
    ("values", "kept", "message", "shown"),
    [
        (pa.array(["a", None, "b\0c"]), {}, NULL_BYTE, r"'b\x00c'"),
        (pa.array([["a"], None, ["b\0"]]), {}, NULL_BYTE, r"'b\x00'"),
        (not_utf8(b"a", b"\xed\xa0\x80"), {}, "not valid UTF-8", "0xeda080"),
        (pa.array(["abc", "ab  "]), {"length": 3}, CUT, "'ab  '"),
        (pa.array([["é   "]]), {"length": 1}, CUT, "'é   '"),
        (moments(NTZ, NOON + 700_000), {"digits": 0}, ROUNDED, "12:00:00.7"),
        (moments(TZ, NOON, None, NOON + 5), {"digits": 5}, ROUNDED, "12:00:00.000005"),
        (moments(TZ, -1), {"digits": 3}, ROUNDED, "23:59:59.999999"),
        (pa.array([[NOON + 10]], pa.list_(TZ)), {"digits": 3}, ROUNDED, "12:00:00.00001"),
        (moments(pa.date32(), FIRST_DAY - 1), {}, OUT_OF_RANGE, "-4713-11-23"),
        (moments(pa.date32(), -(2**31) + 10_957), {}, OUT_OF_RANGE, "-"),  # would be -infinity
        (moments(pa.date32(), LAST_DAY + 1), {}, OUT_OF_RANGE, ""),
        (moments(NTZ, FIRST_DAY * DAY_MICROS - 1), {}, OUT_OF_RANGE, "-4713-11-23"),
        (moments(TZ, -(2**63) + 946_684_800_000_000), {}, OUT_OF_RANGE, ""),  # the same
        (moments(TZ, -(2**63)), {}, OUT_OF_RANGE, ""),
    ],
)
def test_a_value_that_the_column_does_not_keep_is_refused(
    values: pa.Array, kept: dict[str, Any], message: str, shown: str
) -> None:
    with pytest.raises(InvalidRecordError) as refused:
        check(pa.record_batch({"v": values}), {"v": Kept("its type", **kept)})

    assert message in refused.value.message
    assert refused.value.fields["column"].startswith("v")
    assert shown in str(refused.value)


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (pa.array(["", None, "abc", "日本語"]), {"length": 3}),
        (pa.array(["too long for PostgreSQL, which says so"]), {"length": 3}),
        (moments(NTZ, NOON, NOON + 500_000, -500_000, None), {"digits": 1}),
        (moments(TZ, NOON + 1, FIRST_DAY * DAY_MICROS, 2**63 - 1), {}),
        (moments(pa.date32(), FIRST_DAY, 0, LAST_DAY, None), {}),
        (pa.array([None, [], [None]], pa.list_(TZ)), {"digits": 0}),
        (pa.array([None], pa.string()), {"length": 0}),
        (pa.array([b"\0\xff"]), {}),
    ],
)
def test_what_the_column_keeps_passes(values: pa.Array, kept: dict[str, Any]) -> None:
    check(pa.record_batch({"v": values}), {"v": Kept("its type", **kept)})
