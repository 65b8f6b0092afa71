"""Commits batches into a table of PostgreSQL: stages rows, inserts them at once, and removes what is left.

A batch is inserted by one transaction, which also adds its row to the table `batches`: so it becomes visible at one
moment, and never twice. The transaction runs up to its COMMIT before the decision, where each constraint, trigger and
type of the table still can refuse a row; the COMMIT follows the decision. If the transaction is lost in between, as
with its driver, whoever carries the decision out runs it once more from the staging table.

Who comes later never waits for a transaction that an older driver left open: it ends the sessions of its own role that
hold the attempt's staging table, be they a driver's or tasks'.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final

from oncelog.batches.attempt import Batch
from oncelog.batches.committer import Committable, Committer
from oncelog.crash_points import reach
from oncelog.errors import CorruptDataError, InvalidRecordError, NotPreparedError, OncelogError, ensure
from oncelog_postgres import columns, marks, prepared, staged_rows, tables
from oncelog_postgres.crash_points import PostgresCrashPoint
from oncelog_postgres.database import Database, conninfo, listed, name, text, type_name
from oncelog_postgres.errors import DatabaseAccessError, DatabaseUnavailableError, TableChangedError
from oncelog_postgres.failures import KeyTwiceError, OvertakenError, staging_is_gone
from oncelog_postgres.insertion import STAGING, Insertion, of_parts, staging_table
from oncelog_postgres.jobs import Job
from oncelog_postgres.options import SinkOptions
from oncelog_postgres.sessions import session
from oncelog_postgres.staging import TOKEN, CopyTask
from oncelog_postgres.tables import Table

DROPS_WITHIN_MS: Final = 1_000
"""How long a drop of a staging table waits before it looks again who holds it."""

TRIES: Final = 3
"""Of a decided batch's transaction, if others get into its way."""

_DECIDED: Final = (
    "; the batch is decided, and its rows are safe in the staging table: {}, then restart the query, which completes it"
)


class PostgresCommitter(Committer[Job]):
    """Writes one attempt at a batch, and commits what it finds decided; see `Committer`.

    Args:
        options: of the sink.
        batch: to write.
        marked: the prefixes and queries that this process has marked in the database; the committer adds its own.
    """

    def __init__(self, options: SinkOptions, batch: Batch[Job], marked: set[tuple[str, str]]) -> None:
        self._options = options
        self._schema = options.address.schema
        self._request = batch.request
        self._prefix = batch.request.prefix
        self._session = session(options.address, batch.shared)
        self._marked = marked
        self._has_batches = False

    @property
    def database(self) -> Database:
        """The connection, opened when it is first needed."""
        database = self._session.database(self)
        if not self._has_batches:
            tables.ensure_batches(database, self._schema)
            self._has_batches = True
        return database

    def close(self) -> None:
        """Close the connection, unless other sinks use it; the server undoes what is not committed."""
        self._session.leave(self)

    # Before the decision

    def stage(self, job: Job, attempt: str) -> Committable:
        """Stage the rows of a batch.

        Raises:
            UsageError, InvalidRecordError: the table cannot take such rows; no job was run.
            OncelogError: a task failed.
        """
        table = tables.describe(self.database, self._options.table)
        if self._options.key_columns:
            tables.check_key(table, self._options.key_columns)
        planned = columns.plan(job.schema, table, self._options.key_columns)
        if self._options.is_prepared:
            prepared.require_prepared_transactions(self.database, table)
            planned = columns.direct(planned, table)
        self._create_staging(attempt, () if self._options.is_prepared else planned)
        reach(PostgresCrashPoint.STAGED)
        copied = job.run(planned, self._task(attempt, table, planned))
        reach(PostgresCrashPoint.WRITTEN)
        if not copied:
            self.discard(attempt)
            return Committable((), 0)
        insertion = Insertion(
            attempt,
            self._prefix,
            self._schema,
            table.name,
            tuple((column.name, column.cast) for column in planned),
            self._options.key_columns,
            tuple(copied),
            self._options.is_prepared,
        )
        staged_rows.refuse_losses(self.database, insertion, planned)
        staged_rows.refuse_keys_without_value(self.database, insertion, table)
        return Committable(insertion.parts(), insertion.rows)

    def validate(self, staged: Committable) -> None:
        """Insert the rows in a transaction that stays open until `commit`, or `close`.

        Raises:
            InvalidRecordError: the table refuses a row, or two rows have the same key.
            NotPreparedError: others got into the way.
            RoundAbortedError: others aborted the batch.
            CorruptDataError: a task's rows are not there.
        """
        if not staged.parts:
            return
        insertion = of_parts(staged.parts)
        if insertion.is_prepared:
            self._check_prepared(insertion)
            reach(PostgresCrashPoint.PREPARED)
            return
        try:
            with self._session.adding(self, insertion.attempt):
                self._insert(insertion)
        except OncelogError as problem:
            if isinstance(problem, OvertakenError):
                raise NotPreparedError(f"{problem.message}; nothing was decided", **problem.fields) from None
            if isinstance(problem, KeyTwiceError):
                raise staged_rows.same_key(self.database, insertion) or problem from None
            if isinstance(problem, CorruptDataError | TableChangedError) and not self._has_staging(insertion):
                raise staging_is_gone() from None
            raise
        reach(PostgresCrashPoint.PREPARED)

    # After the decision

    def commit(self, parts: Sequence[str]) -> None:
        """Commit the rows of a decided batch, unless they are; then drop its staging table.

        Raises:
            TableChangedError: the table no longer takes them.
            DatabaseUnavailableError, DatabaseAccessError: not now, or not by this role.
        """
        if not parts:
            return
        insertion = of_parts(parts)
        with _carrying_out(insertion):
            reach(PostgresCrashPoint.COMMIT)
            if insertion.is_prepared:
                self._commit_pieces(insertion)
            elif not self._session.commit(insertion.attempt):
                self._insert_again(insertion)
            reach(PostgresCrashPoint.COMMITTED)
            self._drop(insertion.schema, insertion.attempt)
        reach(PostgresCrashPoint.DROPPED)

    def discard(self, attempt: str) -> None:
        """Undo what an attempt did: its transactions, and its staging table."""
        if self._session.is_waiting_for(attempt):
            self._session.rollback()
        self._drop(self._schema, attempt)

    def list_staged(self) -> list[str]:
        """The attempts of this prefix that have a staging table."""
        found = self.database.rows(
            text(
                "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = {schema} "
                "AND starts_with(relname, {staging}) AND obj_description(c.oid, 'pg_class') = {prefix} ORDER BY 1",
                schema=self._schema,
                staging=STAGING,
                prefix=self._prefix,
            )
        )
        return [str(table).removeprefix(STAGING) for (table,) in found]

    def has_history(self) -> bool:
        asked, database = self._request, self.database
        has_prefix = asked.batch_id > 0 and tables.has_batches(database, self._schema, asked.prefix)
        return has_prefix or marks.is_left(database, asked.prefix, asked.query_id)

    def mark_history(self) -> None:
        """On a connection of its own, since that of the batch may have a transaction open.

        The table of the marks may be missing: the url of a restarted query may name another schema.
        """
        query = self._request.prefix, self._request.query_id
        if query not in self._marked:
            with closing(Database(self._options.address)) as database:
                tables.ensure_batches(database, self._schema)
                marks.leave(database, self._schema, *query)
            self._marked.add(query)

    # Steps

    def _create_staging(self, attempt: str, planned: Sequence[columns.StagedColumn]) -> None:
        """A table of staged types, logged as any other. Its comment tells people whose it is."""
        parts = [text("{column} {type}", column=name(column.name), type=type_name(column.staged)) for column in planned]
        parts.append(text("{token} bigint NOT NULL", token=name(TOKEN)))
        creation = text(
            "CREATE TABLE {staging} ({parts}) WITH (autovacuum_enabled = off); COMMENT ON TABLE {staging} IS {prefix}",
            staging=name(self._schema, staging_table(attempt)),
            parts=listed(parts),
            prefix=self._prefix,
        )
        with self.database.transaction():
            self.database.run(creation)

    def _task(self, attempt: str, table: Table, planned: Sequence[columns.StagedColumn]) -> CopyTask:
        return CopyTask(
            self._options.address,
            conninfo(self._options.address),
            self._schema,
            staging_table(attempt),
            attempt,
            (table.name.schema or "", table.name.name) if self._options.is_prepared else None,
            {column.name: column.kept for column in planned},
        )

    def _insert(self, insertion: Insertion) -> bool:
        """The statements of a batch's transaction. False: the batch is in the table already, and nothing was done."""
        database, about = self.database, {"table": str(insertion.table)}
        if not self._enter(insertion):
            return False
        self._require_staging(insertion)
        written = database.run(staged_rows.statement(insertion), **about)
        if written != insertion.rows:  # a trigger may leave rows out; a task's must all be there
            self._count(insertion)
        database.run(text("SET CONSTRAINTS ALL IMMEDIATE"), **about)
        return True

    def _check_prepared(self, insertion: Insertion) -> None:
        try:
            prepared.check_prepared(self.database, insertion)
        except NotPreparedError:
            if not self._has_staging(insertion):
                raise staging_is_gone() from None
            raise

    def _commit_pieces(self, insertion: Insertion) -> None:
        """Commit the tasks' transactions, and enter the batch. Another driver may be at it, or have done all."""
        try:
            prepared.commit_pieces(self.database, insertion)
        except TableChangedError:
            if self._has_staging(insertion):
                raise
        with self.database.transaction():
            if self._enter(insertion):
                self._require_staging(insertion)

    def _enter(self, insertion: Insertion) -> bool:
        """Enter a batch into the table `batches`, in a transaction. False: it is there."""
        database, batches = self.database, name(insertion.schema, "batches")
        is_new = database.run(
            text(
                "INSERT INTO {batches} (attempt, prefix, table_name, row_count) "
                "VALUES ({attempt}, {prefix}, {table}, {rows}) ON CONFLICT (attempt) DO NOTHING",
                batches=batches,
                attempt=insertion.attempt,
                prefix=insertion.prefix,
                table=str(insertion.table),
                rows=insertion.rows,
            )
        )
        if not is_new:
            return False
        database.run(
            text(
                "DELETE FROM {batches} WHERE prefix = {prefix} AND row_count > 0 AND number < "
                "(SELECT number FROM {batches} WHERE prefix = {prefix} ORDER BY number DESC OFFSET {kept} LIMIT 1)",
                batches=batches,
                prefix=insertion.prefix,
                kept=tables.BATCHES_KEPT - 1,
            )
        )
        return True

    def _has_staging(self, insertion: Insertion) -> bool:
        staging = f"{insertion.schema}.{insertion.staging}"
        return self.database.rows(text("SELECT to_regclass({table}) IS NOT NULL", table=staging)) == [(True,)]

    def _require_staging(self, insertion: Insertion) -> None:
        if not self._has_staging(insertion):
            raise CorruptDataError(
                "the staging table of a batch is not in this database, and the batch was never committed in it: is "
                "the url that of the database that the query wrote to? If it was restored from a backup, restore the "
                "ledger and the checkpoint of the same moment",
                staging=f"{insertion.schema}.{insertion.staging}",
                database=str(self._options.address),
            )

    def _count(self, insertion: Insertion) -> None:
        ((found,),) = self.database.rows(text("SELECT count(*) {winners}", winners=staged_rows.winners(insertion)))
        if found != insertion.rows:
            raise CorruptDataError(
                "the staging table of a batch does not hold what its tasks copied",
                staging=f"{insertion.schema}.{insertion.staging}",
                rows=found,
                copied=insertion.rows,
            )

    def _insert_again(self, insertion: Insertion) -> None:
        ensure(not self._session.is_waiting, "no other batch's transaction is open")
        for turn in range(TRIES):
            try:
                self._end_holders(insertion.schema, insertion.staging)
                with self.database.transaction():
                    self._insert(insertion)
                return
            except OvertakenError:
                if turn == TRIES - 1:
                    raise

    def _drop(self, schema: str, attempt: str) -> None:
        """Drop an attempt's staging table, once nothing of the attempt is left that could hold it.

        A task may prepare its transaction just before it would be ended: so look again, before waiting for others.
        """
        dropping = text("DROP TABLE IF EXISTS {staging}", staging=name(schema, staging_table(attempt)))
        for turn in range(TRIES):
            self._end_holders(schema, staging_table(attempt))
            prepared.roll_back_pieces(self.database, attempt)
            try:
                with self.database.transaction(**({"lock_timeout": DROPS_WITHIN_MS} if turn < TRIES - 1 else {})):
                    self.database.run(dropping)
                return
            except OvertakenError:
                if turn == TRIES - 1:
                    raise

    def _end_holders(self, schema: str, table: str) -> None:
        """End other sessions of this role that hold the staging table: what they could still do counts no more.

        A session belongs to the role that logged in, which may be set to act as another one.
        """
        ending = text(
            "SET LOCAL ROLE NONE; "
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid) "
            "WHERE relation = (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE nspname = {schema} AND relname = {table}) AND pg_locks.database = datid "
            "AND datname = current_database() AND usename = session_user AND pid <> pg_backend_pid()",
            schema=schema,
            table=table,
        )
        with self.database.transaction():
            self.database.run(ending)


@contextmanager
def _carrying_out(insertion: Insertion) -> Iterator[None]:
    """Have an error say that the batch is decided."""
    about = {"prefix": insertion.prefix}
    try:
        yield
    except (InvalidRecordError, TableChangedError) as problem:
        raise TableChangedError(
            "the table no longer takes the rows of a decided batch"
            + _DECIDED.format("nothing of it is in the table; fix the table, or remove what is in the way"),
            **{"table": str(insertion.table), **problem.fields, **about},
        ) from None
    except (DatabaseUnavailableError, DatabaseAccessError) as problem:
        raise type(problem)(
            problem.message + _DECIDED.format("see that the database is back"), **problem.fields, **about
        ) from None
