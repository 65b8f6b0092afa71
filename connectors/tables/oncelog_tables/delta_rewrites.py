"""Whether delta-rs can rewrite files of a Delta table, and leaves the rows in them as they are.

A merge rewrites each file that has a row to replace, with all its other rows. delta-rs does not read every
file as the readers of Delta do: it takes the timestamps of INT96, which Spark's writer makes by default, for
nanoseconds, which end in 1677 and 2262, and it does not know Spark's marks of the old calendar. So before a batch is
decided, and again before it is merged, the sink looks at the files in which the merge could find rows. It reads the
footer of each file once, and the columns about which the footer leaves a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
from pyspark.sql import types as T  # noqa: N812 - everybody's name for it

from oncelog.errors import UsageError
from oncelog.spark.kit import row_values
from oncelog_tables import delta_merges, partitions
from oncelog_tables.footers import READERS, FileFacts
from oncelog_tables.keys import KeyColumn

OF_NO_VALUE: Final = (
    f"its partition is the text {partitions.NO_VALUE}, which falls together with no value when delta-rs writes it; "
    "change the text"
)

_ABSOLUTE: Final = re.compile("/|[A-Za-z][A-Za-z0-9+.-]*:")

_ROWS_AT_A_TIME: Final = 65_536

_REWRITE: Final = (
    "; rewrite the table's files once: in Spark, SET spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS and SET "
    "spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED, then INSERT OVERWRITE the table SELECT * FROM it"
)
OF_INT96: Final = (
    "it has timestamps before 1677 or after 2262 in the format INT96, which delta-rs would change" + _REWRITE
)
OF_OLD_CALENDAR: Final = "it has days of the old calendar, which delta-rs would move" + _REWRITE
OF_MAPS: Final = (
    "the structs within its maps have other fields than those of the table, which delta-rs cannot merge" + _REWRITE
)
OF_CLONES: Final = "it belongs to another table, of which this one is a shallow clone; make a deep clone"
OF_DECIMALS: Final = (
    "delta-rs writes a negative decimal as another value if the table is partitioned by it; partition the table by "
    "another column, or write with mode=append"
)

_NANOS: Final = -(2**63) // 1000 + 1, (2**63 - 1) // 1000
"""Microseconds of the timestamps that fit into nanoseconds."""

_NEW_CALENDAR_DAY: Final = -141_427
_NEW_CALENDAR_MICRO: Final = -2_208_988_800_000_000
"""1582-10-15, and 1900-01-01 of UTC: from then on both calendars, and Spark's rules of time zones, agree."""

_VERSION: Final = b"org.apache.spark.version"
_OF_SPARK: Final = b"org.apache.spark.sql.parquet.row.metadata"
_LEGACY: Final = b"org.apache.spark.legacyDateTime", (3, 0)
_LEGACY_INT96: Final = b"org.apache.spark.legacyINT96", (3, 1)
"""Spark's marks of files of the old calendar, and its first release that writes them."""


class _Doubt(NamedTuple):
    """A column of a file of which delta-rs keeps only the values from `first` to `last`, and why."""

    path: str
    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A file in which a merge could find rows.

    Attributes:
        path: in the table's log, decoded.
        partition: the values of all its rows.
    """

    path: str
    partition: Mapping[str, Any]


class Rewrites:
    """What is known of the files of one table; it is kept from batch to batch.

    Args:
        files: below the table's folder.
    """

    def __init__(self, files: arrow_fs.FileSystem) -> None:
        self._files = files
        self._sound: set[str] = set()
        self._schema: T.StructType | None = None

    def check(
        self, name: str, actions: pa.Table, schema: T.StructType, keys: Sequence[KeyColumn], batch: Sequence[FileFacts]
    ) -> None:
        """Refuse a merge that would have to rewrite a file that delta-rs does not read, or write, as it is.

        Args:
            name: of the table, for errors.
            actions: the files of the table, as delta-rs says them.
            schema: of the table.
            keys: by which the batch replaces rows.
            batch: its files.

        Raises:
            UsageError: see above.
            OSError: a file cannot be read.
        """
        if schema != self._schema:
            self._schema, self._sound = schema, set()
        found = [_candidate(row) for row in _candidates(actions, keys, batch)]
        new = [candidate for candidate in found if candidate.path not in self._sound]
        with ThreadPoolExecutor(READERS) as readers:
            for candidate, problem in zip(new, readers.map(lambda one: self._problem(one, schema), new), strict=True):
                if problem is not None:
                    column, reason = problem
                    raise refusal(name, reason, column=column, file=candidate.path)
                self._sound.add(candidate.path)

    def _problem(self, candidate: _Candidate, schema: T.StructType) -> tuple[str | None, str] | None:
        """The column that delta-rs would change, and the reason; None if there is none."""
        if _ABSOLUTE.match(candidate.path):
            return None, OF_CLONES
        for column, value in candidate.partition.items():
            if isinstance(schema[column].dataType, T.DecimalType) and value is not None and value < 0:
                return column, OF_DECIMALS
            if value == partitions.NO_VALUE:
                return column, OF_NO_VALUE
        try:
            with (
                self._files.open_input_file(candidate.path) as stream,
                pq.ParquetFile(stream, coerce_int96_timestamp_unit="us") as file,
            ):
                of_map = next(_other_maps(file.schema_arrow, schema), None)
                if of_map is not None:
                    return of_map, OF_MAPS
                doubts = _doubts(file.metadata)
                return next(((doubt.path, doubt.reason) for doubt in doubts if _is_true(doubt, file)), None)
        except pa.ArrowException as problem:
            return None, f"it cannot be read: {problem}"


def check_decimals(name: str, schema: T.StructType, partitioned_by: Sequence[str], batch: Sequence[FileFacts]) -> None:
    """Refuse a batch with negative decimals in a column by which the table is partitioned.

    Raises:
        UsageError: see above.
    """
    for column in partitioned_by:
        if isinstance(schema[column].dataType, T.DecimalType):
            known = [file.columns.get((column,)) for file in batch]
            if any(
                one is None or (one.nulls != file.rows and (one.least is None or one.least < 0))
                for one, file in zip(known, batch, strict=True)
            ):
                raise refusal(name, OF_DECIMALS, column=column)


def refusal(name: str, reason: str, **about: Any) -> UsageError:
    return UsageError(
        "the sink cannot replace rows of this Delta table: the rows of others in a file that has to be rewritten would "
        "not stay as they are",
        table=name,
        **{key: value for key, value in about.items() if value is not None},
        reason=reason,
    )


# Which files ----------------------------------------------------------------------------------------------------------


def _candidates(actions: pa.Table, keys: Sequence[KeyColumn], batch: Sequence[FileFacts]) -> Iterator[dict[str, Any]]:
    """The files that may have keys of the batch, by the statistics and partitions that the log has."""
    for key in keys:
        bounds = delta_merges.bounds(key.name, batch)
        if bounds is None:
            continue
        for column, is_outside, bound in (
            (f"max.{key.name}", pc.less, bounds[0]),
            (f"min.{key.name}", pc.greater, bounds[1]),
            (f"partition.{key.name}", pc.less, bounds[0]),
            (f"partition.{key.name}", pc.greater, bounds[1]),
        ):
            if column in actions.column_names:
                values = actions.column(column)
                outside = pc.fill_null(is_outside(values, pa.scalar(bound, values.type)), fill_value=False)
                actions = actions.filter(pc.invert(outside))
    kept = [name for name in actions.column_names if name == "path" or name.startswith("partition.")]
    yield from actions.select(kept).to_pylist()


def _candidate(row: Mapping[str, Any]) -> _Candidate:
    partition = {name.removeprefix("partition."): value for name, value in row.items() if name != "path"}
    return _Candidate(unquote(row["path"]), partition)


# What a file has ------------------------------------------------------------------------------------------------------


def _doubts(footer: pq.FileMetaData) -> Iterator[_Doubt]:
    is_legacy, is_legacy_int96 = (_is_legacy(footer.metadata or {}, *mark) for mark in (_LEGACY, _LEGACY_INT96))
    for number in range(footer.num_columns):
        leaf = footer.schema.column(number)
        kind = leaf.logical_type.type
        if leaf.physical_type == "INT96":
            yield _Doubt(leaf.path, *_NANOS, OF_INT96)
            if is_legacy_int96:
                yield _Doubt(leaf.path, _NEW_CALENDAR_MICRO, 2**63, OF_OLD_CALENDAR)
        elif is_legacy and kind in {"DATE", "TIMESTAMP"}:
            first = _NEW_CALENDAR_DAY if kind == "DATE" else _NEW_CALENDAR_MICRO
            yield _Doubt(leaf.path, first, 2**63, OF_OLD_CALENDAR)


def _is_legacy(metadata: Mapping[bytes, bytes], mark: bytes, since: tuple[int, int]) -> bool:
    """Whether Spark wrote a file in the old calendar: it says so, or is too old to say so."""
    version = metadata.get(_VERSION)
    if version is None:
        return _OF_SPARK in metadata
    return mark in metadata or tuple(map(int, version.split(b".")[:2])) < since


def _is_true(doubt: _Doubt, file: pq.ParquetFile) -> bool:
    """Whether a column has a value of which there is a doubt."""
    for rows in file.iter_batches(_ROWS_AT_A_TIME, columns=[doubt.path]):
        for _, values in row_values.leaves("", rows.column(0)):
            if pa.types.is_date32(values.type):
                numbers = values.view(pa.int32())
            else:
                numbers = values.cast(pa.timestamp("us"), safe=False).view(pa.int64())
            found = pc.min_max(numbers).as_py()
            if found["min"] is not None and not (doubt.first <= found["min"] and found["max"] <= doubt.last):
                return True
    return False


def _other_maps(found: pa.Schema, wanted: T.StructType) -> Iterator[str]:
    """The columns with a map of structs that have other fields in the file than in the table."""
    for field in found:
        if field.name in wanted.names and _differs(field.type, wanted[field.name].dataType, is_in_map=False):
            yield field.name


def _differs(found: pa.DataType, wanted: T.DataType, *, is_in_map: bool) -> bool:
    if isinstance(wanted, T.StructType) and pa.types.is_struct(found):
        fields = {field.name: field.type for field in found.fields}
        if is_in_map and set(fields) != set(wanted.names):
            return True
        both = ((fields[field.name], field.dataType) for field in wanted.fields if field.name in fields)
        return any(_differs(*pair, is_in_map=is_in_map) for pair in both)
    if isinstance(wanted, T.ArrayType) and pa.types.is_list(found):
        return _differs(found.value_type, wanted.elementType, is_in_map=is_in_map)
    if isinstance(wanted, T.MapType) and pa.types.is_map(found):
        parts = ((found.key_type, wanted.keyType), (found.item_type, wanted.valueType))
        return any(_differs(*part, is_in_map=True) for part in parts)
    return False
