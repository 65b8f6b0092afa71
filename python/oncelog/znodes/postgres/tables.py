"""The store's tables: creates them, checks them and the server, and has the statements that read and write them.

Schema: one row per znode. The single row of `oncelog_store` has the last zxid and time, and is the lock of all who
write. `oncelog_commits` says by which token each of the last `COMMITS_KEPT` zxids was taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from oncelog.errors import CorruptDataError, StoreAccessError, UnsupportedFormatError
from oncelog.limits import POSTGRES_STALL_MS
from oncelog.ports import Create, Delete, Op, Set, Stat, Znode
from oncelog.znodes.postgres.address import PostgresAddress
from oncelog.znodes.postgres.connection import Row, Statement, StoreConnection
from oncelog.znodes.postgres.failures import NotNowError
from oncelog.znodes.rules import ROOT, join_path, parent_of, split_path
from oncelog.znodes.tree import Tree

FORMAT_VERSION: Final = 1

OLDEST_SERVER: Final = 13

COMMITS_KEPT: Final = 16_384
"""Commits after which nobody can be told any more whether an earlier one succeeded."""

_CREATING: Final = 0x6F6E636C
""""oncl", the advisory lock of those who create tables."""

BEGIN_READING: Final = Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
COMMIT: Final = Statement("COMMIT")

_SERVER: Final = Statement(
    "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), "
    "current_setting('fsync') = 'on' OR current_setting('synchronous_standby_names') <> '', pg_is_in_recovery()"
)


class Tables:
    """The tables of one schema.

    Args:
        address: whose schema has them.
    """

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._znodes, self._store, self._commits = (
            f"{address.schema}.oncelog_{name}" for name in ("znodes", "store", "commits")
        )

    # Opening

    def ensure(self, connection: StoreConnection, *, create: bool) -> bool:
        """Check the server and the tables; create them if they are missing and `create` is true.

        Returns:
            whether there are tables.

        Raises:
            StoreAccessError: no tables of oncelog can be kept on this server.
            UnsupportedFormatError: a newer oncelog created them.
        """
        tables = "SELECT to_regclass(%s) IS NOT NULL, to_regnamespace(%s) IS NOT NULL"
        answers = connection.ask(_SERVER, Statement(tables, [self._store, self._address.schema]))
        ((server,), ((has_store, has_schema),)) = answers
        self._ensure_server(server)
        if not has_store and not create:
            return False
        if not has_store:
            connection.ask(*self._creation(has_schema=has_schema))
        found = connection.ask(Statement(f"SELECT format FROM {self._store}"))[0]
        if not found:
            raise CorruptDataError("the znode store has lost a row: restore it", postgresql=str(self._address))
        if found != [(FORMAT_VERSION,)]:
            raise UnsupportedFormatError(
                "a newer oncelog created the tables of the znode store; upgrade oncelog",
                postgresql=str(self._address),
                format=found[0][0],
                known=FORMAT_VERSION,
            )
        return True

    def _ensure_server(self, server: Row) -> None:
        version, encoding, is_durable, is_replica = server
        if is_replica:
            raise NotNowError("the server is a replica, which only reads")
        problems = {
            f"it is older than PostgreSQL {OLDEST_SERVER}": version < OLDEST_SERVER * 10_000,
            f"the encoding of the database is {encoding}; create one with ENCODING 'UTF8'": encoding != "UTF8",
            "it runs with fsync=off, so a crash would lose what it acknowledged; switch fsync on": not is_durable,
        }
        for problem, is_so in problems.items():
            if is_so:
                raise StoreAccessError(
                    "no metadata can be kept on this PostgreSQL", postgresql=str(self._address), reason=problem
                )

    def _creation(self, *, has_schema: bool) -> Iterator[Statement]:
        """Creates all tables at once. Many processes may do so at a time."""
        yield from _begun(self._address.timeout_ms)
        yield Statement("SELECT pg_advisory_xact_lock(%s)", [_CREATING])
        if not has_schema:  # even IF NOT EXISTS asks for the right to create one
            yield Statement(f"CREATE SCHEMA IF NOT EXISTS {self._address.schema}")
        yield Statement(
            f"CREATE TABLE IF NOT EXISTS {self._znodes} ("
            'parent text COLLATE "C", name text COLLATE "C", data bytea NOT NULL, '  # sorted as Python sorts
            "czxid bigint NOT NULL, mzxid bigint NOT NULL, ctime_ms bigint NOT NULL, mtime_ms bigint NOT NULL, "
            "version bigint NOT NULL, PRIMARY KEY (parent, name)) WITH (fillfactor = 70)"
        )
        yield Statement(f"INSERT INTO {self._znodes} VALUES ('', '', '', 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING")
        yield Statement(
            f"CREATE TABLE IF NOT EXISTS {self._commits} "
            "(slot int PRIMARY KEY, zxid bigint NOT NULL, token text NOT NULL) WITH (fillfactor = 70)"
        )
        # The only row is replaced by each multi: there is room for many of its versions on its page.
        yield Statement(
            f"CREATE TABLE IF NOT EXISTS {self._store} (id int PRIMARY KEY CHECK (id = 1), format int NOT NULL, "
            "zxid bigint NOT NULL, last_ms bigint NOT NULL) WITH (fillfactor = 10)"
        )
        yield Statement(f"INSERT INTO {self._store} VALUES (1, %s, 0, 0) ON CONFLICT DO NOTHING", [FORMAT_VERSION])
        yield COMMIT

    # Reading

    def get_many(self, keys: Iterable[tuple[str, str]], data: str = "z.data") -> Statement:
        """The rows of znodes, by parents and names: these, `data` and the fields of the Stat."""
        keys = set(keys)  # each row comes once
        return Statement(
            f"SELECT z.parent, z.name, {data}, z.czxid, z.mzxid, z.ctime_ms, z.mtime_ms, z.version "
            f"FROM unnest(%s::text[], %s::text[]) AS w(parent, name) JOIN {self._znodes} z USING (parent, name)",
            [[parent for parent, _ in keys], [name for _, name in keys]],
        )

    def children(self, path: str, columns: str = "") -> Statement:
        """The rows of a znode's children, sorted by name: name and `columns`."""
        split_path(path)
        return Statement(f"SELECT name{columns} FROM {self._znodes} WHERE parent = %s ORDER BY name", [path])

    def children_data(self, path: str) -> Statement:
        return self.children(path, ", data, czxid, mzxid, ctime_ms, mtime_ms, version")

    # Writing

    def begin(self, ops: Collection[Op], within_ms: int) -> list[Statement]:
        """Take the lock and the next zxid, and read what the operations depend on: see `piece`."""
        paths = {op.path for op in ops}
        for path in list(paths):
            while path != ROOT and (path := parent_of(path)) not in paths:
                paths.add(path)
        deleted = [op.path for op in ops if isinstance(op, Delete)]
        return [
            *_begun(within_ms),
            Statement(
                f"UPDATE {self._store} SET zxid = zxid + 1, "
                "last_ms = greatest(last_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) "
                "RETURNING zxid, last_ms"
            ),
            self.get_many(map(split_path, paths), "''::bytea"),
            # Of so many children, the operations cannot delete all.
            Statement(
                f"SELECT w.parent, c.name FROM unnest(%s::text[]) AS w(parent), LATERAL "
                f"(SELECT name FROM {self._znodes} z WHERE z.parent = w.parent LIMIT %s) AS c",
                [deleted, len(ops) + 1],
            ),
        ]

    def end(self, changes: Mapping[str, Znode | None], zxid: int, token: str) -> Iterator[Statement]:
        """Write the changes of znodes (None is for one that is deleted), and who made them; then commit."""
        put = {split_path(path): znode for path, znode in changes.items() if znode is not None}
        gone = [split_path(path) for path, znode in changes.items() if znode is None]
        # In hexadecimal: psycopg escapes an array of bytes twice where standard_conforming_strings is off.
        rows = [[*key, znode.data.hex(), *znode.stat] for key, znode in put.items()]
        if gone:
            yield Statement(
                f"DELETE FROM {self._znodes} z USING unnest(%s::text[], %s::text[]) AS w(parent, name) "
                "WHERE z.parent = w.parent AND z.name = w.name",
                [[parent for parent, _ in gone], [name for _, name in gone]],
            )
        yield Statement(
            f"INSERT INTO {self._znodes} SELECT parent, name, decode(data, 'hex'), czxid, mzxid, ctime_ms, mtime_ms, "
            "version FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], "
            "%s::bigint[], %s::bigint[]) AS w(parent, name, data, czxid, mzxid, ctime_ms, mtime_ms, version) "
            "ON CONFLICT (parent, name) DO UPDATE SET "
            "data = excluded.data, czxid = excluded.czxid, mzxid = excluded.mzxid, ctime_ms = excluded.ctime_ms, "
            "mtime_ms = excluded.mtime_ms, version = excluded.version",
            [[row[column] for row in rows] for column in range(8)],
        )
        yield Statement(
            f"INSERT INTO {self._commits} VALUES (%s, %s, %s) ON CONFLICT (slot) DO UPDATE SET "
            "zxid = excluded.zxid, token = excluded.token",
            [zxid % COMMITS_KEPT, zxid, token],
        )
        yield COMMIT

    def who_committed(self, zxid: int, within_ms: int) -> list[Statement]:
        """Wait for the lock, so until who held it has ended; the last rows have zxid and token of the zxid's slot."""
        return [
            *_begun(within_ms),
            Statement(f"SELECT 1 FROM {self._store} FOR UPDATE"),
            Statement(f"SELECT zxid, token FROM {self._commits} WHERE slot = %s", [zxid % COMMITS_KEPT]),
        ]


def _begun(within_ms: int) -> list[Statement]:
    """Begin a transaction that writes; nothing outlives it, since a pooler may give its connection to others.

    Its commit is on the disk, and where the server asks for it on replicas, whatever the settings of database and role
    say. If this process is suspended inside it, the server ends it, and others continue.
    """
    return [
        Statement("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"),  # after the lock, all is seen as it left it
        Statement(
            "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' "
            "THEN 'remote_apply' ELSE 'on' END, true), set_config('lock_timeout', %s, true), "
            "set_config('statement_timeout', %s, true), set_config('idle_in_transaction_session_timeout', %s, true)",
            [str(within_ms), str(within_ms), str(POSTGRES_STALL_MS)],
        ),
    ]


def znode_of(row: Sequence[Any]) -> Znode:
    """The znode in the columns data, czxid, mzxid, ctime_ms, mtime_ms and version."""
    data, *numbers = row
    return Znode(data, Stat(*numbers))


def piece(answers: list[list[Row]]) -> Tree:
    """The piece of the tree that a multi depends on, before it. From the answers to `Tables.begin`.

    It has the znodes that the operations name, without data, with their ancestors, and children of those to delete.
    """
    *_, moments, rows, children = answers
    if not moments:
        raise CorruptDataError("the znode store has lost the row with its last zxid: restore it from a backup")
    ((zxid, last_ms),) = moments
    znodes = {join_path(parent, name) if name else ROOT: znode_of(found) for parent, name, *found in rows}
    for parent, name in children:
        znodes.setdefault(join_path(parent, name), Znode(b"", Stat(0, 0, 0, 0, 0)))
    try:
        return Tree(znodes, zxid - 1, last_ms)
    except KeyError as missing:
        raise CorruptDataError(
            "the znode store has lost a znode whose children are there: restore it from a backup", path=str(missing)
        ) from None


def changes(ops: Iterable[Op], before: Collection[str], after: Tree) -> dict[str, Znode | None]:
    """What a multi changed, by path: znodes as they are then, and None for those that are gone."""
    written = dict.fromkeys(op.path for op in ops if isinstance(op, Create | Set | Delete))
    return {path: after.znodes.get(path) for path in written if path in after.znodes or path in before}
