"""The brokers in memory answer as real ones: the same random scripts on both, at transaction versions 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from broker_scripts import PARTITIONS, Script
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_kafka.brokers import KafkaRequests
from oncelog_kafka.control.requests import ControlRequests
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.patience import PatientBrokers
from oncelog_kafka.protocol.ports import Requests
from tests.support.servers.kafka import (
    STEADY,
    TV1_VERSION,
    TV2_VERSION,
    KafkaBroker,
    fresh_name,
    require_shims,
    running_broker,
)

pytestmark = pytest.mark.sampled("simulated brokers")

DAILY = range(12)
MANY = range(12, 84)
EXPIRED_MS = 3_000
FORGETFUL = {
    "transactional.id.expiration.ms": str(EXPIRED_MS),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}

TOGETHER = 12
"""Scripts that wait for their time-outs together."""


@pytest.fixture
def raw(broker: KafkaBroker) -> Iterator[KafkaRequests]:
    """By which the script's producers ask."""
    with closing(KafkaRequests({"bootstrap_servers": broker.address})) as found:
        warm_up(found)
        yield found


@pytest.fixture(params=["kafka-python", "java"])
def requests(request: pytest.FixtureRequest, broker: KafkaBroker, raw: KafkaRequests) -> Iterator[Requests]:
    """Each of the driver's clients."""
    if request.param == "kafka-python":
        yield raw
        return
    require_shims()
    with closing(ControlRequests(JavaClient({"bootstrap.servers": broker.address}))) as found:
        yield found


def warm_up(requests: Requests) -> None:
    """A fresh broker has no coordinators until they are asked for."""
    patient = PatientBrokers(requests, SYSTEM_CLOCK)
    patient.fence([fresh_name("first")], 60_000)
    patient.offsets({fresh_name("first"): [("topic", 0)]})


@pytest.mark.parametrize("seeds", [DAILY, pytest.param(MANY, marks=pytest.mark.walk)], ids=["few", "many"])
def test_simulated_brokers_answer_random_scripts_as_real_ones(
    broker: KafkaBroker, version: int, requests: Requests, raw: KafkaRequests, seeds: range
) -> None:
    for first in range(seeds.start, seeds.stop, TOGETHER):
        some = seeds[first - seeds.start : first - seeds.start + TOGETHER]
        scripts = [Script(seed, version, requests, raw, topic(broker), [1_000_000]) for seed in some]
        for script in scripts:
            script.begin()
        for script in scripts:
            script.open_briefly()
        for script in scripts:
            script.time_out()
        for script in scripts:
            script.end()
        for is_committed in (True, False):
            expected = [record for script in scripts for record in script.contents(is_committed=is_committed)]
            found = contents(broker, [script.topic for script in scripts], is_committed=is_committed)
            assert found == sorted(expected)


def test_a_fenced_producers_offset_takes_the_place_of_a_newer_one_on_brokers_3_alone(
    broker: KafkaBroker, version: int, requests: Requests, raw: KafkaRequests
) -> None:
    """A transaction commits there without the offset that its producer staged, if an older epoch of that producer
    stages one in the same group meanwhile, though that is refused."""
    script = Script(0, version, requests, raw, topic(broker), [1_000_000])
    script.stage_behind_a_fenced_one()

    held = {0: 1, 1: 1} if version == 1 else {0: 1, 1: 2}
    assert script.held == held


@pytest.fixture(params=[TV2_VERSION, TV1_VERSION])
def forgetful(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[KafkaBroker, int]]:
    """A broker that forgets an id three seconds after its last use, and its transaction version."""
    with running_broker(tmp_path, version=request.param, settings={**STEADY, **FORGETFUL}) as broker:
        yield broker, 2 if request.param == TV2_VERSION else 1


@pytest.mark.walk
def test_simulated_brokers_forget_ids_as_real_ones(forgetful: tuple[KafkaBroker, int]) -> None:
    broker, version = forgetful
    requests = KafkaRequests({"bootstrap_servers": broker.address})
    try:
        warm_up(requests)
        for seed in range(3):
            script = Script(seed, version, requests, requests, topic(broker), [1_000_000])
            script.let_expire(EXPIRED_MS)
    finally:
        requests.close()


def topic(broker: KafkaBroker) -> str:
    return broker.create_topic(fresh_name("script"), partitions=PARTITIONS)


def contents(broker: KafkaBroker, topics: Sequence[str], *, is_committed: bool) -> list[tuple[str, int, int, bytes]]:
    """(topic, partition, offset, value) of what a librdkafka consumer gets, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if is_committed else "read_uncommitted",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    left = {(name, number) for name in topics for number in range(PARTITIONS)}
    consumer.assign([TopicPartition(name, number, OFFSET_BEGINNING) for name, number in sorted(left)])
    found: list[tuple[str, int, int, bytes]] = []
    try:
        while left:
            for message in consumer.consume(1000, timeout=0.2):
                where = str(message.topic()), int(message.partition() or 0)
                error = message.error()
                if error is None:
                    found.append((*where, int(message.offset() or 0), bytes(message.value() or b"")))
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(where)
                elif not error.retriable():
                    raise AssertionError(error)
    finally:
        consumer.close()
    return sorted(found)
