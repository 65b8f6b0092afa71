"""What commands of oncelog serve over HTTP, read as Prometheus and as a browser read it."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from os import sysconf
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.log.shell import serving

AS_PROMETHEUS = {
    "Accept": "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
    "Accept-Encoding": "gzip",
}
ANSWER_SECONDS = 30.0


class Served:
    """A command that serves.

    Args:
        url: of its page.
        pid: of its process.
    """

    def __init__(self, url: str, pid: int) -> None:
        self._at = urlsplit(url)
        self._pid = pid

    def scrape(self) -> str:
        """The page of metrics, once its last byte is there."""
        with self.connected() as connection:
            page = gzip.decompress(_answer(connection, "/metrics", AS_PROMETHEUS).read()).decode()
        if "\noncelog_up 1" not in page:
            raise RuntimeError("the exporter cannot read")
        return page

    def visit(self) -> dict[str, Any]:
        """What a browser gets, until it has tables to draw."""
        with self.connected() as connection:
            _answer(connection, "/", {}).read()
        with self.stream() as stream:
            while not (content := next(stream))["tables"]:
                pass
            return content

    @contextmanager
    def stream(self) -> Iterator[Stream]:
        """The content of the page, again and again."""
        with self.connected() as connection:
            yield Stream(_answer(connection, "/events", {}))

    @contextmanager
    def connected(self) -> Iterator[HTTPConnection]:
        """A new connection."""
        connection = HTTPConnection(self._at.hostname or "", self._at.port, timeout=ANSWER_SECONDS)
        try:
            yield connection
        finally:
            connection.close()

    def cpu_seconds(self) -> float:
        """The time that its process has computed so far."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / sysconf("SC_CLK_TCK")


class Stream:
    """The events of one viewer."""

    def __init__(self, answer: HTTPResponse) -> None:
        self._answer = answer

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, Any]:
        while line := self._answer.readline():
            if line.startswith(b"data: "):
                content: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
                return content
        raise RuntimeError("the page ended its stream")


@contextmanager
def served(*command: str) -> Iterator[Served]:
    """A command that has just begun to serve, at a free port."""
    with serving(*command, "--listen", "127.0.0.1:0") as (process, url):
        yield Served(url, process.pid)


def _answer(connection: HTTPConnection, path: str, headers: dict[str, str]) -> HTTPResponse:
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"{path} answers {answer.status}")
    return answer


def taken_ms(call: Callable[[], object]) -> float:
    """The milliseconds that a call takes."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000
