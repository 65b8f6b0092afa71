"""However long lists and names are, every step fits into a multi, or is refused where that leaves a way on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from oncelog import limits
from oncelog.clients.flush import Flush
from oncelog.clients.producer import Producer
from oncelog.coordinator import transactional_ids
from oncelog.errors import PartitionPinnedError, StepTooLargeError, UnstableOffsetCommitError, UsageError
from oncelog.log import topics
from oncelog.runtime import Log
from oncelog.types import OffsetAndMetadata, TopicPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.transact import in_parts
from tests.support.log.logs import LogWorld, lso, send, started, state, uncommitted, values
from tests.support.log.rounds import begin, written

LONG = "n" * (limits.MAX_NAME_BYTES - 4)
WIDE = "wide"
WIDTH = 6
MANY = 100
"""Owners under long names fill a partition's znode to a fifth of a multi."""


@pytest.fixture
def world(memory_world: LogWorld) -> LogWorld:
    """All stores refuse the same."""
    return memory_world


def opened(log: Log, name: str) -> Producer:
    producer = started(log, name)
    producer.begin_transaction()
    return producer


def with_long_lists(world: LogWorld) -> list[Producer]:
    """Open transactions in all partitions of a topic, whose znodes do not fit into one multi together."""
    world.log.create_topic(WIDE, partitions=WIDTH)
    producers = [opened(world.log, f"{LONG}{at:03}") for at in range(MANY)]
    for at, producer in enumerate(producers):
        for number in range(WIDTH):
            producer.send(WIDE, b"%d" % at, partition=number)
        producer.flush()
    where = topics.partitions_of(world.log.services.store, WIDE)
    found = world.log.services.store.get_many(map(paths.partition, where))
    assert sum(len(znode.data) for znode in found if znode) > limits.MULTI_MAX_BYTES
    return producers


@pytest.mark.slow
def test_transactions_beside_very_many_others_are_written_committed_and_settled(world: LogWorld) -> None:
    """conformance: 27, 33."""
    producers = with_long_lists(world)
    late = opened(world.log, "late")
    for number in range(WIDTH):
        late.send(WIDE, b"late", partition=number)
    for producer in (late, *producers[1:]):
        producer.commit_transaction()
    producers[0].abort_transaction()
    expected = [*(b"%d" % at for at in range(1, MANY)), b"late"]

    assert [values(world.log, number, topic=WIDE) for number in range(WIDTH)] == [expected] * WIDTH
    while world.settle():
        assert values(world.log, 0, topic=WIDE) == expected
    assert [state(world.log, number, topic=WIDE).owners for number in range(WIDTH)] == [()] * WIDTH


@pytest.mark.slow
def test_a_micro_batch_beside_very_many_transactions_is_decided_as_one(world: LogWorld) -> None:
    """conformance: 52."""
    producers = with_long_lists(world)
    round_ = begin(world.log, 0)
    rows = {number: [b"batch"] for number in range(WIDTH)}
    round_.write(written(world.log, rows, WIDE))
    round_.write(written(world.log, rows, WIDE))  # again, as after a part that was refused
    round_.decide()
    for producer in producers:
        producer.abort_transaction()
    while world.settle():
        pass

    assert [values(world.log, number, topic=WIDE) for number in range(WIDTH)] == [[b"batch"]] * WIDTH


def test_a_round_goes_on_with_the_participants_that_are_missing(world: LogWorld) -> None:
    """As behind a part of a step that was refused, or whose answer was lost."""
    world.log.create_topic(WIDE, partitions=WIDTH)
    round_ = begin(world.log, 0)
    for width in (2, WIDTH, WIDTH):
        round_.write(written(world.log, {number: [b"batch"] for number in range(width)}, WIDE))
    round_.decide()

    assert [values(world.log, number, topic=WIDE) for number in range(WIDTH)] == [[b"batch"]] * WIDTH


@pytest.mark.slow
def test_a_partition_without_room_for_one_more_name_is_pinned_and_free_again_once_settled(world: LogWorld) -> None:
    """conformance: 27."""
    world.log.create_topic(WIDE)
    producers = []
    with pytest.raises(PartitionPinnedError, match="txn abort") as refused:
        for at in range(limits.MAX_UNSETTLED_OWNERS):
            producer = world.log.producer(transactional_id=f"{LONG}{at:03}", delivery_timeout_ms=0)
            producer.init_transactions()
            producer.begin_transaction()
            producers.append(producer)
            _append(world.log, producer)
    assert 50 < len(producers) < 200
    assert len(payloads.encode_partition(state(world.log, topic=WIDE))) <= limits.MAX_PARTITION_BYTES
    assert refused.value.fields["unsettled"] == len(producers) - 1
    for producer in producers[:-1]:
        producer.send(WIDE, b"more", partition=0)  # who is listed already goes on
        producer.commit_transaction()
    world.settle()
    producers[-1].abort_transaction()
    send(opened(world.log, "next"), b"next", topic=WIDE)

    assert lso(world.log, topic=WIDE) < state(world.log, topic=WIDE).log_end


def _append(log: Log, producer: Producer) -> None:
    producer.send(WIDE, b"a", partition=0)
    producer._transactions.is_begun = True
    delivery, identity = producer._delivery, producer._transactions.need_identity()
    Flush(delivery._sender, delivery._accumulator, identity, producer._transactional_id).append()


@pytest.mark.slow
def test_a_transaction_that_names_too_much_for_its_end_can_still_be_aborted(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conformance: 16."""
    monkeypatch.setattr(limits, "MAX_TRANSACTION_BYTES", 2000)
    world.log.create_topic(WIDE, partitions=60)
    producer = opened(world.log, "copier")
    for number in range(60):
        producer.send(WIDE, b"a", partition=number)
    with pytest.raises(StepTooLargeError, match="fewer"):
        producer.commit_transaction()
    producer.abort_transaction()
    with pytest.raises(StepTooLargeError, match="fewer"):
        begin(world.log, 0).write(written(world.log, {number: [b"a"] for number in range(60)}, WIDE))

    assert sum(len(uncommitted(world.log, number, topic=WIDE)) for number in range(60)) > 0
    assert not any(values(world.log, number, topic=WIDE) for number in range(60))


def offsets_of(width: int, offset: int, size_bytes: int = 0) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition(WIDE, number): OffsetAndMetadata(offset, "m" * size_bytes) for number in range(width)}


def fetched(log: Log, width: int) -> set[int]:
    with log.consumer(group_id="g") as consumer:
        return {found.offset for found in consumer.committed(list(offsets_of(width, 0))).values()}


def test_offsets_with_long_metadata_are_committed_in_as_many_steps_as_they_take(world: LogWorld) -> None:
    """conformance: 44."""
    world.log.create_topic(WIDE, partitions=150)
    with world.log.consumer(group_id="g") as consumer:
        consumer.commit(offsets_of(150, 1, limits.MAX_OFFSET_METADATA_BYTES))
    assert fetched(world.log, 150) == {1}
    producer = opened(world.log, "copier")
    producer.send_offsets_to_transaction(offsets_of(150, 2, limits.MAX_OFFSET_METADATA_BYTES), "g")
    producer.commit_transaction()
    assert fetched(world.log, 150) == {2}
    world.log.admin.upkeep()

    assert world.log.services.store.children(paths.transaction("copier")) == []
    world.log.admin.delete_group("g")


def test_pending_offsets_of_decided_transactions_are_folded_before_their_settlers_come(world: LogWorld) -> None:
    """conformance: 44, 46."""
    world.log.create_topic(WIDE, partitions=2)
    blocker = opened(world.log, "blocker")
    send(blocker, b"held", topic=WIDE)
    for at in range(3 * limits.PENDING_OFFSETS_KEPT):
        producer = opened(world.log, f"copier-{at}")
        send(producer, b"a", topic=WIDE)
        producer.send_offsets_to_transaction(offsets_of(1, at), "g")
        if at % 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        assert len(pending(world.log)) <= limits.PENDING_OFFSETS_KEPT

    assert fetched(world.log, 1) == {3 * limits.PENDING_OFFSETS_KEPT - 1}
    blocker.commit_transaction()
    while world.settle():
        pass
    assert pending(world.log) == ()
    assert fetched(world.log, 1) == {3 * limits.PENDING_OFFSETS_KEPT - 1}


def pending(log: Log) -> Sequence[object]:
    (partition, _) = topics.partitions_of(log.services.store, WIDE)
    path = paths.group_partition("g", partition)
    znode = log.services.store.get(path)
    assert znode is not None
    return payloads.decode_group_partition(path, znode.data).pending


def test_offsets_that_too_many_undecided_transactions_hold_wait_for_them(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conformance: 44."""
    monkeypatch.setattr(limits, "MAX_GROUP_PARTITION_BYTES", 1000)
    world.log.create_topic(WIDE, partitions=2)
    producers = [opened(world.log, f"copier-{at}") for at in range(30)]
    with pytest.raises(UnstableOffsetCommitError, match="copier-0"):
        for at, producer in enumerate(producers):
            producer.send_offsets_to_transaction(offsets_of(1, at), "g")
    for producer in producers[:5]:
        producer.commit_transaction()
    producers[-1].send_offsets_to_transaction(offsets_of(1, 99), "g")
    for producer in producers[5:-1]:
        producer.abort_transaction()
    producers[-1].commit_transaction()

    assert fetched(world.log, 1) == {99}


def test_the_widest_topic_of_the_longest_name_is_made_and_unmade(log: Log) -> None:
    name = "t" * 249
    log.create_topic(name, partitions=limits.MAX_PARTITIONS)
    log.admin.delete_topic(name)
    assert name not in log.admin.list_topics()


@pytest.mark.parametrize("name", ["", "\ud800", "n" * (limits.MAX_NAME_BYTES + 1), "ä" * 171])
def test_a_name_that_no_path_can_hold_is_refused_at_every_door(log: Log, name: str) -> None:
    doors: list[Callable[[], object]] = [
        lambda: log.admin.describe_group(name),
        lambda: log.admin.delete_group(name),
        lambda: log.admin.alter_offsets(name, {}),
        lambda: log.admin.describe_transaction(name),
        lambda: log.admin.abort_transaction(name),
        lambda: log.admin.abort_round(name),
        lambda: opened(log, "copier").send_offsets_to_transaction({TopicPartition("t", 0): 1}, name),
    ]
    doors += [lambda: log.producer(transactional_id=name), lambda: log.consumer(group_id=name)]
    for door in doors:
        with pytest.raises(UsageError, match=r"(transactional id|group id|prefix) (is|must be)"):
            door()


def test_the_longest_name_is_taken(log: Log) -> None:
    name = "n" * limits.MAX_NAME_BYTES
    with log.producer(transactional_id=name) as producer:
        producer.init_transactions()


def test_parts_are_halved_as_often_as_they_are_too_large_and_stay_in_order() -> None:
    done: list[int] = []

    def run(some: Sequence[int]) -> int:
        if sum(some) > 10 and len(some) > 1:
            raise StepTooLargeError("too large")
        done.extend(some)
        return len(some)

    assert in_parts([1, 2, 3, 4, 5, 20, 6], run) == [3, 2, 1, 1]
    assert done == [1, 2, 3, 4, 5, 20, 6]
    assert in_parts([], run) == []
    with pytest.raises(StepTooLargeError):
        in_parts([1], lambda some: transactional_ids.ensure_room("/path", b"x" * (limits.MAX_TRANSACTION_BYTES + 1)))
