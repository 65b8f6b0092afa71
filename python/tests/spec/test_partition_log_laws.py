"""Sequences and markers on a real partition: duplicates, gaps, wrap-around, restarts, expiry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from oncelog import limits
from oncelog.coordinator.transactions import own_transaction
from oncelog.errors import FatalError, OutOfOrderSequenceError, ProducerFencedError
from oncelog.log import partition_log
from oncelog.log.partition_log import Append, Appended
from oncelog.runtime import Log
from oncelog.testing import invariants
from oncelog.types import MAX_SEQUENCE, Block, ProducerIdAndEpoch
from oncelog.znodes import paths, payloads
from tests.support.log.logs import (
    LogWorld,
    numbered,
    partition,
    send,
    started,
    state,
    tp,
    uncommitted,
    values,
    write_aborted,
    write_committed,
    write_open,
)

PRODUCER = ProducerIdAndEpoch(77, 0)


@pytest.fixture
def bare(world: LogWorld) -> Iterator[Log]:
    """A log whose blocks are made up: sequences near their end would need two billion records."""
    world.is_checked = False
    yield world.log
    invariants.check(world.log, has_files=False)


def append(
    log: Log, base_sequence: int, count: int = 1, producer: ProducerIdAndEpoch = PRODUCER, owner: str | None = None
) -> Appended:
    block = Block("data/00000001-made-up.avro", 0, 10, 0, count, 0, 0)
    request = Append(partition(log), producer, base_sequence, owner, (block,))
    return log.services.store.transact(lambda view: partition_log.append(view, request))


# Duplicates and gaps --------------------------------------------------------------------------------------------------


def test_an_exact_duplicate_of_the_last_five_gets_its_old_offset_and_appends_nothing(bare: Log) -> None:
    """conformance: 22."""
    for sequence in range(0, 14, 2):
        append(bare, sequence, 2)
    for sequence in range(4, 14, 2):
        again = append(bare, sequence, 2)
        assert (again.base_offset, again.is_duplicate) == (sequence, True)
    for sequence in (0, 2):
        with pytest.raises(OutOfOrderSequenceError):
            append(bare, sequence, 2)

    assert state(bare).log_end == 14


def test_a_gap_is_rejected_and_changes_nothing(bare: Log) -> None:
    """conformance: 23."""
    append(bare, 0, 3)
    for sequence in (1, 2, 4, 5, MAX_SEQUENCE):
        with pytest.raises(OutOfOrderSequenceError, match="expected=3"):
            append(bare, sequence)

    assert append(bare, 3).base_offset == 3


def test_sequences_wrap_around_with_a_batch_that_straddles_the_end(bare: Log) -> None:
    """conformance: 22, 23."""
    append(bare, MAX_SEQUENCE - 9, 5)
    append(bare, MAX_SEQUENCE - 4, 10)
    append(bare, 5)

    assert append(bare, MAX_SEQUENCE - 4, 10).is_duplicate
    with pytest.raises(OutOfOrderSequenceError, match="expected=6"):
        append(bare, 7)
    assert state(bare).log_end == 16


def test_a_batch_of_several_blocks_is_one_unit_of_the_window(bare: Log) -> None:
    """conformance: 22."""
    blocks = tuple(Block("data/00000001-made-up.avro", at, 10, 0, 2, 0, 0) for at in range(3))
    request = Append(partition(bare), PRODUCER, 0, None, blocks)
    store = bare.services.store
    first = store.transact(lambda view: partition_log.append(view, request))
    again = store.transact(lambda view: partition_log.append(view, request))

    assert (first.base_offset, again.base_offset, again.is_duplicate) == (0, 0, True)
    assert state(bare).log_end == 6


def test_a_new_epoch_begins_at_zero_and_fences_the_older_one(bare: Log) -> None:
    """conformance: 24."""
    append(bare, 0, 3)
    newer = replace(PRODUCER, epoch=4)
    for sequence in (1, 3):
        with pytest.raises(OutOfOrderSequenceError):
            append(bare, sequence, producer=newer)
    append(bare, 0, producer=newer)
    for sequence in (0, 3, 1):
        with pytest.raises(ProducerFencedError):
            append(bare, sequence)

    assert state(bare).log_end == 4


def test_a_transaction_without_state_in_the_partition_begins_at_zero(log: Log) -> None:
    """conformance: 24."""
    write_open(started(log), b"elsewhere", number=1)
    producer = log.services.coordinator.describe("copier").producer
    block = Block("data/00000001-made-up.avro", 0, 10, 0, 1, 0, 0)
    request = Append(partition(log), producer, 1, own_transaction("copier", producer), (block,))
    with pytest.raises(OutOfOrderSequenceError, match="expected=0"):
        log.services.coordinator.append("copier", producer, [request])

    assert state(log).log_end == 0


# Restarts -------------------------------------------------------------------------------------------------------------


def test_duplicates_are_known_to_every_process_that_opens_the_log(world: LogWorld) -> None:
    """conformance: 25."""
    world.is_checked = False
    for sequence in range(7):
        append(world.open(), sequence)
    for sequence in range(2, 7):
        assert append(world.open(), sequence).is_duplicate
    with pytest.raises(OutOfOrderSequenceError):
        append(world.open(), 1)

    assert state(world.open()).log_end == 7


def test_an_open_transaction_is_known_to_every_process_that_opens_the_log(world: LogWorld) -> None:
    """conformance: 25."""
    write_open(started(world.log), b"a")
    write_committed(started(world.log, "other"), b"b")

    assert values(world.open()) == []
    started(world.open())
    assert values(world.open()) == [b"b"]


@pytest.mark.parametrize("is_rolled", [False, True])
def test_the_window_outlives_the_index_tail(bare: Log, monkeypatch: pytest.MonkeyPatch, *, is_rolled: bool) -> None:
    """conformance: 25, 29."""
    for sequence in range(6):
        append(bare, sequence)
    if is_rolled:
        files = bare.services.new_index_files()
        monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 3)
        assert partition_log.roll(bare.services.store, files, partition(bare))

    assert append(bare, 5).is_duplicate
    assert append(bare, 6).base_offset == 6


# Markers --------------------------------------------------------------------------------------------------------------


def test_a_repeated_settle_appends_no_second_marker(world: LogWorld) -> None:
    """conformance: 33."""
    write_committed(started(world.log), b"a")
    write_aborted(started(world.log), b"b")
    assert world.settle() > 0
    end = state(world.log).log_end
    assert world.settle() == 0

    assert state(world.log).log_end == end == 4


def test_a_marker_takes_one_offset_in_each_partition_its_transaction_wrote_to_and_none_elsewhere(
    world: LogWorld,
) -> None:
    """conformance: 33."""
    producer = started(world.log)
    write_committed(producer, *numbered("a", 3), number=0)
    world.settle()

    assert (state(world.log, 0).log_end, state(world.log, 1).log_end) == (4, 0)
    with world.log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp()])
        consumer.poll()
        assert consumer.poll() == []
        assert consumer.position(tp()) == 4


def test_a_late_marker_leaves_the_producers_next_transaction_open(world: LogWorld) -> None:
    """conformance: 33."""
    producer = started(world.log)
    write_committed(producer, b"a")
    write_open(producer, b"b")
    world.settle()
    assert values(world.log) == [b"a"]
    send(producer, b"c")
    producer.commit_transaction()
    world.settle()

    assert values(world.log) == [b"a", b"b", b"c"]


# Expiry ---------------------------------------------------------------------------------------------------------------


def kept(log: Log, producer_id: int) -> bool:
    return log.services.store.get(paths.producer(partition(log), producer_id)) is not None


def test_an_idle_producer_is_forgotten_and_may_go_on_where_it_was(world: LogWorld) -> None:
    """conformance: 34."""
    with world.log.producer() as producer:
        send(producer, *numbered("a", 3))
        world.time.pass_ms(limits.PRODUCER_ID_EXPIRATION_MS + 1)
        assert world.log.admin.expire_producers() == 1
        send(producer, b"b")

    assert values(world.log) == [*numbered("a", 3), b"b"]


def test_a_producer_with_an_open_transaction_is_never_forgotten(world: LogWorld) -> None:
    """conformance: 34."""
    producer = started(world.log)
    write_open(producer, b"a")
    producer.prepare_transaction()
    producer_id = world.log.services.coordinator.describe("copier").producer_id
    world.time.pass_ms(10 * limits.PRODUCER_ID_EXPIRATION_MS)
    assert world.log.admin.expire_producers() == 0
    assert kept(world.log, producer_id)
    producer.commit_transaction()
    world.settle()
    world.time.pass_ms(limits.PRODUCER_ID_EXPIRATION_MS + 1)

    assert world.log.admin.expire_producers() == 1
    write_committed(producer, b"b")
    assert values(world.log) == [b"a", b"b"]


def test_a_fenced_producer_stays_fenced_although_the_partition_forgot_it(world: LogWorld) -> None:
    """conformance: 24, 34."""
    zombie = started(world.log)
    write_committed(zombie, b"a")
    write_committed(started(world.log), b"b")
    world.settle()
    world.time.pass_ms(limits.PRODUCER_ID_EXPIRATION_MS + 1)
    world.log.admin.expire_producers()
    zombie.begin_transaction()
    with pytest.raises(FatalError):
        send(zombie, b"late")

    assert uncommitted(world.log) == [b"a", b"b"]


def test_what_a_partition_remembers_of_a_producer_is_bounded(log: Log) -> None:
    """conformance: 22."""
    with log.producer() as producer:
        for value in numbered("a", 12):
            send(producer, value)
    (name,) = log.services.store.children(paths.producers(partition(log)))
    path = f"{paths.producers(partition(log))}/{name}"
    znode = log.services.store.get(path)

    assert znode is not None
    assert len(payloads.decode_producer(path, znode.data).batches) == limits.DEDUPE_WINDOW
