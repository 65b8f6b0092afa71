"""Which columns fit into which fields of an index, and what their values must satisfy.

The store checks a document's values when it takes the document, which is after the decision. So a column goes into a
field only if no value of the column's type can be refused, or if Spark can find those that would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Final, cast

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812

from oncelog.errors import InvalidRecordError
from oncelog_search import terms
from oncelog_search.addresses import ADDRESS
from oncelog_search.indices import Index

IsBad = Callable[[Column], Column]
"""Whether a value, or a row as a struct, would be refused; null, or False, if not."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What the values of a column must satisfy.

    Attributes:
        column: its name; of a field in a struct its path.
        is_bad: which values do not; of the rules that `rules` returns, which rows.
        says: what they must be.
    """

    column: str
    is_bad: IsBad
    says: str


Field = Mapping[str, Any]


def rules(schema: T.StructType, index: Index) -> list[Rule]:
    """What rows must satisfy, to be given as structs of all their columns.

    Raises:
        InvalidRecordError: a column has no field, or one that does not take its type.
    """
    found = list(_of_struct(schema, index.fields, _Path(index, "")))
    return [*found, *_of_hidden_documents(schema, index)]


@dataclass(frozen=True, slots=True)
class _Path:
    """Where in a document something is.

    Attributes:
        index: that the document is for.
        name: of the field; empty for the document.
    """

    index: Index
    name: str

    def __truediv__(self, name: str) -> _Path:
        return _Path(self.index, f"{self.name}.{name}" if self.name else name)

    def refusal(self, message: str, **fields: Any) -> InvalidRecordError:
        return InvalidRecordError(message, column=self.name, **fields, index=self.index.name)


def _of_struct(schema: T.StructType, fields: Mapping[str, Field], at: _Path) -> Iterator[Rule]:
    _refuse_names_twice(schema, at)
    for column in schema.fields:
        field = fields.get(column.name)
        if field is None:
            raise (at / column.name).refusal(
                "the mapping of the index has no such field; add it, or leave the column out", fields=sorted(fields)
            )
        for rule in _of_value(column.dataType, field, at / column.name):
            yield _within(rule, methodcaller("getField", column.name))


def _of_value(type_: T.DataType, field: Field, at: _Path) -> Iterator[Rule]:
    kind = field.get("type", "object")
    if "script" in field:
        raise at.refusal(
            "the store computes the values of this field by a script, and takes no others; leave the column out"
        )
    if isinstance(type_, T.ArrayType):
        _refuse_deep_arrays(type_, at)
        for rule in _of_value(type_.elementType, field, at):
            yield _in_elements(rule)
    elif _is_free(field) and isinstance(type_, T.StructType | T.MapType):
        yield from _of_free(type_, at)
    elif isinstance(type_, T.StructType) and kind in {"object", "nested"}:
        yield from _of_struct(type_, field.get("properties") or {}, at)
    else:
        for each in _taking(field, at):
            yield from _of_scalar(type_, each, at)


def _is_free(field: Field) -> bool:
    """Whether the store keeps what is in an object, and looks at nothing in it."""
    return field.get("type", "object") == "object" and field.get("enabled") in (False, "false")


def _of_free(type_: T.DataType, at: _Path) -> Iterator[Rule]:
    """The store parses also what it does not look at: no object may have a name twice."""
    if isinstance(type_, T.ArrayType):
        yield from map(_in_elements, _of_free(type_.elementType, at))
    elif isinstance(type_, T.StructType):
        _refuse_names_twice(type_, at)
        for child in type_.fields:
            for rule in _of_free(child.dataType, at / child.name):
                yield _within(rule, methodcaller("getField", child.name))
    elif isinstance(type_, T.MapType):
        if not isinstance(type_.keyType, T.StringType):
            raise at.refusal(
                "the keys of a map become names, which are strings: cast them, as with transform_keys",
                type=type_.simpleString(),
            )
        yield Rule(at.name, _has_a_key_twice, "a map without two equal keys")
        for rule in _of_free(type_.valueType, at):
            yield _within(_in_elements(rule), F.map_values)


def _has_a_key_twice(of_map: Column) -> Column:
    keys = F.map_keys(of_map)
    return F.size(F.array_distinct(keys)) < F.size(keys)


def _refuse_names_twice(schema: T.StructType, at: _Path) -> None:
    names = [name.lower() for name in schema.names]  # as Spark tells columns apart
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        what = at.name or "the DataFrame"
        raise InvalidRecordError("two columns or fields have the same name", columns=twice, of=what)


def _refuse_deep_arrays(type_: T.ArrayType, at: _Path) -> None:
    most, depth, inner = int(at.index.settings.get(_DEPTH, _DEPTH_BY_DEFAULT)), 0, cast("T.DataType", type_)
    while isinstance(inner, T.ArrayType):
        depth, inner = depth + 1, inner.elementType
    if depth > most:
        raise at.refusal("arrays are in each other deeper than the index allows", depth=depth, limit=most)


def _taking(field: Field, at: _Path) -> Iterator[Field]:
    """The field, and those that get its value, too."""
    yield from _with_subfields(field)
    copies = field.get("copy_to") or ()
    for path in [copies] if isinstance(copies, str) else copies:
        inner: Any = {"properties": at.index.fields}
        for part in path.split("."):
            inner = (inner.get("properties") or {}).get(part) or {}
        yield from _with_subfields(inner)


def _with_subfields(field: Field) -> Iterator[Field]:
    yield field
    yield from (field.get("fields") or {}).values()


def _within(rule: Rule, part: Callable[[Column], Column]) -> Rule:
    """The rule of a part of a value, for the value."""
    return Rule(rule.column, lambda value: rule.is_bad(part(value)), rule.says)


def _in_elements(rule: Rule) -> Rule:
    """The rule of elements, for their array."""

    def is_bad(element: Column) -> Column:
        return F.coalesce(rule.is_bad(element), F.lit(False))

    return Rule(rule.column, lambda array: F.exists(array, is_bad), rule.says)


# Hidden documents -----------------------------------------------------------------------------------------------------

_HIDDEN: Final = "index.mapping.nested_objects.limit"
_HIDDEN_BY_DEFAULT: Final = 10_000
_DEPTH: Final = "index.mapping.depth.limit"
_DEPTH_BY_DEFAULT: Final = 20


def _of_hidden_documents(schema: T.StructType, index: Index) -> Iterator[Rule]:
    """Each struct in a `nested` field is a document of its own for the store, which limits their number."""
    most = int(index.settings.get(_HIDDEN, _HIDDEN_BY_DEFAULT))
    count = _hidden(schema, {"properties": index.fields})
    if count is not None:
        nested = [each.name for each in schema.fields if _hidden(each.dataType, index.fields[each.name]) is not None]
        says = f"at most {most} structs in nested fields of one row ({_HIDDEN})"
        yield Rule(", ".join(nested), lambda row: count(row) > most, says)


def _hidden(type_: T.DataType, field: Field) -> Callable[[Column], Column] | None:
    """How many hidden documents a value makes; None if it can make none."""
    if isinstance(type_, T.ArrayType):
        of_element = _hidden(type_.elementType, field)
        if of_element is None:
            return None
        return lambda array: F.coalesce(F.aggregate(array, F.lit(0), lambda n, one: n + of_element(one)), F.lit(0))
    if not isinstance(type_, T.StructType) or _is_free(field):
        return None
    inner = field.get("properties") or {}
    found = [(child.name, _hidden(child.dataType, inner[child.name])) for child in type_.fields]
    parts = [(name, part) for name, part in found if part is not None]
    own = int(field.get("type") == "nested")
    if not own and not parts:
        return None

    def count(struct: Column) -> Column:
        made = sum((part(struct.getField(name)) for name, part in parts), F.lit(own))
        return F.when(struct.isNull(), 0).otherwise(made)

    return count


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


def _of_scalar(type_: T.DataType, field: Field, at: _Path) -> Iterator[Rule]:
    kind = field.get("type", "object")
    taken = _TAKEN.get(kind)
    if taken is None:
        raise at.refusal(
            "the sink does not write into fields of this type: the store could refuse values after the decision",
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
        yield Rule(at.name, lambda value: ~value.rlike(ADDRESS), "an IPv4 or IPv6 address")


def _of_number(type_: T.DataType, largest: float | None, at: _Path) -> Iterator[Rule]:
    most = _LARGEST_DOUBLE if largest is None else largest
    if isinstance(type_, _BINARY_POINT) or most < 2.0**63:
        # Spark takes NaN for larger than any other number.
        yield Rule(at.name, lambda value: F.abs(value.cast("double")) > most, f"a number from -{most:g} to {most:g}")


def _of_text(type_: T.DataType, field: Field, at: _Path) -> Iterator[Rule]:
    """Text that becomes one term must fit into one."""
    most = terms.most_bytes(field, at.index.settings)
    if most is not None and isinstance(type_, T.StringType):
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
