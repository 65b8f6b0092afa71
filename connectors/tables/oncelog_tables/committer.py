"""Commits batches into a table: Spark writes files next to the table's own, and one commit of its log adds them.

Spark writes the files into a folder of the attempt, below the table's: no reader looks there, since none of the table's
snapshots names them. The decision follows when all of them are complete and durable. Then one commit of the table's own
log adds them, and remembers in the table that it has the batch: so the batch becomes visible at one moment, and never
twice. Whoever carries a decision out looks there first; and if two do so at once, the log refuses the second commit.
No file is moved or written again.

An upsert is the same commit, and also removes the rows that have the keys of the batch. If a key occurs twice or is
null, nothing is decided. A format may commit files of keys in addition to those of rows. Or it merges the rows into
files of its own; then the files of the batch are removed afterwards.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from oncelog.batches.attempt import Batch
from oncelog.batches.committer import Committable, Committer
from oncelog.crash_points import reach
from oncelog.errors import (
    CorruptDataError,
    FileUnavailableError,
    FileWriteError,
    InvalidRecordError,
    NotPreparedError,
    OncelogError,
    UsageError,
    ensure,
)
from oncelog.spark.kit.spark_files import FoundFile, SparkFiles, is_hidden
from oncelog_tables import columns, decisions, footers, keys
from oncelog_tables.crash_points import TablesCrashPoint
from oncelog_tables.decisions import Decided
from oncelog_tables.errors import TableChangedError, TableUnavailableError
from oncelog_tables.footers import FileFacts
from oncelog_tables.ports import Job, Table, Tables

TRIES: Final = 20
"""Of a commit, if others commit at the same time: each of these commits lets one of them through."""

_DECIDED: Final = (
    "; the batch is decided, and its files are safe in the table's folder: {}, then restart the query, which completes "
    "it"
)


class TableCommitter(Committer[Job]):
    """Writes one attempt at a batch, and commits what it finds decided; see `Committer`.

    Args:
        tables: of the format.
        name: of the table.
        key_columns: by which rows are replaced; empty if they are only added.
        batch: to write; the session of its job finds the files.
    """

    def __init__(self, tables: Tables, name: str, key_columns: Sequence[str], batch: Batch[Job]) -> None:
        self._tables = tables
        self._name = name
        self._key_columns = key_columns
        self._app_id = f"{batch.request.prefix}/{batch.request.query_id}"
        """The sink, as the table knows it."""
        self._batch_id = batch.request.batch_id
        self._job = batch.job
        self._known: dict[str, list[FileFacts]] = {}
        """The files of the attempt that this object wrote itself."""

    def has_history(self) -> bool:
        """Whether the table has a batch of this sink."""
        return self._tables.open(self._name).last_batch(self._app_id) is not None

    # Before the decision

    def stage(self, job: Job, attempt: str) -> Committable:
        """Write the rows of a batch as files.

        Raises:
            UsageError, InvalidRecordError: the table cannot take such rows; no job was run, or nothing is left of it.
            FileWriteError: the driver does not see the files of all tasks, or the disk does not confirm them.
        """
        table = self._tables.open(self._name, self._key_columns)
        key_columns = tuple(key.name for key in table.keys)
        planned = columns.plan(job.schema, table.name, table.columns, key_columns)
        _check_folders(table)
        files = SparkFiles(job.spark, table.root)
        folder = folder_of(attempt)
        written = job.run(planned, files.path(folder), table.partitioned_by)
        reach(TablesCrashPoint.WRITTEN)
        found = files.files(folder)
        facts = self._facts(table, folder, found)
        rows = sum(file.rows for file in facts)
        if rows != written:
            raise FileWriteError(
                "Spark's tasks wrote more rows than the driver finds in their files: tasks on other hosts wrote to "
                "their own disks; put the table into a storage that all hosts share",
                table=table.name,
                written=written,
                found=rows,
            )
        if not rows:
            files.remove(folder)
            return Committable((), 0)
        if key_columns:
            found, facts = self._with_keys(table, files, folder, facts)
        decided = Decided(
            attempt=attempt,
            app_id=self._app_id,
            batch_id=self._batch_id,
            table=table.name,
            table_id=table.id,
            layout=table.layout,
            schema=columns.written_schema(planned).json(),
            files=len(found),
            digest=decisions.digest_of(found),
            rows=rows,
            key_columns=key_columns,
        )
        _rehearse(table, decided, folder, facts)
        files.sync(folder, [file.name for file in found])
        files.sync_names("", [f"{folder}/{found[0].name}"])
        reach(TablesCrashPoint.DURABLE)
        self._known[attempt] = facts
        return Committable(decided.parts(), rows, participants=decided.files)

    def validate(self, staged: Committable) -> None:
        """Check that the table still takes the files: the job may have taken long.

        Raises:
            NotPreparedError: it does not.
        """
        if staged.parts:
            try:
                decided = decisions.of_parts(staged.parts)
                table = self._table_of(decided)
                _check_layout(table, decided, takes=table.layout == decided.layout)
                columns.check_unchanged(decided.columns, table.name, table.columns)
                if not table.adds_files:
                    _rehearse(table, decided, folder_of(decided.attempt), self._known[decided.attempt])
            except UsageError as problem:
                raise NotPreparedError(
                    f"the table changed while the batch was written: {problem.message}; nothing was decided",
                    **problem.fields,
                ) from None
        reach(TablesCrashPoint.PREPARED)

    # After the decision

    def commit(self, parts: Sequence[str]) -> None:
        """Add the files of a decided batch to the table, unless it has them.

        Raises:
            TableChangedError: the table no longer takes them.
            TableUnavailableError: not now.
            CorruptDataError: files are gone.
        """
        if not parts:
            return
        decided = decisions.of_parts(parts)
        with _carrying_out(decided):
            table = self._committed(decided)
            reach(TablesCrashPoint.COMMITTED)
            if not table.adds_files:
                SparkFiles(self._job.spark, table.root).remove(folder_of(decided.attempt))

    def discard(self, attempt: str) -> None:
        """Remove the files of an attempt that nobody decided on."""
        SparkFiles(self._job.spark, self._tables.open(self._name).root).remove(folder_of(attempt))

    # Steps

    def _with_keys(
        self, table: Table, files: SparkFiles, folder: str, facts: list[FileFacts]
    ) -> tuple[list[FoundFile], list[FileFacts]]:
        """Look whether the batch can replace rows, and write its keys if the table takes files of them.

        Returns:
            All files of the attempt, and the facts of them.
        """
        keys.check(self._job.spark, files.path(folder), table.keys, table.name)
        if table.adds_files:
            keys.write(self._job.spark, files.path(folder), table.keys, table.partitioned_by)
        found = files.files(folder)
        of_keys = self._facts(table, folder, [file for file in found if keys.is_of_keys(file.name)])
        if table.adds_files:
            counts = [sum(file.rows for file in part) for part in (facts, of_keys)]
            ensure(counts[0] == counts[1], "the files of keys have one for each row")
        return found, [*facts, *of_keys]

    def _committed(self, decided: Decided) -> Table:
        """The table, once it has the batch."""
        refused: str | None = ""
        for turn in range(TRIES):
            if turn:
                time.sleep(random.uniform(0, min(1, 0.01 * 2**turn)))  # so that they do not meet again and again
            table = self._table_of(decided)
            if _has(table, decided):
                return table
            _check_layout(table, decided, takes=table.takes(decided.layout))
            columns.check_readable(decided.columns, table.name, table.columns)
            try:
                files = self._known.get(decided.attempt) or self._found_again(table, decided)
                reach(TablesCrashPoint.COMMIT)
                refused = table.commit(decided, folder_of(decided.attempt), files)
            except (CorruptDataError, FileUnavailableError, TableUnavailableError):
                if table.adds_files or not _has(self._table_of(decided), decided):
                    raise
                return table  # others were quicker, and have removed the files
            if refused is None:
                return table
        raise TableUnavailableError(
            "the log of the table refuses the commit again and again: others commit all the time",
            table=decided.table,
            tries=TRIES,
            reason=refused,
        )

    def _table_of(self, decided: Decided) -> Table:
        """The table that the batch was written for.

        Raises:
            UsageError: it is another one now.
        """
        table = self._tables.open(decided.table, decided.key_columns)
        if table.id != decided.table_id:
            raise UsageError(
                "another table has taken the place of this one",
                table=decided.table,
                now=table.id,
                written_for=decided.table_id,
            )
        return table

    def _found_again(self, table: Table, decided: Decided) -> list[FileFacts]:
        """The files that an earlier driver wrote."""
        folder = folder_of(decided.attempt)
        found = SparkFiles(self._job.spark, table.root).files(folder)
        decided.check(found)
        return self._facts(table, folder, found)

    def _facts(self, table: Table, folder: str, found: Sequence[FoundFile]) -> list[FileFacts]:
        """What the files say of themselves; those without rows are left out."""
        names = [column.name for column in table.columns]
        try:
            facts = footers.read_all(found, lambda name: table.opened(f"{folder}/{name}"), names)
        except OSError as problem:
            raise FileUnavailableError(
                "a file of the batch cannot be read", table=table.name, folder=folder, reason=str(problem)
            ) from problem
        return [file for file in facts if file.rows]


def folder_of(attempt: str) -> str:
    """The folder of an attempt's files, below that of the table.

    Its name does not begin with an underscore: what cleans a table up passes over such folders, and the files could
    never be removed, once the table's rows are deleted or rewritten.
    """
    return f"oncelog/{attempt}"


def _has(table: Table, decided: Decided) -> bool:
    """Whether the batch is in the table: it has this batch of the sink, or a newer one.

    A batch is written only when all earlier ones of its query are in the table. Hence the newest one tells of all.
    """
    newest = table.last_batch(decided.app_id)
    return newest is not None and newest >= decided.batch_id


def _check_layout(table: Table, decided: Decided, *, takes: bool) -> None:
    if not takes:
        raise UsageError(
            "the table is partitioned in another way now, has moved, or has other columns as keys",
            table=decided.table,
            now=table.layout,
            written_for=decided.layout,
        )


def _rehearse(table: Table, decided: Decided, folder: str, files: Sequence[FileFacts]) -> None:
    """Have all that the commit computes from rows computed, while the batch can still be refused."""
    try:
        table.rehearse(decided, folder, files)
    except OncelogError:
        raise
    except Exception as problem:  # what the format's library raises at a value that it cannot write
        raise InvalidRecordError(
            "the table's log cannot describe the rows of the batch; nothing was decided",
            table=table.name,
            reason=f"{type(problem).__name__}: {' '.join(str(problem).split())}",
        ) from problem


def _check_folders(table: Table) -> None:
    """Refuse a table whose partitions would have folders that readers of files pass over.

    Raises:
        UsageError: see above.
    """
    hidden = [name for name in table.partitioned_by if is_hidden(f"{name}=")]
    if hidden:
        raise UsageError(
            "the name of a column by which the table is partitioned begins with a dot: Spark's readers would pass over "
            "its folders; rename the column",
            table=table.name,
            columns=hidden,
        )


@contextmanager
def _carrying_out(decided: Decided) -> Iterator[None]:
    """Have an error say that the batch is decided."""
    try:
        yield
    except UsageError as problem:
        raise TableChangedError(
            f"the table no longer takes the files of a decided batch: {problem.message}"
            + _DECIDED.format("nothing of it is in the table; fix the table, or put the former one back"),
            **{"table": decided.table, **problem.fields, "batch_id": decided.batch_id},
        ) from None
    except (TableUnavailableError, FileUnavailableError) as problem:
        raise TableUnavailableError(
            problem.message + _DECIDED.format("see that storage and catalog are back"),
            **{**problem.fields, "batch_id": decided.batch_id},
        ) from None
