"""The store on PostgreSQL: what a URL may say, and what each error of a server means. No server is asked."""

from __future__ import annotations

import inspect

import psycopg.errors
import pytest

import oncelog
from oncelog.errors import (
    CorruptDataError,
    InvalidOptionError,
    StoreAccessError,
    StoreUnavailableError,
)
from oncelog.znodes.postgres.address import PostgresAddress
from oncelog.znodes.postgres.failures import LostError, NotNowError, refused, translated
from oncelog.znodes.schemes import Place


def test_a_url_names_servers_a_database_a_schema_and_how_to_get_there() -> None:
    address = PostgresAddress.parse(
        "postgres://u%40x@h1,h2:5433,[::1]:5434/data%20base?schema=a_log&timeout_ms=5000&sslmode=verify-full"
        "&sslrootcert=system&passfile=/etc/pgpass"
    )

    assert address.servers == [("h1", 5432), ("h2", 5433), ("::1", 5434)]
    assert (address.user, address.database, address.schema, address.timeout_ms) == ("u@x", "data base", "a_log", 5000)
    assert str(address) == "postgresql://h1:5432,h2:5433,[::1]:5434/data base?schema=a_log"
    assert (
        address.parameters(1.2).items()
        >= {
            "host": "h1,h2,::1",
            "port": "5432,5433,5434",
            "user": "u@x",
            "target_session_attrs": "primary",
            "connect_timeout": 2,
            "sslmode": "verify-full",
            "passfile": "/etc/pgpass",
        }.items()
    )
    assert "user" not in PostgresAddress.parse("postgresql://h/d").parameters(1)


def test_both_names_of_the_scheme_are_one_place() -> None:
    assert Place.of("postgres://u@h/d", "/log") == Place.of("postgresql://u@h/d", "/log")


@pytest.mark.parametrize(
    "url",
    [
        *("postgresql:", "postgresql:h/d", "postgresql://", "postgresql://h", "postgresql://h/", "postgresql:///d"),
        *(
            "postgresql://h:port/d",
            "postgresql://h:0/d",
            "postgresql://h,/d",
            "postgresql://h/d/e",
            "postgresql://@h/d",
        ),
        *(
            "postgresql://h/d#x",
            "postgresql://h/d?schema=Log",
            "postgresql://h/d?schema=pg_log",
            "postgresql://h/d?schema=",
        ),
        *("postgresql://h/d?timeout_ms=0", "postgresql://h/d?passfile=a", "postgresql://h/d?options=-c%20fsync=off"),
        *("postgresql://h/d?target_session_attrs=any", "postgresql://h/d?timeout_ms=1&timeout_ms=2"),
        *("postgresql://h/d?sslmode=%00", "postgresql://h/%00"),
    ],
)
def test_a_malformed_url_is_an_error(url: str) -> None:
    with pytest.raises(InvalidOptionError):
        PostgresAddress.parse(url)


def test_an_unknown_option_is_an_error_that_suggests_the_nearest() -> None:
    with pytest.raises(InvalidOptionError, match="URL of a PostgreSQL") as caught:
        PostgresAddress.parse("postgresql://h/d?schemas=log")
    assert caught.value.fields["did_you_mean"] == "schema"


# Errors of servers


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("AdminShutdown", LostError),
        ("CrashShutdown", LostError),
        ("CannotConnectNow", LostError),
        ("ConnectionFailure", LostError),
        ("IdleInTransactionSessionTimeout", LostError),
        ("SerializationFailure", NotNowError),
        ("DeadlockDetected", NotNowError),
        ("LockNotAvailable", NotNowError),
        ("QueryCanceled", NotNowError),
        ("TooManyConnections", NotNowError),
        ("ReadOnlySqlTransaction", NotNowError),
        ("DiskFull", StoreUnavailableError),
        ("OutOfMemory", StoreUnavailableError),
        ("SystemError", StoreUnavailableError),
        ("InsufficientPrivilege", StoreAccessError),
        ("InvalidPassword", StoreAccessError),
        ("InvalidCatalogName", StoreAccessError),
        ("UndefinedTable", StoreAccessError),
        ("DataCorrupted", CorruptDataError),
        ("UniqueViolation", CorruptDataError),
    ],
)
def test_an_error_of_the_server_tells_what_to_do(name: str, kind: type[Exception]) -> None:
    error = getattr(psycopg.errors, name)

    assert type(translated(error.sqlstate, "why", postgresql="where")) is kind


def test_every_error_of_the_server_has_a_meaning_and_none_without_an_answer_counts_as_not_written() -> None:
    found = [vars(kind).get("sqlstate") for _, kind in inspect.getmembers(psycopg.errors, inspect.isclass)]
    codes = [code for code in found if isinstance(code, str)]
    assert len(codes) > 200

    for code in codes:
        meaning = translated(code, "why", postgresql="where")
        assert isinstance(meaning, NotNowError | oncelog.errors.OncelogError)
    assert isinstance(translated(None, "why"), LostError)


def test_a_connection_that_is_refused_for_good_is_told_from_a_server_that_starts() -> None:
    assert isinstance(refused("FATAL:  the database system is starting up"), LostError)
    assert isinstance(refused("connection refused"), LostError)
    assert isinstance(refused('FATAL:  role "x" does not exist'), StoreAccessError)
    assert isinstance(refused("FATAL:  password authentication failed"), StoreAccessError)
