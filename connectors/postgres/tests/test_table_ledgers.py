"""The command `oncelog batch` on the ledgers of tables, in the database itself and beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog import metadata
from oncelog.cli import main
from oncelog.crash_points import CrashPoint
from oncelog.errors import CorruptDataError
from oncelog.testing.target_contract import FIRST, SECOND, StoppedOnPurposeError, at, stop
from oncelog_postgres.crash_points import PostgresCrashPoint
from oncelog_postgres.insertion import Insertion, of_parts
from oncelog_postgres.options import TableName
from oncelog_postgres.staging import Copied
from tests.support.servers.postgres import PostgresServer
from worlds import PostgresWorld, left_staging, schema_of


@pytest.fixture(params=["in the database", "beside it"])
def world(request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresServer) -> Iterator[PostgresWorld]:
    found = PostgresWorld(tmp_path, postgres, "value text PRIMARY KEY")
    if request.param == "in the database":
        found.store.close()
        found.ledger = found.url
        found.store = metadata.open_metadata(found.ledger)
    yield found
    found.close()


def asked(world: PostgresWorld, *command: str) -> list[dict[str, Any]]:
    """What the command tells of ledgers, as JSON."""
    done = CliRunner().invoke(main, ["--znodes", world.ledger, "--json", "batch", *command])
    assert (done.exit_code, done.stderr) == (0, "")
    ledgers: list[dict[str, Any]] = json.loads(done.stdout)["ledgers"]
    return ledgers


def test_a_batch_is_undecided_until_its_decision(world: PostgresWorld) -> None:
    world.run(0, FIRST)
    seen: list[dict[str, Any]] = []
    with at(PostgresCrashPoint.PREPARED, lambda: seen.extend(asked(world, "list"))):
        world.run(1, SECOND)
    seen.extend(asked(world, "list"))

    assert [(one["target"], one["prefix"], one["batch_id"]) for one in seen] == [("postgres", world.prefix, 1)] * 2
    assert [(one["outcome"], one["last_batch_id"]) for one in seen] == [("open", 0), ("commit", 1)]


@pytest.mark.parametrize(
    ("point", "state", "last", "recovery"),
    [
        (PostgresCrashPoint.PREPARED, "abort", 0, "removes what is left of this round, and writes the batch again"),
        (CrashPoint.ROUND_DECIDED, "commit", 1, "completes the batch, and writes the next one"),
    ],
)
def test_what_a_restart_does_is_told_beforehand(
    world: PostgresWorld, point: str, state: str, last: int, recovery: str
) -> None:
    world.run(0, FIRST)
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(1, SECOND)

    (found,) = asked(world, "show", world.prefix)

    assert (found["outcome"], found["last_batch_id"]) == (state, last)
    assert (found["is_over"], found["recovery"]) == (False, recovery)
    assert world.holds(FIRST)
    world.run(1, SECOND, run="run-2")
    assert world.holds(FIRST, SECOND)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("point", [PostgresCrashPoint.PREPARED, CrashPoint.ROUND_DECIDED])
def test_a_batch_is_completed_without_its_query(world: PostgresWorld, point: str) -> None:
    world.run(0, FIRST)
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(1, SECOND)
    words = ["batch", "complete", world.prefix, "--option", f"url={world.url}", "--option", f"table={world.table}"]

    done = CliRunner().invoke(main, ["--znodes", world.ledger, "--json", *words])

    is_decided = point == CrashPoint.ROUND_DECIDED
    assert (done.exit_code, json.loads(done.stdout)["completion"]) == (
        0,
        {
            "prefix": world.prefix,
            "completed": [1] if is_decided else [],
            "discarded": 0 if is_decided else 1,
            "undecided": None,
        },
    )
    assert world.holds(FIRST, *([SECOND] if is_decided else []))
    assert left_staging(world.server, world.url) == []
    (found,) = asked(world, "show", world.prefix)
    assert found["is_over"]


@pytest.mark.usefixtures("spark")
def test_a_staging_table_that_the_ledger_has_forgotten_is_dropped(world: PostgresWorld) -> None:
    world.run(0, FIRST)
    schema = schema_of(world.url)
    for number, prefix in enumerate((world.prefix, "another")):
        staged = f"{schema}.staging_late{number}"
        world.server.ask(f"CREATE TABLE {staged} (); COMMENT ON TABLE {staged} IS '{prefix}'")
    words = ["batch", "complete", world.prefix, "--option", f"url={world.url}", "--option", f"table={world.table}"]

    done = CliRunner().invoke(main, ["--znodes", world.ledger, *words])

    assert (done.exit_code, done.stdout) == (0, f"removed what 1 aborted round of {world.prefix} had left\n")
    assert left_staging(world.server, world.url) == ["staging_late1"]
    assert world.holds(FIRST)


@pytest.mark.parametrize("kind", ["uuid", '"bit"', 'public."It""s a type"[]', "time with time zone", "bit varying[]"])
def test_a_decision_keeps_names_of_types(kind: str) -> None:
    assert of_parts(decided(kind).parts()) == decided(kind)


@pytest.mark.parametrize(
    "kind",
    ["text); DROP TABLE x; --", "text) || pg_sleep(9)::text, (SELECT 1", "uuid[][]", "", 'pub"lic', "int)--", "a,b"],
)
def test_a_decision_that_names_no_type_is_corrupt_and_nothing_of_it_runs(kind: str) -> None:
    """A ledger may be in another place than the table, and others may write to it."""
    with pytest.raises(CorruptDataError):
        of_parts(decided(kind).parts())


def decided(kind: str) -> Insertion:
    """A decision whose only column is cast to this."""
    table = TableName("public", "t")
    return Insertion("attempt", "prefix", "oncelog", table, (("value", kind),), (), (Copied(1, 1),))
