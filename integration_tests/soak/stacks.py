"""The three stacks: what serves the log, where its parts are, and which parts can be killed besides the programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import oncelog
from integration_tests.soak.disks import Disk
from integration_tests.soak.records import PARTITIONS, SOURCE
from oncelog.testing.kafka_broker import KafkaBroker, running_broker
from oncelog.testing.zookeeper_server import ZookeeperServer, running_ensemble

COPIER = "plain"
"""The program that copies without Spark, its group and its topic."""


class Server(Protocol):
    """A server that is killed, paused and started again."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


@dataclass
class Stack:
    """A log that serves.

    Attributes:
        name: of it.
        settings: that programs find it by.
        queries: the Spark queries that copy, each to the topic of its name.
        master: of Spark.
        disk: that can be full.
        disk_holds: what is on it.
        servers: by name, and whether each serves.
        settle: waits until what was committed can be read.
    """

    name: str
    settings: Mapping[str, Any]
    queries: tuple[str, ...]
    master: str
    disk: Disk
    disk_holds: str
    servers: dict[str, Server] = field(default_factory=dict)
    serves: Callable[[Server], bool] = lambda _: True
    settle: Callable[[], None] = lambda: None

    @property
    def copies(self) -> list[str]:
        """The topics that hold copies of the source; so are the groups called that read it."""
        return [COPIER, *self.queries]


@contextmanager
def sqlite(folder: Path, disk: Disk) -> Iterator[Stack]:
    """Files and metadata in one folder. Spark runs its tasks in Python workers of one driver."""
    place = {"path": str(disk.folder / "log")}
    _create_topics(place)
    yield Stack("sqlite", {"log": place}, ("batch", "format"), "local[2,8]", disk, "files and metadata of the log")


@contextmanager
def zookeeper(folder: Path, disk: Disk) -> Iterator[Stack]:
    """Metadata on three ZooKeepers. Spark runs its tasks in two executors."""
    with running_ensemble(folder / "zookeeper") as ensemble:
        place = {"path": str(disk.folder / "log"), "znodes": ensemble.url()}
        _create_topics(place)
        servers = {f"zookeeper-{number}": server for number, server in enumerate(ensemble.servers, start=1)}
        master = "local-cluster[2,1,768]"
        yield Stack(
            "zookeeper",
            {"log": place},
            ("batch", "format"),
            master,
            disk,
            "files of the log",
            dict(servers),
            _zookeeper_serves,
        )


@contextmanager
def kafka(folder: Path, disk: Disk) -> Iterator[Stack]:
    """One broker. Spark's tasks are in the JVM of the driver."""
    with running_broker(folder / "broker") as broker:
        for topic in (SOURCE, COPIER, "batch"):
            broker.create_topic(topic, partitions=PARTITIONS)
        settings = {"brokers": broker.address, "ledger": str(disk.folder / "ledger")}
        yield Stack(
            "kafka",
            settings,
            ("batch",),
            "local[2,8]",
            disk,
            "the sink's ledger",
            {"broker": broker},
            _broker_serves,
            lambda: _wait_for_markers(broker),
        )


STACKS = {"sqlite": sqlite, "zookeeper": zookeeper, "kafka": kafka}


def _create_topics(place: Mapping[str, Any]) -> None:
    with oncelog.open(**place) as log:
        for topic in (SOURCE, COPIER, "batch", "format"):
            log.create_topic(topic, partitions=PARTITIONS)


def _zookeeper_serves(server: Server) -> bool:
    return isinstance(server, ZookeeperServer) and server.mode() is not None


def _broker_serves(server: Server) -> bool:
    return isinstance(server, KafkaBroker) and server.is_serving()


def _wait_for_markers(broker: KafkaBroker) -> None:
    """A commit is answered before its markers are written."""
    from tests.support.connectors.kafka_sink import wait_for_markers

    broker.wait_until_serving()
    time.sleep(1)
    wait_for_markers(broker)
