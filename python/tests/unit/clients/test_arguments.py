"""A value out of bounds is an error of oncelog's that names it, and nothing is stored. For types see test_doors.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog import limits
from oncelog.arguments import check_number
from oncelog.clients.prepared import PreparedTransaction
from oncelog.errors import InvalidRecordError, OncelogError, UsageError
from oncelog.runtime import Log
from oncelog.types import TopicPartition
from tests.support.log.logs import TOPIC, LogWorld, columns, started

TP = TopicPartition(TOPIC, 0)

NO_TEXT: tuple[Any, ...] = ("", "\ud800")
NO_NUMBER: tuple[Any, ...] = (2**70, -(2**70))
NO_PARTITION: tuple[Any, ...] = (TopicPartition(TOPIC, -1), TopicPartition("", 0))


@pytest.fixture
def world(memory_world: LogWorld) -> LogWorld:
    """The doors are before all stores."""
    return memory_world


def reading(log: Log) -> Any:
    consumer = log.consumer(group_id="g")
    consumer.assign([TP])
    return consumer


def writing(log: Log) -> Any:
    producer = started(log)
    producer.begin_transaction()
    return producer


Door = Callable[[Log, Any], object]

DOORS: dict[str, tuple[Door, tuple[Any, ...]]] = {
    "create_topic": (lambda log, bad: log.create_topic(bad), NO_TEXT),
    "partitions": (lambda log, bad: log.create_topic("new", partitions=bad), (*NO_NUMBER, 0, -1)),
    "retention_ms": (lambda log, bad: log.create_topic("new", retention_ms=bad), (*NO_NUMBER, -1)),
    "retention_bytes": (lambda log, bad: log.admin.configure_topic(TOPIC, retention_bytes=bad), (*NO_NUMBER, -1)),
    "transaction_timeout_ms": (
        lambda log, bad: log.producer(transactional_id="new", transaction_timeout_ms=bad).init_transactions(),
        (*NO_NUMBER, 0, -1),
    ),
    "delivery_timeout_ms": (lambda log, bad: log.producer(delivery_timeout_ms=bad), (*NO_NUMBER, -1)),
    "isolation_level": (lambda log, bad: log.consumer(isolation_level=bad), (*NO_TEXT, "dirty")),
    "auto_offset_reset": (lambda log, bad: log.consumer(auto_offset_reset=bad), (*NO_TEXT, "newest")),
    "send": (lambda log, bad: log.producer().send(bad, b"a"), NO_TEXT),
    "send, partition": (lambda log, bad: log.producer().send(TOPIC, b"a", partition=bad), (*NO_NUMBER, -1, 2)),
    "send, headers": (lambda log, bad: log.producer().send(TOPIC, b"a", headers=bad), ("h", [5], [("h", "v")])),
    "send, timestamp_ms": (
        lambda log, bad: log.producer().send(TOPIC, b"a", timestamp_ms=bad),
        (-1, limits.MAX_TIMESTAMP_MS + 1),
    ),
    "send_batch, partition": (
        lambda log, bad: log.producer().send_batch(TOPIC, columns(b"a"), partition=bad),
        (*NO_NUMBER, -1, 2),
    ),
    "assign": (lambda log, bad: log.consumer().assign([bad]), NO_PARTITION),
    "subscribe": (lambda log, bad: log.consumer().subscribe(bad), ([""],)),
    "seek": (lambda log, bad: reading(log).seek(bad, 0), NO_PARTITION),
    "seek, offset": (lambda log, bad: reading(log).seek(TP, bad), (*NO_NUMBER, -1, 1)),
    "poll, max_records": (lambda log, bad: reading(log).poll(max_records=bad), (*NO_NUMBER, 0)),
    "poll, timeout_ms": (lambda log, bad: reading(log).poll(bad), (*NO_NUMBER, -1)),
    "commit": (lambda log, bad: reading(log).commit({bad: 0}), NO_PARTITION),
    "commit, offset": (lambda log, bad: reading(log).commit({TP: bad}), (*NO_NUMBER, -1)),
    "send_offsets_to_transaction": (
        lambda log, bad: writing(log).send_offsets_to_transaction({bad: 0}, "g"),
        NO_PARTITION,
    ),
    "send_offsets_to_transaction, offset": (
        lambda log, bad: writing(log).send_offsets_to_transaction({TP: bad}, "g"),
        (*NO_NUMBER, -1),
    ),
    "parse": (lambda _, bad: PreparedTransaction.parse(bad), ("", "0:0:", "a:b:c")),
    "list_offsets": (lambda log, bad: log.admin.list_offsets({bad: "earliest"}), NO_PARTITION),
    "list_offsets, place": (lambda log, bad: log.admin.list_offsets({TP: bad}), (*NO_NUMBER, -5)),
    "list_offsets, isolation": (lambda log, bad: log.admin.list_offsets({}, isolation_level=bad), ("dirty",)),
    "dump, isolation": (lambda log, bad: log.admin.dump(TOPIC, isolation_level=bad), ("dirty",)),
    "describe_topic": (lambda log, bad: log.admin.describe_topic(bad), NO_TEXT),
    "delete_topic": (lambda log, bad: log.admin.delete_topic(bad), NO_TEXT),
    "delete_records": (lambda log, bad: log.admin.delete_records({TP: bad}), (*NO_NUMBER, -1, 1)),
    "list_transactions": (lambda log, bad: log.admin.list_transactions(states=[bad]), ("open",)),
    "expire_offsets": (lambda log, bad: log.admin.expire_offsets(retention_ms=bad), (*NO_NUMBER, -1)),
    "offsets_for_times": (lambda log, bad: reading(log).offsets_for_times({TP: bad}), (*NO_NUMBER, -1)),
    "dump, start": (lambda log, bad: log.admin.dump(TOPIC, partition=0, start=bad), (*NO_NUMBER, -1, 1)),
    "measure_metadata": (lambda log, bad: log.admin.measure_metadata(largest=bad), (*NO_NUMBER, -1)),
    "find_hanging": (lambda log, bad: log.admin.find_hanging(max_age_ms=bad), (*NO_NUMBER, -1)),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_wrong_argument_is_named_and_nothing_is_stored(log: Log, door: str) -> None:
    enter, wrong = DOORS[door]
    for bad in wrong:
        with pytest.raises(OncelogError) as refused:
            enter(log, bad)
        assert len(refused.value.fields) > 0, f"{bad!r} is not named: {refused.value}"

    assert [topic.topic for topic in log.admin.list_topics()] == [TOPIC]
    assert log.admin.list_groups() == []


def test_a_time_that_no_reader_could_show_is_refused_in_a_batch_too(log: Log) -> None:
    latest = columns(b"a", timestamp_ms=[limits.MAX_TIMESTAMP_MS])
    log.producer().send_batch(TOPIC, latest, partition=0)
    with pytest.raises(InvalidRecordError, match="later than Spark can read"):
        log.producer().send_batch(TOPIC, columns(b"a", timestamp_ms=[limits.MAX_TIMESTAMP_MS + 1]), partition=0)


@pytest.mark.parametrize("number", [1.0, True, float("nan"), "1"])
def test_only_whole_numbers_are_partitions_of_a_record(world: LogWorld, number: Any) -> None:
    """`send` is called for every record: it checks by itself what other calls check by their signatures."""
    with world.log.producer() as producer, pytest.raises(UsageError, match="partition"):
        producer.send(TOPIC, b"x", partition=number)
    with pytest.raises(UsageError, match="minimum"):
        check_number("count", number)
