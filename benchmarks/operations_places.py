"""A log and a cluster with 1,000 partitions and 10,000 transactional ids, for what serves and shows them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from kafka.structs import OffsetAndMetadata, TopicPartition

import oncelog
from benchmarks.growth_ids import copy_id
from oncelog.log import topics
from oncelog.testing.kafka_broker import KafkaBroker
from oncelog.testing.zookeeper_server import running_server
from oncelog.znodes import paths
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_kafka.brokers import KafkaRequests, KafkaTransactions
from oncelog_kafka.brokers.overview import KafkaOverview
from oncelog_kafka.brokers.transactions import Identity
from oncelog_kafka.patience import PatientBrokers
from oncelog_kafka.protocol.participants import ONGOING

TOPICS, PARTITIONS, IDS = 10, 100, 10_000
GROUPS, OPEN = 10, 20
"""Each group has offsets of one topic, in all of its partitions. So many transactions are open all the time."""

WRITTEN = 10
"""Partitions that a change writes to."""

TIMEOUT_MS = 900_000
PAUSE_S = 0.2


@dataclass(frozen=True)
class Place:
    """What is watched.

    Attributes:
        name: in a report.
        scrape, page: the commands that serve its metrics and its page, without ``--listen``.
        change: writes something that both must show.
        read: what neither can do without: the bare reads of what they show, by one client.
    """

    name: str
    scrape: tuple[str, ...]
    page: tuple[str, ...]
    change: Callable[[], None]
    read: Callable[[], object]


@contextmanager
def places(folder: Path) -> Iterator[list[Place]]:
    """All of them, each with its servers."""
    with ExitStack() as stack:
        server = stack.enter_context(running_server(folder / "zookeeper"))
        yield [
            stack.enter_context(_log(folder / "on-sqlite", None, "log on SQLite")),
            stack.enter_context(_log(folder / "on-zookeeper", server.url(), "log on ZooKeeper")),
            stack.enter_context(_cluster(folder / "broker")),
        ]


@contextmanager
def _log(folder: Path, znodes: str | None, name: str) -> Iterator[Place]:
    with oncelog.open(folder, znodes) as log, ExitStack() as stack:
        for number in range(TOPICS):
            log.create_topic(_topic(number), partitions=PARTITIONS)
        _write(log, "writer", "t0", 1)
        copy_id(log, topics.partitions_of(log.services.store, "t0")[0], IDS)
        for number in range(TOPICS):
            _write(log, "filler", _topic(number), PARTITIONS)
        for number in range(GROUPS):
            with log.consumer(group_id=_group(number)) as consumer:
                consumer.commit({oncelog.TopicPartition(_topic(number), one): 1 for one in range(PARTITIONS)})
        for number in range(OPEN):
            producer = log.producer(transactional_id=f"open-{number}", transaction_timeout_ms=TIMEOUT_MS)
            producer.init_transactions()
            producer.begin_transaction()
            stack.callback(producer.abort_transaction)
            producer.send("t1", b"value", partition=number)
            producer.flush()
        store, numbers = log.services.store, count()

        def read() -> None:
            with store.snapshot() as reader:
                reader.get_many([paths.partition(one) for one in topics.all_partitions(reader)])

        where = ("--path", str(folder), *(() if znodes is None else ("--znodes", znodes)))
        yield Place(
            name,
            ("exporter", *where),
            ("ui", *where),
            lambda: _write(log, f"new-{next(numbers)}", "t0", WRITTEN),
            read,
        )


def _write(log: oncelog.Log, transactional_id: str, topic: str, partitions: int) -> None:
    with log.producer(transactional_id=transactional_id) as producer:
        producer.init_transactions()
        with producer.transaction():
            for number in range(partitions):
                producer.send(topic, b"value", partition=number)


def _topic(number: int) -> str:
    return f"t{number}"


def _group(number: int) -> str:
    return f"group-{number}"


@contextmanager
def _cluster(folder: Path) -> Iterator[Place]:
    settings = {"broker.session.timeout.ms": "30000"}  # creating so many partitions may hold up a heartbeat
    with ExitStack() as stack:
        broker = stack.enter_context(KafkaBroker(folder, settings=settings, java=("-Xmx1g",)).running())
        requests = stack.enter_context(closing(KafkaRequests({"bootstrap_servers": broker.address})))
        overview = stack.enter_context(closing(KafkaOverview({"bootstrap_servers": broker.address})))
        names = [_topic(number) for number in range(TOPICS)]
        for name in names:
            broker.create_topic(name, partitions=PARTITIONS)
        transactions = KafkaTransactions(requests)
        brokers = PatientBrokers(requests, SYSTEM_CLOCK)
        brokers.fence([f"id-{number}" for number in range(IDS)], TIMEOUT_MS)
        for number in range(OPEN):
            _begun(transactions, f"open-{number}", ("t1", number))
        broker.commit_group_offset(_group(0), "t0", 0, offset=0)  # waits until there is a coordinator
        with broker.admin() as admin:
            for number in range(GROUPS):
                places = [TopicPartition(_topic(number), one) for one in range(PARTITIONS)]
                admin.alter_group_offsets(_group(number), {one: OffsetAndMetadata(0, "", -1) for one in places})
        numbers = count()

        def change() -> None:
            who = _begun(transactions, f"new-{next(numbers)}", ("t0", 0))
            transactions.end(who, is_commit=True)

        def read() -> None:
            brokers.describe(name for name, state in brokers.list_ids() if state == ONGOING)
            overview.ends(overview.leaders())
            overview.committed(overview.groups())

        where = ("kafka", "--brokers", broker.address)
        named = [word for number, name in enumerate(names) for word in ("--topic", name, "--group", _group(number))]
        yield Place("Kafka", (*where, "exporter", *named), (*where, "ui"), change, read)


def _begun(transactions: KafkaTransactions, transactional_id: str, place: tuple[str, int]) -> Identity:
    """A transaction that is open; a new broker needs a moment before it takes the first."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = transactions.init(transactional_id, TIMEOUT_MS)
        if isinstance(found, Identity) and transactions.add_partition(found, place) == "NONE":
            return found
        time.sleep(PAUSE_S)
    raise RuntimeError("the broker takes no transaction")
