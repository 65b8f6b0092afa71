"""Where the credentials are: an environment variable or a file, never a URL.

What is pickled, logged, shown or written to a checkpoint is the name of that place; the secret is read from it in each
process, each time a connection begins, and handed to the connection alone.
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
    """How a client says who it is."""

    DIGEST = "digest"
    """User and password, as ZooKeeper's `addauth digest`."""

    SASL = "sasl"
    """User and password by SASL DIGEST-MD5, against the server's JAAS configuration."""

    X509 = "x509"
    """The client's TLS certificate."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a password. They stay in the process that read them."""

    user: str
    password: str = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise UsageError("credentials never leave their process")


@dataclass(frozen=True, slots=True)
class CredentialsPlace:
    """Names where ``user:password`` is: a file if one is given, else an environment variable."""

    variable: str = DEFAULT_VARIABLE
    file: str | None = None

    def read(self) -> Credentials:
        """The credentials as they are there now.

        Raises:
            InvalidOptionError: there are none; the text names the place and never what it holds.
        """
        user, colon, password = self._text().strip().partition(":")
        if not (user and colon and password):
            raise InvalidOptionError("the ZooKeeper credentials must read user:password", place=str(self))
        return Credentials(user, password)

    def __str__(self) -> str:
        return f"file {self.file}" if self.file else f"environment variable {self.variable}"

    def _text(self) -> str:
        if self.file is None:
            text = os.environ.get(self.variable)
            if text is None:
                raise InvalidOptionError(
                    "there are no ZooKeeper credentials: set this environment variable to user:password, or name "
                    "another place by credentials_env=NAME or credentials_file=/path",
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
