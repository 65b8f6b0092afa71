"""What each class of PostgreSQL's errors becomes: who can do something about it, and what."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oncelog.errors import CorruptDataError, InvalidRecordError, NotPreparedError, OncelogError, UsageError
from oncelog.testing.target_contract import at
from oncelog_postgres.crash_points import PostgresCrashPoint
from oncelog_postgres.errors import DatabaseAccessError, DatabaseUnavailableError, TableChangedError
from oncelog_postgres.failures import KeyTwiceError, OvertakenError, refused, translated
from tests.support.servers.postgres import PostgresServer
from worlds import PostgresWorld

MEANINGS: dict[type[OncelogError], dict[str, list[str | None]]] = {
    DatabaseUnavailableError: {
        "connection .* was lost": [None, "08006", "57P01", "57P02", "57P03", "57P05"],
        "waited for its client for too long": ["25P03", "25P04"],
        "only reads": ["25006"],
        "has no room: its disk": ["53100", "53200", "53000", "53400"],
        "no room for another connection": ["53300"],
        "refused a request .*sqlstate='58030'": ["58030"],
    },
    OvertakenError: {
        "because of others": ["40001", "40P01"],
        "stayed locked by another transaction": ["55P03"],
        "the statement was cancelled": ["57014"],
    },
    DatabaseAccessError: {
        "check user and database in the url": ["28000", "28P01"],
        "no such database": ["3D000"],
        "rights of the role .*row security": ["42501"],
    },
    KeyTwiceError: {"same key": ["21000"]},
    InvalidRecordError: {
        "the table refuses a row": [
            "22003",
            "22P02",
            "22021",
            "23505",
            "44000",
            "54000",
            "P0001",
            "P0004",
            "38000",
            "39004",
        ]
    },
    UsageError: {"cannot write the batch into this table in this way": ["0A000"]},
    CorruptDataError: {"its own files are damaged": ["XX001", "XX002"]},
    TableChangedError: {"removed or changed": ["3F000", "42P01", "42703", "42804", "42846", "42883", "42P10", "42809"]},
}


@pytest.mark.parametrize(
    ("sqlstate", "kind", "said"),
    [
        (sqlstate, kind, said)
        for kind, meanings in MEANINGS.items()
        for said, sqlstates in meanings.items()
        for sqlstate in sqlstates
    ],
)
def test_each_sqlstate_has_a_class_and_an_advice(sqlstate: str | None, kind: type[OncelogError], said: str) -> None:
    with pytest.raises(kind, match=f"{said}.*reason='the text of the server'") as raised:
        raise translated(sqlstate, "the text of the server")

    assert type(raised.value) is kind


@pytest.mark.parametrize(
    "reason",
    [
        "FATAL:  sorry, too many clients already",
        "FATAL:  remaining connection slots are reserved for non-replication superuser connections",
        'FATAL:  too many connections for role "copier"',
        'FATAL:  too many connections for database "shop"',
        "FATAL:  no more connections allowed (max_client_conn)",
    ],
)
def test_a_server_without_room_for_a_connection_is_not_called_unreachable(reason: str) -> None:
    with pytest.raises(DatabaseUnavailableError, match=r"no room for another connection.*raise max_connections"):
        raise refused(reason)


_roles = itertools.count()


@pytest.fixture
def world(tmp_path: Path, postgres: PostgresServer) -> Iterator[PostgresWorld]:
    """A table, and a role of its own that may insert into it."""
    found = PostgresWorld(tmp_path, postgres)
    role = f"failing_{next(_roles)}"
    postgres.ask(f"CREATE ROLE {role} LOGIN; GRANT CREATE ON DATABASE postgres TO {role}")
    postgres.ask(f"GRANT INSERT ON {found.table} TO {role}")
    found.url = found.url.replace("oncelog@", f"{role}@")
    yield found
    assert found.left() == []
    assert postgres.ask("SELECT gid FROM pg_prepared_xacts") == []
    found.close()


def role_of(world: PostgresWorld) -> str:
    return world.url.partition("//")[2].partition("@")[0]


def trigger(world: PostgresWorld, body: str, when: str = "BEFORE INSERT") -> None:
    world.server.ask(
        f"CREATE OR REPLACE FUNCTION acting() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NEW; END $$; "
        f"CREATE TRIGGER acting {when} ON {world.table} FOR EACH ROW EXECUTE FUNCTION acting()"
    )


BOTH = pytest.mark.parametrize("options", [{}, {"transaction": "task"}], ids=["batch", "task"])


@BOTH
@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("PERFORM 1 / 0", InvalidRecordError, "division by zero"),
        ("RAISE EXCEPTION USING ERRCODE = 'P0002', MESSAGE = 'nothing found'", InvalidRecordError, "nothing found"),
        ("RAISE EXCEPTION USING ERRCODE = '40P01', MESSAGE = 'a deadlock'", OncelogError, "a deadlock"),
        ("RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'disk full'", DatabaseUnavailableError, "has no room"),
        ("RAISE EXCEPTION USING ERRCODE = 'XX001', MESSAGE = 'bad page'", CorruptDataError, "files are damaged"),
        ("RAISE EXCEPTION USING ERRCODE = '25006', MESSAGE = 'a replica'", DatabaseUnavailableError, "only reads"),
    ],
)
def test_errors_of_drivers_and_tasks_are_the_same_and_decide_nothing(
    world: PostgresWorld, options: dict[str, Any], body: str, kind: type[OncelogError], said: str
) -> None:
    world.options = options
    trigger(world, body)

    with pytest.raises(kind, match=said) as raised:
        world.run(0, ["a"])

    assert isinstance(raised.value, NotPreparedError | OvertakenError) == (said == "a deadlock")
    assert world.visible() == []


@BOTH
def test_a_row_that_a_policy_refuses_is_not_blamed_on_the_password(
    world: PostgresWorld, options: dict[str, Any]
) -> None:
    world.options = options
    world.server.ask(
        f"ALTER TABLE {world.table} ENABLE ROW LEVEL SECURITY; "
        f"CREATE POLICY short ON {world.table} FOR INSERT WITH CHECK (length(value) < 3)"
    )
    kind, said = (UsageError, "row security.*leave the option out") if options else (DatabaseAccessError, "polic")

    with pytest.raises(kind, match=said) as raised:
        world.run(0, ["abc"])

    assert "password" not in str(raised.value)
    assert world.visible() == []
    world.options = {}
    world.run(0, ["ab"], "run-2")
    assert world.visible() == ["ab"]


@pytest.mark.parametrize("body", ["NOTIFY news", "CREATE TEMPORARY TABLE IF NOT EXISTS seen (a int)"])
def test_a_trigger_that_no_transaction_of_a_task_can_carry_is_named(world: PostgresWorld, body: str) -> None:
    """PostgreSQL refuses PREPARE TRANSACTION behind it."""
    world.options = {"transaction": "task"}
    trigger(world, body)

    with pytest.raises(UsageError, match=r"leave transaction=task out.*cannot PREPARE a transaction that has"):
        world.run(0, ["a"])

    world.options = {}
    world.run(0, ["a"], "run-2")
    assert world.visible() == ["a"]


@BOTH
def test_a_value_that_is_too_long_for_an_index_is_the_rows_fault(world: PostgresWorld, options: dict[str, Any]) -> None:
    world.options = options
    world.server.ask(
        f"ALTER TABLE {world.table} ALTER value SET STORAGE EXTERNAL; CREATE INDEX ON {world.table} (value)"
    )

    with pytest.raises(InvalidRecordError, match=r"the table refuses a row.*index row "):
        world.run(0, [Random(0).randbytes(9_000).hex()])  # it cannot be compressed

    assert world.visible() == []


def test_a_role_without_room_for_a_task_says_so(world: PostgresWorld) -> None:
    limit = f"ALTER ROLE {role_of(world)} CONNECTION LIMIT 1"
    with (
        at(PostgresCrashPoint.STAGED, lambda: world.server.ask(limit)),
        pytest.raises(DatabaseUnavailableError) as full,
    ):
        world.run(0, ["a"])
    assert "each task needs one" in str(full.value)

    world.server.ask(f"ALTER ROLE {role_of(world)} CONNECTION LIMIT -1")
    world.run(0, ["a"], "run-2")
    assert world.visible() == ["a"]


@BOTH
def test_time_outs_of_the_role_end_no_batch(world: PostgresWorld, options: dict[str, Any]) -> None:
    """They are for people and for other programs; oncelog has its own."""
    world.options = options
    for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
        world.server.ask(f"ALTER ROLE {role_of(world)} SET {setting} = 150")
    trigger(world, "PERFORM pg_sleep(0.3)")

    world.run(0, ["a"])

    assert world.visible() == ["a"]


def test_a_statement_that_somebody_cancels_decides_nothing(world: PostgresWorld) -> None:
    trigger(world, "PERFORM pg_cancel_backend(pg_backend_pid())")

    with pytest.raises(NotPreparedError, match=r"the statement was cancelled.*nothing was decided"):
        world.run(0, ["a"])

    assert world.visible() == []
