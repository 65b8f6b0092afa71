"""Values at the edges of Spark's types, and names of columns that stores treat in a special way.

A value is given as SQL, because Python has no year 10000 and no text that is not UTF-8.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from typing import Any, Final

from oncelog.testing.extremes import LONG_SIZE, NAMES


class Unspeakable:
    """Stands for a value that Python cannot hold: a sink must refuse it, or its world must say what a reader sees."""

    def __repr__(self) -> str:
        return "a value that Python cannot hold"


UNSPEAKABLE: Final = Unspeakable()


@dataclass(frozen=True, slots=True)
class ExtremeValue:
    """One value.

    Attributes:
        name: of the test.
        type: of the column, in Spark's DDL.
        sql: an expression of that type.
        python: what a reader sees; `UNSPEAKABLE` if Python cannot hold it.
    """

    name: str
    type: str
    sql: str
    python: Any


def _numbers() -> list[ExtremeValue]:
    found = [
        ExtremeValue(f"{end} {type_}", type_, f"CAST({value} AS {type_})", value)
        for type_, bits in (("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64))
        for end, value in (("least", -(2 ** (bits - 1))), ("greatest", 2 ** (bits - 1) - 1))
    ]
    floats = {"infinity": inf, "-infinity": -inf, "NaN": nan, "-0.0": -0.0}
    found += [
        ExtremeValue(f"{type_} {name}", type_, f"CAST('{name}' AS {type_})", value)
        for type_ in ("float", "double")
        for name, value in floats.items()
    ]
    found += [
        ExtremeValue("greatest double", "double", "1.7976931348623157E308D", 1.7976931348623157e308),
        ExtremeValue("smallest double", "double", "4.9E-324D", 4.9e-324),
        ExtremeValue("subnormal double", "double", "-2.225073858507201E-308D", -2.225073858507201e-308),
        ExtremeValue("greatest float", "float", "CAST('3.4028235E38' AS float)", 3.4028234663852886e38),
        ExtremeValue("smallest float", "float", "CAST('-1.4E-45' AS float)", -1.401298464324817e-45),
    ]
    nines = "9" * 38
    return [
        *found,
        ExtremeValue("greatest decimal", "decimal(38,0)", f"{nines}BD", Decimal(nines)),
        ExtremeValue("least decimal", "decimal(38,0)", f"-{nines}BD", Decimal(f"-{nines}")),
        ExtremeValue("most digits behind the point", "decimal(38,38)", f"0.{nines}BD", Decimal(f"0.{nines}")),
        ExtremeValue(
            "decimal of all digits", "decimal(38,18)", f"-{_digits(20, 18)}BD", Decimal(f"-{_digits(20, 18)}")
        ),
        ExtremeValue("least step of a decimal", "decimal(38,38)", "1E-38BD", Decimal("1E-38")),
        ExtremeValue("true", "boolean", "true", True),
    ]


def _digits(before: int, behind: int) -> str:
    return f"{'1234567890' * 4:.{before}}.{'1234567890' * 4:.{behind}}"


def _texts() -> list[ExtremeValue]:
    return [
        ExtremeValue("empty text", "string", "''", ""),
        ExtremeValue("long text", "string", f"repeat('x', {LONG_SIZE})", "x" * LONG_SIZE),
        ExtremeValue("text with NUL", "string", "concat('a', char(0), 'b')", "a\0b"),
        ExtremeValue(
            "last character", "string", "concat(repeat('a', 32), decode(X'F48FBFBF', 'UTF-8'))", f"{'a' * 32}\U0010ffff"
        ),
        ExtremeValue(
            "character before the surrogates",
            "string",
            "concat(repeat('a', 15), decode(X'ED9FBF', 'UTF-8'))",
            f"{'a' * 15}\ud7ff",
        ),
        ExtremeValue("only last characters", "string", "repeat(decode(X'F48FBFBF', 'UTF-8'), 40)", "\U0010ffff" * 40),
        ExtremeValue("text that is not UTF-8", "string", "CAST(X'FF' AS string)", UNSPEAKABLE),
        ExtremeValue("text of half a character", "string", "CAST(X'61E282' AS string)", UNSPEAKABLE),
        ExtremeValue("text of half a surrogate pair", "string", "CAST(X'EDA080' AS string)", UNSPEAKABLE),
        ExtremeValue("text with a letter of two characters", "string", "decode(X'65CC81', 'UTF-8')", "e\u0301"),
        ExtremeValue("text with a byte order mark", "string", "decode(X'EFBBBF61', 'UTF-8')", "\ufeffa"),
        ExtremeValue("text of spaces", "string", "' a  '", " a  "),
        ExtremeValue("line breaks and quotes", "string", r"'a\n\r\t\"\'\\'", "a\n\r\t\"'\\"),
        ExtremeValue(
            "text that is a partition without a value",
            "string",
            "'__HIVE_DEFAULT_PARTITION__'",
            "__HIVE_DEFAULT_PARTITION__",
        ),
        ExtremeValue("empty bytes", "binary", "X''", b""),
        ExtremeValue("bytes", "binary", "X'00FF80'", b"\x00\xff\x80"),
        ExtremeValue("long bytes", "binary", f"CAST(repeat('x', {LONG_SIZE}) AS binary)", b"x" * LONG_SIZE),
    ]


def _times() -> list[ExtremeValue]:
    found = [
        ExtremeValue(f"date {text}", "date", f"DATE '{text}'", date.fromisoformat(text))
        for text in ("0001-01-01", "1500-01-01", "1582-10-15", "9999-12-31")
    ]
    found += [
        ExtremeValue("date of year 10000", "date", "date_add(DATE '9999-12-31', 1)", UNSPEAKABLE),
        ExtremeValue("date of year 0", "date", "date_add(DATE '0001-01-01', -1)", UNSPEAKABLE),
        ExtremeValue("last date", "date", "date_from_unix_date(2147483647)", UNSPEAKABLE),
    ]
    texts = (
        "0001-01-01 00:00:00.000000",
        "1500-01-01 00:00:00.000000",
        "1677-09-21 00:12:43.145224",
        "2262-04-11 23:47:16.854776",
        "9999-12-31 23:59:59.999999",
    )
    for text in texts:
        local = datetime.fromisoformat(text)
        found += [
            ExtremeValue(f"timestamp {text}", "timestamp", f"TIMESTAMP '{text} UTC'", local.replace(tzinfo=UTC)),
            ExtremeValue(f"timestamp_ntz {text}", "timestamp_ntz", f"TIMESTAMP_NTZ '{text}'", local),
        ]
    for name, micros in (
        ("of year 10000", 253_402_300_800_000_000),
        ("of year 0", -62_135_596_800_000_001),
        ("that is the greatest", 2**63 - 1),
        ("that is the least", -(2**63)),
    ):
        text = "-9223372036854775807L - 1" if micros == -(2**63) else f"{micros}L"
        found.append(ExtremeValue(f"timestamp {name}", "timestamp", f"timestamp_micros({text})", UNSPEAKABLE))
    return found


_DEPTH = 12


def _nested() -> list[ExtremeValue]:
    deep: Any = 1
    for _ in range(_DEPTH):
        deep = [deep]
    return [
        ExtremeValue(
            "deep array", f"{'array<' * _DEPTH}int{'>' * _DEPTH}", f"{'array(' * _DEPTH}1{')' * _DEPTH}", deep
        ),
        ExtremeValue("array of null", "array<int>", "array(CAST(NULL AS int))", [None]),
        ExtremeValue("empty array", "array<string>", "CAST(array() AS array<string>)", []),
        ExtremeValue(
            "empty arrays in an array",
            "array<array<int>>",
            "array(CAST(array() AS array<int>), NULL, array(1))",
            [[], None, [1]],
        ),
        ExtremeValue("array of nulls and a value", "array<int>", "array(NULL, 1, NULL)", [None, 1, None]),
        ExtremeValue(
            "empty array in a map", "map<string,array<int>>", "map('a', CAST(array() AS array<int>))", {"a": []}
        ),
        ExtremeValue(
            "struct with a null and empty parts",
            "struct<a:struct<b:int>,c:array<string>,d:string>",
            "named_struct('a', CAST(NULL AS struct<b:int>), 'c', CAST(array() AS array<string>), 'd', '')",
            {"a": None, "c": [], "d": ""},
        ),
        ExtremeValue(
            "struct of nulls",
            "struct<a:int,b:string>",
            "named_struct('a', CAST(NULL AS int), 'b', CAST(NULL AS string))",
            {"a": None, "b": None},
        ),
        ExtremeValue("map to null", "map<string,int>", "map('a', CAST(NULL AS int))", {"a": None}),
        ExtremeValue("map with the empty key", "map<string,int>", "map('', 1)", {"": 1}),
        ExtremeValue(
            "array with a text that is not UTF-8", "array<string>", "array(CAST(X'FF' AS string))", UNSPEAKABLE
        ),
        ExtremeValue(
            "struct with a date of year 10000",
            "struct<a:date>",
            "named_struct('a', date_add(DATE '9999-12-31', 1))",
            UNSPEAKABLE,
        ),
    ]


_NULLS = ("boolean", "int", "double", "decimal(38,0)", "string", "binary", "date", "timestamp", "array<int>")

EXTREME_VALUES: Final = (
    *_numbers(),
    *_texts(),
    *_times(),
    *_nested(),
    *(ExtremeValue(f"null {type_}", type_, f"CAST(NULL AS {type_})", None) for type_ in _NULLS),
)

ODD_COLUMN_NAMES: Final = NAMES
"""Names of columns that Spark takes."""
