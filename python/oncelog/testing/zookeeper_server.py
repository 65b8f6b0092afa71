"""Real ZooKeeper servers on this machine, from the jars in PySpark's wheel, so nothing is downloaded. Needs Java.

    with running_ensemble(tmp_path) as ensemble:
        with oncelog.open(tmp_path / "log", ensemble.url()) as log:
            ...
            ensemble.leader.stop()

They are for tests and trials: they listen on 127.0.0.1 without authentication, and do not wait for the disk. So their
data survives the kill of a server, but not a power failure.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from oncelog.errors import UsageError
from oncelog.extras import install
from oncelog.habits import Guided
from oncelog.signatures import checked
from oncelog.testing.server_process import ServerFailedError, ServerProcess, free_ports, java_for

TICK_MS = 500
"""A session's time-out is 2 to 20 ticks."""


class ZookeeperServer(ServerProcess):
    """One server process that listens on 127.0.0.1. Ctrl-C in the terminal does not end it; call `stop`.

    Args:
        folder: for its configuration, data and output.
        settings: further lines for its zoo.cfg.
        java: further options for its JVM.
        port: for clients; a free one if not given.
    """

    @checked
    def __init__(
        self, folder: Path, *, settings: Sequence[str] = (), java: Sequence[str] = (), port: int | None = None
    ) -> None:
        super().__init__(folder)
        self.port = port or free_ports(1)[0]
        self._java = java
        self._chroots = itertools.count()
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "zoo.cfg").write_text(
            "\n".join(
                [
                    f"tickTime={TICK_MS}",
                    f"dataDir={folder / 'data'}",
                    "clientPortAddress=127.0.0.1",
                    f"clientPort={self.port}",
                    "admin.enableServer=false",
                    "maxClientCnxns=0",
                    "4lw.commands.whitelist=*",
                    *settings,
                ]
            )
        )

    def __repr__(self) -> str:
        return f"ZookeeperServer({self.address!r})"

    @property
    def address(self) -> str:
        """The server's ``host:port``."""
        return f"127.0.0.1:{self.port}"

    @checked
    def url(self, options: str = "") -> str:
        """The URL of a new chroot, for `oncelog.open`.

        Args:
            options: the part after the ``?``.
        """
        return f"zk://{self.address}{self.chroot()}{options and '?'}{options}"

    def chroot(self) -> str:
        """A new chroot."""
        return f"/test-{next(self._chroots)}"

    def start(self) -> None:
        """Start the process without waiting until it answers.

        Raises:
            UsageError: there is no Java, or no PySpark.
        """
        command = [
            java_for("a ZooKeeper server"),
            *("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
            *("-Dzookeeper.preAllocSize=1024", "-Dzookeeper.forceSync=no"),
            *self._java,
            *("-cp", f"{_jars()}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.folder / "zoo.cfg")),
        ]
        self._launch(command)

    def is_serving(self) -> bool:
        """Whether the server answers clients; a member of an ensemble needs a quorum for that."""
        return self.mode() is not None

    def mode(self) -> str | None:
        """standalone, leader or follower; None while the server does not answer clients."""
        for line in self.command("srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return None

    def sessions(self) -> int:
        """The number of sessions on the server."""
        match = re.search(r"^Session Sets \(\d+\)/\((\d+)\)", self.command("dump"), re.MULTILINE)
        if match is None:
            raise self._problem("the server does not tell its sessions")
        return int(match[1])

    @checked
    def command(self, word: str) -> str:
        """The answer to a four-letter word; empty if there is none."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
            connection.sendall(word.encode())
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
            return b"".join(parts).decode()
        return ""


class ZookeeperEnsemble(Guided):
    """Three servers; if one is lost, the other two still answer.

    Args:
        folder: for the folders of all three.
    """

    @checked
    def __init__(self, folder: Path) -> None:
        ports = free_ports(9)
        peers = [f"server.{n}=127.0.0.1:{ports[3 * n - 2]}:{ports[3 * n - 1]}" for n in (1, 2, 3)]
        settings = ["initLimit=20", "syncLimit=10", "standaloneEnabled=false", *peers]
        self.servers = [ZookeeperServer(folder / str(n), settings=settings, port=ports[3 * n - 3]) for n in (1, 2, 3)]
        for number, server in enumerate(self.servers, start=1):
            (server.folder / "data" / "myid").write_text(str(number))

    def __repr__(self) -> str:
        return f"ZookeeperEnsemble({self.address!r})"

    @property
    def address(self) -> str:
        """``host:port`` of each server, separated by commas."""
        return ",".join(server.address for server in self.servers)

    @checked
    def url(self, options: str = "") -> str:
        """The URL of a new chroot, for `oncelog.open`."""
        return f"zk://{self.address}{self.servers[0].chroot()}{options and '?'}{options}"

    def start(self) -> None:
        """Start all servers, and wait until they answer."""
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.wait_until_serving()

    def stop(self) -> None:
        """Kill all servers."""
        for server in self.servers:
            server.stop()

    @property
    def leader(self) -> ZookeeperServer:
        """The current leader; raises ServerFailedError if there is none."""
        found = self.find_leader()
        if found is None:
            raise ServerFailedError(f"no server leads: {self.address}")
        return found

    def find_leader(self) -> ZookeeperServer | None:
        """The current leader; None during an election, or without a quorum."""
        return next((server for server in self.servers if server.mode() == "leader"), None)

    @property
    def followers(self) -> list[ZookeeperServer]:
        """The current followers."""
        return [server for server in self.servers if server.mode() == "follower"]


@checked
@contextmanager
def running_server(
    folder: Path, *, settings: Sequence[str] = (), java: Sequence[str] = ()
) -> Iterator[ZookeeperServer]:
    """A server that runs during the block. For the arguments see `ZookeeperServer`."""
    with ZookeeperServer(folder, settings=settings, java=java).running() as server:
        yield server


@checked
@contextmanager
def running_ensemble(folder: Path) -> Iterator[ZookeeperEnsemble]:
    """Three servers that run during the block."""
    ensemble = ZookeeperEnsemble(folder)
    try:
        ensemble.start()
        yield ensemble
    finally:
        ensemble.stop()


def _jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise UsageError(f"a ZooKeeper server needs the jars in PySpark's wheel: {install('spark')}")
    return Path(spec.origin).parent / "jars"
