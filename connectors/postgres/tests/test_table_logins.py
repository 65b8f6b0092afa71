"""Who may write into a table, and over which connections: TLS, passwords, certificates, and a pooler in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncelog import metadata
from oncelog.testing.target_contract import FIRST, SECOND, at
from oncelog_postgres.crash_points import PostgresCrashPoint
from oncelog_postgres.errors import DatabaseAccessError
from tests.support.servers.postgres import (
    PASSWORD,
    WRONG_PASSWORD,
    PostgresServer,
    pooler,
    trusting,
)
from worlds import PostgresWorld


@pytest.fixture
def made(tls_postgres: PostgresServer, tmp_path: Path) -> Iterator[Callable[..., PostgresWorld]]:
    """Makes a world whose table a role may write to, and whose ledger is beside it."""
    worlds: list[PostgresWorld] = []

    def make(user: str, options: str, *, host: str = "127.0.0.1", port: int | None = None) -> PostgresWorld:
        world = PostgresWorld(tmp_path, tls_postgres)
        worlds.append(world)
        tls_postgres.ask(f"GRANT INSERT ON {world.table} TO {user}")
        world.url = tls_postgres.url(options, user=user, port=port).replace("127.0.0.1", host)
        return world

    yield make
    for world in worlds:
        world.close()


def test_driver_tasks_and_ledger_come_by_tls_with_a_password(
    made: Callable[..., PostgresWorld], certificates: Path, password: Callable[[str], None]
) -> None:
    password(PASSWORD)
    world = made("locked", trusting(certificates, more="&channel_binding=require&require_auth=scram-sha-256"))
    world.store.close()
    world.store = metadata.open_metadata(world.url)

    world.run(0, FIRST)
    world.run(1, SECOND)

    assert world.holds(FIRST, SECOND)
    assert world.left() == []


def test_a_client_certificate_lets_in_without_a_password(
    made: Callable[..., PostgresWorld], certificates: Path
) -> None:
    pair = f"&sslcert={certificates / 'client.crt'}&sslkey={certificates / 'client.key'}"
    world = made("certified", trusting(certificates, more=pair))

    world.run(0, FIRST)

    assert world.holds(FIRST)


def refused(world: PostgresWorld, said: str) -> None:
    """It is told what is wrong, in an error that no restart mends, and in no words that should be secret."""
    with pytest.raises(DatabaseAccessError, match=f"denies this process access: check .*{said}") as caught:
        world.run(0, FIRST)
    assert not any(secret in f"{caught.value!r}{caught.value}" for secret in (PASSWORD, WRONG_PASSWORD))
    assert world.visible() == []


@pytest.mark.parametrize(
    ("authority", "host", "said"),
    [
        ("stranger", "127.0.0.1", "certificate verify failed"),
        ("ca", "localhost", "certificate .*does not match host name"),
    ],
)
def test_a_server_that_is_not_the_one_meant_gets_nothing(
    made: Callable[..., PostgresWorld],
    certificates: Path,
    password: Callable[[str], None],
    authority: str,
    host: str,
    said: str,
) -> None:
    password(PASSWORD)

    refused(made("locked", trusting(certificates, authority=authority), host=host), said)


def test_who_comes_without_tls_is_told_so(made: Callable[..., PostgresWorld], password: Callable[[str], None]) -> None:
    password(PASSWORD)

    refused(made("locked", "sslmode=disable"), "no encryption")


def test_a_wrong_password_and_a_missing_one_are_told_apart(
    made: Callable[..., PostgresWorld], certificates: Path, password: Callable[[str], None]
) -> None:
    world = made("locked", trusting(certificates))

    refused(world, "no password supplied")
    password(WRONG_PASSWORD)
    refused(world, 'password authentication failed for user "locked"')


@pytest.mark.parametrize("found", [WRONG_PASSWORD, ""])
def test_a_task_with_a_wrong_password_fails_the_batch_and_leaves_nothing(
    made: Callable[..., PostgresWorld], certificates: Path, password: Callable[[str], None], found: str
) -> None:
    """Executors have an environment of their own."""
    world = made("locked", trusting(certificates))
    password(PASSWORD)
    with at(PostgresCrashPoint.STAGED, lambda: password(found)), pytest.raises(DatabaseAccessError) as caught:
        world.run(0, FIRST)

    assert "password" in str(caught.value)
    assert not any(secret in f"{caught.value!r}{caught.value}" for secret in (PASSWORD, WRONG_PASSWORD))
    assert (world.visible(), world.left()) == ([], [])
    password(PASSWORD)
    world.run(0, FIRST, "run-2")
    assert world.holds(FIRST)


def test_a_pooler_that_asks_for_passwords_may_stand_in_between(
    made: Callable[..., PostgresWorld], tls_postgres: PostgresServer, password: Callable[[str], None]
) -> None:
    """It speaks TLS to the server, and SCRAM to both sides."""
    with pooler(tls_postgres, passwords={"locked": PASSWORD}) as port:
        world = made("locked", "require_auth=scram-sha-256", port=port)
        password(WRONG_PASSWORD)
        with pytest.raises(DatabaseAccessError, match="authentication failed"):
            world.run(0, FIRST)
        password(PASSWORD)
        world.run(0, FIRST, "run-2")

    assert world.holds(FIRST)
