"""The keys of an upsert: by which columns of a table rows are replaced, and what the rows of a batch have in them.

The keys are read from the files that the batch's job has written, never from its plan, which may make other rows when
it runs again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812 - the same

from oncelog.errors import InvalidRecordError, UsageError
from oncelog.spark.kit.upserts import key_twice, key_without_value
from oncelog_tables import columns, field_ids, writing
from oncelog_tables.columns import TableColumn
from oncelog_tables.field_ids import FieldIds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from oncelog_tables.partitions import Folders

FOLDER: Final = "keys/"
"""Below the attempt's folder: the files with the keys of a batch, for a format that commits them."""

TYPES: Final = (
    T.StringType,
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.DecimalType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)
"""Of columns that a key may have. Floats are left out: NaN, and the two zeros, are equal or not as one looks at it."""

_ROWS: Final = "_oncelog_rows"

_PATTERN: Final = re.compile(r"[\\{}\[\]*?]")
"""What Spark's readers take in a path for a part of a pattern, unless a backslash is before it."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column by which rows are replaced.

    Attributes:
        name, type: in the table.
        ids: see `TableColumn`.
        takes_empty: whether the table tells an empty text from no value.
    """

    name: str
    type: T.DataType
    ids: FieldIds | None = None
    takes_empty: bool = True


def find(names: Sequence[str], table: str, of_table: Sequence[TableColumn]) -> tuple[KeyColumn, ...]:
    """The columns of `keyColumns` in a table, in any case, each once.

    Raises:
        UsageError: there is no such column, or it cannot be part of a key.
    """
    found = dict.fromkeys(_find(name, table, of_table) for name in names)
    for column in found:
        if not isinstance(column.type, TYPES):
            raise UsageError(
                "rows cannot be replaced by a column of this type; cast it in the query, and in the table, such as to "
                "string",
                keyColumns=list(names),
                column=column.name,
                type=column.type.simpleString(),
                table=table,
            )
    return tuple(KeyColumn(column.name, column.type, column.ids) for column in found)


def _find(name: str, table: str, of_table: Sequence[TableColumn]) -> TableColumn:
    try:
        return columns.named(name, table, of_table)
    except InvalidRecordError:
        raise UsageError(
            "the table has no such column, or several of that name; correct keyColumns",
            keyColumns=name,
            table=table,
            columns=[column.name for column in of_table],
        ) from None


def check(spark: SparkSession, folder: str, keys: Sequence[KeyColumn], table: str) -> None:
    """Refuse a batch of which two rows have the same key, or one has no value in it.

    Args:
        folder: the URI of that with the rows' files.
        table: its name, for errors.

    Raises:
        InvalidRecordError: see above.
    """
    names = [_quoted(key) for key in keys]
    rows = _read(spark, folder, keys).repartition(spark.sparkContext.defaultParallelism, *names)
    counted = rows.groupBy(*names).agg(F.count(F.lit(1)).alias(_ROWS))
    are_bad = [F.col(_ROWS) > 1, *(F.col(_quoted(key)).isNull() for key in keys)]
    are_bad += [F.col(_quoted(key)) == "" for key in keys if not key.takes_empty]
    bad = counted.where(reduce(lambda one, other: one | other, are_bad)).limit(1).collect()
    if bad:
        raise _refusal(dict(zip([key.name for key in keys], bad[0], strict=False)), keys, table)


def _refusal(found: Mapping[str, Any], keys: Sequence[KeyColumn], table: str) -> InvalidRecordError:
    without = [name for name, value in found.items() if value is None]
    if without:
        return key_without_value(table=table, columns=without)
    empty = [key.name for key in keys if not key.takes_empty and found[key.name] == ""]
    if empty:
        return InvalidRecordError(
            "a row has an empty text in a key column by which the table is partitioned: the table keeps it as no "
            "value, so no row can be found that it replaces; filter such rows out",
            table=table,
            columns=empty,
        )
    return key_twice(table=table, key=dict(found))


def write(spark: SparkSession, folder: str, keys: Sequence[KeyColumn], partitioned_by: Mapping[str, Folders]) -> None:
    """Write the keys of the rows in a folder into files below it, parted as the rows are.

    Args:
        partitioned_by: see `writing.write`; the values depend on nothing but the keys.
    """
    named = (F.col(_quoted(key)).alias(key.name, metadata=field_ids.metadata(key.ids)) for key in keys)
    ids = [key.ids for key in keys if key.ids]
    writing.write(_read(spark, folder, keys).select(*named), f"{folder}/{FOLDER}", partitioned_by, ids)


def is_of_keys(file: str) -> bool:
    """Whether a file, by its name below the attempt's folder, has keys, and not rows."""
    return file.startswith(FOLDER)


def _read(spark: SparkSession, folder: str, keys: Sequence[KeyColumn]) -> DataFrame:
    """The keys of the rows in the files of a folder."""
    schema = T.StructType([T.StructField(key.name, key.type) for key in keys])
    reader = spark.read.schema(schema).options(
        recursiveFileLookup="true",  # without a look at the names of folders, which are no columns of the rows
        ignoreMissingFiles="false",
        ignoreCorruptFiles="false",
    )
    return reader.parquet(_PATTERN.sub(r"\\\g<0>", folder))


def _quoted(key: KeyColumn) -> str:
    return "`{}`".format(key.name.replace("`", "``"))
