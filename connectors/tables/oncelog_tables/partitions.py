"""The values of partitions in the names of the folders that writers make: ``column=value``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812 - the same

from oncelog.errors import InvalidRecordError
from oncelog.spark.kit import row_values

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name for rows without a value, or with an empty text."""

_MARK: Final = "="
"""Before a text that ends in Spark's name for no value, so that no text has that name."""

LONGEST: Final = {"file": 255, "hdfs": 255}
"""Bytes of a folder's name, by the scheme of its file system."""

LONGEST_KEY_PART: Final = 800
"""The same in object stores, which limit the whole key: to 1,024 bytes, most of them."""

SPARK_ESCAPES: Final = r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]"""
DELTA_RS_ESCAPES: Final = r"[^A-Za-z0-9]"
"""The signs that the two write as ``%XX``: the second one for each byte, though not for all of these signs."""


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of one partition.

    Attributes:
        value: the SQL expression of what their names end with; None for the column of the same name, which the files
            then leave out.
        label: what errors call the partition.
    """

    value: str | None
    label: str


def values_of(name: str) -> dict[str, str | None]:
    """The values in the folders of a file's name, by column; None for no value, and for an empty text."""
    pairs = (folder.split("=", 1) for folder in name.split("/")[:-1])
    return {unquote(column): None if value == NO_VALUE else unquote(value) for column, value in pairs}


def marked(column: str) -> str:
    """The SQL expression by which Spark is to name the folders of a column of texts, so that `unmarked` reads them."""
    quoted = "`{}`".format(column.replace("`", "``"))
    return f"IF(endswith({quoted}, '{NO_VALUE}'), concat('{_MARK}', {quoted}), {quoted})"


def unmarked(text: str | None) -> str | None:
    """The value of a column of texts from its folder's; None for no value, and for an empty text."""
    return text.removeprefix(_MARK) if text and text.endswith(NO_VALUE) else text


def checked(rows: DataFrame, labels: Mapping[str, str], escapes: str, root: str) -> DataFrame:
    """The same rows; the job that writes them fails with an InvalidRecordError if a folder cannot have its name.

    Args:
        labels: what errors call the columns that name folders, by the names of these.
        escapes: a pattern of the signs that the writer escapes.
        root: the URI below which the folders are.
    """
    most = LONGEST.get(root.partition(":")[0], LONGEST_KEY_PART)
    texts = [
        field.name for field in rows.schema.fields if field.name in labels and isinstance(field.dataType, T.StringType)
    ]
    return rows.withColumns({name: _checked(name, labels[name], escapes, most) for name in texts}) if texts else rows


def _checked(name: str, label: str, escapes: str, most: int) -> Column:
    text = F.col("`{}`".format(name.replace("`", "``")))
    others = F.octet_length(F.regexp_replace(text, escapes, ""))
    size = others + 3 * (F.octet_length(text) - others) + len(name.encode()) + 1
    problem = InvalidRecordError(
        "a text in a column by which the table is partitioned cannot be the name of a folder: it is too long, has a "
        "NUL, or is the name for no value; change it in the query, or partition the table by another column",
        column=label,
        most_bytes=most,
    )
    return row_values.refused(text, (size > most) | text.contains("\0") | (text == NO_VALUE), problem, T.StringType())
