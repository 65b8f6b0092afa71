"""The check of values that Spark holds, and that the stores behind the sinks do not.

Spark keeps any bytes in a column of strings, and days of any year. Most stores take text in UTF-8 only, and most of
their readers know the years 1 to 9999 only. So each sink checks the values in the tasks that write a batch: the job of
a batch with such a value fails before anything is decided, and the error names the column and the value.

The check has two forms: `checked` adds it to the plan, for rows that Spark's own writers write; `check` is for Arrow
batches, in tasks that run Python. Neither runs Python code for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from operator import methodcaller
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from oncelog.extras import extras

with extras("spark", part="oncelog.spark.kit"):
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
    from pyspark.sql import types as T  # noqa: N812

from oncelog.errors import InvalidRecordError, Shown

NOT_UTF8: Final = (
    "a text is not valid UTF-8; correct it in the query, as with make_valid_utf8(column), or make the column binary"
)
OTHER_YEAR: Final = (
    "a date or a timestamp is not in the years 1 to 9999 of UTC, which is all that the readers of such stores know; "
    "replace it in the query, or filter such rows out"
)
NO_VALUE: Final = "a row has no value in a column in which the table wants one; filter such rows out, or fill them"

SHOWN_BYTES: Final = 64
"""Of a text that is not valid UTF-8, in its error."""

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The days of the years 1 to 9999, counted from 1970."""

_MICROS_PER_DAY: Final = 86_400_000_000
FIRST_MICRO, LAST_MICRO = FIRST_DAY * _MICROS_PER_DAY, (LAST_DAY + 1) * _MICROS_PER_DAY - 1
"""The same in microseconds."""

_MOMENTS: Final = (T.DateType, T.TimestampType, T.TimestampNTZType)

# Within a plan --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule for the values of a column, or for those within its values.

    Attributes:
        path: of the values, for errors.
        message: of the error.
        is_bad: whether a value breaks it; null counts as False.
        shown: a bad value as text.
    """

    path: str
    message: str
    is_bad: Callable[[Column], Column]
    shown: Callable[[Column], Column]

    def problem(self, value: Column) -> Column:
        """The error of a bad value, in the form that `task_errors` knows."""
        start = str(InvalidRecordError(self.message, column=self.path)).removesuffix("]")
        text = F.concat(F.lit(f"{InvalidRecordError.__name__}: {start}, value="), self.shown(value), F.lit("]"))
        return F.raise_error(text)


def checked(
    rows: DataFrame, *, moments: bool = True, required: Collection[str] = (), only: Collection[str] | None = None
) -> DataFrame:
    """The same rows; the job that writes them fails with an InvalidRecordError if a value breaks a rule.

    Args:
        moments: whether dates and timestamps must be in the years 1 to 9999.
        required: columns that must have a value in each row.
        only: the columns that are checked; None for all.
    """
    return rows.select(
        *(
            _checked(field, moments, field.name in required) if only is None or field.name in only else _named(field)
            for field in rows.schema.fields
        )
    )


def _named(field: T.StructField) -> Column:
    return F.col("`{}`".format(field.name.replace("`", "``")))


def _checked(field: T.StructField, moments: bool, is_required: bool) -> Column:
    column = _named(field)
    found = column
    for rule in _rules(field.dataType, field.name, moments):
        problem = rule.problem(column).cast(field.dataType)
        found = F.when(rule.is_bad(column), problem).otherwise(found)
    if is_required:
        found = refused(found, column.isNull(), InvalidRecordError(NO_VALUE, column=field.name), field.dataType)
    return found.alias(field.name, metadata=field.metadata)


def refused(value: Column, is_bad: Column, problem: InvalidRecordError, type_: T.DataType) -> Column:
    """The value, of this type; or the error, which fails the job, in the form that `task_errors` knows."""
    return F.when(is_bad, F.raise_error(f"{type(problem).__name__}: {problem}").cast(type_)).otherwise(value)


def _rules(type_: T.DataType, path: str, moments: bool) -> Iterator[_Rule]:
    if isinstance(type_, T.StringType):
        yield _Rule(path, NOT_UTF8, lambda text: ~F.is_valid_utf8(text), _as_bytes)
    elif isinstance(type_, _MOMENTS) and moments:
        first, last = _bounds(type_)
        yield _Rule(path, OTHER_YEAR, lambda value: (value < first) | (value > last), _as_text)
    elif isinstance(type_, T.StructType):
        for field in type_.fields:
            for rule in _rules(field.dataType, f"{path}.{field.name}", moments):
                yield _within(rule, methodcaller("getField", field.name))
    elif isinstance(type_, T.ArrayType):
        for rule in _rules(type_.elementType, f"{path}.element", moments):
            yield _of_elements(rule, type_.elementType)
    elif isinstance(type_, T.MapType):
        parts = (("key", type_.keyType, F.map_keys), ("value", type_.valueType, F.map_values))
        for name, part, of_map in parts:
            for rule in _rules(part, f"{path}.{name}", moments):
                yield _within(_of_elements(rule, part), of_map)


def _within(rule: _Rule, part: Callable[[Column], Column]) -> _Rule:
    """The rule of a part of a value, for the value."""
    return _Rule(rule.path, rule.message, lambda value: rule.is_bad(part(value)), lambda value: rule.shown(part(value)))


def _of_elements(rule: _Rule, type_: T.DataType) -> _Rule:
    """The rule of elements of this type, for their array."""

    def is_bad(element: Column) -> Column:
        return F.coalesce(rule.is_bad(element), F.lit(False))

    def any_is_bad(array: Column) -> Column:
        # Spark compiles the functions for texts and moments, and interprets `exists`.
        if isinstance(type_, T.StringType):
            return rule.is_bad(F.array_join(array, ","))  # a comma is no part of any other sign
        if isinstance(type_, _MOMENTS):
            return rule.is_bad(F.array_min(array)) | rule.is_bad(F.array_max(array))
        return F.exists(array, is_bad)

    def shown(array: Column) -> Column:
        return rule.shown(F.get(F.filter(array, is_bad), F.lit(0)))

    return _Rule(rule.path, rule.message, any_is_bad, shown)


def _bounds(type_: T.DataType) -> tuple[Column, Column]:
    """The first and the last value of the years 1 to 9999."""
    if isinstance(type_, T.DateType):
        return F.date_from_unix_date(F.lit(FIRST_DAY)), F.date_from_unix_date(F.lit(LAST_DAY))
    zone = "Z" if isinstance(type_, T.TimestampType) else ""
    return F.lit(f"0001-01-01 00:00:00{zone}").cast(type_), F.lit(f"9999-12-31 23:59:59.999999{zone}").cast(type_)


def _as_text(moment: Column) -> Column:
    return F.to_csv(F.struct(moment), {"timeZone": "UTC"})


def _as_bytes(text: Column) -> Column:
    return F.concat(F.lit("0x"), F.lower(F.hex(F.substring(text.cast("binary"), 1, SHOWN_BYTES))))


# In Arrow batches -----------------------------------------------------------------------------------------------------


def check(batch: pa.RecordBatch, *, moments: bool = True) -> None:
    """Refuse an Arrow batch with a value that breaks a rule.

    Args:
        moments: whether dates and timestamps must be in the years 1 to 9999.

    Raises:
        InvalidRecordError: see above.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for path, values in leaves(name, column):
            if _is_text(values.type):
                _check_texts(path, values)
            elif moments and (bounds := _numbers(values.type)) is not None:
                _check_moments(path, values, *bounds)


def leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The arrays of which an array is made, with their paths; what is below a null is left out."""
    kind = values.type
    if pa.types.is_struct(kind):
        for field, part in zip(kind.fields, values.flatten(), strict=True):
            yield from leaves(f"{path}.{field.name}", part)
    elif pa.types.is_map(kind):
        for name, part in (("key", values.keys), ("value", values.items)):
            yield from leaves(f"{path}.{name}", pa.ListArray.from_arrays(values.offsets, part).flatten())
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from leaves(f"{path}.element", values.flatten())
    else:
        yield path, values


def _is_text(kind: pa.DataType) -> bool:
    return any(is_such(kind) for is_such in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _check_texts(path: str, texts: pa.Array) -> None:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        bad = next((text for text in texts.cast(pa.binary()).to_pylist() if not _is_utf8(text)), b"")
        shown = f"0x{bad[:SHOWN_BYTES].hex()}"
        raise InvalidRecordError(NOT_UTF8, column=path, value=Shown(shown)) from None


def _is_utf8(text: bytes | None) -> bool:
    try:
        (text or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _numbers(kind: pa.DataType) -> tuple[pa.DataType, int, int] | None:
    """The type of the numbers that moments are, and those of the first and the last one; None for other types."""
    if pa.types.is_date32(kind):
        return pa.int32(), FIRST_DAY, LAST_DAY
    return (pa.int64(), FIRST_MICRO, LAST_MICRO) if pa.types.is_timestamp(kind) and kind.unit == "us" else None


def _check_moments(path: str, moments: pa.Array, number: pa.DataType, first: int, last: int) -> None:
    least_and_greatest = pc.min_max(moments.view(number)).as_py()
    for value in least_and_greatest.values():
        if value is not None and not first <= value <= last:
            of_utc = pa.date32() if pa.types.is_date32(moments.type) else pa.timestamp("us")
            shown = pa.scalar(value, number).cast(of_utc).cast(pa.string()).as_py()
            raise InvalidRecordError(OTHER_YEAR, column=path, value=Shown(shown))
