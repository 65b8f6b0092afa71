"""A task's init that was given up and arrives behind the decision: what real brokers of both versions do with it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from kafka.protocol.producer import InitProducerIdRequest

from oncelog import metadata
from oncelog.batches.rules import BatchRequest
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_kafka.brokers import KafkaRequests
from oncelog_kafka.patience import PatientBrokers
from oncelog_kafka.protocol.participants import Participant, token_group
from oncelog_kafka.protocol.ports import CommittedOffset
from oncelog_kafka.protocol.tokens import TokenText
from oncelog_kafka.sinks.finishing import DecidedRound, finish
from raw_producer import RawProducer
from tests.support.connectors.kafka_ledger import Ledger
from tests.support.connectors.kafka_sink import values
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name

TIMEOUT_MS = 60_000


@pytest.fixture
def requests(broker: KafkaBroker) -> Iterator[KafkaRequests]:
    with closing(KafkaRequests({"bootstrap_servers": broker.address})) as found:
        yield found


class GivenUp:
    """An init on a connection of its own, of which the brokers have half: a segment of it is lost and sent again late.

    Whoever gives such a request up closes the connection. Its machine goes on sending what it was given.
    """

    def __init__(self, address: str, transactional_id: str) -> None:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
        )
        request.API_VERSION = 4
        request.with_header()
        frame = bytes(request.encode(header=True, framed=True))
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.sendall(frame[:10])
        self._rest = frame[10:]

    def arrive(self) -> None:
        with self._socket:
            self._socket.sendall(self._rest)


def test_an_init_that_arrives_behind_the_decision_aborts_the_participant_and_the_token_names_it(
    broker: KafkaBroker, version: int, requests: KafkaRequests, tmp_path: Path
) -> None:
    """The brokers cannot tell it from a new one. Nothing is lost in silence, and nothing is doubled."""
    brokers = PatientBrokers(requests, SYSTEM_CLOCK)
    topic, prefix = broker.create_topic(fresh_name("late"), partitions=1), fresh_name("prefix")
    with closing(metadata.open_metadata(str(tmp_path / "ledger"))) as store:
        ledger = Ledger(store, BatchRequest(prefix, "query", "sink", "run", 0, "fp"))
        opened = ledger.begin(lease=None, buckets=None)
        assert opened is not None
        name = f"{prefix}-0-{opened.number}.0.0"
        given_up = GivenUp(broker.address, name)
        token = str(TokenText("query", 0, opened.number, opened.record.nonce))
        participant = prepared(RawProducer(requests), name, topic, token_group(prefix, 0), token, version)
        decided = DecidedRound(prefix, opened.number, ledger.decide(opened, [participant]))

        given_up.arrive()

        described = partial(brokers.describe, [name])
        until(lambda: described()[name].state == "CompleteAbort", tell=described)
        assert finish(brokers, store, decided).lost == [participant]
        assert values(broker, topic) == []


def prepared(producer: RawProducer, name: str, topic: str, group: str, token: str, version: int) -> Participant:
    """What a task does, request by request; its init is the second one that it sends."""
    place = topic, 0
    who = until(lambda: producer.init(name, TIMEOUT_MS)[1])
    assert who is not None
    requests = [
        partial(producer.produce, who, place, [b"row"], 0, version=version),
        partial(producer.stage, who, group, {place: CommittedOffset(0, token)}, version=version),
    ]
    if version < 2:
        requests = [
            partial(producer.add_partitions, who, [place]),
            partial(producer.add_offsets, who, group),
            *requests,
        ]
    for request in requests:
        until(lambda request=request: request() == "NONE")  # type: ignore[misc]
    return Participant(name, 0, who.producer_id, who.epoch, version, 1, 0, topic)
