"""Loads the pipelines' input, and reads their output with librdkafka, which shares no code with what wrote it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

LOADED_PER_TRANSACTION = 10_000


@dataclass(frozen=True, slots=True)
class Findings:
    """How a topic differs from the truth."""

    expected: int
    lost: int
    duplicated: int
    foreign: int

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.duplicated or self.foreign)


def load(brokers: str, topic: str, flights: pa.Table) -> None:
    """Write the flights in transactions, and abort a copy of every fifth."""
    producer = Producer({"bootstrap.servers": brokers, "transactional.id": "loader", "linger.ms": 20, "log_level": 0})
    producer.init_transactions()
    for number, start in enumerate(range(0, flights.num_rows, LOADED_PER_TRANSACTION)):
        for commit in (False, True) if number % 5 == 0 else (True,):
            producer.begin_transaction()
            some = flights.slice(start, LOADED_PER_TRANSACTION)
            for key, value in zip(some["key"].to_pylist(), some["value"].to_pylist(), strict=True):
                producer.produce(topic, value=value, key=key)
                producer.poll(0)
            producer.flush()
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()


def read(brokers: str, topic: str) -> Counter[int]:
    """How often each flight's row is in the committed records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "audit",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    numbers = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
    found: Counter[int] = Counter()
    ended: set[int] = set()
    while len(ended) < len(numbers):
        for message in consumer.consume(10_000, timeout=0.5):
            error = message.error()
            if error is None:
                found[json.loads(message.value() or b"")["row"]] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
    consumer.close()
    return found


def judge(expected: pa.Table, found: Counter[int]) -> Findings:
    """Compare a topic's content with the truth."""
    wanted = set(expected["row"].to_pylist())
    return Findings(
        expected=len(wanted),
        lost=len(wanted - found.keys()),
        duplicated=sum(count - 1 for count in found.values()),
        foreign=len(found.keys() - wanted),
    )
