"""The metadata store in a Kafka partition, on a real broker: its contract, and what only a topic can do to it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from oncelog.errors import CorruptDataError
from oncelog.ports import Create, Timing, ZnodeStore
from oncelog.testing.znode_store_contract import (
    AtomicReadsContract,
    ManyProcessesContract,
    StoreWorld,
    ZnodeStoreContract,
)
from oncelog.znodes.replicated import snapshot, store
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog_kafka.brokers import KafkaPartitions
from oncelog_kafka.partition_log import PartitionLog
from tests.support.servers.kafka import KafkaBroker, fresh_name


def opened(servers: str, topic: str) -> PartitionLog:
    return PartitionLog(KafkaPartitions({"bootstrap_servers": servers}), topic)


class PartitionWorld(StoreWorld):
    broker: KafkaBroker

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.topic = self.broker.create_topic(fresh_name("ledger"), partitions=1)

    def open(self, timing: Timing) -> ZnodeStore:
        return ReplicatedZnodeStore(partial(opened, self.broker.address, self.topic), timing)


@pytest.fixture(autouse=True)
def _kept_short(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """With snapshots and trims between any few entries: whoever is behind starts again."""
    monkeypatch.setattr(PartitionWorld, "broker", kafka, raising=False)
    monkeypatch.setattr(store, "SAVED_EVERY", 7)
    monkeypatch.setattr(snapshot, "PART_BYTES", 100)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PartitionWorld]:
    found = PartitionWorld(tmp_path)
    yield found
    found.close()


@pytest.mark.walk("a Kafka partition keeps znodes")
class TestPartitionStore(ZnodeStoreContract, AtomicReadsContract, ManyProcessesContract):
    world_class = PartitionWorld


def test_what_one_client_wrote_another_reads_though_most_of_the_log_was_trimmed(world: PartitionWorld) -> None:
    writer, behind = world.client(), world.client()
    for number in range(50):
        writer.multi([Create(f"/{number:02}", b"%d" % number)])

    assert opened(world.broker.address, world.topic).start() > 20
    for reader in (behind, world.client()):
        assert [znode.data for _, znode in reader.children_data("/")] == [b"%d" % number for number in range(50)]


def test_a_topic_that_was_created_again_is_not_taken_for_the_one_that_was_opened(world: PartitionWorld) -> None:
    client = world.client()
    client.multi([Create("/written")])
    world.broker.delete_topic(world.topic)
    world.broker.create_topic(world.topic, partitions=1)

    with pytest.raises(CorruptDataError, match="created again"):
        client.get("/written")
