"""Parses the URL of a znode store on PostgreSQL.

    postgresql://user@host:port,host:port/database?option=value&option=value

It contains only names and numbers, so that it may be shown, logged, pickled, and stored in a checkpoint. The password
comes from where libpq finds it: the environment variable ``PGPASSWORD``, or a password file.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from oncelog.errors import InvalidOptionError
from oncelog.limits import POSTGRES_TIMEOUT_MS
from oncelog.znodes.url_options import Readers, absolute_file, host_and_port, host_port, options, positive

SCHEMES = ("postgresql", "postgres")
DEFAULT_PORT = 5432
DEFAULT_SCHEMA = "oncelog"

_EXAMPLE = "postgresql://user@host:5432/database?schema=oncelog"


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """The servers, the database on them, the schema in it that has the tables of one log, and how to get there.

    Attributes:
        url: the URL that was parsed.
        hosts, ports: of the servers; the one of them that takes writes is used.
        user: None for libpq's default: ``PGUSER``, or the name of the process's user.
        schema: of the tables. Each log or ledger has one of its own.
        timeout_ms: how long a call waits for an answer, including reconnects.
        settings: of the connection, by libpq's names.
    """

    url: str
    hosts: tuple[str, ...]
    ports: tuple[int, ...]
    database: str
    user: str | None
    schema: str
    timeout_ms: int
    settings: dict[str, str]

    @property
    def servers(self) -> list[tuple[str, int]]:
        """Host and port of each."""
        return list(zip(self.hosts, self.ports, strict=True))

    def __str__(self) -> str:
        servers = ",".join(host_port(*server) for server in self.servers)
        return f"{SCHEMES[0]}://{servers}/{self.database}?schema={self.schema}"

    @classmethod
    def parse(cls, url: str) -> PostgresAddress:
        """Parse a URL.

        Raises:
            InvalidOptionError: the URL is malformed. The message repeats no part that could be a secret.
        """
        scheme, _, rest = url.partition("://")
        location, _, query = rest.partition("?")
        given_user, at, place = location.rpartition("@")
        if ":" in given_user or "@" in given_user:
            raise InvalidOptionError(
                "the URL of a PostgreSQL must not contain a password: set PGPASSWORD, or name a password file with "
                "PGPASSFILE or passfile=/path, for every process that uses the store"
            )
        location, _, database = place.partition("/")
        if scheme not in SCHEMES or (at and not given_user) or "#" in rest:
            raise InvalidOptionError("not the URL of a PostgreSQL", expected=_EXAMPLE)
        given = options(query, _READERS, "PostgreSQL")
        servers = [_server(server) for server in location.split(",")]
        return cls(
            f"{SCHEMES[0]}://{rest}",
            tuple(host for host, _ in servers),
            tuple(port for _, port in servers),
            _database(unquote(database)),
            unquote(given_user) or None,
            given.pop("schema", DEFAULT_SCHEMA),
            given.pop("timeout_ms", POSTGRES_TIMEOUT_MS),
            given,
        )

    def parameters(self, within_s: float) -> dict[str, Any]:
        """What libpq is told, for a connection that may take so long."""
        return {
            "host": ",".join(self.hosts),
            "port": ",".join(map(str, self.ports)),
            "dbname": self.database,
            **({"user": self.user} if self.user else {}),
            "target_session_attrs": "primary",
            "client_encoding": "UTF8",
            "connect_timeout": max(2, math.ceil(within_s)),  # libpq takes whole seconds, and no fewer
            "tcp_user_timeout": self.timeout_ms,
            "fallback_application_name": "oncelog",
            **self.settings,
        }


def _server(text: str) -> tuple[str, int]:
    try:
        return host_and_port(text, DEFAULT_PORT)
    except ValueError:
        raise InvalidOptionError("not a PostgreSQL server", server=text, expected=_EXAMPLE) from None


def _database(text: str) -> str:
    if not text or "/" in text or "\0" in text:
        raise InvalidOptionError("the URL of a PostgreSQL needs the name of a database", expected=_EXAMPLE)
    return text


# Options --------------------------------------------------------------------------------------------------------------


def _schema(text: str) -> str:
    if re.fullmatch("[a-z_][a-z0-9_]{0,62}", text) is None or text.startswith("pg_"):
        raise ValueError("lower-case letters, digits and _, 63 at most, and not pg_ at the beginning")
    return text


def _word(text: str) -> str:
    if re.fullmatch("[A-Za-z0-9_.,!+ -]{1,200}", text) is None:
        raise ValueError("letters and digits")
    return text


_READERS: Readers = {
    "schema": _schema,
    "timeout_ms": positive,
    "passfile": absolute_file,
    "sslmode": _word,
    "sslrootcert": lambda text: text if text == "system" else absolute_file(text),
    "sslcert": absolute_file,
    "sslkey": absolute_file,
    "sslcrl": absolute_file,
    "channel_binding": _word,
    "require_auth": _word,
    "gssencmode": _word,
    "krbsrvname": _word,
    "application_name": _word,
}
