"""Kafka in containers: a broker that is alone, or three of them, which befalls what befalls every server here.

with running_kafka_cluster(engine) as cluster:
    cluster.create_topic("copies", partitions=4)
    cluster.leader_of("copies").kill()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

import docker
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from integration_tests.engine import KAFKA_CLUSTER_IMAGE
from integration_tests.servers import ANSWER_WITHIN_S, Server, new_network, removed_at_the_end
from oncelog.testing.server_process import free_ports
from oncelog_kafka.brokers import Brokers
from tests.support.harness.waiting import PATIENCE_S, until

COORDINATORS = "__transaction_state"
"""The topic whose leader coordinates all transactions: it has one partition here."""

FAILED_OVER_WITHIN_MS = 6_000
"""How long a broker of a cluster may be silent before another one leads: long enough for a busy machine."""

_CLIENT_PORT = 9092
_CONTROLLER_PORT = 9094
_CLUSTER_ID = "b25jZWxvZy10ZXN0LWtmaw"

_SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "BROKER",
    "log.dirs": "/tmp/kafka-logs",  # kept by a container that is killed
    "auto.create.topics.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.cleaner.dedupe.buffer.size": "2097152",  # the heap is small
}


class KafkaServer(Server):
    """One broker, controller too. It keeps its data when it is killed and started again.

    Args:
        network: that it shares with its peers.
        image: what runs in it.
        number: by which its peers know it; its name goes by it.
        settings: of the broker, in Kafka's spelling, beside those of this harness.
        security: the protocol of the listener for clients.
        client, admin: settings that librdkafka and kafka-python need for it, beside the address.
    """

    def __init__(
        self,
        network: Any,
        image: str,
        *,
        number: int = 1,
        settings: Mapping[str, str] | None = None,
        security: str = "PLAINTEXT",
        client: Mapping[str, str] | None = None,
        admin: Mapping[str, Any] | None = None,
    ) -> None:
        (host_port,) = free_ports(1)
        name = f"kafka{number}"
        given = {
            **_SETTINGS,
            "node.id": str(number),
            "listeners": f"CLIENT://:{_CLIENT_PORT},BROKER://:9093,CONTROLLER://:{_CONTROLLER_PORT}",
            "advertised.listeners": f"CLIENT://127.0.0.1:{host_port},BROKER://{name}:9093",
            "listener.security.protocol.map": f"CLIENT:{security},BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"{number}@localhost:{_CONTROLLER_PORT}",
            **(settings or {}),
        }
        environment = {
            "CLUSTER_ID": _CLUSTER_ID,
            "KAFKA_HEAP_OPTS": "-Xmx384m",
            "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            **{f"KAFKA_{key.upper().replace('.', '_')}": value for key, value in given.items()},
        }
        super().__init__(network, image, name, _CLIENT_PORT, environment, host_port=host_port)
        self.number = number
        self.client: dict[str, Any] = {"bootstrap.servers": self.address, "log_level": 0, **(client or {})}
        self.admin = dict(admin or {})

    def is_serving(self) -> bool:
        return len(brokers_of(self.client)) > 0


class Kafka:
    """A cluster as its clients see it: one broker, or three.

    Attributes:
        servers: the brokers.
        client: settings with which librdkafka reaches it.
    """

    def __init__(self, servers: list[KafkaServer]) -> None:
        self.servers = servers
        self.address = ",".join(server.address for server in servers)
        self.client = {**servers[0].client, "bootstrap.servers": self.address}

    def wait_until_serving(self) -> None:
        """Wait until every broker serves, and is in sync with the others."""
        until(self._is_whole)

    def create_topic(self, name: str, *, partitions: int) -> str:
        """Create a topic of which every broker has a copy, and wait until each partition has a leader."""
        new = NewTopic(name, num_partitions=partitions, replication_factor=len(self.servers))
        admin = self._admin()  # the answer comes while it lives
        admin.create_topics([new])[name].result(PATIENCE_S)
        self.wait_until_serving()
        return name

    def leader_of(self, topic: str, partition: int = 0) -> KafkaServer:
        """The broker that leads a partition now; waits until there is one."""

        def leaders() -> list[KafkaServer]:
            number = self._metadata().topics[topic].partitions[partition].leader
            return [server for server in self.servers if server.number == number]

        return until(leaders)[0]

    def transactions(self, *states: str) -> list[str]:
        """The transactional ids in these states."""
        settings = {**self.servers[0].admin, "bootstrap_servers": self.address.split(",")}
        with closing(Brokers(settings)) as brokers:
            return [name for name, _ in brokers.list_ids(states)]

    def _is_whole(self) -> bool:
        count = len(self.servers)
        if any(len(brokers_of(server.client)) < count for server in self.servers):
            return False
        topics = self._metadata().topics.values()
        return all(len(partition.isrs) == count for topic in topics for partition in topic.partitions.values())

    def _metadata(self) -> Any:
        return self._admin().list_topics(timeout=30)

    def _admin(self) -> AdminClient:
        return AdminClient(self.client)


def brokers_of(client: Mapping[str, Any]) -> list[int]:
    """The brokers of a cluster that a broker knows as living; none while it does not answer."""
    with suppress(KafkaException):
        return list(AdminClient(dict(client)).list_topics(timeout=ANSWER_WITHIN_S).brokers)
    return []


@contextmanager
def running_kafka(engine: docker.DockerClient, image: str, **more: Any) -> Iterator[Kafka]:
    """A broker that is alone, for the time of the block.

    Args:
        engine: where.
        image: what runs in it.
        more: for `KafkaServer`.
    """
    settings = {
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        # A broker that was killed comes back only after its old session.
        "broker.session.timeout.ms": "1500",
        "broker.heartbeat.interval.ms": "200",
        **more.pop("settings", {}),
    }
    with _running(engine, lambda network: [KafkaServer(network, image, settings=settings, **more)]) as found:
        yield found


@contextmanager
def running_kafka_cluster(engine: docker.DockerClient) -> Iterator[Kafka]:
    """Three brokers for the time of the block, of which two serve on when one is lost."""
    numbers = (1, 2, 3)
    settings = {
        "controller.quorum.voters": ",".join(f"{number}@kafka{number}:{_CONTROLLER_PORT}" for number in numbers),
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "broker.session.timeout.ms": str(FAILED_OVER_WITHIN_MS),
        "broker.heartbeat.interval.ms": "500",
    }

    def make(network: Any) -> list[KafkaServer]:
        return [KafkaServer(network, KAFKA_CLUSTER_IMAGE, number=number, settings=settings) for number in numbers]

    with _running(engine, make) as found:
        yield found


@contextmanager
def _running(engine: docker.DockerClient, make: Callable[[Any], list[KafkaServer]]) -> Iterator[Kafka]:
    with new_network(engine) as network:
        servers = make(network)
        with removed_at_the_end(*servers):
            for server in servers:
                server.create()
            for server in servers:
                server.wait_until_serving()
            kafka = Kafka(servers)
            kafka.wait_until_serving()
            yield kafka
