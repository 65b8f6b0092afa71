"""Turns a batch's rows into what the tasks write: the columns of Spark's Kafka sink, with keys and values as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructType

from oncelog.spark.schema import check_sink_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TYPES = {"topic": "string", "partition": "int", "key": "binary", "value": "binary", "headers": None}
"""The sink's columns and what they are cast to. Other columns are ignored. So is `timestamp`: brokers or producers set
it, as with Spark's own sink."""


def to_sink_columns(df: DataFrame, topic: str | None) -> DataFrame:
    """The columns of `df` that the tasks write, checked and cast.

    Raises:
        InvalidRecordError: see `check`.
    """
    check(df.schema, topic)
    return df.select([_cast(df, name) for name in _TYPES if name in df.columns and _counts(name, topic)])


def check(schema: StructType, topic: str | None) -> None:
    """Refuse rows that the tasks cannot write.

    Raises:
        InvalidRecordError: a column is missing, duplicated, or has the wrong type.
    """
    check_sink_schema(StructType([field for field in schema.fields if field.name in _TYPES]), topic)


def described(schema: StructType) -> list[dict[str, str]]:
    """The columns in the form that `io.oncelog.kafka.sink.SinkSettings` reads, in order."""
    return [{"name": field.name, "type": field.dataType.simpleString()} for field in schema.fields]


def spread_by_content(rows: DataFrame, participants: int) -> DataFrame:
    """Repartition the rows so that a row's partition depends only on its content, also in a replay.

    Spark does not promise this by itself: the number of cores and adaptive plans change how rows are partitioned.
    """
    whole = [rows[name] for name in ("topic", "partition") if name in rows.columns]
    content = F.coalesce(rows["key"], rows["value"]) if "key" in rows.columns else rows["value"]
    return rows.repartition(participants, *whole, content)


def _counts(name: str, topic: str | None) -> bool:
    return not (name == "topic" and topic is not None)


def _cast(df: DataFrame, name: str) -> Column:
    kind = _TYPES[name]
    return df[name] if kind is None else df[name].cast(kind).alias(name)
