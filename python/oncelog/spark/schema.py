"""The columns of the source and of the sinks, as Spark's types and as Arrow's.

They are those of Spark's Kafka connector, so that a query changes its format name and runs.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelog.errors import InvalidRecordError

CREATE_TIME = 0
"""Kafka's timestamp type: set by the producer."""

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

_READ_FIELDS = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
_HEADERS_FIELD = StructField("headers", HEADERS)

_ARROW_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
}


# Reading -------------------------------------------------------------------------------------------------------------


def read_schema(*, include_headers: bool) -> StructType:
    """The source's columns."""
    return StructType([*_READ_FIELDS, _HEADERS_FIELD] if include_headers else [*_READ_FIELDS])


def to_read_batch(
    records: pa.RecordBatch, topic: str, partition: int, first_offset: int, *, include_headers: bool
) -> pa.RecordBatch:
    """Consecutive records of one partition in the source's columns."""
    count = records.num_rows
    columns = [
        records.column("key"),
        records.column("value"),
        pa.repeat(pa.scalar(topic, pa.string()), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.array(range(first_offset, first_offset + count), pa.int64()),
        pc.multiply(records.column("timestamp_ms"), 1000).cast(_ARROW_TYPES["timestamp"]),
        pa.repeat(pa.scalar(CREATE_TIME, pa.int32()), count),
    ]
    names = list(_ARROW_TYPES)[: len(columns)]
    if include_headers:
        columns.append(records.column("headers"))
        names.append("headers")
    return pa.RecordBatch.from_arrays(columns, names=names)


# Writing -------------------------------------------------------------------------------------------------------------

_TEXT = (BinaryType, StringType)
_SINK_TYPES: dict[str, tuple[str, tuple[type[DataType], ...]]] = {
    "value": ("binary or string", _TEXT),
    "key": ("binary or string", _TEXT),
    "topic": ("string", (StringType,)),
    "partition": ("int", (IntegerType, ShortType, ByteType)),
    "timestamp": ("timestamp", (TimestampType,)),
    "headers": ("array<struct<key:string,value:binary>>", (ArrayType,)),
}


def check_sink_schema(schema: StructType, topic: str | None) -> None:
    """Refuse rows that a sink cannot write.

    Args:
        schema: of the rows; columns other than the sink's are ignored, as by Spark's Kafka sink.
        topic: of all rows, by the sink's option; None if each row names its own.

    Raises:
        InvalidRecordError: a column is missing or of a wrong type.
    """
    required = ["value"] if topic is not None else ["value", "topic"]
    for name in required:
        if name not in schema.names:
            raise InvalidRecordError(
                "the rows lack a column of the sink; add it, or rename one", column=name, found=list(schema.names)
            )
    for field in schema.fields:
        wanted, types = _SINK_TYPES.get(field.name, ("", (DataType,)))
        if not isinstance(field.dataType, types):
            raise InvalidRecordError(
                "a column has a wrong type; cast it",
                column=field.name,
                found=field.dataType.simpleString(),
                wanted=wanted,
            )


def to_sink_columns(df: DataFrame, topic: str | None) -> DataFrame:
    """The columns of `df` that a sink writes, checked.

    Raises:
        InvalidRecordError: see `check_sink_schema`.
    """
    check_sink_schema(df.schema, topic)
    unused = {"topic"} if topic is not None else set()
    return df.select([name for name in _SINK_TYPES if name in df.columns and name not in unused])
