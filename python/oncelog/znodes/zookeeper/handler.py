"""Lets kazoo's client connect only once. After its connection is lost, it never connects again.

By itself, kazoo would continue with the same session or a new one, and send the requests in its queue, however old they
are. A client that ends with its connection leaves nothing behind that could still be sent. So a request is applied
within the time of its session, or never (store.py relies on that).

It also does TLS, since kazoo trusts the system's certificates even if a CA is given, and misses an answer that OpenSSL
has already decrypted.
"""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


class OneConnectionHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler for threads and sockets.

    Args:
        connect_timeout_s: for one server.
        tls: None for an unencrypted connection.
    """

    def __init__(self, connect_timeout_s: float, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._connect_timeout_s = connect_timeout_s
        self._tls = tls
        self._door = threading.Lock()
        self._is_shut = False
        self._socket: socket.socket | None = None
        self.problem = ""
        """Why the last attempt to connect failed."""

    def create_connection(self, address: tuple[str, int], hostname: str, timeout: float, **_: Any) -> socket.socket:
        """Connect to one server. Called by kazoo."""
        try:
            connected = socket.create_connection(address, min(timeout, self._connect_timeout_s))
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    connected = self._tls.wrap_socket(connected, server_hostname=hostname)
                self._pass_door(connected)
            except BaseException:
                connected.close()
                raise
        except OSError as error:
            self.problem = f"{hostname}:{address[1]}: {error}"
            raise
        return connected

    def shut(self) -> None:
        """Refuse new connections from now on."""
        with self._door:
            self._is_shut = True

    def cut(self) -> None:
        """End the connection at once, and refuse new connections from now on."""
        with self._door:
            self._is_shut = True
            if self._socket is not None:
                with suppress(OSError):  # it has already ended
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def select(self, readers: Any, writers: Any, others: Any, timeout: float | None = None) -> Any:
        """Like `select.select`, but it also reports data that OpenSSL has read ahead."""
        ahead = [reader for reader in readers if isinstance(reader, ssl.SSLSocket) and reader.pending()]
        found = super().select(readers, writers, others, 0 if ahead else timeout)
        return ([*ahead, *(reader for reader in found[0] if reader not in ahead)], *found[1:])

    def _pass_door(self, connected: socket.socket) -> None:
        with self._door:
            if self._is_shut:
                raise ConnectionAbortedError("this client connects no more")
            self._socket = connected
