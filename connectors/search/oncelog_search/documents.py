"""How the rows of a batch become lines of a bulk request, by expressions of Spark: nothing of it runs in Python.

A record of the staged files is an action and its document, a line each: what the store's `_bulk` takes. Between records
is a sign that JSON never has unescaped, and not in the records: so no two parts of a file, as tasks get them, divide an
action from its document, and the records of an Arrow batch, one behind the other in memory, are the body of a request.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812

from oncelog.errors import InvalidRecordError
from oncelog.spark.kit import row_values
from oncelog_search.fields import Rule

BETWEEN_RECORDS: Final = "\x1e"

LONGEST_ID: Final = 512
"""Bytes."""

_KEYS: Final = (T.StringType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.BooleanType, T.DateType)
"""Types that have one text for each value, whatever the session's settings are."""

_JSON: Final = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
    "dateFormat": "yyyy-MM-dd",
    "ignoreNullFields": "true",
}


@dataclass(frozen=True, slots=True)
class Documents:
    """What a batch's rows are to become.

    Attributes:
        attempt: begins the `_id` of each document, if rows are added.
        key_columns: make the `_id` otherwise.
        version: of all documents of the batch; those of an older one do not replace them.
        rules: that values must satisfy.
        most_bytes: of an action and its document.
    """

    attempt: str
    key_columns: tuple[str, ...]
    version: int
    rules: tuple[Rule, ...]
    most_bytes: int


def check_keys(schema: T.StructType, key_columns: Sequence[str]) -> None:
    """Refuse columns that cannot make an `_id`.

    Raises:
        InvalidRecordError: one is missing, or of another type.
    """
    for name in key_columns:
        if name not in schema.names:
            raise InvalidRecordError(
                "a column of keyColumns is missing in the DataFrame", column=name, columns=schema.names
            )
        if not isinstance(schema[name].dataType, _KEYS):
            raise InvalidRecordError(
                "a column of this type cannot be part of an _id; cast it to string",
                column=name,
                type=schema[name].dataType.simpleString(),
            )


def lines(rows: DataFrame, documents: Documents) -> DataFrame:
    """The rows as records, in one column of text; a value that breaks a rule fails the job that asks for them.

    Each text is UTF-8 by then, so the store gets it as it is, and a key makes an `_id` that no other key makes.
    """
    rows = row_values.checked(rows, moments=False)
    action = _replacing(documents) if documents.key_columns else _adding(documents)
    row = F.struct(*map(_column, rows.columns))
    document = F.to_json(row, _JSON)
    record = F.concat(action, F.lit("\n"), document, F.lit("\n"))
    for rule in documents.rules:
        problem = InvalidRecordError(
            f"a value of the batch does not fit its field: it must be {rule.says}", column=rule.column
        )
        record = _unless(rule.is_bad(row), problem, record)
    too_large = InvalidRecordError(
        "a document is larger than a request may be; raise requestBytes, if the store takes such requests",
        requestBytes=documents.most_bytes,
    )
    made = rows.select(record.alias("value"))
    is_too_large = F.octet_length("value") > documents.most_bytes
    return made.select(_unless(is_too_large, too_large, F.col("value")).alias("value"))


def _adding(documents: Documents) -> Column:
    """The number is fixed once it is staged, whatever Spark gives the row when a task is tried again."""
    number = F.lower(F.hex(F.monotonically_increasing_id()))
    return F.concat(F.lit(f'{{"create":{{"_id":"{documents.attempt}-'), number, F.lit('"}}'))


def _replacing(documents: Documents) -> Column:
    columns = documents.key_columns
    keys = [_column(name).cast("string") for name in columns]
    made = keys[0] if len(keys) == 1 else F.concat_ws("|", *map(_escaped, keys))
    without = [(_column(name).isNull(), "a row has no value in a key column", [name]) for name in columns]
    refusals = [
        (F.octet_length(made) > LONGEST_ID, f"the key of a row is longer than {LONGEST_ID} bytes", columns),
        (made == "", "a row has an empty text as its key", columns),
        *without,
    ]
    for is_bad, message, named in refusals:
        problem = InvalidRecordError(f"{message}, so it makes no _id; filter such rows out", columns=named)
        made = _unless(is_bad, problem, made)
    version, kind = F.lit(documents.version).alias("version"), F.lit("external").alias("version_type")
    return F.to_json(F.struct(F.struct(made.alias("_id"), version, kind).alias("index")))


def _escaped(text: Column) -> Column:
    """So that two lists of keys never look the same."""
    return F.replace(F.replace(text, F.lit("\\"), F.lit("\\\\")), F.lit("|"), F.lit("\\|"))


def _column(name: str) -> Column:
    return F.col("`{}`".format(name.replace("`", "``")))


def _unless(is_bad: Column, problem: InvalidRecordError, value: Column) -> Column:
    """The value, or the error, in the form that `task_errors` knows."""
    return F.when(is_bad, F.raise_error(f"{type(problem).__name__}: {problem}").cast("string")).otherwise(value)


def count_and_action_twice(staged: DataFrame, partitions: int) -> tuple[int, str | None]:
    """How many records there are, and an action that two of them have; None if all are different.

    Args:
        staged: the records.
        partitions: into how many parts the actions are sorted.
    """
    actions = staged.select(F.substring_index("value", "\n", 1).alias("action"))
    counted = actions.repartition(partitions, "action").groupBy("action").count()
    found = counted.selectExpr("coalesce(sum(count), 0)", "max(CASE WHEN count > 1 THEN action END)").collect()[0]
    return int(found[0]), found[1]


def id_of(action: str) -> str:
    """The `_id` that an action names."""
    (named,) = json.loads(action).values()
    return str(named["_id"])


Options = dict[str, Any]

WRITING: Final[Options] = {"lineSep": BETWEEN_RECORDS, "compression": "none"}
READING: Final[Options] = {
    "lineSep": BETWEEN_RECORDS,
    # Whatever the session says: a file that is gone is an error.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}
"""Of Spark's writer and reader of text."""
