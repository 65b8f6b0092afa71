"""The znodes of one partition: what an append writes, in which bounds, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog import limits
from oncelog.coordinator.transactions import own_transaction
from oncelog.errors import (
    InvalidTxnStateError,
    StaleFileError,
    TransactionAbortableError,
    UnknownPartitionError,
    UnknownTopicError,
)
from oncelog.log import partition_log, partition_reads
from oncelog.log.partition_log import Append
from oncelog.protocol.partition import OwnerSpan, PartitionState
from oncelog.runtime import Log
from oncelog.types import Block, ProducerIdAndEpoch, TopicIdPartition
from oncelog.znodes import paths, payloads
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    log_world,
    numbered,
    partition,
    send,
    started,
    state,
    values,
    write_committed,
    write_open,
)

PRODUCER = ProducerIdAndEpoch(7, 0)


def blocks(count: int, *, file: str = "data/00000001-made-up") -> tuple[Block, ...]:
    return tuple(Block(file, 10 * at, 10, at, 2, at, at + 5) for at in range(count))


def append(log: Log, request: Append) -> partition_log.Appended:
    return log.services.store.transact(lambda view: partition_log.append(view, request))


def test_an_append_moves_the_end_and_counts_its_bytes(world: LogWorld) -> None:
    world.is_checked = False
    landed = append(world.log, Append(partition(world.log), PRODUCER, 0, None, blocks(3)))

    assert (landed.base_offset, landed.tail_nodes) == (0, 1)
    after = state(world.log)
    assert (after.log_end, after.size_bytes, after.tail_nodes, after.owners) == (6, 30, 1, ())


def test_unknown_topics_and_partitions_are_named(log: Log) -> None:
    store = log.services.store
    with pytest.raises(UnknownTopicError, match="topic='nowhere'"):
        partition_reads.identify(store, "nowhere", 0)
    for number in (-1, 2):
        with pytest.raises(UnknownPartitionError, match=f"partition={number}, partitions=2"):
            partition_reads.identify(store, TOPIC, number)
    stale = TopicIdPartition(TOPIC, "another-id", 0)
    with pytest.raises(UnknownTopicError, match="created again"):
        append(log, Append(stale, PRODUCER, 0, None, blocks(1)))
    assert not partition_reads.exists(store, stale)


def test_nothing_is_appended_to_a_transaction_that_is_decided_or_was_never_begun(log: Log) -> None:
    """conformance: 31."""
    producer = started(log)
    write_open(producer, b"a")
    (span,) = state(log).owners
    producer.abort_transaction()
    before = state(log)

    for owner in (span.owner, own_transaction("copier", ProducerIdAndEpoch(7, 5))):
        with pytest.raises(InvalidTxnStateError, match="nothing more can be written"):
            append(log, Append(partition(log), PRODUCER, 0, owner, blocks(1)))
    assert state(log) == before


def test_a_file_or_manifest_of_two_collections_ago_is_refused(log: Log) -> None:
    store = log.services.store
    store.transact(lambda view: view.set(paths.GENERATION, paths.encode({"generation": 3})))
    where = partition(log)
    with pytest.raises(StaleFileError, match="data/00000001-made-up"):
        append(log, Append(where, PRODUCER, 0, None, blocks(1)))
    fresh = blocks(1, file="data/00000002-made-up")
    with pytest.raises(StaleFileError, match="manifests/00000001-made-up"):
        append(log, Append(where, PRODUCER, 0, None, fresh, "manifests/00000001-made-up"))
    assert state(log).log_end == 0


def test_a_full_list_of_owners_refuses_new_ones_and_names_the_oldest(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_UNSETTLED_OWNERS", 2)
    producers = [started(log, f"copier-{at}", delivery_timeout_ms=0) for at in range(3)]
    for producer in producers[:2]:
        write_open(producer, b"a")
    with pytest.raises(TransactionAbortableError, match=r"copier-0.*unsettled=2"):
        write_open(producers[2], b"b")
    send(producers[0], b"the listed may go on")
    with log.producer() as plain:
        send(plain, b"and so may plain ones")

    assert state(log).log_end == 4


def test_the_znode_of_a_partition_with_as_many_owners_as_may_be_stays_small() -> None:
    owners = tuple(
        OwnerSpan(
            paths.transaction_owner(f"a-rather-long-transactional-id-{at}", 10**9, 32766), 10**12, 10**12, (PRODUCER,)
        )
        for at in range(limits.MAX_UNSETTLED_OWNERS)
    )

    assert len(payloads.encode_partition(PartitionState(owners=owners))) < limits.MULTI_MAX_BYTES // 2


class Piece:
    """As much of an append as its bounds depend on."""

    def __init__(self, count: int, *, is_in_manifest: bool = False) -> None:
        self.blocks = blocks(count)
        self.manifest_file = "manifests/00000001-a" if is_in_manifest else None


def sizes(*groups: list[Piece]) -> list[list[int]]:
    return [[len(piece.blocks) for piece in step] for step in partition_log.in_steps(groups)]


def test_steps_hold_bounded_partitions_and_blocks_and_never_part_a_group() -> None:
    assert sizes() == []
    assert sizes([Piece(1)], [Piece(2)]) == [[1, 2]]
    assert sizes([Piece(600)], [Piece(400)], [Piece(1)]) == [[600, 400], [1]]
    assert sizes([Piece(600)], [Piece(300), Piece(200)]) == [[600], [300, 200]]
    assert sizes([Piece(5000, is_in_manifest=True)], [Piece(900)], [Piece(100)]) == [[5000, 900, 100]]
    assert [len(step) for step in sizes(*[[Piece(1)]] * 120)] == [50, 50, 20]


def test_the_largest_step_of_appends_fits_into_a_multi(tmp_path: Path) -> None:
    with log_world(tmp_path) as world:
        world.is_checked = False
        world.log.create_topic("wide", partitions=partition_log.PARTITIONS_PER_STEP)
        identity = world.log.services.coordinator.init_producer_id("a-rather-long-transactional-id").producer
        owner = own_transaction("a-rather-long-transactional-id", identity)
        each = partition_log.BLOCKS_PER_STEP // partition_log.PARTITIONS_PER_STEP
        appends = [
            Append(
                partition(world.log, number, "wide"),
                identity,
                0,
                owner,
                blocks(each, file=f"data/00000001-{'f' * 32}.avro"),
            )
            for number in range(partition_log.PARTITIONS_PER_STEP)
        ]

        landed = world.log.services.coordinator.append("a-rather-long-transactional-id", identity, appends)
        assert len(landed) == partition_log.PARTITIONS_PER_STEP


def test_few_blocks_need_no_manifest_and_many_get_one(log: Log) -> None:
    store, files = log.services.store, log.services.new_index_files()
    few, many = blocks(limits.INLINE_BLOCKS_MAX), blocks(limits.INLINE_BLOCKS_MAX + 1)

    written = partition_log.write_manifests(store, files, {partition(log, 0): few, partition(log, 1): many})

    assert list(written) == [partition(log, 1)]
    assert written[partition(log, 1)].startswith("manifests/00000001-")
    assert log.services.files.size(written[partition(log, 1)]) > 0


def test_rolling_an_empty_tail_does_nothing(log: Log) -> None:
    assert not partition_log.roll(log.services.store, log.services.new_index_files(), partition(log))
    assert state(log).roots == ()


def test_a_roll_takes_at_most_two_tails_at_once(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    with log.producer() as producer:
        for value in numbered("a", 9):
            send(producer, value)
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 3)
    files = log.services.new_index_files()
    lengths = []
    while partition_log.roll(log.services.store, files, partition(log)):
        lengths.append(state(log).tail_nodes)

    assert lengths == [3, 0]
    assert values(log) == numbered("a", 9)


def test_an_append_and_a_settle_touch_only_their_partition(world: LogWorld) -> None:
    before = state(world.log, 1)
    write_committed(started(world.log), b"a", number=0)
    world.settle()

    assert state(world.log, 1) == before


def test_an_index_read_from_any_offset_holds_what_comes_from_there_on(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log.producer() as producer:
        for value in numbered("a", 6):
            send(producer, value, value)
        monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 2)
        partition_log.roll(log.services.store, log.services.new_index_files(), partition(log))
    where, store, files = partition(log), log.services.store, log.services.new_index_files()
    whole = partition_reads.read_partition(store, where)
    assert (len(whole.roots), whole.tail_nodes) == (1, 2)

    for start in range(12):
        found = partition_reads.read_index(store, where, whole, start=start)
        assert [entry.base_offset for entry in found.entries(files, start, 12)] == list(range(start // 2 * 2, 12, 2))
        assert len(found.tail) == (1 if start >= 10 else 2)
