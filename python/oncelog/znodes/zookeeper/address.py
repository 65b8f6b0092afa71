"""Parses the URL of a znode store on ZooKeeper.

    zk://host:port,host:port/chroot?option=value&option=value

It contains only names and numbers, so that it may be shown, logged, pickled, and stored in a checkpoint.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

from oncelog.errors import InvalidOptionError, InvariantViolation
from oncelog.limits import ZOOKEEPER_SESSION_MS, ZOOKEEPER_TIMEOUT_MS
from oncelog.znodes.rules import split_path
from oncelog.znodes.url_options import Readers, absolute_file, boolean, host_and_port, host_port, options, positive
from oncelog.znodes.zookeeper.credentials import DEFAULT_VARIABLE, Auth, CredentialsPlace

SCHEME = "zk"
DEFAULT_PORT = 2181
CHROOT_MAX_LENGTH = 200
"""Each operation of a multi repeats the chroot, and 1000 of them must leave room for MULTI_MAX_BYTES."""

_EXAMPLE = "zk://host1:2181,host2:2181,host3:2181/oncelog"


@dataclass(frozen=True, slots=True)
class Tls:
    """The settings for TLS. All files are PEM.

    Attributes:
        ca: certificates to trust instead of the system's.
        certificate, key: of this client, if the servers ask for one.
        verify_hostname: whether the server's certificate must be for the host that was connected to.
    """

    ca: str | None
    certificate: str | None
    key: str | None
    verify_hostname: bool

    def context(self) -> ssl.SSLContext:
        """The SSL context for a connection.

        Raises:
            InvalidOptionError: a file cannot be read, or is not valid.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca)
            context.check_hostname = self.verify_hostname
            if self.certificate is not None:
                # With the callback, OpenSSL does not ask at the terminal for the password of an encrypted key.
                context.load_cert_chain(self.certificate, self.key, password=lambda: "")
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise InvalidOptionError(
                "a file for TLS cannot be used: it must be PEM, and a key must not be encrypted",
                tls_ca=self.ca,
                tls_cert=self.certificate,
                tls_key=self.key,
                reason=str(error),
            ) from None
        return context


@dataclass(frozen=True, slots=True)
class ZookeeperAddress:
    """An ensemble, the chroot of one log on it, and the settings of the connection.

    Attributes:
        url: the URL that was parsed.
        servers: host:port, separated by commas.
        chroot: absolute, never the root.
        timeout_ms: how long a call waits for an answer, including reconnects.
        session_ms: after this long without an answer, client and server end the session.
        place: of the credentials; None if none are needed.
    """

    url: str
    servers: str
    chroot: str
    timeout_ms: int
    session_ms: int
    auth: Auth | None
    place: CredentialsPlace | None
    tls: Tls | None

    def __str__(self) -> str:
        return f"{SCHEME}://{self.servers}{self.chroot}"

    @classmethod
    def parse(cls, url: str) -> ZookeeperAddress:
        """Parse a URL.

        Raises:
            InvalidOptionError: the URL is malformed. The message repeats no part that could be a secret.
        """
        scheme, _, rest = url.partition("://")
        if scheme != SCHEME or not rest:
            raise InvalidOptionError("not the URL of a ZooKeeper", expected=_EXAMPLE)
        location, _, query = rest.partition("?")
        if "@" in location:
            raise InvalidOptionError(
                "the URL of a ZooKeeper must not contain credentials: add ?auth=digest, and put user:password into the "
                f"environment variable {DEFAULT_VARIABLE} or a file that credentials_file names"
            )
        servers, _, chroot = location.partition("/")
        given = options(query, _READERS, "ZooKeeper")
        return cls(
            url,
            ",".join(_server(server) for server in servers.split(",")),
            _chroot(chroot),
            given.get("timeout_ms", ZOOKEEPER_TIMEOUT_MS),
            given.get("session_ms", ZOOKEEPER_SESSION_MS),
            given.get("auth"),
            _place(given),
            _tls(given),
        )


def _server(text: str) -> str:
    """``host:port`` of one server, with the default port if none is given."""
    try:
        host, port = host_and_port(text, DEFAULT_PORT)
    except ValueError:
        raise InvalidOptionError("not a ZooKeeper server", server=text, expected=_EXAMPLE) from None
    return host_port(host, port)


def _chroot(text: str) -> str:
    chroot = f"/{text.rstrip('/')}"
    if chroot == "/":
        raise InvalidOptionError("the URL of a ZooKeeper needs a chroot, the log's znode", expected=_EXAMPLE)
    try:
        split_path(chroot)
    except InvariantViolation as error:
        raise InvalidOptionError("ZooKeeper does not accept this chroot", chroot=chroot, reason=str(error)) from None
    if len(chroot.encode()) > CHROOT_MAX_LENGTH:
        raise InvalidOptionError("the chroot is too long", chroot=chroot, maximum=CHROOT_MAX_LENGTH)
    return chroot


# Options --------------------------------------------------------------------------------------------------------------


def _auth(text: str) -> Auth:
    if text not in set(Auth):
        raise ValueError(f"one of {', '.join(Auth)}")
    return Auth(text)


def _variable(text: str) -> str:
    if not text.isidentifier():
        raise ValueError("the name of an environment variable")
    return text


_READERS: Readers = {
    "timeout_ms": positive,
    "session_ms": positive,
    "auth": _auth,
    "credentials_env": _variable,
    "credentials_file": absolute_file,
    "tls": boolean,
    "tls_ca": absolute_file,
    "tls_cert": absolute_file,
    "tls_key": absolute_file,
    "tls_verify_hostname": boolean,
}


def _place(given: dict[str, Any]) -> CredentialsPlace | None:
    variable, file, auth = given.get("credentials_env"), given.get("credentials_file"), given.get("auth")
    if variable and file:
        raise InvalidOptionError("these options exclude each other", given=["credentials_env", "credentials_file"])
    if auth in (Auth.DIGEST, Auth.SASL):
        return CredentialsPlace(variable or DEFAULT_VARIABLE, file)
    if variable or file:
        raise InvalidOptionError("credentials are given without an authentication scheme: add auth=digest or auth=sasl")
    return None


def _tls(given: dict[str, Any]) -> Tls | None:
    is_on = given.get("tls", False)
    if not is_on and any(name.startswith("tls_") for name in given):
        raise InvalidOptionError("options for TLS need tls=true")
    if ("tls_cert" in given) != ("tls_key" in given):
        raise InvalidOptionError("a client certificate needs both tls_cert and tls_key")
    if given.get("auth") is Auth.X509 and "tls_cert" not in given:
        raise InvalidOptionError("auth=x509 needs tls=true with the client's tls_cert and tls_key")
    if not is_on:
        return None
    return Tls(given.get("tls_ca"), given.get("tls_cert"), given.get("tls_key"), given.get("tls_verify_hostname", True))
