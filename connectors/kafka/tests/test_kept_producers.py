"""Producers that executors keep between batches: when they go on, as whom, and what the brokers make of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest
from pyspark.sql import SparkSession

from kept_producers import LEASE, Task
from oncelog.errors import InvalidRecordError, NotPreparedError
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_kafka.brokers import KafkaRequests
from oncelog_kafka.patience import PatientBrokers
from oncelog_kafka.protocol.participants import Handover, Participant, ParticipantId
from raw_producer import RawProducer
from simulation.kafka.transactions import Identity
from tests.support.connectors.kafka_sink import TIMEOUT_MS, numbered, prepare, rows, values
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name


@pytest.fixture
def requests(broker: KafkaBroker) -> Iterator[KafkaRequests]:
    with closing(KafkaRequests({"bootstrap_servers": broker.address})) as found:
        yield found


# What the brokers make of it ------------------------------------------------------------------------------------------


def test_a_late_commit_of_the_batch_before_ends_the_open_transaction_at_version_1_alone(
    broker: KafkaBroker, version: int, requests: KafkaRequests
) -> None:
    """That is why a producer of version 1 is never kept: with its epoch kept, nothing tells the two batches apart."""
    topic, name = broker.create_topic(fresh_name("late"), partitions=1), fresh_name("id")
    brokers, producer = PatientBrokers(requests, SYSTEM_CLOCK), RawProducer(requests)
    who = until(lambda: producer.init(name, TIMEOUT_MS)[1])
    assert who is not None
    before = written(producer, who, topic, b"decided", version)
    (ended,) = until(lambda: [one for one in brokers.commit([before]) if one.answer == "NONE"])
    following = who if ended.following is None else Identity(name, *ended.following)
    written(producer, following, topic, b"undecided", version)

    (late,) = brokers.commit([before])

    if version == 1:
        assert (ended.following, late.answer) == (None, "NONE")
        assert values(broker, topic) == ["decided", "undecided"]
    else:
        assert late.answer == "PRODUCER_FENCED"
        assert brokers.describe([name])[name].state == "Ongoing"
        assert values(broker, topic) == ["decided"]
    brokers.fence([name], TIMEOUT_MS)


def written(producer: RawProducer, who: Identity, topic: str, value: bytes, version: int) -> Participant:
    """An open transaction with one record; the one before it may still be ending."""
    place = topic, 0
    if version < 2:
        until(lambda: producer.add_partitions(who, [place]) == "NONE")
    sequence = 0 if version >= 2 or value == b"decided" else 1
    until(lambda: producer.produce(who, place, [value], sequence, version=version) == "NONE")
    return Participant(who.transactional_id, 0, who.producer_id, who.epoch, version, 1, 0, topic)


# In a task ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def task(broker: KafkaBroker, spark: SparkSession, requests: KafkaRequests) -> Task:
    topic = broker.create_topic(fresh_name("kept"), partitions=1)
    return Task(spark, broker, topic, fresh_name("prefix"), PatientBrokers(requests, SYSTEM_CLOCK))


def test_a_producer_goes_on_as_the_coordinator_named_it_or_is_not_kept_at_version_1(task: Task, version: int) -> None:
    first = task.prepare()
    handover = task.commit(first)
    second = task.prepare(handover)
    task.commit(second)

    if version == 1:
        assert handover is None
        assert task.clients() == 0
        assert second.epoch == first.epoch + 1  # it initialised the id
    else:
        assert handover is not None
        assert second.producer == handover.following
        assert task.clients() == 1
    assert values(task.broker, task.topic) == numbered(2)


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
def test_without_the_drivers_word_for_this_very_transaction_a_new_producer_is_opened(task: Task) -> None:
    handover = task.batch()
    after_none = task.prepare(None)
    assert after_none.producer != handover.following
    following = task.commit(after_none)
    assert following is not None

    after_an_older_one = task.prepare(handover)

    assert after_an_older_one.producer not in {handover.following, following.following}
    task.commit(after_an_older_one)
    assert values(task.broker, task.topic) == numbered(3)
    assert task.clients() == 1


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
def test_a_producer_whose_id_was_fenced_meanwhile_writes_nothing(task: Task) -> None:
    handover = task.batch()
    task.brokers.fence([str(ParticipantId(task.prefix, 0, LEASE, 0, 0))], TIMEOUT_MS)

    with pytest.raises(NotPreparedError, match="fenced"):
        task.prepare(handover)

    assert task.clients() == 0
    assert values(task.broker, task.topic) == numbered(1)


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
def test_a_producer_is_not_kept_behind_an_error(task: Task) -> None:
    handover = task.batch()
    without_topic = task.spark.createDataFrame([(None, b"row")], "topic string, value binary").coalesce(1)

    with pytest.raises(InvalidRecordError, match="names no topic"):
        prepare(without_topic, task.broker, task.prefix, topic=None, lease=LEASE, handovers={"0": handover})

    assert task.clients() == 0
    assert task.prepare(handover).producer != handover.following


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
def test_a_batch_size_is_read_as_the_client_reads_it(task: Task) -> None:
    producer = {"bootstrap.servers": task.broker.address, "transaction.timeout.ms": "60000", "batch.size": " 16384 "}
    batch = rows(task.spark, numbered(1), partitions=1)

    (found,) = prepare(batch, task.broker, task.prefix, topic=task.topic, producer=producer)

    task.commit(found)
    assert values(task.broker, task.topic) == numbered(1)


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
def test_closing_a_kept_producer_leaves_what_it_prepared_to_the_driver(task: Task) -> None:
    """A graceful close would abort it."""
    prepared = task.prepare()
    assert task.clients() == 1

    task.brokers.commit([task.prepare(lease=LEASE + 1)])

    assert task.clients() == 1  # a new lease has closed that of the old one
    assert task.brokers.describe([prepared.transactional_id])[prepared.transactional_id].state == "Ongoing"
    task.commit(prepared)
    assert values(task.broker, task.topic) == numbered(2)


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
def test_kept_producers_have_a_sixteenth_of_the_heap_together(task: Task) -> None:
    """The oldest are closed, which aborts nothing, and the next batch opens new ones in their place."""
    assert task.spark._jvm is not None
    room = task.spark._jvm.java.lang.Runtime.getRuntime().maxMemory() // 16
    size = 6 << 20
    count = room // (size + len(numbered(1)[0]))
    producer = {"bootstrap.servers": task.broker.address, "transaction.timeout.ms": "60000", "batch.size": str(size)}
    handovers: dict[str, Handover | None] = {}
    for _ in range(2):
        batch = rows(task.spark, numbered(count + 3), partitions=count + 3)
        prepared = prepare(batch, task.broker, task.prefix, topic=task.topic, producer=producer, handovers=handovers)
        assert task.clients() == count
        handovers = {str(one.partition): task.commit(one) for one in prepared}
    assert values(task.broker, task.topic) == sorted([*numbered(count + 3)] * 2)


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
@pytest.mark.parametrize(("megabytes", "kept"), [(7, 1), (8, 0)])
def test_a_producer_that_sent_much_is_not_kept(task: Task, megabytes: int, kept: int) -> None:
    texts = [f"{at:0{1 << 19}d}" for at in range(2 * megabytes)]

    (found,) = prepare(rows(task.spark, texts, partitions=1), task.broker, task.prefix, topic=task.topic)

    assert task.clients() == kept
    task.commit(found)
    assert values(task.broker, task.topic) == texts


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
def test_the_rows_of_a_topic_that_was_created_again_are_reported_under_its_new_id_or_not_at_all(task: Task) -> None:
    handover = task.batch()
    with task.broker.admin() as admin:
        admin.delete_topics([task.topic])
        until(lambda: task.brokers.partitions_of(task.topic) is None)
    until(partial(created, task.broker, task.topic))

    try:
        task.commit(task.prepare(handover))
    except NotPreparedError as error:
        assert "created again" in str(error)  # noqa: PT017 - either will do
        task.commit(task.prepare(handover))
    assert len(values(task.broker, task.topic)) == 1


def created(broker: KafkaBroker, topic: str) -> bool:
    try:
        broker.create_topic(topic, partitions=1)
    except Exception:  # noqa: BLE001 - the one before is still being deleted
        return False
    return True
