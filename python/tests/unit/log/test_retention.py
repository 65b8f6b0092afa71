"""Where retention stops, what it counts, and what it does when somebody else is faster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.errors import OffsetOutOfRangeError
from oncelog.log import partition_reads, retention
from oncelog.log.retention import Removed
from oncelog.protocol.partition import OwnerSpan, PartitionState, TopicState
from oncelog.types import ProducerIdAndEpoch
from tests.support.log.faulty import InterruptedStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    log_world,
    numbered,
    partition,
    send,
    started,
    state,
    tp,
    uncommitted,
    values,
    write_committed,
    write_open,
)

EVERYTHING = TopicState("", 2, retention_bytes=0)


def enforce(world: LogWorld, topic: TopicState = EVERYTHING, *, dry_run: bool = False) -> Removed | None:
    services = world.log.services
    files = services.new_index_files()
    return retention.enforce(services.store, files, partition(world.log), topic, world.time.now_ms(), dry_run=dry_run)


def test_nothing_is_removable_from_the_first_unsettled_offset_on() -> None:
    spans = tuple(OwnerSpan(f"/transactions/{at}", at, at + 5, (ProducerIdAndEpoch(at, 0),)) for at in (9, 4, 7))

    assert retention.removable_end(PartitionState(log_end=20)) == 20
    assert retention.removable_end(PartitionState(log_end=20, owners=spans)) == 4


def test_what_is_removed_is_told_in_records_and_bytes(world: LogWorld) -> None:
    with world.log.producer() as producer:
        send(producer, *numbered("a", 3))
        send(producer, *numbered("b", 2))
    size_bytes = state(world.log).size_bytes
    removed = enforce(world)

    assert removed == Removed(partition(world.log), 5, 5, size_bytes)
    assert (state(world.log).size_bytes, state(world.log).log_start) == (0, 5)
    assert enforce(world) is None


def test_a_dry_run_tells_the_same_and_changes_nothing(world: LogWorld) -> None:
    with world.log.producer() as producer:
        send(producer, *numbered("a", 3))
    told = enforce(world, dry_run=True)

    assert state(world.log).log_start == 0
    assert enforce(world) == told


def test_size_is_kept_exactly_at_its_bound(world: LogWorld) -> None:
    with world.log.producer(codec="null") as producer:
        for _ in range(4):
            send(producer, b"same size")
    one = state(world.log).size_bytes // 4

    assert enforce(world, TopicState("", 2, retention_bytes=4 * one)) is None
    assert enforce(world, TopicState("", 2, retention_bytes=3 * one + 1)) is None
    removed = enforce(world, TopicState("", 2, retention_bytes=3 * one))
    assert removed is not None
    assert removed.records == 1


def test_time_is_kept_exactly_at_its_bound(world: LogWorld) -> None:
    hour_ms = 3_600_000
    with world.log.producer() as producer:
        producer.send(TOPIC, b"a", partition=0, timestamp_ms=world.time.now_ms() - hour_ms)

    assert enforce(world, TopicState("", 2, retention_ms=hour_ms)) is None
    world.time.pass_ms(1)
    assert enforce(world, TopicState("", 2, retention_ms=hour_ms)) is not None


def test_markers_stay_until_the_data_behind_them_goes(world: LogWorld) -> None:
    for _ in range(3):
        write_committed(started(world.log), b"a")
        world.settle()
    write_open(started(world.log, "open"), b"open")
    enforce(world)

    assert state(world.log).log_start == 5
    assert uncommitted(world.log) == [b"open"]
    assert enforce(world) is None


def test_a_reader_that_took_every_record_is_not_behind_the_log_start(world: LogWorld) -> None:
    """It stood before the marker, which was written after it had read, and retention took both."""
    write_committed(started(world.log), b"read")
    with world.log.consumer(auto_offset_reset="none") as reader:
        reader.assign([tp()])
        reader.seek(tp(), 0)
        assert [record.value for record in reader.poll()] == [b"read"]
        assert reader.position(tp()) == 1

        world.settle()
        write_committed(started(world.log), b"new")
        enforce(world, TopicState("", 2, retention_bytes=state(world.log).size_bytes // 2))

        assert state(world.log).log_start == 1
        assert [record.value for record in reader.poll()] == [b"new"]


def interrupted(world: LogWorld, rival: Callable[[], object]) -> Removed | None:
    """A retention run of everything, with somebody else at work between its walk and its step."""
    store = InterruptedStore(world.store(), rival)
    store.interrupt()
    files = world.log.services.new_index_files()
    return retention.enforce(store, files, partition(world.log), EVERYTHING, world.time.now_ms())


def test_whoever_finds_the_log_start_moved_leaves_it_to_the_next_run(world: LogWorld) -> None:
    """conformance: 28."""
    with world.log.producer() as producer:
        for value in (b"a", b"b", b"c"):
            send(producer, value)
        size_bytes = state(world.log).size_bytes
        assert interrupted(world, lambda: world.log.admin.delete_records({tp(): 1})) is None

    assert values(world.log) == [b"b", b"c"]
    assert 0 < state(world.log).size_bytes < size_bytes
    assert enforce(world) is not None
    assert (values(world.log), state(world.log).size_bytes) == ([], 0)


@pytest.mark.parametrize("before_the_roll", [0, 1, 2])
def test_a_tail_that_is_rolled_meanwhile_holds_up_no_retention(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch, before_the_roll: int
) -> None:
    """A busy writer rolls it faster than a long index is walked over."""
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 3)
    with world.log.producer() as producer:
        for number in range(1 + before_the_roll):
            send(producer, b"a-%d" % number)

        def write_on() -> None:
            for value in numbered("b", 3):
                send(producer, value)

        assert interrupted(world, write_on) is not None

    assert values(world.log) == numbered("b", 3)
    check_partition_counts(world)
    assert enforce(world) is not None
    assert (values(world.log), state(world.log).size_bytes, state(world.log).tail_nodes) == ([], 0, 0)


def check_partition_counts(world: LogWorld) -> None:
    """Bytes and tail nodes of the partition are those that its index has."""
    services = world.log.services
    kept, index = partition_reads.read_with_index(services.store, partition(world.log))
    entries = index.entries(services.new_index_files(), kept.log_start, kept.log_end)
    assert kept.tail_nodes == len(index.tail)
    assert kept.size_bytes == sum(entry.block.length for entry in entries if entry.block)


@pytest.mark.slow
def test_a_tail_that_could_not_be_rolled_for_long_is_cut_in_several_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk, which is when space is wanted."""
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 10_000)
    count = limits.MULTI_MAX_OPS + 100
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC)
        with world.log.producer() as producer:
            for value in numbered("a", count):
                send(producer, value)
        removed = enforce(world, replace(EVERYTHING, retention_bytes=state(world.log).size_bytes // count))

        assert removed is not None
        assert (removed.log_start, removed.records) == (count - 1, count - 1)
        assert state(world.log).tail_nodes == 1
        assert values(world.log) == [b"a-%d" % (count - 1)]


@pytest.mark.parametrize("before", range(1, 10))
def test_several_steps_remove_what_one_does(world: LogWorld, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    with world.log.producer() as producer:
        for count in (1, 2):
            send(producer, *numbered("a", count))
        for _ in range(2):
            write_committed(started(world.log), b"b")
            world.settle()
        send(producer, *numbered("c", 2))
    monkeypatch.setattr(retention, "NODES_PER_STEP", 1)
    starts = world.log.admin.delete_records({tp(): before})

    assert starts == {tp(): {2: 1, 8: 7}.get(before, before)}
    left = [number for number in (0, 1, 2, 3, 5, 7, 8) if number >= starts[tp()]]
    assert len(uncommitted(world.log)) == len(left)


def test_an_append_beside_a_retention_run_is_kept(world: LogWorld) -> None:
    """conformance: 28."""
    with world.log.producer() as producer:
        send(producer, b"a")
        store = InterruptedStore(world.store(), lambda: send(producer, b"b"))
        store.interrupt()
        files = world.log.services.new_index_files()
        assert retention.enforce(store, files, partition(world.log), EVERYTHING, world.time.now_ms()) is not None

    assert values(world.log) == [b"b"]


@pytest.mark.parametrize(("before", "start"), [(0, 0), (1, 0), (2, 2), (3, 2), (5, 5)])
def test_deleting_records_moves_the_start_to_the_batch_that_holds_the_offset(
    world: LogWorld, before: int, start: int
) -> None:
    with world.log.producer() as producer:
        send(producer, *numbered("a", 2))
        send(producer, *numbered("b", 3))

    assert world.log.admin.delete_records({tp(): before}) == {tp(): start}


@pytest.mark.parametrize("before", [-1, 3])
def test_deleting_beyond_the_log_is_refused(world: LogWorld, before: int) -> None:
    services = world.log.services
    with world.log.producer() as producer:
        send(producer, *numbered("a", 2))
    with pytest.raises(OffsetOutOfRangeError, match=f"offset={before}, log_start=0, log_end=2"):
        retention.delete_records(services.store, services.new_index_files(), partition(world.log), before)


def test_the_store_says_what_is_left_and_readers_start_there(world: LogWorld) -> None:
    with world.log.producer() as producer:
        for value in numbered("a", 4):
            send(producer, value)
    world.log.admin.delete_records({tp(): 2})
    seen = partition_reads.read_partition(world.log.services.store, partition(world.log))

    assert (seen.log_start, seen.tail_nodes) == (2, 2)
    with world.log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp()])
        assert consumer.position(tp()) == 2
