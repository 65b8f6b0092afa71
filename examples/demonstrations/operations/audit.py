"""What was written is there once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

import oncelog_files
from operations.place import KAFKA_TOPICS, Place


@dataclass(frozen=True)
class Findings:
    """How a copy differs from what it should hold.

    Attributes:
        rows: number of them.
        lost: of those that should be there, how many are not.
        extra: rows that are there twice, or that nobody committed.
    """

    rows: int
    lost: int
    extra: int

    @property
    def is_exact(self) -> bool:
        return not self.lost and not self.extra


def audit(place: Place) -> dict[str, Findings]:
    """Compare what is in the topics and in the files with what the producers were told is committed."""
    found = {topic: in_topic(place, topic) for topic in ("flights", "copies")}
    rows = oncelog_files.read(place.spark, str(place.folder / "out")).collect()
    found["files"] = Counter(bytes(row["value"]) for row in rows)
    if place.brokers is not None:
        found |= {topic: on_kafka(place.brokers, topic) for topic in KAFKA_TOPICS}
    expected = Counter(place.sent)
    return {
        name: Findings(counts.total(), (expected - counts).total(), (counts - expected).total())
        for name, counts in found.items()
    }


def in_topic(place: Place, topic: str) -> Counter[bytes]:
    """The committed values of a topic, with how often each is there."""
    found: Counter[bytes] = Counter()
    with place.log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        while records := consumer.poll():
            found.update(record.value or b"" for record in records)
    return found


def on_kafka(brokers: str, topic: str) -> Counter[bytes]:
    """The same of a topic of Kafka with one partition, read by librdkafka."""
    settings = {"bootstrap.servers": brokers, "group.id": "audit", "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: Counter[bytes] = Counter()
    while (message := consumer.poll(1)) is None or message.error() is None:
        if message is not None:
            found[message.value() or b""] += 1
    consumer.close()
    return found
