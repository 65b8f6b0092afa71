"""Two brokers, of which each has a copy of everything: leaders and coordinators move from one to the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kafka.errors import KafkaError

from oncelog.testing.kafka_broker import KafkaBroker
from oncelog.testing.server_process import free_ports
from tests.support.harness.waiting import until
from tests.support.servers.kafka import DEFAULT_VERSION, require_broker

COORDINATED = ("__transaction_state", "__consumer_offsets")
"""The leaders of their only partitions coordinate all transactions and all groups."""

PREFERRED = 0
"""Kafka's number of the election of the first replica."""

_SETTINGS = {
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    # How long a broker may be silent before the other one leads: long enough for a busy machine.
    "broker.session.timeout.ms": "5000",
}


class TwoBrokers:
    """The second leads and coordinates everything, unless it is lost.

    Args:
        features: to format them with.
        version: of both.

    Attributes:
        first: also the controller. It is never stopped, and clients come in by it.
    """

    def __init__(self, folder: Path, features: Sequence[str] = (), version: str = DEFAULT_VERSION) -> None:
        one, other, controller = free_ports(3)
        voters = {**_SETTINGS, "controller.quorum.voters": f"1@127.0.0.1:{controller}"}
        listeners = f"PLAINTEXT://127.0.0.1:{one},CONTROLLER://127.0.0.1:{controller}"
        self.first = KafkaBroker(
            folder / "1", port=one, settings={**voters, "listeners": listeners}, features=features, version=version
        )
        alone = {"node.id": "2", "process.roles": "broker", "listeners": f"PLAINTEXT://127.0.0.1:{other}"}
        self._second = KafkaBroker(
            folder / "2", port=other, settings={**voters, **alone}, features=features, version=version
        )
        self._topics: list[str] = []

    def start(self) -> None:
        for broker in (self.first, self._second):
            broker.start()
        for broker in (self.first, self._second):
            broker.wait_until_serving()
        until(self._knows_both)
        for name in COORDINATED:
            self.create_topic(name, {"cleanup.policy": "compact"})

    def stop(self) -> None:
        self._second.stop()
        self.first.stop()

    def create_topic(self, name: str, settings: dict[str, str] | None = None) -> str:
        """A topic of one partition, which the second broker leads."""
        with self.first.admin() as admin:
            admin.create_topics({name: {"assignments": {0: [2, 1]}, "configs": settings or {}}})
        self._topics.append(name)
        until(lambda: self._stand(leader=2, copies=2), tell=self._partitions)
        return name

    def create_topic_on_second(self, name: str) -> str:
        """The same without a copy on the first: it has no leader while the second is lost."""
        with self.first.admin() as admin:
            admin.create_topics({name: {"assignments": {0: [2]}}})
        return name

    def lose_second(self) -> None:
        """Kill it, and wait until the first one leads everything."""
        self._second.stop()
        until(lambda: self._stand(leader=1, copies=1), tell=self._partitions)

    def return_second(self) -> None:
        """Start it again, and let it lead everything, while the first one lives on."""
        self._second.start()
        self._second.wait_until_serving()
        until(lambda: self._stand(leader=1, copies=2), tell=self._partitions)
        with self.first.admin() as admin:
            admin.elect_leaders(PREFERRED, {name: [0] for name in self._topics})
        until(lambda: self._stand(leader=2, copies=2), tell=self._partitions)

    def _knows_both(self) -> bool:
        with self.first.admin() as admin:
            return len(admin.describe_cluster()["brokers"]) == 2

    def _stand(self, *, leader: int, copies: int) -> bool:
        """Whether every topic has this leader, and so many copies in sync."""
        return self._partitions() == [(leader, copies)] * len(self._topics)

    def _partitions(self) -> list[tuple[int, int]]:
        with suppress(KafkaError), self.first.admin() as admin:  # the broker that is lost may be asked, too
            found = admin.describe_topics(self._topics)
            return [(one["leader_id"], len(one["isr_nodes"])) for topic in found for one in topic["partitions"]]
        return []


@contextmanager
def running_two_brokers(
    folder: Path, features: Sequence[str] = (), version: str = DEFAULT_VERSION
) -> Iterator[TwoBrokers]:
    """Both, for the time of the block."""
    require_broker(version)
    brokers = TwoBrokers(folder, features, version)
    try:
        brokers.start()
        yield brokers
    finally:
        brokers.stop()
