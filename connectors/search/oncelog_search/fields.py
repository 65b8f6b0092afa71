"""Which columns fit into which fields of an index, and what their values must satisfy.

The store looks at a document's values when it takes the document: behind the decision. So a column goes into a field
only if no value of the column's type can be refused, or if Spark can find those that would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812

from oncelog.errors import InvalidRecordError

IsBad = Callable[[Column], Column]
"""Whether a value would be refused; null, or False, if not."""

LONGEST_TERM: Final = 32_766
"""Bytes of a value that is indexed as one term."""

_BYTES_OF_A_SIGN: Final = 4
_LONGER_IF_NORMALIZED: Final = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """What the values of a column must satisfy.

    Attributes:
        column: its name; of a field in a struct its path.
        is_bad: which values do not.
        says: what they must be.
    """

    column: str
    is_bad: IsBad
    says: str


Field = Mapping[str, Any]


def rules(schema: T.StructType, fields: Mapping[str, Field], index: str) -> list[Rule]:
    """What the values of all columns must satisfy, to be given with the column of the first part of their path.

    Args:
        fields: of the mapping, by name.

    Raises:
        InvalidRecordError: a column has no field, or one that does not take its type.
    """
    names = [name.lower() for name in schema.names]  # as Spark tells columns apart
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidRecordError("two columns of the DataFrame have the same name", columns=twice)
    return list(_of_struct(schema, fields, _Path(index, fields, "")))


@dataclass(frozen=True, slots=True)
class _Path:
    """Where in a document something is.

    Attributes:
        index: its name, for errors.
        all_fields: of the mapping, for fields that get copies.
        name: of the field; empty for the document.
    """

    index: str
    all_fields: Mapping[str, Field]
    name: str

    def __truediv__(self, name: str) -> _Path:
        return _Path(self.index, self.all_fields, f"{self.name}.{name}".lstrip("."))

    def refusal(self, message: str, **fields: Any) -> InvalidRecordError:
        return InvalidRecordError(message, column=self.name, **fields, index=self.index)


def _of_struct(schema: T.StructType, fields: Mapping[str, Field], at: _Path) -> Iterator[Rule]:
    for column in schema.fields:
        field = fields.get(column.name)
        if field is None:
            raise (at / column.name).refusal(
                "the mapping of the index has no such field; add it, or leave the column out", fields=sorted(fields)
            )
        yield from _of_value(column.dataType, field, at / column.name)


def _of_value(type_: T.DataType, field: Field, at: _Path) -> Iterator[Rule]:
    kind = field.get("type", "object")
    if isinstance(type_, T.ArrayType):
        for rule in _of_value(type_.elementType, field, at):
            yield Rule(rule.column, _in_elements(rule.is_bad), rule.says)
    elif kind == "object" and field.get("enabled") in (False, "false") and isinstance(type_, T.StructType | T.MapType):
        return  # the store keeps it and looks at nothing in it
    elif isinstance(type_, T.StructType) and kind in {"object", "nested"}:
        inner: Mapping[str, Field] = field.get("properties") or {}
        for child in type_.fields:
            for rule in _of_struct(T.StructType([child]), inner, at):
                yield Rule(rule.column, _in_field(child.name, rule.is_bad), rule.says)
    else:
        for each in _taking(field, at):
            yield from _of_scalar(type_, each, at)


def _taking(field: Field, at: _Path) -> Iterator[Field]:
    """The field, and those that get its value, too."""
    yield field
    yield from (field.get("fields") or {}).values()
    copies = field.get("copy_to") or ()
    for path in [copies] if isinstance(copies, str) else copies:
        inner: Any = {"properties": at.all_fields}
        for part in path.split("."):
            inner = (inner.get("properties") or {}).get(part) or {}
        yield inner


def _in_elements(is_bad: IsBad) -> IsBad:
    return lambda value: F.exists(value, lambda element: F.coalesce(is_bad(element), F.lit(False)))


def _in_field(name: str, is_bad: IsBad) -> IsBad:
    return lambda value: is_bad(value.getField(name))


# Values that are no structs -------------------------------------------------------------------------------------------

_WHOLE: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_BINARY_POINT: Final = (T.FloatType, T.DoubleType)
_TIMES: Final = (T.DateType, T.TimestampType, T.TimestampNTZType)

_WHOLE_FIELDS: Final = ("byte", "short", "integer", "long")
_FLOAT_FIELDS: Final = {"half_float": 65_504.0, "float": 3.4028234663852886e38, "double": None, "scaled_float": None}
_TEXT_FIELDS: Final = ("keyword", "text", "match_only_text", "search_as_you_type", "wildcard")
_LARGEST_DOUBLE: Final = 1.7976931348623157e308

_TAKEN: Final[Mapping[str, Sequence[type[T.DataType]]]] = {
    **{name: _WHOLE[: at + 1] for at, name in enumerate(_WHOLE_FIELDS)},
    "unsigned_long": _WHOLE,
    **dict.fromkeys(_FLOAT_FIELDS, (*_BINARY_POINT, *_WHOLE, T.DecimalType)),
    "boolean": (T.BooleanType,),
    "date": _TIMES,
    "date_nanos": _TIMES,
    **dict.fromkeys(_TEXT_FIELDS, (T.StringType, *_WHOLE, T.BooleanType)),
    "ip": (T.StringType,),
    "binary": (T.BinaryType,),
}
"""The types of columns that each type of field takes."""

_DATE_FORMATS: Final = {"strict_date_optional_time", "date_optional_time", "strict_date_optional_time_nanos"}
"""Those that read what Spark writes; one of them among others is enough."""

_MILLIS: Final = "0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"
_NANOS: Final = "1970-01-01T00:00:00", "2262-04-11T00:00:00"
"""The first and the last time that such fields hold, in UTC."""

_IPV4: Final = r"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_HEX: Final = "[0-9A-Fa-f]{1,4}"
_IPV6: Final = (
    f"(({_HEX}:){{7}}{_HEX}|({_HEX}:){{1,7}}:|:(:{_HEX}){{1,7}}|"
    + "|".join(f"({_HEX}:){{1,{left}}}(:{_HEX}){{1,{7 - left}}}" for left in range(1, 7))
    + "|::)"
)
_ADDRESS: Final = f"^({_IPV4}|{_IPV6})$"


def _of_scalar(type_: T.DataType, field: Field, at: _Path) -> Iterator[Rule]:
    kind = field.get("type", "object")
    taken = _TAKEN.get(kind)
    if taken is None:
        raise at.refusal(
            "the sink does not write into fields of this type: the store could refuse values behind the decision",
            type=type_.simpleString(),
            field_type=kind,
        )
    if not isinstance(type_, tuple(taken)):
        wanted = sorted(known.typeName() for known in taken)
        raise at.refusal(
            f"the field of the index does not take this type: cast it to {' or '.join(wanted)} first",
            type=type_.simpleString(),
            field_type=kind,
        )
    if kind in _FLOAT_FIELDS:
        yield from _of_number(type_, _FLOAT_FIELDS[kind], at)
    elif kind == "unsigned_long":
        yield Rule(at.name, lambda value: value < 0, "not below zero")
    elif kind in _TEXT_FIELDS:
        yield from _of_text(type_, field, at)
    elif kind in {"date", "date_nanos"}:
        yield from _of_time(type_, field, at)
    elif kind == "ip":
        yield Rule(at.name, lambda value: ~value.rlike(_ADDRESS), "an IPv4 or IPv6 address")


def _of_number(type_: T.DataType, largest: float | None, at: _Path) -> Iterator[Rule]:
    most = _LARGEST_DOUBLE if largest is None else largest
    if isinstance(type_, _BINARY_POINT) or most < 2.0**63:
        # Spark takes NaN for larger than any other number.
        yield Rule(at.name, lambda value: F.abs(value.cast("double")) > most, f"a number from -{most:g} to {most:g}")


def _of_text(type_: T.DataType, field: Field, at: _Path) -> Iterator[Rule]:
    """Text that becomes one term must fit into one."""
    is_one_term = field["type"] in {"keyword", "wildcard"} or field.get("analyzer") == "keyword"
    kept_signs = field.get("ignore_above")
    if not is_one_term or not isinstance(type_, T.StringType):
        return
    most = LONGEST_TERM // _LONGER_IF_NORMALIZED if field.get("normalizer") else LONGEST_TERM
    if kept_signs is None or int(kept_signs) * _BYTES_OF_A_SIGN > most:
        yield Rule(at.name, lambda value: F.octet_length(value) > most, f"at most {most} bytes")


def _of_time(type_: T.DataType, field: Field, at: _Path) -> Iterator[Rule]:
    given = field.get("format")
    if given is not None and not _DATE_FORMATS & {part.strip() for part in given.split("||")}:
        raise at.refusal(
            "the format of the field does not read what Spark writes; add ||strict_date_optional_time to it, or make "
            "the field a keyword and the column a string",
            format=given,
        )
    first, last = _NANOS if field["type"] == "date_nanos" else _MILLIS

    def bound(text: str) -> Column:
        if isinstance(type_, T.DateType):
            return F.lit(text[:10]).cast(type_)
        return F.lit(f"{text}Z" if isinstance(type_, T.TimestampType) else text).cast(type_)

    def is_out(value: Column) -> Column:
        return (value < bound(first)) | (value > bound(last))

    yield Rule(at.name, is_out, f"a time from {first} to {last}")
