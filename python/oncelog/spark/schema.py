"""The columns of the source and of the sinks, as Spark types and as Arrow types.

They are the columns of Spark's Kafka connector, so a query only has to change the name of its format. Columns that are
never null are declared so: Spark then skips the null check of each row, which makes reading a tenth cheaper.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelog.errors import InvalidOptionError, InvalidRecordError

CREATE_TIME = 0
"""Kafka's timestamp type for times that the producer set."""

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

_READ_FIELDS = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType(), nullable=False),
    StructField("partition", IntegerType(), nullable=False),
    StructField("offset", LongType(), nullable=False),
    StructField("timestamp", TimestampType(), nullable=False),
    StructField("timestampType", IntegerType(), nullable=False),
)
_HEADERS_FIELD = StructField("headers", ArrayType(_HEADER))

_READ_COLUMNS = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field("timestampType", pa.int32(), nullable=False),
)
_HEADERS_COLUMN = pa.field(
    "headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
"""How Spark translates the fields above: a reader's record batches must match it exactly, including nullability."""

_ARROW_TYPES = {column.name: column.type for column in (*_READ_COLUMNS, _HEADERS_COLUMN)}
_SPARK_TYPES = {field.name: field.dataType for field in (*_READ_FIELDS, _HEADERS_FIELD)}


# Reading --------------------------------------------------------------------------------------------------------------


def read_schema(*, include_headers: bool) -> StructType:
    """The source's columns."""
    return StructType([*_READ_FIELDS, _HEADERS_FIELD] if include_headers else [*_READ_FIELDS])


def read_columns(schema: StructType) -> pa.Schema:
    """The Arrow columns that a reader must produce.

    Args:
        schema: the source's own, or the part that a user chose with ``.schema(...)``. Spark does not prune the columns
            of a Python source, so choosing some saves reading the others.

    Raises:
        InvalidOptionError: the source has no such column, or it has another type there.
    """
    for field in schema.fields:
        wanted = _SPARK_TYPES.get(field.name)
        if wanted is None or field.dataType != wanted:
            raise InvalidOptionError(
                "schema() may only name columns of the source, with their types",
                column=field.name,
                found=field.dataType.simpleString(),
                source={name: kind.simpleString() for name, kind in _SPARK_TYPES.items()},
            )
    return pa.schema([pa.field(f.name, _ARROW_TYPES[f.name], nullable=f.nullable) for f in schema.fields])


def stored_columns(columns: pa.Schema) -> tuple[str, ...]:
    """The stored columns that the source's `columns` are made from."""
    made_of = {"key": "key", "value": "value", "timestamp": "timestamp_ms", "headers": "headers"}
    # At least one column must be read, if only to count rows; timestamps are the smallest.
    return tuple(made_of[name] for name in columns.names if name in made_of) or ("timestamp_ms",)


def to_read_batch(
    records: pa.RecordBatch, topic: str, partition: int, first_offset: int, columns: pa.Schema
) -> pa.RecordBatch:
    """Consecutive records of one partition, in the source's columns.

    Args:
        records: with at least the `stored_columns` of `columns`.
        topic, partition: the partition that the records are from.
        first_offset: offset of the first record.
        columns: what Spark was told (`read_columns`).
    """
    count = records.num_rows
    made: dict[str, Callable[[], pa.Array]] = {
        "key": lambda: records.column("key"),
        "value": lambda: records.column("value"),
        "topic": lambda: pa.repeat(pa.scalar(topic, pa.string()), count),
        "partition": lambda: pa.repeat(pa.scalar(partition, pa.int32()), count),
        "offset": lambda: pa.array(np.arange(first_offset, first_offset + count, dtype=np.int64)),
        "timestamp": lambda: _as_timestamps(records.column("timestamp_ms")),
        "timestampType": lambda: pa.repeat(pa.scalar(CREATE_TIME, pa.int32()), count),
        "headers": lambda: _empty_as_null(records.column("headers")),
    }
    return pa.RecordBatch.from_arrays([made[name]() for name in columns.names], schema=columns)


def _as_timestamps(timestamps_ms: pa.Array) -> pa.Array:
    return timestamps_ms.view(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))


def _empty_as_null(headers: pa.Array) -> pa.Array:
    """A record without headers shows null, as in Spark's Kafka source."""
    import pyarrow.compute as pc  # slow to import, and a driver that only checks a schema does not need it

    is_empty = pc.equal(pc.list_value_length(headers), 0)
    return pc.if_else(is_empty, pa.scalar(None, headers.type), headers) if pc.any(is_empty).as_py() else headers


# Writing --------------------------------------------------------------------------------------------------------------

_SINK_TYPES = {
    "value": ("binary", "string"),
    "key": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int", "smallint", "tinyint"),
    "timestamp": ("timestamp",),
    "headers": (ArrayType(_HEADER).simpleString(),),
}
"""The columns that a sink writes, each with the types that it may have. Other columns are ignored."""


def check_sink_schema(schema: StructType, topic: str | None) -> None:
    """Refuse rows that a sink cannot write.

    Args:
        schema: of the rows; columns other than the sink's are ignored, as in Spark's Kafka sink.
        topic: the sink's option, which applies to all rows; None if each row names its own topic.

    Raises:
        InvalidRecordError: a column is missing, duplicated, or has the wrong type.
    """
    required = ["value"] if topic is not None else ["value", "topic"]
    for name in required:
        if name not in schema.names:
            raise InvalidRecordError(
                "the rows lack a column of the sink; add it, or rename one", column=name, found=list(schema.names)
            )
    for name in _used(schema.names, topic):
        found = [field.dataType.simpleString() for field in schema.fields if field.name == name]
        if len(found) > 1:
            raise InvalidRecordError("the rows have a column of the sink twice; drop one", column=name, found=found)
        if found[0] not in _SINK_TYPES[name]:
            raise InvalidRecordError(
                "a column has a wrong type; cast it",
                column=name,
                found=found[0],
                wanted=" or ".join(_SINK_TYPES[name]),
            )


def to_sink_columns(df: DataFrame, topic: str | None) -> DataFrame:
    """The columns of `df` that a sink writes, checked.

    Raises:
        InvalidRecordError: see `check_sink_schema`.
    """
    check_sink_schema(df.schema, topic)
    return df.select([_sink_column(df, name) for name in _used(df.columns, topic)])


def _sink_column(df: DataFrame, name: str) -> Column:
    """The column as it is sent to Python, with null headers replaced by empty ones.

    In Spark 4.3 the time to write a null array into an Arrow batch grows with the number of rows before it: rows with
    null headers took seven times as long as others.
    """
    column = df[f"`{name}`"]
    if name != "headers":
        return column
    return F.coalesce(column, F.array().cast(df.schema[name].dataType)).alias(name)


def _used(names: list[str], topic: str | None) -> list[str]:
    """The sink's columns among `names`; the option `topic` takes precedence over a column of that name."""
    return [name for name in _SINK_TYPES if name in names and not (name == "topic" and topic is not None)]
