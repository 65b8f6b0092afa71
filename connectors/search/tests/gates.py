"""A gate before a store, as a proxy of a company is: it speaks TLS, and lets in who knows the password."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import urllib3

_OWN = frozenset({"transfer-encoding", "connection", "content-length", "content-encoding"})


class Gate(ThreadingHTTPServer):
    """Passes requests on to a store.

    Args:
        url: of the store.
        authorization: the only header of that name that is let in.

    Attributes:
        busy: how many requests to `_bulk` are answered that the store is busy, before one is passed on.
        deaf: of how many requests to `_bulk`, which are passed on, the connection ends without an answer.
        most_bytes: of a request; a larger one is refused.
        seen: the requests that came so far.
    """

    daemon_threads = True

    def __init__(self, url: str, authorization: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = url
        self.authorization = authorization
        self.busy = 0
        self.deaf = 0
        self.most_bytes = 100_000_000
        self.seen: list[str] = []
        self.pool = urllib3.PoolManager()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: Gate
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        gate = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        gate.seen.append(f"{self.command} {self.path}")
        if gate.authorization is not None and self.headers.get("Authorization") != gate.authorization:
            self._answer(401, b"Unauthorized", {})
            return
        if len(body) > gate.most_bytes:
            self._answer(413, b"", {})
            return
        is_bulk = "/_bulk" in self.path
        if is_bulk and gate.busy > 0:
            gate.busy -= 1
            self._answer(429, b"too many requests", {})
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() in {"content-type", "accept"}}
        found = gate.pool.request(self.command, f"{gate.url}{self.path}", body=body or None, headers=headers)
        if is_bulk and gate.deaf > 0:
            gate.deaf -= 1
            self.close_connection = True
            return
        self._answer(found.status, found.data, dict(found.headers))

    do_GET = do_POST = _pass_on  # noqa: N815 - as the standard library names them

    def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in _OWN:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody reads it."""


@contextmanager
def gate(url: str, authorization: str | None = None, certificate: Path | None = None) -> Iterator[tuple[Gate, str]]:
    """A gate for the time of the block, and its url."""
    server = Gate(url, authorization)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server, f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        server.pool.clear()
