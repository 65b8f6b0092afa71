"""Servers in containers, and what befalls them: they are paused, killed, started again, and cut off from the network.

    with running_ensemble(engine) as ensemble, oncelog.open(path, ensemble.url()) as log:
        ensemble.leader.kill()
        ...

Each listens on 127.0.0.1, by a port that it keeps when it is started again or comes back to the network.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from typing import Any, Self

import docker
import docker.errors
import pytest
from testcontainers.core.container import DockerContainer

from integration_tests.engine import LABELS, S3_IMAGE, ZOOKEEPER_IMAGE
from oncelog.testing.server_process import free_ports
from oncelog.testing.zookeeper_server import TICK_MS
from tests.support.harness.waiting import PATIENCE_S, until
from tests.support.servers.s3 import BUCKET, ENVIRONMENT

ANSWER_WITHIN_S = 2
"""How long a server has for the question how it is."""

_numbers = itertools.count()


def freeze(container: Any) -> None:
    """Pause a container. The runtime gives up on one that starts processes meanwhile; it is asked again."""

    def is_frozen() -> bool:
        try:
            container.pause()
        except docker.errors.APIError as error:
            if "unable to freeze" not in str(error):
                raise
            return False
        return True

    until(is_frozen)


class Server:
    """A container, and the port of it that this machine reaches.

    Args:
        network: that it shares with its peers.
        image: what runs in it.
        name: by which its peers know it.
        port: inside the container.
        environment: its settings.
        host_port: on this machine; a free one if not given.
    """

    def __init__(
        self,
        network: Any,
        image: str,
        name: str,
        port: int,
        environment: Mapping[str, str],
        *,
        host_port: int | None = None,
    ) -> None:
        self.port = host_port or free_ports(1)[0]
        self._network = network
        self._name = name
        self._container = DockerContainer(image, hostname=name)
        self._container.with_envs(**environment)
        # The type knows no addresses; without one the port would be open to the whole network.
        self._container.ports[f"{port}/tcp"] = ("127.0.0.1", self.port)  # type: ignore[assignment]
        endpoint = {network.name: docker.types.EndpointConfig("1.41", aliases=[name])}
        self._container.with_kwargs(labels=LABELS, network=network.name, networking_config=endpoint)

    @property
    def address(self) -> str:
        """Its ``host:port``."""
        return f"127.0.0.1:{self.port}"

    def create(self) -> Self:
        """Make the container, and start it; this does not wait until it serves."""
        self._container.start()
        return self

    def remove(self) -> None:
        """End it for good, with its data."""
        self._container.stop()

    def is_serving(self) -> bool:
        """Whether it answers clients."""
        raise NotImplementedError

    def wait_until_serving(self) -> Self:
        until(self.is_serving, tell=self._last_output)
        return self

    # What befalls it

    def kill(self) -> None:
        """End its process without any warning, and wait for the end."""
        self._docker.kill()
        self._docker.wait()

    def start(self) -> Self:
        """Start it again on its data; this does not wait until it serves."""
        self._docker.start()
        return self

    def restart(self) -> None:
        """Kill it, start it again, and wait until it serves."""
        self.kill()
        self.start().wait_until_serving()

    def pause(self) -> None:
        """Freeze all of it where it is; its connections stay open, and nobody answers."""
        freeze(self._docker)

    def resume(self) -> None:
        self._docker.unpause()

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def cut_off(self) -> None:
        """Take it from the network: neither its clients nor its peers reach it, and it reaches nobody."""
        self._network.disconnect(self._docker)

    def reconnect(self) -> None:
        self._network.connect(self._docker, aliases=[self._name])

    @contextmanager
    def away(self) -> Iterator[None]:
        """Cut off for the time of the block."""
        self.cut_off()
        try:
            yield
        finally:
            self.reconnect()

    def _last_output(self) -> str:
        return b"".join(self._container.get_logs()).decode(errors="replace")[-2000:]

    @property
    def _docker(self) -> Any:
        return self._container.get_wrapped_container()


class ZookeeperServer(Server):
    """One server of ZooKeeper. It keeps its data when it is killed and started again.

    Args:
        network: that it shares with its peers.
        name: by which its peers know it.
        settings: more environment variables of the official image.
    """

    def __init__(self, network: Any, name: str = "zookeeper", settings: Mapping[str, str] | None = None) -> None:
        environment = {
            "ZOO_TICK_TIME": str(TICK_MS),
            "ZOO_4LW_COMMANDS_WHITELIST": "srvr,dump",
            "ZK_SERVER_HEAP": "128",  # megabytes
            "SERVER_JVMFLAGS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            **(settings or {}),
        }
        super().__init__(network, ZOOKEEPER_IMAGE, name, 2181, environment)

    def url(self, options: str = "") -> str:
        """The URL of a chroot that was not named before, for `oncelog.open`."""
        return f"zk://{self.address}{chroot()}?{options}"

    def is_serving(self) -> bool:
        return self.mode() is not None

    def mode(self) -> str | None:
        """standalone, leader or follower; None while it serves nobody."""
        found = re.search(r"^Mode: (\w+)", self._command("srvr"), re.MULTILINE)
        return found[1] if found else None

    def sessions(self) -> int:
        """How many sessions there are; only a leader knows, or a server that is alone."""
        answer = self._command("dump", within_s=PATIENCE_S)
        found = re.search(r"^Session Sets \(\d+\)/\((\d+)\)", answer, re.MULTILINE)
        if found is None:
            raise RuntimeError("the server tells nothing of its sessions")
        return int(found[1])

    def _command(self, word: str, *, within_s: float = ANSWER_WITHIN_S) -> str:
        """The answer to a four-letter word; empty if there is none."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), within_s) as connection:
            connection.sendall(word.encode())
            with connection.makefile() as answer:
                return answer.read()
        return ""


class ZookeeperEnsemble:
    """Three servers, of which two serve on when one is lost."""

    def __init__(self, network: Any) -> None:
        names = [f"zoo{number}" for number in (1, 2, 3)]
        settings = {
            "ZOO_SERVERS": " ".join(f"server.{n}={name}:2888:3888;2181" for n, name in enumerate(names, start=1)),
            "ZOO_STANDALONE_ENABLED": "false",
            "ZOO_INIT_LIMIT": "20",  # ticks
            "ZOO_SYNC_LIMIT": "10",
        }
        self.servers = [
            ZookeeperServer(network, name, {**settings, "ZOO_MY_ID": str(number)})
            for number, name in enumerate(names, start=1)
        ]

    def url(self, options: str = "") -> str:
        """The URL of a chroot that was not named before, for `oncelog.open`."""
        return f"zk://{','.join(server.address for server in self.servers)}{chroot()}?{options}"

    @property
    def leader(self) -> ZookeeperServer:
        """The server that leads; waits until there is one."""
        return until(lambda: self._in_mode("leader"))[0]

    @property
    def followers(self) -> list[ZookeeperServer]:
        """The two servers that follow; waits until all three serve."""
        return until(lambda: found if len(found := self._in_mode("follower")) == 2 else [])

    def restart(self) -> None:
        """Kill all servers, and start them again on their data."""
        for server in self.servers:
            server.kill()
        self.start(self.servers)

    def start(self, servers: Sequence[ZookeeperServer]) -> None:
        """Start servers that were killed, and wait until they serve: none may do so before the others are there."""
        for server in servers:
            server.start()
        for server in servers:
            server.wait_until_serving()

    def wait_until_serving(self) -> None:
        for server in self.servers:
            server.wait_until_serving()

    def _in_mode(self, mode: str) -> list[ZookeeperServer]:
        return [server for server in self.servers if server.mode() == mode]


class S3Server(Server):
    """moto in server mode, with a bucket. It keeps all in memory: killed, it forgets."""

    def __init__(self, network: Any) -> None:
        super().__init__(network, S3_IMAGE, "s3", 5000, {})

    def url(self, **options: object) -> str:
        """A place in the bucket that no other test has."""
        settings = {"endpoint": f"http://{self.address}", "region": "us-east-1", **options}
        return f"s3://{BUCKET}/test{next(_numbers)}?" + "&".join(f"{name}={value}" for name, value in settings.items())

    def is_serving(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_WITHIN_S)
        try:
            connection.request("PUT", f"/{BUCKET}", headers={"Host": "s3.us-east-1.amazonaws.com"})
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


@contextmanager
def running_zookeeper(engine: docker.DockerClient) -> Iterator[ZookeeperServer]:
    """A server of ZooKeeper for the time of the block."""
    with new_network(engine) as network:
        server = ZookeeperServer(network)
        with removed_at_the_end(server):
            yield server.create().wait_until_serving()


@contextmanager
def running_ensemble(engine: docker.DockerClient) -> Iterator[ZookeeperEnsemble]:
    """Three servers of ZooKeeper for the time of the block."""
    with new_network(engine) as network:
        ensemble = ZookeeperEnsemble(network)
        with removed_at_the_end(*ensemble.servers):
            for server in ensemble.servers:
                server.create()
            ensemble.wait_until_serving()
            yield ensemble


@contextmanager
def running_s3(engine: docker.DockerClient) -> Iterator[S3Server]:
    """A server of S3 for the time of the block, and its credentials in the environment."""
    with new_network(engine) as network, pytest.MonkeyPatch.context() as environment:
        for name, value in ENVIRONMENT.items():
            environment.setenv(name, value)
        server = S3Server(network)
        with removed_at_the_end(server):
            yield server.create().wait_until_serving()


def chroot() -> str:
    """A chroot that was not named before."""
    return f"/test-{next(_numbers)}"


@contextmanager
def new_network(engine: docker.DockerClient) -> Iterator[Any]:
    """A network of their own for servers, for the time of the block."""
    network = engine.networks.create(f"oncelog-{os.getpid()}-{next(_numbers)}", labels=LABELS)
    try:
        yield network
    finally:
        network.remove()


@contextmanager
def removed_at_the_end(*servers: Server) -> Iterator[None]:
    """None of these servers outlives the block, however far each of them came."""
    try:
        yield
    finally:
        for server in servers:
            server.remove()
