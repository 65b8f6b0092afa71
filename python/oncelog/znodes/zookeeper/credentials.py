"""Reads the credentials from an environment variable or a file; they are never in a URL.

Only the name of that place is pickled, logged, shown, or written to a checkpoint. Each process reads the secret from it
for each new connection, and gives it only to that connection.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from oncelog.errors import InvalidOptionError, UsageError

DEFAULT_VARIABLE = "ONCELOG_ZOOKEEPER_CREDENTIALS"


class Auth(StrEnum):
    """How a client authenticates."""

    DIGEST = "digest"
    """User and password, as in ZooKeeper's `addauth digest`."""

    SASL = "sasl"
    """User and password with SASL DIGEST-MD5, as in the server's JAAS configuration."""

    X509 = "x509"
    """The client's TLS certificate."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a password. They never leave the process that read them."""

    user: str
    password: str = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise UsageError("credentials never leave their process")


@dataclass(frozen=True, slots=True)
class CredentialsPlace:
    """The place of ``user:password``: a file if one is given, else an environment variable."""

    variable: str = DEFAULT_VARIABLE
    file: str | None = None

    def read(self) -> Credentials:
        """The current credentials.

        Raises:
            InvalidOptionError: there are none, or they are malformed. The message only names the place.
        """
        user, colon, password = self._text().strip().partition(":")
        if not (user and colon and password):
            raise InvalidOptionError("the ZooKeeper credentials must be user:password", place=str(self))
        return Credentials(user, password)

    def __str__(self) -> str:
        return f"file {self.file}" if self.file else f"environment variable {self.variable}"

    def _text(self) -> str:
        if self.file is None:
            text = os.environ.get(self.variable)
            if text is None:
                raise InvalidOptionError(
                    "there are no ZooKeeper credentials: set this environment variable to user:password, or name "
                    "another place with credentials_env=NAME or credentials_file=/path",
                    variable=self.variable,
                )
            return text
        try:
            return Path(self.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise InvalidOptionError(
                "the file of the ZooKeeper credentials cannot be read", file=self.file, reason=reason
            ) from None
