"""A commit takes the last append with it: one multi for both, which may be all there is of a transaction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.clients.producer import Producer
from oncelog.errors import (
    IllegalStateTransitionError,
    OutcomeUnknownError,
    ProducerFencedError,
    StoreUnavailableError,
    UnknownTopicError,
)
from oncelog.log import partition_reads
from oncelog.protocol.txn_state import TxnState
from oncelog.runtime import Log
from oncelog.types import IsolationLevel, Outcome, ProducerIdAndEpoch
from oncelog.znodes import paths, payloads
from tests.support.log.faulty import Crashed, Fault, FaultyStore
from tests.support.log.logs import TOPIC, LogWorld, log_world, partition, started, state, tp, values

ID = "copier"


def commit_whole(producer: Producer, value: bytes, number: int = 0) -> None:
    """A transaction whose only append comes with its commit."""
    with producer.transaction():
        producer.send(TOPIC, value, partition=number)


def begun(producer: Producer, *numbers: int) -> None:
    """Begin a transaction with a record for each of some partitions."""
    producer.begin_transaction()
    for number in numbers:
        producer.send(TOPIC, b"value", partition=number)


def counted(world: LogWorld) -> tuple[CountingStore, Log]:
    store = CountingStore(world.store())
    return store, world.open(store)


class CountingStore(FaultyStore):
    """A store that counts its multis."""

    multis = 0

    def multi(self, *arguments: object, **options: object) -> None:
        self.multis += 1
        super().multi(*arguments, **options)  # type: ignore[arg-type]


def multis_of_commit(world: LogWorld, *numbers: int) -> int:
    store, log = counted(world)
    producer = started(log, ID)
    commit_whole(producer, b"first")
    world.log.admin.settle()
    begun(producer, *numbers)
    before = store.multis
    producer.commit_transaction()
    return store.multis - before


# What it leaves -------------------------------------------------------------------------------------------------------


def test_a_transaction_of_one_append_to_one_partition_is_one_multi_and_leaves_nothing_to_settle(
    world: LogWorld,
) -> None:
    assert multis_of_commit(world, 0) == 1

    log = world.log
    found = state(log)
    assert found.owners == ()
    assert log.services.coordinator.describe(ID).state is TxnState.COMPLETE_COMMIT
    assert log.services.store.children(paths.transaction(ID)) == []
    with log.services.store.snapshot() as reader:
        entries = [
            entry for node in partition_reads.read_index(reader, partition(log), found).tail for entry in node.entries
        ]
    data, marker = entries[-2:]
    assert data.owner == marker.owner
    assert marker.marker is not None
    assert (marker.marker.outcome, marker.marker.first_offset, marker.marker.aborted) == (
        Outcome.COMMIT,
        data.base_offset,
        (),
    )
    assert found.log_end == marker.end_offset == data.end_offset + 1


def test_a_transaction_of_one_append_to_several_partitions_is_one_multi_with_an_owner_that_decides_for_all(
    world: LogWorld,
) -> None:
    assert multis_of_commit(world, 0, 1) == 1

    log = world.log
    owners = [state(log, number).owners for number in (0, 1)]
    assert [len(listed) for listed in owners] == [1, 1]
    assert owners[0][0].owner == owners[1][0].owner
    log.admin.settle()
    assert [state(log, number).owners for number in (0, 1)] == [(), ()]


def test_an_append_too_large_for_a_znode_is_committed_by_an_owner(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its znode lists no entries, so none of them can be the marker."""
    monkeypatch.setattr(limits, "INLINE_BLOCKS_MAX", 0)
    log = world.log
    commit_whole(started(log, ID), b"value")

    assert len(state(log).owners) == 1
    log.admin.settle()
    assert (state(log).owners, state(log).log_end) == ((), 2)
    assert values(log) == [b"value"]


def test_what_was_flushed_before_is_committed_with_the_last_append(world: LogWorld) -> None:
    log = world.log
    producer = started(log)
    producer.begin_transaction()
    producer.send(TOPIC, b"flushed", partition=0)
    producer.flush()
    assert values(log) == []
    producer.send(TOPIC, b"last", partition=0)
    producer.commit_transaction()

    assert values(log) == [b"flushed", b"last"]


def test_offsets_and_the_last_append_become_visible_together(world: LogWorld) -> None:
    log = world.log
    producer = started(log)
    begun(producer, 0)
    producer.send_offsets_to_transaction({tp(): 7}, "group")
    producer.commit_transaction()

    assert values(log) == [b"value"]
    with log.consumer(group_id="group") as consumer:
        assert consumer.committed([tp()])[tp()].offset == 7


def test_it_stays_behind_an_open_transaction_that_began_before_it(world: LogWorld) -> None:
    """conformance: 37."""
    log = world.log
    before = started(log, "before")
    before.begin_transaction()
    before.send(TOPIC, b"before", partition=0)
    before.flush()
    commit_whole(started(log), b"whole")

    assert values(log) == []
    assert values(log, isolation=IsolationLevel.READ_UNCOMMITTED) == [b"before", b"whole"]
    before.commit_transaction()
    assert values(log) == [b"before", b"whole"]


def test_epochs_run_out_of_it_as_of_every_end(world: LogWorld) -> None:
    """conformance: 12."""
    log = world.log
    producer = started(log)
    commit_whole(producer, b"first")
    coordinator = log.services.coordinator
    first = coordinator.describe(ID).producer
    producer._transactions.identity = _with_epoch(log, 32766)
    commit_whole(producer, b"second")
    commit_whole(producer, b"third")

    found = coordinator.describe(ID).producer
    assert found.producer_id != first.producer_id
    assert values(log) == [b"first", b"second", b"third"]


def _with_epoch(log: Log, epoch: int) -> ProducerIdAndEpoch:
    stored = replace(log.services.coordinator.describe(ID), epoch=epoch)
    log.services.store.transact(lambda view: view.set(paths.transaction(ID), payloads.encode_transaction(stored)))
    return stored.producer


# Faults ---------------------------------------------------------------------------------------------------------------

UNKNOWN = [[Fault.LOST_REQUEST] * 5, [*[Fault.LOST_REQUEST] * 4, Fault.LOST_REPLY]]


@pytest.mark.parametrize("numbers", [(0,), (0, 1)])
@pytest.mark.parametrize("faults", UNKNOWN, ids=["lost", "done"])
def test_a_commit_of_unknown_outcome_is_called_again_and_its_records_are_there_once(
    world: LogWorld, faults: list[Fault], numbers: tuple[int, ...]
) -> None:
    """conformance: 15, 22."""
    store = FaultyStore(world.store())
    producer = started(world.open(store), delivery_timeout_ms=0)
    producer.begin_transaction()
    receipts = [producer.send(TOPIC, b"value", partition=number) for number in numbers]
    store.fail_next(*faults)
    with pytest.raises(OutcomeUnknownError):
        producer.commit_transaction()
    with pytest.raises(OutcomeUnknownError):
        receipts[0].result()
    for call in (producer.abort_transaction, lambda: producer.send(TOPIC, b"other")):
        with pytest.raises(IllegalStateTransitionError, match="commit_transaction"):
            call()
    store.fail_next()
    producer.commit_transaction()

    assert values(world.log) == [b"value"] * len(numbers)
    assert [receipt.result().offset for receipt in receipts] == [0] * len(numbers)
    commit_whole(producer, b"next")
    assert values(world.log, 0) == [b"value", b"next"]


def test_it_is_tried_until_the_delivery_timeout(world: LogWorld) -> None:
    store = FaultyStore(world.store())
    producer = started(world.open(store), delivery_timeout_ms=1000)
    begun(producer, 0)
    store.fail_next(*[Fault.LOST_REQUEST] * 6, Fault.UNAVAILABLE, Fault.LOST_REPLY)
    producer.commit_transaction()
    assert values(world.log) == [b"value"]

    begun(producer, 0)
    store.fail_next(Fault.LOST_REPLY, *[Fault.UNAVAILABLE] * 1000)
    if store.reads_are_atomic:
        producer.commit_transaction()  # it reads that it won, and writes nothing more
    else:
        with pytest.raises(OutcomeUnknownError):
            producer.commit_transaction()
        store.fail_next()
        producer.commit_transaction()
    assert values(world.log) == [b"value"] * 2


def test_a_store_that_is_away_for_longer_fails_it_and_the_same_call_again_goes_on(world: LogWorld) -> None:
    store = FaultyStore(world.store())
    producer = started(world.open(store), delivery_timeout_ms=1000)
    begun(producer, 0)
    store.fail_next(*[Fault.UNAVAILABLE] * 1000)
    with pytest.raises(StoreUnavailableError):
        producer.commit_transaction()
    with pytest.raises(IllegalStateTransitionError, match="commit_transaction"):
        producer.abort_transaction()
    store.fail_next()
    producer.commit_transaction()
    commit_whole(producer, b"next")
    assert values(world.log) == [b"value", b"next"]


@pytest.mark.parametrize("numbers", [(0,), (0, 1)])
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_a_crash_in_it_leaves_all_or_nothing(tmp_path: Path, fault: Fault, numbers: tuple[int, ...]) -> None:
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=2)
        store = FaultyStore(world.store())
        producer = started(world.open(store))
        begun(producer, *numbers)
        store.fail_next(fault)
        with pytest.raises(Crashed):
            producer.commit_transaction()

        seen = values(world.log)
        assert seen == ([b"value"] * len(numbers) if fault is Fault.CRASH_AFTER else [])
        commit_whole(started(world.log), b"next")
        assert values(world.log, 0) == [*seen[:1], b"next"]


def test_it_is_refused_once_another_producer_took_over_and_writes_nothing(log: Log) -> None:
    """conformance: 8."""
    zombie = started(log)
    zombie.begin_transaction()
    receipt = zombie.send(TOPIC, b"zombie", partition=0)
    commit_whole(started(log), b"heir")
    with pytest.raises(ProducerFencedError):
        zombie.commit_transaction()
    with pytest.raises(ProducerFencedError):
        receipt.result()

    assert values(log, isolation=IsolationLevel.READ_UNCOMMITTED) == [b"heir"]


def test_a_topic_that_is_gone_fails_it_and_leaves_only_the_abort(log: Log) -> None:
    producer = started(log)
    begun(producer, 0)
    log.admin.delete_topic(TOPIC)
    with pytest.raises(UnknownTopicError):
        producer.commit_transaction()
    producer.abort_transaction()
    log.create_topic("other")
    with producer.transaction():
        producer.send("other", b"value")

    assert values(log, topic="other") == [b"value"]
