"""What writes the rows of a batch: Spark's own writer of files, whose job commit says which tries of tasks count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from oncelog.errors import InvalidOptionError, InvalidRecordError, UsageError
from oncelog.spark import task_errors
from oncelog.spark.kit import counting, spark_files
from oncelog.spark.kit.staging import room_for_files


def check_columns(rows: DataFrame, partition_by: Sequence[str]) -> None:
    """Refuse rows that lack a column that is to become a folder.

    Raises:
        InvalidRecordError: which one.
    """
    known = {name.lower() for name in rows.columns}
    missing = [name for name in partition_by if name.lower() not in known]
    if missing:
        raise InvalidRecordError(
            "a column of partitionBy is missing in the DataFrame", missing=missing, columns=rows.columns
        )


def write(rows: DataFrame, folder: str, format_: str, partition_by: Sequence[str], options: Mapping[str, str]) -> int:
    """Run the plan once, and leave its rows as files in a new folder; returns how many rows there are.

    Raises:
        InvalidRecordError: the format cannot hold such columns.
        InvalidOptionError: Spark's writer refuses an option.
        FileWriteError: there is no space.
        NotPreparedError: Spark did not say how many rows there are.
        UsageError: Spark has no writer of this format.
        OncelogError: a task raised it.
    """
    observation = Observation()
    with room_for_files(), _said_shortly(format_, rows.columns), task_errors.in_one_sentence():
        observed = rows.observe(observation, F.count(F.lit(1)).alias("rows"))
        writer = observed.write.format(format_).options(**options).options(**spark_files.WRITER)
        writer.partitionBy(*partition_by).save(folder)
    return int(counting.observed(observation)["rows"])


@contextmanager
def _said_shortly(format_: str, columns: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except AnalysisException as problem:
        said = spark_files.reason(problem)
        if "DATA_SOURCE" in said or "Failed to find data source" in said:
            raise UsageError(
                "Spark has no writer of this format; start it with the package that brings one",
                format=format_,
                reason=said,
            ) from None
        raise InvalidRecordError(
            "Spark cannot write these columns in this format", format=format_, columns=list(columns), reason=said
        ) from None
    except IllegalArgumentException as problem:
        raise InvalidOptionError(
            "Spark's writer refuses an option: correct compression, or one of format.*",
            format=format_,
            reason=spark_files.reason(problem),
        ) from None
