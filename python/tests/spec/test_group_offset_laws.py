"""Consumer group offsets: with the data of their transaction or not at all, in the order of the group."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.clients.producer import Producer
from oncelog.errors import UnstableOffsetCommitError
from oncelog.runtime import Log
from oncelog.types import OffsetAndMetadata
from tests.support.log.faulty import Crashed, Fault, FaultyStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    log_world,
    send,
    started,
    tp,
    values,
    write_open,
)

GROUP = "g"


def committed(log: Log, *, require_stable: bool = True) -> int | None:
    with log.consumer(group_id=GROUP) as consumer:
        found = consumer.committed([tp()], require_stable=require_stable)
    return found[tp()].offset if found else None


def commit(log: Log, offset: int) -> None:
    with log.consumer(group_id=GROUP) as consumer:
        consumer.commit({tp(): offset})


def stage(producer: Producer, offset: int) -> None:
    producer.send_offsets_to_transaction({tp(): offset}, GROUP)


def opened(log: Log, offset: int, transactional_id: str = "copier") -> Producer:
    """A transaction with data and an offset, left open."""
    producer = started(log, transactional_id)
    write_open(producer, b"data of %d" % offset)
    stage(producer, offset)
    return producer


# Together with the data -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize(
    ("end", "expected"), [(Producer.commit_transaction, 5), (Producer.abort_transaction, 2)], ids=["commit", "abort"]
)
def test_offsets_and_data_of_a_transaction_commit_or_abort_together(
    world: LogWorld, end: Callable[[Producer], None], expected: int, *, is_settled: bool
) -> None:
    """conformance: 44."""
    commit(world.log, 2)
    producer = opened(world.log, 5)
    assert (values(world.log), committed(world.log, require_stable=False)) == ([], 2)
    end(producer)
    if is_settled:
        world.settle()

    assert committed(world.log) == expected
    assert values(world.log) == ([b"data of 5"] if expected == 5 else [])


def test_a_settler_that_dies_between_the_data_and_the_offsets_changes_nothing_that_is_seen(tmp_path: Path) -> None:
    """conformance: 14, 44."""
    for at in range(20):
        with log_world(tmp_path / str(at)) as world:
            world.log.create_topic(TOPIC, partitions=2)
            for offset in (3, 5):
                opened(world.log, offset).commit_transaction()
            opened(world.log, 9, "other").abort_transaction()
            store = FaultyStore(world.store(), Fault.CRASH_AFTER, at)
            with suppress(Crashed):
                world.settle(world.open(store))
            assert committed(world.log) == 5
            assert values(world.log) == [b"data of 3", b"data of 5"]
            if not store.has_struck:
                return
    pytest.fail("settling never ended")


def test_the_last_offset_of_several_stages_in_one_transaction_counts(log: Log) -> None:
    """conformance: 44."""
    producer = opened(log, 5)
    stage(producer, 7)
    send(producer, b"more")
    stage(producer, 6)
    producer.commit_transaction()

    assert committed(log) == 6


# Stable fetches -------------------------------------------------------------------------------------------------------


def test_a_stable_fetch_is_unstable_until_the_decision_and_a_plain_one_answers_the_old_value(log: Log) -> None:
    """conformance: 45."""
    commit(log, 1)
    producer = opened(log, 5)
    for _ in range(2):
        with pytest.raises(UnstableOffsetCommitError, match="copier"):
            committed(log)
        assert committed(log, require_stable=False) == 1
    producer.commit_transaction()

    assert committed(log) == committed(log, require_stable=False) == 5


def test_a_consumer_of_the_group_waits_for_the_decision_before_it_finds_its_position(log: Log) -> None:
    """conformance: 45."""
    started(log, "loader").close()
    producer = opened(log, 1)
    with log.consumer(group_id=GROUP, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp()])
        with pytest.raises(UnstableOffsetCommitError):
            consumer.poll()
        producer.commit_transaction()
        consumer.poll()
        assert consumer.position(tp()) >= 1


# Order ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_plain_commit_after_a_staged_one_wins_over_it(world: LogWorld, *, is_settled: bool) -> None:
    """conformance: 46."""
    producer = opened(world.log, 5)
    commit(world.log, 3)
    producer.commit_transaction()
    if is_settled:
        world.settle()

    assert committed(world.open()) == 3


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("is_settled", [False, True])
def test_of_two_transactions_the_one_that_staged_later_wins_whichever_commits_first(
    world: LogWorld, order: tuple[int, int], *, is_settled: bool
) -> None:
    """conformance: 46."""
    producers = [opened(world.log, 5, "early"), opened(world.log, 4, "late")]
    for which in order:
        producers[which].commit_transaction()
        if is_settled:
            world.settle()

    assert committed(world.open()) == 4


def test_an_abort_brings_back_the_plain_commit_below_it(log: Log) -> None:
    """conformance: 46."""
    commit(log, 1)
    producer = opened(log, 5)
    commit(log, 3)
    producer.abort_transaction()

    assert committed(log) == 3


# Expiry and deletion --------------------------------------------------------------------------------------------------


def test_expiry_and_deletion_leave_a_group_with_undecided_offsets_alone(world: LogWorld) -> None:
    """conformance: 48."""
    commit(world.log, 1)
    producer = opened(world.log, 5)
    producer.prepare_transaction()
    world.time.pass_ms(limits.OFFSETS_RETENTION_MS + 1)
    admin = world.log.admin
    with pytest.raises(UnstableOffsetCommitError):
        admin.delete_group(GROUP)
    assert admin.expire_offsets() == []
    assert committed(world.log, require_stable=False) == 1
    producer.commit_transaction()

    assert committed(world.log) == 5
    assert admin.expire_offsets() == []
    assert committed(world.log) == 5
    world.settle()
    world.time.pass_ms(limits.OFFSETS_RETENTION_MS - 1)
    assert admin.expire_offsets() == []
    admin.delete_group(GROUP)
    assert committed(world.log) is None


def test_old_offsets_expire_and_the_group_can_begin_anew(world: LogWorld) -> None:
    """conformance: 48."""
    commit(world.log, 1)
    world.time.pass_ms(limits.OFFSETS_RETENTION_MS + 1)
    assert world.log.admin.expire_offsets() == [GROUP]
    assert committed(world.log) is None
    opened(world.log, 5).commit_transaction()

    assert committed(world.log) == 5


def test_decided_but_unsettled_offsets_do_not_expire_into_the_old_value(world: LogWorld) -> None:
    """conformance: 48."""
    commit(world.log, 1)
    opened(world.log, 5).commit_transaction()
    world.time.pass_ms(limits.OFFSETS_RETENTION_MS - 1)
    world.log.admin.expire_offsets()

    assert committed(world.log) == 5
    with world.log.consumer(group_id=GROUP) as consumer:
        assert consumer.committed([tp()])[tp()] == OffsetAndMetadata(5)
