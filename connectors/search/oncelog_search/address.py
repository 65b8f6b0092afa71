"""Where a store is, and how to speak to it; without secrets, so it may be pickled into tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from oncelog.errors import InvalidOptionError


@dataclass(frozen=True, slots=True)
class Address:
    """A store.

    Attributes:
        urls: of its nodes, or of what stands before them; any of them answers.
        ca_file: the certificates that are trusted; None for those of the system.
        timeout_ms: of one request.
    """

    urls: tuple[str, ...]
    ca_file: str | None
    timeout_ms: int

    @classmethod
    def parse(cls, url: str, ca_file: str | None, timeout_ms: int) -> Self:
        """The address that options name.

        Raises:
            InvalidOptionError: the url is malformed, or contains credentials; the error does not repeat these.
        """
        found = tuple(dict.fromkeys(_checked(part.strip()) for part in url.split(",")))
        if ca_file is not None and not all(part.startswith("https:") for part in found):
            raise InvalidOptionError(
                "the option is for urls that begin with https://", option="caFile", url=list(found)
            )
        return cls(found, ca_file, timeout_ms)

    def __str__(self) -> str:
        return ",".join(self.urls)


def _checked(url: str) -> str:
    if "@" in url:
        raise InvalidOptionError(
            "the url must not contain credentials; give them in the environment, by ONCELOG_SEARCH_USER and "
            "ONCELOG_SEARCH_PASSWORD, or by ONCELOG_SEARCH_API_KEY",
            option="url",
        )
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        is_sound = False
    if not is_sound or parts.query or parts.fragment or any(sign.isspace() for sign in url):
        raise InvalidOptionError(
            "the option's value is malformed",
            option="url",
            value=url,
            expected="http://host:port or https://host:port, several ones separated by commas",
        )
    return url.rstrip("/")
