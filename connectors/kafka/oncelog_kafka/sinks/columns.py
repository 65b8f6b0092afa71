"""The columns that the tasks write: those of Spark's Kafka sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructType

from oncelog.errors import InvalidRecordError
from oncelog.spark.schema import check_sink_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAMES = ("topic", "partition", "key", "value", "headers")
"""The sink's columns. Others are ignored. So is `timestamp`: brokers or producers set it, as with Spark's own sink."""


def to_sink_columns(df: DataFrame, topic: str | None) -> DataFrame:
    """The columns of `df` that the tasks write, checked; `df` itself if it has no others.

    Raises:
        InvalidRecordError: see `check`.
    """
    check(df.schema, topic)
    written = [name for name in _NAMES if name in df.schema.names and not (name == "topic" and topic is not None)]
    return df if set(written) == set(df.schema.names) else df.select(written)


def check(schema: StructType, topic: str | None) -> None:
    """Refuse rows that the tasks cannot write.

    Raises:
        InvalidRecordError: a column is missing, duplicated, or has the wrong type.
    """
    for name in ("value",) if topic is not None else ("value", "topic"):
        if name not in schema.names:
            raise InvalidRecordError(
                "the rows lack a column of the sink; add it, or rename one", column=name, found=schema.names
            )
    check_sink_schema(StructType([field for field in schema.fields if field.name in _NAMES]), topic)


def described(schema: StructType) -> list[dict[str, str]]:
    """The columns in the form that `io.oncelog.kafka.sink.SinkSettings` reads, in order."""
    return [{"name": field.name, "type": field.dataType.simpleString()} for field in schema.fields]


def spread_by_content(rows: DataFrame, participants: int) -> DataFrame:
    """Repartition the rows so that a row's partition depends only on its content, also in a replay.

    Spark does not promise this by itself: the number of cores and adaptive plans change how rows are partitioned.
    """
    whole = [rows[name] for name in ("topic", "partition") if name in rows.columns]
    content = [rows[name].cast("binary") for name in ("key", "value") if name in rows.columns]
    return rows.repartition(participants, *whole, F.coalesce(*content))
