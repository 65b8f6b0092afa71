"""Retention, deletion and collection: what is unsettled stays, what is read is never silently missing."""

from __future__ import annotations

import pytest

from oncelog import limits
from oncelog.errors import DataLossError, OffsetOutOfRangeError, StaleFileError
from oncelog.log import generations, partition_log, partition_reads, retention
from oncelog.log.partition_log import Append
from oncelog.log.retention import Removed
from oncelog.runtime import Log
from oncelog.types import Block, ProducerIdAndEpoch
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    columns,
    lso,
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

HOUR_MS = 3_600_000


def keep(world: LogWorld, **settings: int) -> None:
    world.log.admin.configure_topic(TOPIC, **settings)


def enforce(world: LogWorld, number: int = 0) -> Removed | None:
    """Retention of one partition, by the store's present time."""
    log = world.log
    store, where = log.services.store, partition(log, number)
    topic = partition_reads.read_topic(store, TOPIC)
    return retention.enforce(store, log.services.new_index_files(), where, topic, world.time.now_ms())


def send_at(log: Log, timestamp_ms: int, *sent: bytes) -> None:
    with log.producer() as producer:
        for value in sent:
            producer.send(TOPIC, value, partition=0, timestamp_ms=timestamp_ms)


# By time and size -----------------------------------------------------------------------------------------------------


def test_without_retention_everything_stays(world: LogWorld) -> None:
    send_at(world.log, 0, b"old")
    world.time.pass_ms(1000 * HOUR_MS)

    assert enforce(world) is None
    assert values(world.log) == [b"old"]


def test_by_time_whole_batches_go_once_their_newest_record_is_too_old(world: LogWorld) -> None:
    keep(world, retention_ms=HOUR_MS)
    now_ms = world.time.now_ms()
    send_at(world.log, now_ms - 2 * HOUR_MS, b"old", b"old")
    with world.log.producer() as producer:
        producer.send(TOPIC, b"mixed", partition=0, timestamp_ms=now_ms - 2 * HOUR_MS)
        producer.send(TOPIC, b"mixed", partition=0, timestamp_ms=now_ms)
    removed = enforce(world)

    assert removed is not None
    assert (removed.log_start, removed.records) == (2, 2)
    assert values(world.log) == [b"mixed", b"mixed"]
    world.time.pass_ms(HOUR_MS + 1)
    enforce(world)
    assert values(world.log) == []


def test_by_size_the_oldest_batches_go_until_the_rest_fits(world: LogWorld) -> None:
    for at in range(5):
        with world.log.producer(codec="null") as producer:
            producer.send_batch(TOPIC, columns(b"%d" % at * 1000), partition=0)
    keep(world, retention_bytes=state(world.log).size_bytes * 2 // 5)
    removed = enforce(world)

    assert removed is not None
    assert removed.log_start == 3
    assert state(world.log).size_bytes <= removed.size_bytes
    assert [value[:1] for value in values(world.log) if value] == [b"3", b"4"]
    assert enforce(world) is None


def test_the_log_start_moves_over_index_files_and_their_refs_go(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conformance: 28, 29."""
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 4)
    monkeypatch.setattr(limits, "INDEX_FANOUT", 2)
    producer = started(world.log)
    for at in range(30):
        write_committed(producer, b"%d" % at)
        world.time.pass_ms(limits.SETTLE_LAG_MS)
    world.settle()
    for before in (3, 17, 29, 41, state(world.log).log_end):
        world.log.admin.delete_records({tp(): before})
        kept = state(world.log)
        assert kept.log_start == before
        assert all(ref.end > before for ref in kept.roots)
        assert values(world.log) == uncommitted(world.log)
    write_committed(producer, b"more")

    assert values(world.log) == [b"more"]


# Against what is unsettled --------------------------------------------------------------------------------------------


def test_nothing_of_an_unsettled_transaction_is_removed_nor_what_lies_behind_it(world: LogWorld) -> None:
    """conformance: 28."""
    keep(world, retention_ms=HOUR_MS, retention_bytes=0)
    write_committed(started(world.log), b"before")
    world.settle()
    prepared = started(world.log, "prepared")
    write_open(prepared, b"prepared")
    prepared.prepare_transaction()
    write_committed(started(world.log), b"behind")
    world.time.pass_ms(1000 * HOUR_MS)
    enforce(world)

    assert state(world.log).log_start == 1  # the marker goes with what lies behind it
    assert world.log.admin.delete_records({tp(): state(world.log).log_end})[tp()] == 2
    assert uncommitted(world.log) == [b"prepared", b"behind"]
    assert lso(world.log) == 2
    prepared.commit_transaction()
    assert values(world.log) == [b"prepared", b"behind"]
    world.settle()
    enforce(world)
    assert values(world.log) == []


def test_a_transaction_that_begins_while_retention_looks_keeps_its_data(world: LogWorld) -> None:
    """conformance: 28."""
    keep(world, retention_bytes=0)
    write_committed(started(world.log), b"old")
    world.settle()
    write_open(started(world.log, "open"), b"open")
    enforce(world)

    assert uncommitted(world.log) == [b"open"]
    assert state(world.log).log_start <= lso(world.log)


def test_the_lso_never_lies_below_the_log_start(world: LogWorld) -> None:
    """conformance: 28."""
    producer = started(world.log)
    write_aborted(producer, *numbered("aborted", 3))
    world.settle()
    for before in range(state(world.log).log_end + 1):
        world.log.admin.delete_records({tp(): before})
        assert state(world.log).log_start <= lso(world.log) <= state(world.log).log_end
    with pytest.raises(OffsetOutOfRangeError, match="offset=99"):
        world.log.admin.delete_records({tp(): 99})


def test_aborted_data_whose_beginning_was_removed_stays_invisible(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conformance: 28, 38."""
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 3)
    producer = started(world.log)
    producer.begin_transaction()
    for value in numbered("aborted", 6):
        send(producer, value)
    producer.abort_transaction()
    world.settle()
    write_committed(producer, b"a")
    world.log.admin.delete_records({tp(): 4})

    assert state(world.log).log_start == 4
    assert values(world.log) == [b"a"]


def test_a_running_reader_is_told_when_retention_overtook_it(world: LogWorld) -> None:
    """conformance: 28, 40."""
    keep(world, retention_bytes=0)
    producer = started(world.log)
    write_committed(producer, *numbered("a", 3))
    write_committed(producer, *numbered("b", 3))
    with world.log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp()])
        consumer.seek(tp(), 1)
        world.settle()
        enforce(world)
        with pytest.raises(DataLossError, match="wanted_offset=1"):
            consumer.poll()


# Deleted topics -------------------------------------------------------------------------------------------------------


def test_a_topic_created_again_shares_nothing_with_the_deleted_one(world: LogWorld) -> None:
    """conformance: 21, 28."""
    producer = started(world.log)
    write_committed(producer, b"old")
    write_open(started(world.log, "open"), b"old open")
    world.log.admin.delete_topic(TOPIC)
    world.log.create_topic(TOPIC, partitions=1)

    assert values(world.log) == []
    with world.log.producer() as plain:
        send(plain, b"new")
    assert values(world.log) == [b"new"]
    started(world.log, "open")


# Files ----------------------------------------------------------------------------------------------------------------


def collect_until_idle(world: LogWorld) -> list[str]:
    """Collections an hour apart; returns the files that went."""
    removed: list[str] = []
    for _ in range(6):
        world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
        removed += world.log.admin.collect().removed
    return removed


def files(world: LogWorld) -> set[str]:
    return {name for folder in ("data", "index", "manifests") for name, _, _ in world.files.names(folder)}


def test_collection_removes_orphans_and_removed_data_and_nothing_an_index_names(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conformance: 28, 54."""
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 4)
    monkeypatch.setattr(limits, "INDEX_FANOUT", 2)
    producer = started(world.log)
    for at in range(12):
        write_committed(producer, b"%d" % at)
    prepared = started(world.log, "prepared")
    write_open(prepared, b"prepared")
    prepared.prepare_transaction()
    orphan = generations.new_name(generations.DATA, generations.current(world.log.services.store))
    output = world.files.create(orphan)
    output.write(b"crashed")
    output.finish()
    world.settle()
    world.log.admin.delete_records({tp(): 10})
    before = files(world)
    removed = collect_until_idle(world)

    assert orphan in removed
    assert len(removed) > 5
    assert files(world) == before - set(removed)
    prepared.commit_transaction()
    assert values(world.log) == [b"10", b"11", b"prepared"]


def test_the_files_of_a_deleted_topic_go(world: LogWorld) -> None:
    """conformance: 28."""
    write_committed(started(world.log), b"a")
    world.log.admin.delete_topic(TOPIC)
    world.log.admin.settle()
    collect_until_idle(world)

    assert files(world) == set()


def test_a_young_file_goes_only_three_collections_after_it_was_named_last(world: LogWorld) -> None:
    """conformance: 28."""
    write_committed(started(world.log), b"a")
    world.settle()
    world.log.admin.delete_records({tp(): 1})
    ages = []
    for _ in range(5):
        world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
        ages.append(len(world.log.admin.collect().removed))
        assert world.log.admin.collect().removed == ()

    assert ages == [0, 0, 1, 0, 0]


def test_a_writer_that_slept_over_two_collections_is_refused_and_not_left_with_a_missing_file(
    world: LogWorld,
) -> None:
    """conformance: 54."""
    store = world.log.services.store
    old = generations.new_name(generations.DATA, generations.current(store))
    for _ in range(2):
        world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
        world.log.admin.collect()
    late = Append(partition(world.log), ProducerIdAndEpoch(5, 0), 0, None, (Block(old, 0, 10, 0, 1, 0, 0),))
    with pytest.raises(StaleFileError, match="older than the previous collection generation"):
        store.transact(lambda view: partition_log.append(view, late))

    assert state(world.log).log_end == 0
