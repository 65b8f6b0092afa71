"""Transactional ids that their broker really expires: between batches, and on each side of a decision.

Brokers keep an id for a week behind its last transaction; those of these tests, of both transaction versions, for
seconds. So they forget, too, what they knew of producers in the partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

import pytest

from driven_batches import FIRST, REWRITE, SECOND, World, time_out_behind_the_decision
from oncelog.crash_points import CrashPoint
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.errors import ParticipantLostError
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.protocol.kafka_rounds import KafkaRound
from oncelog_kafka.sinks.finishing import DecidedRound, finish_despite_loss
from tests.support.harness.waiting import until
from tests.support.servers.kafka import (
    STEADY,
    TV1_VERSION,
    TV2_VERSION,
    KafkaBroker,
    Transaction,
    fresh_name,
    running_broker,
)

pytestmark = pytest.mark.walk("ids that expire")  # waits for real expirations

FORGETFUL = {
    "transactional.id.expiration.ms": "3000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "producer.id.expiration.ms": "3000",
    "producer.id.expiration.check.interval.ms": "500",
}


@pytest.fixture(scope="module", params=[TV2_VERSION, TV1_VERSION])
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """In place of the broker that other tests share."""
    settings = {**STEADY, **FORGETFUL}
    with running_broker(tmp_path_factory.mktemp("forgetful"), version=request.param, settings=settings) as broker:
        yield broker


def newest_round(world: World) -> DecidedRound:
    number, record = max(KAFKA_LEDGERS.read_rounds(world.store, world.prefix).items())
    return DecidedRound(world.prefix, number, record)


def ids(record: KafkaRound) -> list[str]:
    return [participant.transactional_id for participant in record.participants]


def wait_until_forgotten(world: World, transactional_ids: Collection[str]) -> None:
    known = partial(world.brokers.describe, transactional_ids)
    until(lambda: not known(), tell=known)


def outlast_the_expiration(world: World) -> None:
    """Come back when the broker has expired an id that was used later than all there are."""
    other = Transaction(world.broker, fresh_name("other")).send(world.broker.create_topic(fresh_name("other")), "x")
    other.commit()
    wait_until_forgotten(world, [other.transactional_id])


def test_ids_that_expire_between_batches_of_a_lease_are_begun_anew(world: World) -> None:
    """A producer that was kept is refused, and its task tried again with a new one."""
    target = world.target()
    world.run(0, FIRST, target=target)
    before = newest_round(world).record
    wait_until_forgotten(world, ids(before))

    world.run(1, SECOND, target=target)

    after = newest_round(world).record
    assert {one.producer_id for one in after.participants}.isdisjoint(one.producer_id for one in before.participants)
    assert world.values() == [*FIRST, *SECOND]


def test_ids_that_expire_between_runs_leave_nothing_to_fence(world: World) -> None:
    world.run(0, FIRST, run="run-1")
    wait_until_forgotten(world, ids(newest_round(world).record))

    assert world.run(0, FIRST, run="run-2").is_replay
    world.run(1, SECOND, run="run-2")

    assert world.values() == [*FIRST, *SECOND]


@pytest.mark.parametrize("point", [KafkaCrashPoint.WRITTEN, CrashPoint.ROUND_DECIDED])
def test_the_id_of_an_open_transaction_does_not_expire(world: World, point: str) -> None:
    with at(point, partial(outlast_the_expiration, world)):
        world.run(0, FIRST)
    world.run(1, SECOND)

    assert world.values() == [*FIRST, *SECOND]


def test_a_commit_whose_id_expired_before_it_was_recorded_is_known_by_its_token(world: World) -> None:
    """The driver stops behind the first of two commits; the other transaction is still open."""
    with at(KafkaCrashPoint.ENDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)
    decided = newest_round(world)
    (still_open,) = world.open_ids()
    (ended,) = [one for one in decided.record.participants if one.transactional_id != still_open]
    wait_until_forgotten(world, [ended.transactional_id])
    assert world.brokers.commit([ended])[0].answer == "INVALID_PRODUCER_ID_MAPPING"
    assert world.open_ids() == [still_open]

    world.run(1, SECOND, run="run-2")

    assert world.values() == [*FIRST, *SECOND]


@pytest.mark.parametrize("may_rewrite", [False, True])
def test_of_ids_that_timed_out_behind_the_decision_and_expired_nothing_is_guessed(
    world: World, may_rewrite: bool
) -> None:
    """A token may have expired with its id, so its absence proves no abort: a person has to look."""
    more = REWRITE if may_rewrite else {}
    time_out_behind_the_decision(world, **more)
    decided = newest_round(world)
    wait_until_forgotten(world, ids(decided.record))
    answers = {answer for answer, _ in world.brokers.commit(decided.record.participants)}
    assert answers == {"INVALID_PRODUCER_ID_MAPPING"}

    for batch_id in (0, 1):
        with pytest.raises(ParticipantLostError, match="can no longer be known") as error:
            world.run(batch_id, FIRST, run=f"run-2.{batch_id}", **more)
        assert error.value.fields["transactional_id"] in ids(decided.record)
    assert world.values() == []

    assert len(finish_despite_loss(world.brokers, world.store, decided).unknown) == len(decided.record.participants)
    world.run(1, SECOND, run="run-3", **more)
    assert world.values() == SECOND
