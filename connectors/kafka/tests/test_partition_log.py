"""The metadata store in a Kafka partition, by the contract of every store, on a real broker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from oncelog.ports import Timing, ZnodeStore
from oncelog.testing.znode_store_contract import (
    AtomicReadsContract,
    ManyProcessesContract,
    StoreWorld,
    ZnodeStoreContract,
)
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog_kafka.brokers import KafkaRequests
from oncelog_kafka.partition_log import PartitionLog
from tests.support.servers.kafka import KafkaBroker, fresh_name

BROKER: list[KafkaBroker] = []


def opened(servers: str, topic: str) -> PartitionLog:
    return PartitionLog(KafkaRequests({"bootstrap_servers": servers}), topic)


class PartitionWorld(StoreWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.topic = BROKER[0].create_topic(fresh_name("ledger"), partitions=1)

    def open(self, timing: Timing) -> ZnodeStore:
        return ReplicatedZnodeStore(partial(opened, BROKER[0].address, self.topic), timing)


@pytest.fixture(autouse=True)
def _broker(kafka: KafkaBroker) -> Iterator[None]:
    BROKER[:] = [kafka]
    yield


class TestPartitionStore(ZnodeStoreContract, AtomicReadsContract, ManyProcessesContract):
    world_class = PartitionWorld
