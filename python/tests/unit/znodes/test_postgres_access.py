"""The store on PostgreSQL over TLS, with passwords and certificates, and behind a pooler that asks for them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from oncelog.errors import StoreAccessError
from oncelog.ports import Create
from oncelog.znodes.postgres import PostgresZnodeStore
from tests.support.servers.postgres import (
    PASSWORD,
    WRONG_PASSWORD,
    PostgresServer,
    pooler,
    trusting,
)

pytestmark = pytest.mark.slow


def works(url: str) -> None:
    with closing(PostgresZnodeStore(url)) as store:
        store.multi([Create("/a")])
        assert store.children("/") == ["a"]


def refused(url: str, said: str) -> None:
    """It is told what is wrong, and in no words that should be secret."""
    with closing(PostgresZnodeStore(url)) as store, pytest.raises(StoreAccessError, match=said) as caught:
        store.get("/")
    assert not any(secret in f"{caught.value!r}{caught.value}" for secret in (PASSWORD, WRONG_PASSWORD))


def test_a_password_over_tls_lets_in_and_a_wrong_one_does_not(
    tls_postgres: PostgresServer, certificates: Path, password: Callable[[str], None]
) -> None:
    options = trusting(certificates, "&channel_binding=require&require_auth=scram-sha-256")
    password(WRONG_PASSWORD)
    refused(tls_postgres.url(options, user="locked"), 'password authentication failed for user "locked"')
    password(PASSWORD)

    works(tls_postgres.url(options, user="locked"))


def test_a_client_certificate_lets_in_without_a_password(tls_postgres: PostgresServer, certificates: Path) -> None:
    pair = f"&sslcert={certificates / 'client.crt'}&sslkey={certificates / 'client.key'}"

    works(tls_postgres.url(trusting(certificates, pair), user="certified"))
    refused(tls_postgres.url(trusting(certificates), user="certified"), "requires a valid client certificate")


def test_a_server_that_is_not_the_one_meant_is_not_trusted(
    tls_postgres: PostgresServer, certificates: Path, password: Callable[[str], None]
) -> None:
    password(PASSWORD)
    strange = trusting(certificates).replace("ca.pem", "stranger.pem")

    refused(tls_postgres.url(strange, user="locked"), "certificate verify failed")
    named = tls_postgres.url(trusting(certificates), user="locked").replace("127.0.0.1", "localhost")
    refused(named, "certificate .*does not match host name")
    refused(tls_postgres.url("sslmode=disable", user="locked"), "no encryption")


def test_a_pooler_that_asks_for_passwords_may_stand_in_between(
    tls_postgres: PostgresServer, password: Callable[[str], None]
) -> None:
    with pooler(tls_postgres, passwords={"locked": PASSWORD}) as port:
        url = tls_postgres.url("require_auth=scram-sha-256", port=port, user="locked")
        password(WRONG_PASSWORD)
        refused(url, "authentication failed")
        password(PASSWORD)
        works(url)
