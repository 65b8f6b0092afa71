"""Helpers for tests of the Kafka sink: its options, a reader that shares no code with it, queries, prepared batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from oncelog_kafka.brokers import Brokers
from oncelog_kafka.options.sink_options import PRODUCER_DEFAULTS, with_batch_size
from oncelog_kafka.protocol.participants import Participant, token_group_prefix
from oncelog_kafka.protocol.tokens import TokenText
from oncelog_kafka.sinks import data_plane
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker

if TYPE_CHECKING:
    from confluent_kafka import Message
    from pyspark.sql import DataFrame, SparkSession

NONCE = "nonce-of-the-round"
BATCH_ID = 4
TIMEOUT_MS = 60_000


def options(broker: KafkaBroker, folder: Path, topic: str | None, **more: Any) -> dict[str, Any]:
    """Options of a sink with its ledger in `folder`."""
    given = {"kafka.bootstrap.servers": broker.address, "znodes": str(folder / "ledger"), "topic": topic, **more}
    return {name: value for name, value in given.items() if value is not None}


class Reader:
    """A consumer of librdkafka, which shares no code with what is tested, of all records of a topic.

    Args:
        settings: of the consumer, with the address.
        topic: to read from its beginning.
        isolation: of the reads.
    """

    def __init__(self, settings: Mapping[str, str], topic: str, *, isolation: str = "read_committed") -> None:
        own = {"group.id": "audit", "enable.auto.commit": False, "isolation.level": isolation, "log_level": 0}
        self.found: list[Message] = []
        self._ended: set[int | None] = set()
        self._consumer = Consumer({**settings, **own, "enable.partition.eof": True})
        self._partitions = self._consumer.list_topics(topic, timeout=30).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in self._partitions])

    def read(self) -> int:
        """Read what is there for now; returns how many there were so far."""
        for message in self._consumer.consume(10_000, timeout=0.2):
            error = message.error()
            if error is None:
                self.found.append(message)
                self._ended.discard(message.partition())
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended.add(message.partition())
            elif not error.retriable():
                raise AssertionError(error)
        return len(self.found)

    def read_to_the_end(self) -> list[Message]:
        """Read until the end of each partition; nothing may be written meanwhile."""
        before = -1
        while len(self._ended) < len(self._partitions) or before < len(self.found):
            before = len(self.found)
            self.read()
        return self.found

    def close(self) -> None:
        self._consumer.close()


def read(broker: KafkaBroker, topic: str, *, isolation: str = "read_committed") -> list[Message]:
    """All records of a topic, partition by partition in their order.

    A commit is answered before its markers are written: those are waited for.
    """
    wait_for_markers(broker)
    with closing(Reader({"bootstrap.servers": broker.address}, topic, isolation=isolation)) as reader:
        return sorted(reader.read_to_the_end(), key=lambda message: (message.partition(), message.offset()))


def wait_for_markers(broker: KafkaBroker) -> None:
    """Wait until every transaction that was ended is complete."""
    brokers = Brokers({"bootstrap_servers": broker.address})
    ending = partial(brokers.list_ids, ["PrepareCommit", "PrepareAbort"])
    until(lambda: not ending(), tell=ending)
    brokers.close()


def values(broker: KafkaBroker, topic: str, *, isolation: str = "read_committed") -> list[str]:
    """The values of a topic as texts, sorted."""
    return sorted((message.value() or b"").decode() for message in read(broker, topic, isolation=isolation))


def committed(broker: KafkaBroker, group: str, topic: str) -> dict[int, int]:
    """The committed offsets of a group, by partition of a topic; what was never committed is left out."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group, "log_level": 0})
    try:
        numbers = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        found = consumer.committed([TopicPartition(topic, number) for number in numbers], timeout=30)
        return {one.partition: one.offset for one in found if one.offset >= 0}
    finally:
        consumer.close()


# Queries --------------------------------------------------------------------------------------------------------------


class World:
    """Files of rows, a topic, and a checkpoint; each file is a batch of two tasks."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, folder: Path, topic: str) -> None:
        self.spark = spark
        self.broker = broker
        self.folder = folder
        self.topic = topic
        self.prefix = f"{topic}.p"
        self.checkpoint = folder / "checkpoint"
        (folder / "in").mkdir()

    def add(self, *texts: str) -> None:
        """Add a file with a row for each text."""
        file = self.folder / f"{texts[0]}.json"
        file.write_text("\n".join(json.dumps({"value": text}) for text in texts))
        file.rename(self.folder / "in" / file.name)

    def rows(self) -> DataFrame:
        """The stream of the files."""
        reader = self.spark.readStream.schema("value string").option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / "in")).repartition(2)

    def values(self) -> list[str]:
        """What was written so far, sorted."""
        return values(self.broker, self.topic)


# Batches without a query ----------------------------------------------------------------------------------------------


def rows(spark: SparkSession, texts: Iterable[str], *, partitions: int = 2) -> DataFrame:
    """Rows with these values, in the columns of the sink, spread evenly over the partitions."""
    texts = list(texts)
    data = spark.sparkContext.parallelize([(bytearray(text.encode()),) for text in texts], partitions)
    return spark.createDataFrame(data, "value binary")


def prepare(
    df: DataFrame,
    broker: KafkaBroker,
    prefix: str,
    *,
    topic: str | None,
    lease: int = 1,
    number: int = 1,
    timeout_ms: int = TIMEOUT_MS,
    nonce: str = NONCE,
    **more: Any,
) -> tuple[Participant, ...]:
    """Run a batch's tasks as the driver does, and leave what they prepared open."""
    settings: Mapping[str, Any] = {
        "transactionalIdPrefix": prefix,
        "lease": lease,
        "producer": {
            **with_batch_size(PRODUCER_DEFAULTS, None),
            "bootstrap.servers": broker.address,
            "transaction.timeout.ms": str(timeout_ms),
        },
        "topic": topic,
        "ledgerTopics": [],
        "tokenGroupPrefix": token_group_prefix(prefix),
        "handovers": {},
        "token": str(TokenText("query", BATCH_ID, number, nonce)),
        "batchId": BATCH_ID,
        "sourceGroup": None,
        "sourceOffsets": None,
        "only": None,
        "isHashed": False,
        **more,
    }
    return data_plane.SparkJob(df).run(settings, None).participants


def offsets_of(checkpoint: Path, batch_id: int) -> Any:
    """What the only source of a query logged for a batch."""
    return json.loads((checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[-1])


def numbered(count: int, *, first: int = 0) -> Sequence[str]:
    """As many different values."""
    return [f"row-{at:06d}" for at in range(first, first + count)]
