"""What a format of tables must provide: `delta_tables.py` and `iceberg_tables.py` do, and place.py uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Protocol

from oncelog_tables.columns import TableColumn, WrittenColumn
from oncelog_tables.decisions import Decided
from oncelog_tables.footers import FileFacts
from oncelog_tables.keys import KeyColumn
from oncelog_tables.partitions import Folders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


class Job(Protocol):
    """Writes the rows of a batch."""

    @property
    def spark(self) -> SparkSession:
        """The session whose file systems are used."""

    @property
    def schema(self) -> StructType:
        """Of the rows."""

    def run(self, planned: Sequence[WrittenColumn], folder: str, partitioned_by: Mapping[str, Folders]) -> int:
        """Write the rows once, as parquet files in a folder that is not there yet; returns how many rows it wrote.

        Args:
            planned: the columns of the files.
            folder: its URI.
            partitioned_by: the folders that part the rows, by what their names begin with.

        Raises:
            InvalidRecordError: a row has a value that the formats do not hold, or none where the table wants one.
        """


class Table(Protocol):
    """A table, as it was when it was opened.

    Attributes:
        name: by which it was opened; whoever carries a decision out opens it by that name again.
        id: its identity: a table that takes its place has another one.
        root: the URI of its folder.
        columns: that it has.
        keys: the columns by which rows are replaced; none if they are only added.
        partitioned_by: see `Job.run`.
        layout: says how files are parted, and which columns are keys: files are written for one layout.
        adds_files: whether a commit adds a batch's files to the table, and with them those of its keys. Otherwise it
            adds their rows, and nobody needs the files once it is done.
    """

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def root(self) -> str: ...
    @property
    def columns(self) -> Sequence[TableColumn]: ...
    @property
    def keys(self) -> Sequence[KeyColumn]: ...
    @property
    def partitioned_by(self) -> Mapping[str, Folders]: ...
    @property
    def layout(self) -> str: ...
    @property
    def adds_files(self) -> bool: ...

    def last_batch(self, app_id: str) -> int | None:
        """The newest batch of a sink that is in the table; None if there is none."""

    def opened(self, path: str) -> IO[bytes]:
        """A file below the table's folder, to read. May raise OSError."""

    def takes(self, layout: str) -> bool:
        """Whether a commit can still add files that were written for this layout of the table."""

    def rehearse(self, decided: Decided, folder: str, files: Sequence[FileFacts]) -> None:
        """Compute all that `commit` computes from the files, before the batch is decided, and keep none of it.

        Raises whatever the format's library does.
        """

    def commit(self, decided: Decided, folder: str, files: Sequence[FileFacts]) -> str | None:
        """Add rows, in the place of those of their keys, and remember the batch, in one commit.

        Args:
            folder: of the files, below the table's.
            files: with the rows, and with their keys if the table takes them.

        Returns:
            None; or why the log refused the commit: what others committed meanwhile may be in the way, so look again.

        Raises:
            TableUnavailableError: it is not known whether the commit happened.
        """


class Tables(Protocol):
    """The tables of a format."""

    def open(self, name: str, key_columns: Sequence[str] = ()) -> Table:
        """The table of this name, as it is now.

        Args:
            key_columns: by which rows are to be replaced.

        Raises:
            UsageError: there is none, or the sink cannot write into it, or not replace its rows by these columns.
            TableUnavailableError: not now.
        """
