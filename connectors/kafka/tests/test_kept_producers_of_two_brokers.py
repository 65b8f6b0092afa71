"""Producers that executors keep while brokers come and go: leaders and coordinators move, and epochs end."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from kept_producers import LEASE, Task
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_kafka.brokers import KafkaRequests
from oncelog_kafka.patience import PatientBrokers
from oncelog_kafka.protocol.participants import ParticipantId
from tests.support.connectors.kafka_sink import TIMEOUT_MS, numbered, values
from tests.support.harness.variants import variants
from tests.support.harness.waiting import until
from tests.support.servers.kafka import TV1_FEATURES, fresh_name
from two_brokers import COORDINATED, TwoBrokers, running_two_brokers

pytestmark = pytest.mark.walk("kept producers while brokers come and go")

LAST_EPOCH = 2**15 - 2
"""No transaction has a later one: behind it comes another producer id."""

COMPLETE_COMMIT = 4
"""Kafka's number of the state."""

FEATURES = {"kafka": (), "kafka_tv1": TV1_FEATURES}
"""Of brokers with transactions of version 2, and of version 1."""


@pytest.fixture(params=variants(*FEATURES))
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TwoBrokers]:
    """Of each transaction version."""
    with running_two_brokers(tmp_path, FEATURES[request.param]) as found:
        yield found


@pytest.fixture
def version(request: pytest.FixtureRequest) -> int:
    """The transaction version of `brokers`."""
    return 1 if FEATURES[request.node.callspec.params["brokers"]] else 2


@pytest.fixture
def task(brokers: TwoBrokers, spark: SparkSession) -> Iterator[Task]:
    topic = brokers.create_topic(fresh_name("kept"))
    with closing(KafkaRequests({"bootstrap_servers": brokers.first.address})) as requests:
        yield Task(spark, brokers.first, topic, fresh_name("prefix"), PatientBrokers(requests, SYSTEM_CLOCK))


def test_a_kept_producer_goes_on_where_leaders_and_coordinators_went(
    brokers: TwoBrokers, task: Task, version: int
) -> None:
    """They move behind the prepared transaction and before the next one: by a loss, and by an election."""
    first = task.prepare()
    brokers.lose_second()
    handover = task.commit(first)
    second = task.prepare(handover)
    brokers.return_second()
    following = task.commit(second)
    third = task.prepare(following)
    task.commit(third)

    if version == 1:
        assert (handover, following, task.clients()) == (None, None, 0)
        assert [second.epoch, third.epoch] == [first.epoch + 1, first.epoch + 2]  # each initialised the id
    else:
        assert handover is not None
        assert following is not None
        assert [second.producer, third.producer] == [handover.following, following.following]
        assert task.clients() == 1
    assert values(task.broker, task.topic) == numbered(3)


@pytest.mark.parametrize("brokers", ["kafka"], indirect=True)
def test_behind_the_last_epoch_a_kept_producer_goes_on_with_the_id_that_the_coordinator_gave_it(
    brokers: TwoBrokers, task: Task
) -> None:
    """Its coordinator knows the id from a log that says that it was used 32,000 times."""
    before = task.prepare(task.batch())
    task.commit(before)
    name = str(ParticipantId(task.prefix, 0, LEASE, 0, 0))
    assert before.transactional_id == name
    until(lambda: task.brokers.describe([name])[name].state == "CompleteCommit")
    write_transaction(brokers, name, before.producer_id, LAST_EPOCH - 2)
    brokers.lose_second()  # the other coordinator reads the log
    brokers.return_second()

    prepared = [task.prepare()]
    while prepared[-1].producer_id == before.producer_id:
        assert LAST_EPOCH - 2 < prepared[-1].epoch <= LAST_EPOCH
        prepared.append(task.prepare(task.commit(prepared[-1])))

    last, undecided = prepared[-2:]
    assert undecided.epoch == 0
    assert task.brokers.commit([last])[0].answer != "NONE"
    assert task.brokers.describe([name])[name].state == "Ongoing"
    assert values(task.broker, task.topic) == numbered(task.batches - 1)
    task.commit(undecided)
    assert values(task.broker, task.topic) == numbered(task.batches)
    assert task.clients() == 1


def write_transaction(brokers: TwoBrokers, transactional_id: str, producer_id: int, epoch: int) -> None:
    """Write into the coordinators' log that an id has a complete transaction of this producer."""
    name, now_ms = transactional_id.encode(), time.time_ns() // 1_000_000
    key = struct.pack(f">hh{len(name)}s", 0, len(name), name)
    value = struct.pack(">hqhibiqq", 0, producer_id, epoch, TIMEOUT_MS, COMPLETE_COMMIT, 0, now_ms, now_ms)
    # Brokers take records of topics of their own from a client of this name alone.
    producer = Producer({"bootstrap.servers": brokers.first.address, "client.id": "__admin_client", "acks": "all"})
    failed: list[object] = []
    producer.produce(COORDINATED[0], value, key, 0, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(30) == 0
    assert failed == [None]
