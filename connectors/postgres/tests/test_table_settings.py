"""What is written does not depend on the settings that an administrator gave to a role or a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oncelog import metadata
from oncelog.batches.committables import CommittableAttempt
from oncelog.crash_points import CrashPoint
from oncelog.errors import InvalidRecordError
from oncelog.testing.target_contract import FIRST, SECOND, StoppedOnPurposeError, at, stop
from tests.support.servers.postgres import PostgresServer, Where, unusual_server
from worlds import ArrowJob, PostgresWorld, keyed

KEYED = "id int PRIMARY KEY, value text"
UPSERT = {"mode": "upsert", "keyColumns": "id"}


@pytest.fixture(params=Where)
def server(request: pytest.FixtureRequest) -> Iterator[tuple[PostgresServer, str]]:
    with unusual_server(request.param) as (server, url_with):
        yield server, url_with("")


@pytest.mark.parametrize("options", [UPSERT, {"transaction": "task"}], ids=["batch", "task"])
def test_each_batch_is_there_once_whatever_the_settings_of_role_and_database(
    server: tuple[PostgresServer, str], tmp_path: Path, options: dict[str, Any]
) -> None:
    owner, url = server
    world = PostgresWorld(tmp_path, owner, KEYED, **options)
    world.store.close()
    world.prefix, world.url, world.store = r"it's \a prefix", url, metadata.open_metadata(url)
    first, second = keyed((1, r"\x41 'a'"), (2, "\\'")), keyed((3, None), (4, "é"))

    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run_job(0, first)
    assert world.run_job(0, first, "run-2").is_replay
    world.run_job(1, second, "run-2")

    assert world.found() == [(1, r"\x41 'a'"), (2, "\\'"), (3, None), (4, "é")]
    assert world.left() == []
    world.close()


def test_types_are_recognised_whatever_the_search_path(server: tuple[PostgresServer, str], tmp_path: Path) -> None:
    owner, url = server
    owner.ask("CREATE TYPE mood AS ENUM ('happy'); CREATE DOMAIN small AS int CHECK (VALUE < 10)")
    world = PostgresWorld(tmp_path, owner, "id small, value mood, day date", mode="append")
    world.url = url

    world.run_job(0, keyed((1, "happy")))

    assert world.found() == [(1, "happy", None)]
    world.close()


def test_two_rows_with_one_key_are_named_whatever_the_date_style(
    server: tuple[PostgresServer, str], tmp_path: Path
) -> None:
    owner, url = server
    world = PostgresWorld(tmp_path, owner, "id int, value timestamptz, UNIQUE (id, value)", **UPSERT)
    world.options["keyColumns"] = "id,value"
    world.url = url

    with pytest.raises(InvalidRecordError, match=r"two rows of the batch have the same key.*2024"):
        world.run_job(0, keyed_by_time())
    world.close()


def test_a_role_that_acts_as_another_one_ends_the_sessions_of_its_predecessor(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    postgres.ask("CREATE ROLE owners; CREATE ROLE acting LOGIN; GRANT owners TO acting")
    postgres.ask("ALTER ROLE acting SET role = owners; GRANT CREATE ON DATABASE postgres TO owners")
    world = PostgresWorld(tmp_path, postgres, "value text PRIMARY KEY")
    postgres.ask(f"GRANT INSERT ON {world.table} TO owners")
    world.url = world.url.replace("oncelog@", "acting@")
    left: list[CommittableAttempt[Any]] = []  # their transactions stay open
    with pytest.MonkeyPatch.context() as patched, at(CrashPoint.ROUND_DECIDED, stop):
        patched.setattr(CommittableAttempt, "abort", lambda _: None)
        patched.setattr(CommittableAttempt, "close", lambda attempt: left.append(attempt))  # noqa: PLW0108 - bound as a method
        with pytest.raises(StoppedOnPurposeError):
            world.run(0, FIRST)

    assert world.run(0, FIRST, "run-2").is_replay
    world.run(1, SECOND, "run-2")

    assert world.holds(FIRST, SECOND)
    left[0].committer.close()
    world.close()


def keyed_by_time() -> ArrowJob:
    """Two rows with the same key, a part of which is a timestamp."""
    times = pa.array([1_709_209_801_000_005] * 2, pa.timestamp("us", "UTC"))
    return ArrowJob(pa.table({"id": pa.array([1, 1], pa.int32()), "value": times}))
