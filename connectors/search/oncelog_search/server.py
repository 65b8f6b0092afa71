"""Requests to a store of OpenSearch or Elasticsearch. No other module may use urllib3.

Connections are kept for the next request. Nothing here waits and asks again: a request has one answer, or an error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote

from oncelog.extras import extras
from oncelog_search.address import Address
from oncelog_search.errors import SearchAccessError, SearchUnavailableError

with extras("search", part="oncelog_search"):
    import urllib3
    from urllib3.exceptions import HTTPError, SSLError

USER: Final = "ONCELOG_SEARCH_USER"
PASSWORD: Final = "ONCELOG_SEARCH_PASSWORD"
API_KEY: Final = "ONCELOG_SEARCH_API_KEY"

OK: Final = 200
DENIED: Final = (401, 403)
MISSING: Final = 404
TOO_LARGE: Final = 413

_CONNECT_TIMEOUT_S: Final = 10
_JSON: Final = {"Accept": "application/json"}
_LINES: Final = {**_JSON, "Content-Type": "application/x-ndjson"}
_LONGEST_REASON: Final = 300


class Reply(NamedTuple):
    """What a node answered.

    Attributes:
        status: of HTTP.
        body: the parsed JSON; None if it is none, as that of a proxy.
        reason: what it says of a failure, in one line.
    """

    status: int
    body: Any
    reason: str


class SearchServer:
    """A client of one store, for one thread.

    Raises:
        SearchAccessError: this host lacks the file of certificates.
    """

    def __init__(self, address: Address) -> None:
        if address.ca_file is not None and not Path(address.ca_file).is_file():
            raise SearchAccessError(
                "this host lacks the file of certificates that caFile names; the driver and each executor need it",
                caFile=address.ca_file,
            )
        self.address = address
        self._answering = 0
        """The node that answered last."""
        self._pool = urllib3.PoolManager(
            retries=False,
            cert_reqs="CERT_REQUIRED",
            ca_certs=address.ca_file,
            timeout=urllib3.Timeout(connect=_CONNECT_TIMEOUT_S, read=address.timeout_ms / 1000),
        )

    def get(self, path: str, **about: Any) -> Any:
        """The JSON that a path gives; None if there is nothing.

        Args:
            path: with its query.
            about: fields for an error.

        Raises:
            SearchUnavailableError, SearchAccessError: see `send`, and any other answer.
        """
        return self._answered("GET", path, about)

    def post(self, path: str, **about: Any) -> Any:
        """The same for a request that changes something, without a body."""
        return self._answered("POST", path, about)

    def bulk(self, index: str, lines: memoryview, shown: str) -> Reply:
        """Ask for many documents at once.

        Args:
            lines: of actions and documents.
            shown: the parts of the answer that are wanted; see `filter_path` of the store.

        Raises:
            SearchUnavailableError, SearchAccessError: see `send`.
        """
        return self.send("POST", f"/{quoted(index)}/_bulk?filter_path={shown}", lines)

    def takes(self, index: str, size: int) -> bool:
        """Whether the store, and each proxy before it, takes a request of so many bytes. It changes nothing.

        Raises:
            SearchUnavailableError, SearchAccessError: see `send`.
        """
        empty_lines = memoryview(b"\n" * size)  # which the store refuses for having no documents
        return self.send("POST", f"/{quoted(index)}/_bulk", empty_lines).status != TOO_LARGE

    def send(self, method: str, path: str, body: memoryview | None = None) -> Reply:
        """Ask one node after the other until one answers.

        Raises:
            SearchUnavailableError: none does.
            SearchAccessError: its certificate is not trusted, or the variables of the environment make no credentials.
        """
        headers = {**(_JSON if body is None else _LINES), **_credentials()}
        urls = self.address.urls
        for turn in range(len(urls) + 1):  # the first one twice: it may have closed a connection that was kept
            url = urls[(self._answering + turn) % len(urls)]
            try:
                answer = self._pool.request(method, url + path, body=cast("Any", body), headers=headers)
            except SSLError as problem:
                raise SearchAccessError(
                    "no trusted connection was made: name the certificates to trust with caFile, or correct the url",
                    url=url,
                    reason=_one_line(str(problem)),
                ) from None
            except (HTTPError, OSError) as problem:
                reason = _one_line(str(problem))
                continue
            self._answering = (self._answering + turn) % len(urls)
            return _reply(answer.status, answer.data)
        raise SearchUnavailableError(
            "the store cannot be reached: no node answers", url=str(self.address), reason=reason
        )

    def _answered(self, method: str, path: str, about: Mapping[str, Any]) -> Any:
        reply = self.send(method, path)
        if reply.status == MISSING:
            return None
        if reply.status in DENIED:
            raise denied(reply.reason, **about)
        if reply.status != OK or reply.body is None:
            raise SearchUnavailableError(
                "the store refused a request", url=str(self.address), status=reply.status, reason=reply.reason, **about
            )
        return reply.body


@lru_cache(maxsize=4)
def _kept(_: int, address: Address) -> SearchServer:
    return SearchServer(address)


def kept_server(address: Address) -> SearchServer:
    """The client that the tasks of this process share, one after the other; a forked child has its own."""
    return _kept(os.getpid(), address)


def quoted(index: str) -> str:
    """A name as a part of a path."""
    return quote(index, safe="")


def denied(reason: str, **about: Any) -> SearchAccessError:
    return SearchAccessError(
        f"the store denies this process access: check {USER} and {PASSWORD}, or {API_KEY}, in the environment of the "
        "driver and of the executors, and the rights (docs/guides/search.md lists them)",
        reason=reason,
        **about,
    )


def _credentials() -> dict[str, str]:
    """The header that says who this process is; none if the environment does not."""
    user, password, key = (os.environ.get(name) for name in (USER, PASSWORD, API_KEY))
    if (user is None) != (password is None) or (key is not None and user is not None):
        raise SearchAccessError(
            "the environment must have a user and a password, or an API key, or nothing of them",
            found=[name for name in (USER, PASSWORD, API_KEY) if name in os.environ],
        )
    if key is not None:
        return {"Authorization": f"ApiKey {key}"}
    return dict(urllib3.make_headers(basic_auth=f"{user}:{password}")) if user is not None else {}


def _reply(status: int, data: bytes) -> Reply:
    try:
        body = json.loads(data)
    except ValueError:
        return Reply(status, None, _one_line(data[:_LONGEST_REASON].decode(errors="replace")))
    error = body.get("error") if isinstance(body, dict) else None
    reason = error.get("reason") if isinstance(error, dict) else error
    return Reply(status, body, _one_line(str(reason or "")))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_REASON]
