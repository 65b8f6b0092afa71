"""The driver's connection to the brokers, on a real one: what it keeps, and what it leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kafka.protocol.metadata import CoordinatorType

from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_kafka.brokers import Brokers, KafkaRequests
from oncelog_kafka.errors import BrokerUnavailableError
from oncelog_kafka.patience import PatientBrokers
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name

NO_NODE = 999


@pytest.fixture
def requests(kafka: KafkaBroker) -> Iterator[KafkaRequests]:
    found = KafkaRequests({"bootstrap_servers": kafka.address})
    yield found
    found.close()


def test_all_transactions_of_a_coordinator_that_is_gone_find_the_next_one(
    requests: KafkaRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = PatientBrokers(requests, SYSTEM_CLOCK)
    names = [fresh_name("moved") for _ in range(4)]
    brokers.fence(names, 60_000)
    for name in names:
        requests._admin._manager.cluster._coordinators[CoordinatorType.TRANSACTION, name] = NO_NODE
    asked: list[int] = []
    ask = requests._ask_each

    def counted(some: Sequence[tuple[str, Any]]) -> list[Any]:
        asked.append(len(some))
        return ask(some)

    monkeypatch.setattr(requests, "_ask_each", counted)

    assert set(brokers.describe(names)) == set(names)
    assert len(asked) == 2


def test_brokers_that_do_not_answer_leave_no_thread_behind() -> None:
    before = set(threading.enumerate())
    with pytest.raises(BrokerUnavailableError):
        Brokers({"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 300})

    def left() -> set[threading.Thread]:
        return set(threading.enumerate()) - before

    until(lambda: not left(), tell=left)
