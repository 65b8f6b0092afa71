"""What a column of a table keeps of a value. PostgreSQL cuts or rounds some values without an error: they are refused.

Tasks check the rows that they are about to send, as Arrow's columns. So the job fails before anything is decided, and
the error names the column and the value. Where the server converts a staged text, the server checks it (place.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from oncelog.errors import InvalidRecordError, Shown
from oncelog.spark.kit import row_values

NULL_BYTE: Final = (
    "a text contains a null byte, which PostgreSQL cannot store; take it out, or write the column as binary into one "
    "of type bytea"
)
OUT_OF_RANGE: Final = (
    "a date or a timestamp is before 4714-11-24 BC or after 5874897-12-31, which PostgreSQL cannot store; replace it "
    "in the query, or filter such rows out"
)
ROUNDED: Final = (
    "a timestamp has more digits of a second than the column of the table keeps, and PostgreSQL would round it; "
    "truncate it in the query, as with date_trunc, or give the column more digits"
)
CUT: Final = (
    "a text is longer than the column of the table, and PostgreSQL would cut the spaces at its end; trim it in the "
    "query"
)
CONVERTED: Final = (
    "the column of the table cannot keep a value as it is: PostgreSQL would round, cut or fill it; change it in the "
    "query, or the column's type"
)

_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_042_905
"""Of PostgreSQL's dates, counted from 1970: 4714-11-24 BC and 5874897-12-31. A date long before, whose number of days
since 2000 is the least of 32 bits, would be stored as -infinity."""

_FIRST_MICRO, _LAST_MICRO = _FIRST_DAY * 86_400_000_000, 2**63 - 1
"""The same of its timestamps, which end later than Spark's."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a column keeps.

    Attributes:
        type: as SQL names it, for errors.
        digits: of the second of a time, a timestamp or an interval.
        length: of a text, in characters; None without a limit.
    """

    type: str
    digits: int = 6
    length: int | None = None


_EVERYTHING: Final = Kept("")


def check(batch: pa.RecordBatch, columns: Mapping[str, Kept]) -> None:
    """Refuse rows with a value that the table would not keep as it is.

    Args:
        columns: by name; a column that is not there keeps everything.

    Raises:
        InvalidRecordError: see above.
    """
    row_values.check(batch, moments=False)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = column.flatten() if pa.types.is_list(column.type) else column
        kept = columns.get(name, _EVERYTHING)
        for message, found in _bad(values, kept):
            if pc.any(found).as_py():
                shown = Shown(_as_text(values.filter(found)))
                raise InvalidRecordError(message, column=name, value=shown, table_type=kept.type)


def _bad(values: pa.Array, kept: Kept) -> Iterator[tuple[str, pa.BooleanArray]]:
    """The rules for values of this type: the message for those that break one, and which ones do."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        yield NULL_BYTE, pc.match_substring(values, "\0")
        if kept.length is not None:
            is_long = pc.greater(pc.utf8_length(values), kept.length)
            is_short = pc.less_equal(pc.utf8_length(pc.utf8_rtrim(values, " ")), kept.length)
            yield CUT, pc.and_(is_long, is_short)  # what is too long without its spaces is an error to PostgreSQL, too
    elif pa.types.is_date32(values.type):
        yield OUT_OF_RANGE, _is_outside(values.view(pa.int32()), _FIRST_DAY, _LAST_DAY)
    elif pa.types.is_timestamp(values.type):
        micros = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64())
        yield OUT_OF_RANGE, _is_outside(micros, _FIRST_MICRO, _LAST_MICRO)
        if kept.digits < 6:
            unit = pa.scalar(10 ** (6 - kept.digits), pa.int64())
            yield ROUNDED, pc.not_equal(pc.multiply(pc.divide(micros, unit), unit), micros)


def _is_outside(numbers: pa.Array, first: int, last: int) -> pa.BooleanArray:
    return pc.or_(pc.less(numbers, first), pc.greater(numbers, last))


def _as_text(values: pa.Array) -> str:
    """The first one."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return repr(values[0].as_py())
    return str(values.cast(pa.string())[0])
