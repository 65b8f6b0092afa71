"""Delta tables, through delta-rs (the package deltalake): their log is read and committed to here.

A commit adds the files of a batch; or, if the batch replaces rows, those that delta-rs has merged it into, which is all
that it does with rows. With them it has an action ``txn`` of Delta's protocol: (sink, batch). The table keeps the
newest one of each sink, in its checkpoints too. The log refuses a commit whose sink has committed since the table was
read: so of two drivers that carry the same decision out, one finds the batch in the table at its next look. It also
refuses a merge if others have added or replaced rows that it would have had to look at.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Final

import deltalake
import pyarrow as pa
import pyarrow.dataset as arrow_dataset
import pyarrow.fs as arrow_fs
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import types as T  # noqa: N812 - everybody's name for it

from oncelog.errors import UsageError
from oncelog.extras import install
from oncelog_tables import delta_features, delta_merges, delta_rewrites, keys, partitions
from oncelog_tables.columns import TableColumn
from oncelog_tables.decisions import Decided
from oncelog_tables.delta_rewrites import Rewrites
from oncelog_tables.delta_statistics import statistics
from oncelog_tables.errors import TableUnavailableError
from oncelog_tables.footers import FileFacts
from oncelog_tables.keys import KeyColumn
from oncelog_tables.partitions import Folders

OLDEST: Final = (1, 6)
"""The oldest deltalake whose `create_write_transaction` commits app transactions. Older ones leave them out, unsaid."""

ROWS_AT_A_TIME: Final = 8192
"""Of a batch that is merged, on their way from its files."""


class DeltaTables:
    """Delta tables by their places; see `Tables`. It keeps what it has read of a log, and reads on from there.

    Args:
        storage: options of delta-rs for the storage, such as credentials.

    Raises:
        UsageError: deltalake is too old.
    """

    def __init__(self, storage: Mapping[str, str]) -> None:
        installed = deltalake.__version__
        if tuple(map(int, installed.split(".")[:2])) < OLDEST:
            raise UsageError(
                "the package deltalake is too old: it would commit without saying which batch it is, and a batch could "
                f"get into a table twice; {install('delta')}",
                installed=installed,
                oldest=".".join(map(str, OLDEST)),
            )
        self._storage = dict(storage)
        self._read: dict[str, _Log] = {}

    def open(self, name: str, key_columns: Sequence[str] = ()) -> OpenDeltaTable:
        """The table in this place: a path, or a URI.

        Raises:
            UsageError: there is none, or the sink cannot write into it, or not replace its rows by these columns.
            TableUnavailableError: not now.
        """
        with _failing(name):
            log = self._read.get(name)
            if log is None or not log.read_on():
                log = self._read[name] = _Log(name, self._storage)
            return OpenDeltaTable(name, log, key_columns)


class _Log:
    """What has been read of a table's log."""

    def __init__(self, place: str, storage: dict[str, str]) -> None:
        self.files = arrow_fs.PyFileSystem(DeltaStorageHandler(place, storage))
        self.table = DeltaTable(place, storage_options=storage)
        self.rewrites = Rewrites(self.files)
        self._mark = self._newest()

    def read_on(self) -> bool:
        """Read what was committed since. False: it is no longer the same log.

        A table that takes the place of another one has its own commits, of the same numbers. delta-rs would go on from
        the number that it knows.
        """
        if self._mark is None or self._newest() != self._mark:
            return False
        self.table.update_incremental()
        self.remember()
        return True

    def remember(self) -> None:
        """The table has moved on to its newest commit."""
        self._mark = self._newest()

    def _newest(self) -> tuple[int, int] | None:
        """Size and time of the newest commit that was read; None if it is not there."""
        found = self.files.get_file_info(f"_delta_log/{self.table.version():020}.json")
        return None if found.type != arrow_fs.FileType.File else (found.size, found.mtime_ns)


class OpenDeltaTable:
    """A Delta table, as it was when it was opened; see `Table`."""

    def __init__(self, place: str, log: _Log, key_columns: Sequence[str]) -> None:
        self.name = place
        self.root = f"file://{place}" if place.startswith("/") else place
        self._log = log
        metadata = log.table.metadata()
        self.id = str(metadata.id)
        self._configuration = metadata.configuration
        self._schema = T.StructType.fromJson(json.loads(log.table.schema().to_json()))
        self._partitioned_by = list(metadata.partition_columns)
        self.layout = json.dumps(self._partitioned_by)
        features = log.table.protocol().writer_features or ()
        delta_features.check(place, features, self._configuration, self._schema, self._partitioned_by)
        self.columns: Sequence[TableColumn] = [
            TableColumn(
                field.name,
                field.dataType,
                field.nullable,
                delta_features.DEFAULT in field.metadata,
                names_folder=bool(key_columns) and field.name in self._partitioned_by,
            )
            for field in self._schema.fields
        ]
        self.keys: Sequence[KeyColumn] = [
            replace(key, takes_empty=key.name not in self._partitioned_by or not isinstance(key.type, T.StringType))
            for key in keys.find(key_columns, place, self.columns)
        ]
        if self.keys:
            delta_features.check_merges(place, self._configuration, self._partitioned_by)

    @property
    def adds_files(self) -> bool:
        return not self.keys

    @property
    def partitioned_by(self) -> Mapping[str, Folders]:
        return {name: Folders(self._folder(name), name) for name in self._partitioned_by} if self.adds_files else {}

    def last_batch(self, app_id: str) -> int | None:
        return self._log.table.transaction_version(app_id)

    def opened(self, path: str) -> IO[bytes]:
        found: IO[bytes] = self._log.files.open_input_file(path)
        return found

    def takes(self, layout: str) -> bool:
        return layout == self.layout

    def rehearse(self, decided: Decided, folder: str, files: Sequence[FileFacts]) -> None:
        if self.adds_files:
            for file in files:
                self._added(f"{folder}/{file.name}", file, 0)
            return
        self._check_rewrites(files)

    def commit(self, decided: Decided, folder: str, files: Sequence[FileFacts]) -> str | None:
        now_ms = time.time_ns() // 1_000_000
        said = {"userMetadata": f"oncelog {decided.app_id} batch {decided.batch_id}"}
        of_batch = [Transaction(decided.app_id, decided.batch_id, now_ms)]
        try:
            with _failing(self.name):
                if self.adds_files:
                    blind = {**said, "isBlindAppend": True}
                    self._add(folder, files, CommitProperties(blind, app_transactions=of_batch), now_ms)
                else:
                    self._merge(decided, folder, files, CommitProperties(said, app_transactions=of_batch))
        except CommitFailedError as refused:
            return _line(refused)
        return None

    def _add(self, folder: str, files: Sequence[FileFacts], properties: CommitProperties, now_ms: int) -> None:
        """Commit files as they are."""
        added: list[AddAction | RemoveAction] = [self._added(f"{folder}/{file.name}", file, now_ms) for file in files]
        table = self._log.table
        table.create_write_transaction(
            added, "append", table.schema(), self._partitioned_by, commit_properties=properties
        )

    def _merge(self, decided: Decided, folder: str, files: Sequence[FileFacts], properties: CommitProperties) -> None:
        """Commit new files, in which the rows of these have taken the place of those with their keys."""
        self._check_rewrites(files)
        paths = [f"{folder}/{file.name}" for file in files]
        rows = arrow_dataset.dataset(paths, filesystem=self._log.files, format="parquet")
        values = delta_merges.values([column.name for column in self.columns], decided.columns.names)
        merger = self._log.table.merge(
            rows.scanner(batch_size=ROWS_AT_A_TIME, batch_readahead=1, fragment_readahead=1).to_reader(),
            delta_merges.condition(self.keys, files),
            source_alias=delta_merges.SOURCE,
            target_alias=delta_merges.TARGET,
            commit_properties=properties,
        )
        merger.when_matched_update(values).when_not_matched_insert(values).execute()
        self._log.remember()

    def _check_rewrites(self, files: Sequence[FileFacts]) -> None:
        """Refuse a merge in which rows of others would change."""
        with _failing(self.name):
            delta_rewrites.check_decimals(self.name, self._schema, self._partitioned_by, files)
            actions = pa.table(self._log.table.get_add_actions(flatten=True))
            self._log.rewrites.check(self.name, actions, self._schema, self.keys, files)

    def _added(self, path: str, file: FileFacts, now_ms: int) -> AddAction:
        values = {  # an empty text is no value to Delta, too
            name: value if self._folder(name) is None else partitions.unmarked(value)
            for name, value in partitions.values_of(file.name).items()
        }
        return AddAction(path, file.size, values, now_ms, True, statistics(file, self._configuration))

    def _folder(self, column: str) -> str | None:
        """The SQL expression of what folders are named after; None for the values of the column."""
        return partitions.marked(column) if isinstance(self._schema[column].dataType, T.StringType) else None


@contextmanager
def _failing(place: str) -> Iterator[None]:
    """Turn what delta-rs raises into oncelog's errors; a commit that others overtook is left as it is."""
    try:
        yield
    except CommitFailedError:
        raise
    except TableNotFoundError as problem:
        raise UsageError(
            "there is no Delta table in this place; create it, or correct the option path",
            table=place,
            reason=_line(problem),
        ) from None
    except DeltaProtocolError as problem:
        raise UsageError(
            "the package deltalake does not know this table's protocol; update it", table=place, reason=_line(problem)
        ) from None
    except (DeltaError, OSError) as problem:
        raise TableUnavailableError(
            "delta-rs cannot read or write the table now: mostly its storage cannot be reached, or denies access",
            table=place,
            reason=_line(problem),
        ) from None


def _line(problem: Exception) -> str:
    return " ".join(str(problem).split())
