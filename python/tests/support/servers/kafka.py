"""The Kafka brokers of tests.

The fixture `kafka` is one broker for all tests of a run; each test takes topics of its own. Tests that stop, pause or
kill brokers start their own by `running_broker`.
"""

from __future__ import annotations

import importlib.util
import itertools
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from oncelog.testing import kafka_broker
from oncelog.testing.kafka_broker import DEFAULT_VERSION, TV1_FEATURES, TV1_VERSION, TV2_VERSION, KafkaBroker
from tests.support.harness.parts import missing_part, require_java

__all__ = ["DEFAULT_VERSION", "TV1_FEATURES", "TV1_VERSION", "TV2_VERSION", "KafkaBroker"]

STEADY = {"broker.session.timeout.ms": "20000"}
"""For brokers that nobody kills: on a busy machine none loses its partitions for want of a heartbeat."""

_numbers = itertools.count()


@contextmanager
def running_broker(
    folder: Path,
    *,
    version: str = TV2_VERSION,
    settings: Mapping[str, str] | None = None,
    features: Sequence[str] = (),
) -> Iterator[KafkaBroker]:
    """A broker of one's own, of the newest version, for the time of the block. A test that kills it while transactions
    end takes `DEFAULT_VERSION`."""
    require_broker(version)
    with kafka_broker.running_broker(folder, version=version, settings=settings, features=features) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker with transactions of version 2 that all tests of a run share; none of them stops it."""
    with running_broker(tmp_path_factory.mktemp("kafka"), settings=STEADY) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_tv1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """The same of the last line of brokers with transactions of version 1."""
    with running_broker(tmp_path_factory.mktemp("kafka-tv1"), version=TV1_VERSION, settings=STEADY) as broker:
        yield broker


class KafkaLedgers:
    """Topics of the shared broker that keep znodes."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker

    def url(self) -> str:
        """A topic that no other test of this run uses."""
        return f"kafka://{self._broker.address}/{fresh_name('ledger')}"


@pytest.fixture(scope="session")
def kafka_ledgers(kafka: KafkaBroker) -> KafkaLedgers:
    return KafkaLedgers(kafka)


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    """A topic of the shared broker with two partitions that no other test uses. Records of any time stay in it."""
    return kafka.create_topic(fresh_name("topic"), partitions=2, retention_ms="-1")


def fresh_name(kind: str) -> str:
    """A name that no other test of this run uses, for a topic, a group or a transactional id."""
    return f"{kind}-{next(_numbers)}"


def require_broker(version: str = TV2_VERSION) -> None:
    require_java()
    if importlib.util.find_spec("kafka") is None:
        missing_part("kafka-python", "install oncelog[kafka]")
    if shutil.which("mvn") is None and not kafka_broker.has_jars(version):
        missing_part("Maven", "install it: it brings the jars of Kafka's broker")


def require_shims() -> None:
    """Skip the running test unless the Kafka connector's jar is built."""
    from oncelog_kafka.packaging import JAR

    if not JAR.is_file():
        missing_part("the Kafka connector's jar", "make shims")


class Transaction:
    """An open transaction of a producer that shares no code with what is tested: `send`, then `commit` or `abort`."""

    def __init__(self, broker: KafkaBroker, transactional_id: str | None = None, **settings: object) -> None:
        self.transactional_id = transactional_id or fresh_name("id")
        self._address = broker.address
        self._producer = _producer(broker, {"transactional.id": self.transactional_id, **settings})
        self._producer.init_transactions(30)
        self._producer.begin_transaction()

    def send(self, topic: str, *values: str, partition: int = 0) -> Transaction:
        """Send, and wait until the broker has it: an abort later leaves aborted records, and not none."""
        for value in values:
            self._producer.produce(topic, value=value.encode(), partition=partition)
        self._producer.flush(30)
        return self

    def stage(self, group: str, topic: str, offset: int, *, partition: int = 0) -> Transaction:
        """An offset that becomes the group's with the commit."""
        consumer = Consumer({"bootstrap.servers": self._address, "group.id": group, "log_level": 0})
        offsets = [TopicPartition(topic, partition, offset)]
        self._producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        consumer.close()
        return self

    def commit(self) -> None:
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        self._producer.abort_transaction(30)

    def begin_again(self) -> Transaction:
        self._producer.begin_transaction()
        return self


def send(
    broker: KafkaBroker,
    topic: str,
    *values: str | None,
    partition: int = 0,
    keys: Sequence[str | None] = (),
    headers: Sequence[list[tuple[str, str | bytes | None]]] = (),
    timestamps_ms: Sequence[int] = (),
    **settings: object,
) -> None:
    """Send records outside of any transaction.

    Args:
        broker: to send to.
        topic, partition: where they go.
        values: one for each record; None for a record without one.
        keys, headers, timestamps_ms: of the first records, as far as they go.
        settings: of the producer, with underscores for dots.
    """
    producer = _producer(broker, settings)
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value=None if value is None else value.encode(),
            key=keys[number] if number < len(keys) else None,
            headers=headers[number] if number < len(headers) else None,
            timestamp=timestamps_ms[number] if number < len(timestamps_ms) else 0,
            partition=partition,
        )
    assert producer.flush(30) == 0


def _producer(broker: KafkaBroker, settings: Mapping[str, object]) -> Producer:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 2, **dotted})
