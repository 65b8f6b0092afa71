"""What writes the rows of a batch: Spark's own writer of files, whose job commit says which tries of tasks count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812

from oncelog.errors import InvalidOptionError, InvalidRecordError, UsageError
from oncelog.randomness import random_id
from oncelog.spark import task_errors
from oncelog.spark.kit import counting, row_values, spark_files
from oncelog.spark.kit.session_settings import changed
from oncelog.spark.kit.spark_files import FoundFile
from oncelog.spark.kit.staging import room_for_files

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows that have no value in a column of partitionBy."""

_EXACT_TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS[XXX]",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of Spark's writers of text, which otherwise write milliseconds, and drop what is smaller."""

WRITING: Final[Mapping[str, Mapping[str, str]]] = dict.fromkeys(("json", "csv", "xml"), _EXACT_TIMES)
"""Options that a format's writer gets if the user names no others."""

_SETTINGS: Final = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Of Spark's session, unless it has its own. Spark's default, INT96, is read by others as nanoseconds in 64 bits: they
see 1816 instead of 9999."""

_TASK: Final = re.compile(r"(?:^|/)part-(\d+)-[^/]*$")
"""Spark's name of a file, which begins with the number of the task that wrote it."""

LONGEST_NAME: Final = 255
"""Bytes of a folder's name, on disks and in HDFS; object stores have names of whole paths only."""

_ESCAPED: Final = r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]"
"""The signs that Spark writes as three in the name of a folder."""


def check_columns(rows: DataFrame, partition_by: Sequence[str]) -> None:
    """Refuse rows with columns that cannot become folders.

    Raises:
        InvalidRecordError: which one.
    """
    found = {field.name.lower(): field for field in rows.schema.fields}
    missing = [name for name in partition_by if name.lower() not in found]
    if missing:
        raise InvalidRecordError(
            "a column of partitionBy is missing in the DataFrame", missing=missing, columns=rows.columns
        )
    for name in partition_by:
        if name.startswith("."):
            raise InvalidRecordError(
                "readers pass over folders whose names begin with a dot; rename the column of partitionBy", column=name
            )
        if isinstance(found[name.lower()].dataType, T.BinaryType):
            raise InvalidRecordError(
                "bytes in the name of a folder cannot be read again; make the column of partitionBy a string, as with "
                "hex",
                column=name,
            )


def partition_types(schema: T.StructType, partition_by: Sequence[str]) -> dict[str, str]:
    """The types of the columns that become folders, by the names that the folders have."""
    found = {field.name.lower(): field.dataType.simpleString() for field in schema.fields}
    return {name: found[name.lower()] for name in partition_by}


def checked(rows: DataFrame, format_: str, partition_by: Sequence[str], *, has_long_names: bool) -> DataFrame:
    """The same rows; the job that writes them fails with an InvalidRecordError if a text cannot be read again.

    Files of the format `text` are bytes, in whatever encoding.

    Args:
        has_long_names: whether the file system takes names of any length.
    """
    if len(set(rows.columns)) < len(rows.columns):
        return rows  # Spark's writer says which column is there twice
    partitions = {name.lower() for name in partition_by}
    columns = [
        _as_folder(field, has_long_names=has_long_names) if field.name.lower() in partitions else _column(field.name)
        for field in rows.schema.fields
    ]
    return (rows if format_ == "text" else row_values.checked(rows, moments=False)).select(*columns)


def _as_folder(field: T.StructField, *, has_long_names: bool) -> Column:
    """A column whose texts become names of folders."""
    text = _column(field.name)
    if not isinstance(field.dataType, T.StringType):
        return text
    signs = F.octet_length(text) - F.octet_length(F.regexp_replace(text, _ESCAPED, ""))
    is_too_long = F.octet_length(text) + 2 * signs > LONGEST_NAME - len(f"{field.name}=".encode())
    refusals = [
        (
            text.isin("", NO_VALUE) | ~F.is_valid_utf8(text),
            f"a text cannot become the name of a folder and be read again: it is empty, or {NO_VALUE}, or not UTF-8; "
            "replace it in the query, as by null",
        )
    ]
    if not has_long_names:
        refusals.append((is_too_long, "a text is too long for the name of a folder; shorten it in the query"))
    found = text
    for is_bad, message in refusals:
        problem = InvalidRecordError(message, column=field.name)
        error = F.raise_error(f"{type(problem).__name__}: {problem}").cast(field.dataType)
        found = F.when(is_bad, error).otherwise(found)
    return found.alias(field.name, metadata=field.metadata)


def _column(name: str) -> Column:
    return F.col("`{}`".format(name.replace("`", "``")))


@dataclass(frozen=True, slots=True)
class Written:
    """What Spark's tasks wrote.

    Attributes:
        rows: how many.
        tasks: the numbers of the tasks that had any.
    """

    rows: int
    tasks: frozenset[int]

    def unseen(self, files: Sequence[FoundFile]) -> list[int]:
        """The tasks with rows of which no file is among these; none if files do not have the names of Spark's writer.

        Where an extension of Spark shuffles rows on their way into the files, other tasks write them: then files and
        tasks cannot be compared.
        """
        named = [_TASK.search(file.name) for file in files]
        found = {int(name[1]) for name in named if name}
        if None in named or not found <= self.tasks | {0}:  # the first task writes a file even if it has no rows
            return []
        return sorted(self.tasks - found)


def write(
    rows: DataFrame, folder: str, format_: str, partition_by: Sequence[str], options: Mapping[str, str]
) -> Written:
    """Run the plan once, and leave its rows as files in a new folder.

    Raises:
        InvalidRecordError: the format cannot hold such columns.
        InvalidOptionError: Spark's writer refuses an option.
        FileWriteError: there is no space.
        NotPreparedError: Spark did not say how many rows there are.
        UsageError: Spark has no writer of this format.
        OncelogError: a task raised it.
    """
    observation, spark = Observation(), rows.sparkSession
    unset = {name: value for name, value in _SETTINGS.items() if spark.conf.get(name, None) is None}
    with changed(spark, unset), room_for_files(), _said_shortly(format_, rows.columns), task_errors.in_one_sentence():
        task = f"task-{random_id()}"  # Spark observes it in a column only
        tasks = F.concat_ws(",", F.collect_set(_column(task)).cast("array<string>")).alias("tasks")
        observed = rows.withColumn(task, F.spark_partition_id())
        observed = observed.observe(observation, F.count(F.lit(1)).alias("rows"), tasks).drop(task)
        writer = observed.write.format(format_).options(**WRITING.get(format_, {})).options(**options)
        writer = writer.options(**spark_files.WRITER)
        writer.partitionBy(*partition_by).save(folder)
    counted = counting.observed(observation)
    return Written(int(counted["rows"]), frozenset(int(task) for task in counted["tasks"].split(",") if task))


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
