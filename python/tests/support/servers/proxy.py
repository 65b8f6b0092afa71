"""A TCP proxy between a client and a ZooKeeper or a PostgreSQL that knows where requests and replies begin and end.

It can lose the reply to a write that the server has carried out, lose the request, or deliver it when its client has
long gone on: what networks do, at the moment that a test chooses.
"""

from __future__ import annotations

import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto

MULTI = 14
"""The type of a multi in ZooKeeper's protocol."""

SYNC = 9


class Wire(ABC):
    """How clients and servers talk."""

    @abstractmethod
    def frames(self, source: socket.socket, *, are_requests: bool) -> Iterator[bytes]:
        """Requests or replies, until the connection ends."""

    @abstractmethod
    def kind(self, frame: bytes) -> int:
        """The type of a request."""

    @abstractmethod
    def write(self, frame: bytes) -> object | None:
        """What tells a request that writes from others, as its reply does; None for other requests."""

    @abstractmethod
    def answers(self, frame: bytes) -> object:
        """The same of the request that a reply answers."""


class ZookeeperWire(Wire):
    """Each frame has its length before it, and behind that the number of the request."""

    def frames(self, source: socket.socket, *, are_requests: bool) -> Iterator[bytes]:
        while head := _exactly(source, 4):
            yield head + _exactly(source, struct.unpack(">i", head)[0])

    def kind(self, frame: bytes) -> int:
        return int(struct.unpack_from(">i", frame, 8)[0])

    def write(self, frame: bytes) -> object | None:
        return self.answers(frame) if self.kind(frame) == MULTI else None

    def answers(self, frame: bytes) -> object:
        return struct.unpack_from(">i", frame, 4)[0]


class PostgresWire(Wire):
    """Each frame has its type and its length before it, all but the greeting, which has no type."""

    def frames(self, source: socket.socket, *, are_requests: bool) -> Iterator[bytes]:
        type_bytes = 0 if are_requests else 1
        while head := _exactly(source, type_bytes + 4):
            yield head + _exactly(source, struct.unpack_from(">i", head, type_bytes)[0] - 4)
            type_bytes = 1

    def kind(self, frame: bytes) -> int:
        return frame[0]

    def write(self, frame: bytes) -> object | None:
        return b"COMMIT" if frame.startswith(b"Q") and frame.endswith(b"COMMIT\0") else None

    def answers(self, frame: bytes) -> object:
        return b"COMMIT" if frame.startswith(b"C") and frame.endswith(b"COMMIT\0") else None


class Loss(Enum):
    """What happens to a multi; the client's connection breaks in any case."""

    REPLY = auto()
    """The server carries it out; the reply goes nowhere."""

    REQUEST = auto()
    """The server never gets it."""

    LATE = auto()
    """The server gets it when the test says so, by `Proxy.deliver_late`."""


class Proxy:
    """Forwards connections to a server on this machine, frame by frame.

    Attributes:
        first_requests: the type of the first request of each session, in the order in which they came.
        multis: how many multis were asked for.
        losses: how many of them a loss has struck.
    """

    def __init__(self, port: int, wire: Wire) -> None:
        self.wire = wire
        self._server_port = port
        self._lock = threading.Lock()
        self._plan: deque[Loss | None] = deque()
        self._pairs: set[_Pair] = set()
        self._late: list[tuple[_Pair, bytes]] = []
        self._is_down = False
        self.first_requests: list[int] = []
        self.multis = 0
        self.losses = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def lose_next(self, *losses: Loss | None) -> None:
        """What happens to the next multis, one by one; None for nothing. All go well behind them."""
        with self._lock:
            self._plan = deque(losses)
            self.losses = 0

    def cut(self) -> None:
        """Break all connections that there are."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            pair.close()

    def go_down(self) -> None:
        """Break all connections and take no more."""
        self._is_down = True
        self.cut()

    def come_up(self) -> None:
        self._is_down = False

    def deliver_late(self) -> int:
        """Deliver what is late, and wait until the server has dealt with it; returns how many requests it was."""
        with self._lock:
            late, self._late = self._late, []
        for pair, frame in late:
            pair.deliver(frame)
        return len(late)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()
        for pair, _ in self._late:
            pair.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                if self._is_down:
                    raise ConnectionRefusedError
                server = socket.create_connection(("127.0.0.1", self._server_port), timeout=5)
                server.settimeout(None)
            except OSError:
                client.close()
                continue
            pair = _Pair(self, client, server)
            with self._lock:
                self._pairs.add(pair)
            pair.start()

    # Asked by pairs

    def loss_of_multi(self) -> Loss | None:
        with self._lock:
            self.multis += 1
            loss = self._plan.popleft() if self._plan else None
            self.losses += loss is not None
            return loss

    def hold(self, pair: _Pair, frame: bytes) -> None:
        with self._lock:
            self._late.append((pair, frame))

    def forget(self, pair: _Pair) -> None:
        with self._lock:
            self._pairs.discard(pair)


class _Pair:
    """A client's connection and the server's."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._lost: object | None = None
        self._answered = threading.Event()

    def start(self) -> None:
        for pump in (self._pump_requests, self._pump_replies):
            threading.Thread(target=pump, daemon=True).start()

    def close(self) -> None:
        self._proxy.forget(self)
        for end in (self._client, self._server):
            _hang_up(end)

    def deliver(self, frame: bytes) -> None:
        with suppress(OSError):  # the server has hung up meanwhile
            self._server.sendall(frame)
            self._answered.wait(10)
        self.close()

    def _pump_requests(self) -> None:
        wire = self._proxy.wire
        for number, frame in enumerate(self._frames(self._client, are_requests=True)):  # the first one is a greeting
            write = wire.write(frame) if number > 0 else None
            loss = self._proxy.loss_of_multi() if write is not None else None
            if number == 1:
                self._proxy.first_requests.append(wire.kind(frame))
            if loss is Loss.REPLY:
                self._lost = write
            elif loss is Loss.REQUEST:
                break
            elif loss is Loss.LATE:
                self._lost = write
                self._proxy.hold(self, frame)
                self._proxy.forget(self)
                _hang_up(self._client)
                return
            try:
                self._server.sendall(frame)
            except OSError:
                break
        self.close()

    def _pump_replies(self) -> None:
        for number, frame in enumerate(self._frames(self._server, are_requests=False)):
            if number > 0 and self._lost is not None and self._proxy.wire.answers(frame) == self._lost:
                break
            with suppress(OSError):
                self._client.sendall(frame)
        self._answered.set()
        self.close()

    def _frames(self, source: socket.socket, *, are_requests: bool) -> Iterator[bytes]:
        with suppress(OSError):
            yield from self._proxy.wire.frames(source, are_requests=are_requests)


@contextmanager
def proxied(port: int, wire: Wire | None = None) -> Iterator[Proxy]:
    """A proxy to the server on `port`, of ZooKeeper if nothing else is said, for the time of the block."""
    proxy = Proxy(port, wire or ZookeeperWire())
    try:
        yield proxy
    finally:
        proxy.close()


def _exactly(source: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = source.recv(size)
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
