"""Ending the participants of a decided round, on real brokers of both transaction versions.

The participants are prepared by Spark tasks as in a query; what happens to them between the decision and the commit is
the subject here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelog import metadata
from oncelog.batches.rules import BatchRequest
from oncelog.ports import ZnodeStore
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.errors import BrokerAccessError, ParticipantLostError
from oncelog_kafka.ledger import ledger
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.protocol.participants import Participant, ProducerIdAndEpoch, token_group
from oncelog_kafka.protocol.ports import Ended, Unstable
from oncelog_kafka.sinks.finishing import DecidedRound, finish
from tests.support.connectors.kafka_ledger import Ledger
from tests.support.connectors.kafka_sink import BATCH_ID, committed, numbered, prepare, rows, values
from tests.support.harness.variants import variants
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name

SHORT_MS = 4_000
"""Time-out of transactions that a test lets time out; the test broker looks for those twice a second."""


@dataclass
class World:
    """A topic, a ledger, and the brokers as the driver sees them."""

    broker: KafkaBroker
    brokers: Brokers
    store: ZnodeStore
    spark: SparkSession
    topic: str
    prefix: str
    nonce: str = "n-0"

    def prepared(
        self, texts: Sequence[str], *, timeout_ms: int = 60_000, lease: int = 1, number: int = 1
    ) -> tuple[Participant, ...]:
        df = rows(self.spark, texts)
        more: dict[str, Any] = {"timeout_ms": timeout_ms, "lease": lease, "number": number, "nonce": self.nonce}
        return prepare(df, self.broker, self.prefix, topic=self.topic, **more)

    def decided(self, texts: Sequence[str], *, timeout_ms: int = 60_000) -> DecidedRound:
        """A round whose decision is recorded, and no commit sent."""
        request = BatchRequest(self.prefix, "query", "sink", "run", BATCH_ID, "fp")
        steps = Ledger(self.store, request)
        opened = steps.begin(lease=None, buckets=None)
        assert opened is not None
        self.nonce = opened.record.nonce
        participants = self.prepared(texts, timeout_ms=timeout_ms)
        return DecidedRound(self.prefix, opened.number, steps.decide(opened, participants))

    def is_complete(self, decided: DecidedRound) -> bool:
        found = KAFKA_LEDGERS.read_round(self.store, decided.prefix, decided.number)
        return found is not None and found.is_complete

    def wait_for(self, state: str, participants: Sequence[Participant]) -> None:
        described = partial(self.brokers.describe, [one.transactional_id for one in participants])
        until(lambda: {found.state for found in described().values()} == {state}, tell=described)

    def values(self) -> list[str]:
        return values(self.broker, self.topic)


@pytest.fixture(scope="session", params=variants("kafka", "kafka_tv1"))
def broker(request: pytest.FixtureRequest) -> KafkaBroker:
    found: KafkaBroker = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def world(broker: KafkaBroker, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    brokers = Brokers({"bootstrap_servers": broker.address})
    store = metadata.open_metadata(str(tmp_path / "ledger"))
    topic = broker.create_topic(fresh_name("out"), partitions=2)
    yield World(broker, brokers, store, spark, topic, fresh_name("prefix") + ".p")
    store.close()
    brokers.close()


def test_what_is_prepared_shows_with_its_commit_and_not_before(world: World) -> None:
    """conformance: 52."""
    decided = world.decided(numbered(100))

    assert world.values() == []
    assert len(decided.record.participants) == 2
    assert finish(world.brokers, world.store, decided).lost == []

    assert world.values() == numbered(100)
    assert world.is_complete(decided)


def test_committing_again_and_again_is_committing_once(world: World) -> None:
    decided = world.decided(numbered(10))
    for _ in range(3):
        assert finish(world.brokers, world.store, decided).lost == []

    assert world.values() == numbered(10)


def test_the_token_of_a_participant_commits_with_its_rows(world: World) -> None:
    decided = world.decided(numbered(10))
    groups = [token_group(world.prefix, number) for number in (0, 1)]

    pending = world.brokers.offsets({group: [(world.topic, 0)] for group in groups})
    finish(world.brokers, world.store, decided)
    world.wait_for("CompleteCommit", decided.record.participants)

    assert pending == {group: {(world.topic, 0): Unstable()} for group in groups}
    assert [committed(world.broker, group, world.topic) for group in groups] == [{0: BATCH_ID}, {0: BATCH_ID}]


def test_a_participant_that_timed_out_after_the_decision_is_found_to_be_lost(world: World) -> None:
    """conformance: 56."""
    decided = world.decided(numbered(10), timeout_ms=SHORT_MS)
    world.wait_for("CompleteAbort", decided.record.participants)

    lost = finish(world.brokers, world.store, decided).lost

    assert sorted(one.partition for one in lost) == [0, 1]
    assert not world.is_complete(decided)
    assert world.values() == []


def test_of_a_batch_that_timed_out_in_part_the_other_part_is_committed(world: World) -> None:
    decided = world.decided(numbered(10))
    first, second = decided.record.participants
    world.brokers.fence([first.transactional_id], 60_000)

    assert [one.partition for one in finish(world.brokers, world.store, decided).lost] == [first.partition]

    world.wait_for("CompleteCommit", [second])
    assert len(world.values()) == 5


def test_an_id_that_was_initialised_again_after_its_commit_is_known_as_committed_by_its_token(world: World) -> None:
    decided = world.decided(numbered(10))
    finish(world.brokers, world.store, decided)
    world.brokers.fence([one.transactional_id for one in decided.record.participants], 60_000)

    assert {answer for answer, _ in world.brokers.commit(decided.record.participants)} == {"PRODUCER_FENCED"}
    assert finish(world.brokers, world.store, decided).lost == []
    assert world.values() == numbered(10)


def test_an_id_that_was_initialised_again_before_its_commit_is_known_as_lost_by_its_token(world: World) -> None:
    decided = world.decided(numbered(10))
    world.brokers.fence([one.transactional_id for one in decided.record.participants], 60_000)

    assert {answer for answer, _ in world.brokers.commit(decided.record.participants)} == {"PRODUCER_FENCED"}
    assert len(finish(world.brokers, world.store, decided).lost) == 2
    assert world.values() == []


def test_a_token_of_another_round_is_no_evidence(world: World) -> None:
    earlier = world.decided(numbered(10))
    finish(world.brokers, world.store, earlier)
    ledger.complete(world.store, earlier.prefix, earlier.number)
    request = BatchRequest(world.prefix, "query", "sink", "run", BATCH_ID + 1, "fp2")
    opened = Ledger(world.store, request).begin(lease=None, buckets=None)
    assert opened is not None
    world.nonce = opened.record.nonce
    participants = world.prepared(numbered(10, first=10), lease=opened.record.lease)
    decided = DecidedRound(world.prefix, opened.number, Ledger(world.store, request).decide(opened, participants))
    world.brokers.fence([one.transactional_id for one in participants], 60_000)

    assert len(finish(world.brokers, world.store, decided).lost) == 2
    assert world.values() == numbered(10)


def test_a_ledger_of_before_a_later_batch_proves_nothing_of_what_its_batches_lost(world: World) -> None:
    """A backup that was taken between a decision and its commits: the next batch's token stands over this one's."""
    earlier = world.decided(numbered(10))
    backup = world.store.get(KAFKA_LEDGERS.round_path(earlier.prefix, earlier.number))
    assert backup is not None
    finish(world.brokers, world.store, earlier)
    request = BatchRequest(world.prefix, "query", "sink", "run", BATCH_ID + 1, "fp2")
    opened = Ledger(world.store, request).begin(lease=None, buckets=None)
    assert opened is not None
    world.nonce = opened.record.nonce
    participants = world.prepared(numbered(10, first=10), lease=opened.record.lease, number=opened.number)
    Ledger(world.store, request).decide(opened, participants)
    assert {answer for answer, _ in world.brokers.commit(participants)} == {"NONE"}
    world.wait_for("CompleteCommit", participants)
    world.brokers.fence([one.transactional_id for one in earlier.record.participants], 60_000)
    world.store.transact(lambda view: view.set(KAFKA_LEDGERS.round_path(earlier.prefix, earlier.number), backup.data))

    with pytest.raises(ParticipantLostError, match="can no longer be known"):
        finish(world.brokers, world.store, earlier)
    assert world.values() == numbered(20)


@pytest.mark.sampled("participants that are lost")
@pytest.mark.parametrize("is_committed", [True, False])
def test_an_id_that_the_broker_forgot_is_settled_by_the_token(world: World, is_committed: bool) -> None:
    """No broker forgets an id while a test waits; an id that it never knew gets the same answer."""
    decided = world.decided(numbered(10))
    if is_committed:
        finish(world.brokers, world.store, decided)
    else:
        world.brokers.fence([one.transactional_id for one in decided.record.participants], 60_000)
    unknown = [replace(one, transactional_id=f"{one.transactional_id}9") for one in decided.record.participants]
    forgotten = replace(decided, record=replace(decided.record, participants=tuple(unknown)))

    assert {answer for answer, _ in world.brokers.commit(unknown)} == {"INVALID_PRODUCER_ID_MAPPING"}
    assert len(finish(world.brokers, world.store, forgotten).lost) == (0 if is_committed else 2)


def test_beyond_what_brokers_remember_nothing_is_guessed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers' retention is days; the decision is made older than that."""
    decided = world.decided(numbered(10))
    world.brokers.fence([one.transactional_id for one in decided.record.participants], 60_000)
    monkeypatch.setattr(ledger, "decision_age_ms", lambda *_: 8 * 24 * 3_600_000)

    with pytest.raises(ParticipantLostError, match="can no longer be known") as error:
        finish(world.brokers, world.store, decided)

    assert error.value.fields["round"] == decided.number
    assert not world.is_complete(decided)


def test_a_round_of_unknown_age_is_taken_for_older_than_brokers_remember(world: World) -> None:
    """An older oncelog did not write when a round began."""
    decided = world.decided(numbered(10))
    world.brokers.fence([one.transactional_id for one in decided.record.participants], 60_000)

    with pytest.raises(ParticipantLostError, match="can no longer be known"):
        finish(world.brokers, world.store, replace(decided, record=replace(decided.record, began_ms=None)))
    assert len(finish(world.brokers, world.store, decided).lost) == 2


def test_brokers_tell_how_long_they_remember(world: World) -> None:
    assert world.brokers.broker_setting("offsets.retention.minutes") == 7 * 24 * 60
    assert world.brokers.broker_setting("transactional.id.expiration.ms") == 7 * 24 * 3_600_000
    assert world.brokers.broker_setting("transaction.max.timeout.ms") == 15 * 60_000


def test_a_participant_has_the_transaction_version_of_its_broker(world: World, request: pytest.FixtureRequest) -> None:
    participants = world.prepared(numbered(2))

    expected = 1 if request.node.callspec.params["broker"] == "kafka_tv1" else 2
    assert {one.transaction_version for one in participants} == {expected}
    found = world.brokers.describe(one.transactional_id for one in participants)
    assert {name: (t.producer_id, t.epoch, t.state) for name, t in found.items()} == {
        one.transactional_id: (one.producer_id, one.epoch, "Ongoing") for one in participants
    }
    world.brokers.fence(found, 60_000)


def test_the_next_producer_is_the_one_that_the_coordinator_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 32,766 transactions it is another producer id, and not the next epoch."""
    decided = world.decided(numbered(10))
    found = finish(world.brokers, world.store, decided).handovers
    described = world.brokers.describe([one.transactional_id for one in decided.record.participants])
    expected = {
        one.partition: (one.producer, (described[one.transactional_id].producer_id, one.epoch + 1))
        for one in decided.record.participants
        if one.transaction_version == 2
    }
    another = ProducerIdAndEpoch(2**40, 0)
    monkeypatch.setattr(world.brokers, "commit", lambda some: [Ended("NONE", another)] * len(some))

    assert found == expected
    handovers = finish(world.brokers, world.store, decided).handovers
    assert {one.following for one in handovers.values()} == {another}


def test_an_answer_that_no_commit_gets_is_an_error_and_no_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    decided = world.decided(numbered(10))
    monkeypatch.setattr(world.brokers, "commit", lambda some: [Ended("UNKNOWN_SERVER_ERROR")] * len(some))

    with pytest.raises(BrokerAccessError, match="an answer to a commit that this connector does not know"):
        finish(world.brokers, world.store, decided)
    monkeypatch.undo()

    assert finish(world.brokers, world.store, decided).lost == []
