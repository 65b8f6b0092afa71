"""The URL of a folder in a bucket: ``s3://bucket/folder?endpoint=https://host:9000``, without credentials."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from oncelog import limits
from oncelog.errors import InvalidOptionError
from oncelog.folders import parts_of

SCHEME = "s3://"
_EXAMPLE = "s3://bucket/folder?endpoint=https://host:9000&region=eu-central-1"


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """Where objects are. It has no secrets, since it is logged, pickled and stored.

    Attributes:
        url: the URL that was parsed.
        folder: bucket and the prefix of all keys, ``bucket/a/b``.
        endpoint: scheme and host of the store; None for AWS.
        region: None to let the SDK choose (``AWS_REGION``, profile).
        timeout_ms: how long a request waits for any answer, including the connection.
        tls_ca: a PEM file of certificates to trust instead of the system's.
    """

    url: str
    folder: str
    endpoint: str | None
    region: str | None
    timeout_ms: int
    tls_ca: str | None

    @property
    def bucket(self) -> str:
        return self.folder.partition("/")[0]

    @classmethod
    def parse(cls, url: str) -> ObjectPlace:
        """Parse ``s3://bucket/folder?option=value&option=value``.

        Raises:
            InvalidOptionError: the URL is malformed. The message repeats no part that could be a secret.
        """
        location, _, query = url.removeprefix(SCHEME).partition("?")
        if "@" in location:
            raise _credentials_given()
        if "#" in location:
            raise InvalidOptionError("the URL of a bucket must not have a fragment (#)", url=url)
        bucket, _, prefix = unquote(location).rstrip("/").partition("/")
        if not url.startswith(SCHEME) or bucket in ("", ".", ".."):
            raise InvalidOptionError("not the URL of a bucket", expected=_EXAMPLE)
        given = _options(query)
        return cls(
            url,
            "/".join([bucket, *parts_of(prefix)] if prefix else [bucket]),
            _endpoint(given.get("endpoint")),
            given.get("region"),
            _timeout_ms(given.get("timeout_ms")),
            given.get("tls_ca"),
        )


_OPTIONS = ("endpoint", "region", "timeout_ms", "tls_ca")
_SECRETS = ("access_key", "secret", "token", "password")


def _options(query: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if any(secret in name.lower() for secret in _SECRETS):
            raise _credentials_given()
        if name not in _OPTIONS:
            near = difflib.get_close_matches(name, _OPTIONS, n=1)
            raise InvalidOptionError(
                "unknown option in the URL of a bucket", option=name, **({"did_you_mean": near[0]} if near else {})
            )
        if name in given or not value:
            raise InvalidOptionError("an option in the URL of a bucket is given twice, or empty", option=name)
        given[name] = value
    return given


def _credentials_given() -> InvalidOptionError:
    return InvalidOptionError(
        "the URL of a bucket must not contain credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, "
        "or a role of the machine, for every process that uses the log"
    )


def _endpoint(text: str | None) -> str | None:
    if text is None:
        return None
    if "@" in text:
        raise _credentials_given()
    try:
        parts = urlsplit(text)
    except ValueError:  # brackets without an IPv6 address
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or parts.query:
        raise InvalidOptionError("the endpoint of an object store is a scheme and a host", expected="https://host:9000")
    return f"{parts.scheme}://{parts.netloc}"


def _timeout_ms(text: str | None) -> int:
    if text is None:
        return limits.OBJECT_STORE_TIMEOUT_MS
    if re.fullmatch("[0-9]{4,12}", text) is None or int(text) < 1000:
        raise InvalidOptionError("the timeout of an object store is a number of milliseconds, 1000 or more", given=text)
    return int(text)
