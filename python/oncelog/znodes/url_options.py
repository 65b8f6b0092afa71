"""Reads servers and options in the URLs of stores on servers.

Errors never repeat an option's value, since it may be a password.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from oncelog.errors import InvalidOptionError

Readers = Mapping[str, Callable[[str], Any]]
"""By the name of an option: reads its value. A ValueError says what is expected."""


def host_and_port(text: str, default_port: int = 0) -> tuple[str, int]:
    """A server, written ``host:port``, ``[address]:port``, or ``host`` if there is a default. Raises ValueError."""
    parts = urlsplit(f"//{text}")
    host, port = parts.hostname, default_port if parts.port is None else parts.port
    if host is None or port == 0 or parts.netloc != text:
        raise ValueError("not a server")
    return host, port


def host_port(host: str, port: int) -> str:
    """A server as URLs name it: ``host:port``, or ``[address]:port`` for an address with colons."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def positive(text: str) -> int:
    if re.fullmatch("0*[1-9][0-9]{0,11}", text) is None:
        raise ValueError("a whole number above 0, of 12 digits at most")
    return int(text)


def boolean(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError("true or false")
    return text == "true"


def absolute_file(text: str) -> str:
    if not PurePosixPath(text).is_absolute():
        raise ValueError("an absolute path, since tasks run in other folders")
    return text


def options(query: str, readers: Readers, server: str) -> dict[str, Any]:
    """The options behind the question mark.

    Args:
        query: what is behind it.
        readers: of the options that there are.
        server: what the URL is of, for the errors.

    Raises:
        InvalidOptionError: one is unknown, malformed, or given twice.
    """
    given: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        reader = readers.get(name)
        if reader is None:
            near = difflib.get_close_matches(name, readers, n=1)
            suggestion = {"did_you_mean": near[0]} if near else {"known": sorted(readers)}
            raise InvalidOptionError(f"unknown option in the URL of a {server}", option=name, **suggestion)
        if name in given:
            raise InvalidOptionError(f"an option is given twice in the URL of a {server}", option=name)
        try:
            given[name] = reader(text)
        except ValueError as problem:
            raise InvalidOptionError(
                f"an option in the URL of a {server} is malformed", option=name, expected=str(problem)
            ) from None
    return given
