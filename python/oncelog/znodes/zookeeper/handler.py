"""How kazoo's client connects: once. After its connection is lost it never connects again.

Why: kazoo would go on by itself with the same session, or with a new one, and send what waits in its queue, however old
that is. A client that ends with its connection leaves nothing behind that could still be sent, so that a request is
carried out within the time of its session or not at all (store.py says what rests on that).

It also does TLS by itself, since kazoo trusts the system's certificates even where a CA is given, and overlooks an
answer that OpenSSL has decrypted already.
"""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


class OneConnectionHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler of threads and sockets.

    Args:
        connect_timeout_s: for one server.
        tls: encrypts the connection; None for plain text.
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
        """Connect to one server; what kazoo calls."""
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
        """Let nobody connect from now on."""
        with self._door:
            self._is_shut = True

    def cut(self) -> None:
        """End the connection at once, and let nobody connect from now on."""
        with self._door:
            self._is_shut = True
            if self._socket is not None:
                with suppress(OSError):  # it has ended already
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def select(self, readers: Any, writers: Any, others: Any, timeout: float | None = None) -> Any:
        """As `select.select`; also tells of what OpenSSL has read ahead."""
        ahead = [reader for reader in readers if isinstance(reader, ssl.SSLSocket) and reader.pending()]
        found = super().select(readers, writers, others, 0 if ahead else timeout)
        return ([*ahead, *(reader for reader in found[0] if reader not in ahead)], *found[1:])

    def _pass_door(self, connected: socket.socket) -> None:
        with self._door:
            if self._is_shut:
                raise ConnectionAbortedError("this client connects no more")
            self._socket = connected
