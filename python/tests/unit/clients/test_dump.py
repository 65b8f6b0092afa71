"""A dump shows what a partition holds, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog import limits
from oncelog.clients.dump import DumpedBatch, DumpedMarker, DumpedRecord
from oncelog.coordinator.transactions import own_transaction
from oncelog.errors import DataLossError, OffsetOutOfRangeError, UnknownTopicError, UsageError
from oncelog.runtime import Log
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    roll_and_collect,
    send,
    started,
    tp,
    write_aborted,
    write_committed,
    write_open,
)


def told(log: Log, **settings: object) -> list[tuple[int, str]]:
    """(offset, what is there) of every entry."""
    found = []
    for entry in log.admin.dump(TOPIC, partition=0, **settings):  # type: ignore[arg-type]
        match entry:
            case DumpedRecord():
                state = entry.outcome.value if entry.outcome else "plain"
                found.append((entry.record.offset, f"{state} {(entry.record.value or b'').decode()}"))
            case DumpedBatch():
                found.append((entry.base_offset, f"aborted batch of {entry.count}"))
            case DumpedMarker():
                found.append((entry.offset, f"{entry.outcome.value} marker from {entry.first_offset}"))
    return found


@pytest.fixture
def mixed(log: Log) -> Iterator[Log]:
    """Committed, aborted, plain and open data in one partition, the first three settled."""
    write_committed(started(log), b"a", b"b")
    write_aborted(started(log, "loser"), b"c", b"d")
    plain = log.producer()
    plain.send(TOPIC, b"e", partition=0)
    plain.close()
    log.admin.settle()
    write_open(blocker := started(log, "blocker"), b"f")
    yield log
    blocker.abort_transaction()


def test_a_dump_shows_markers_and_aborted_batches_as_such(mixed: Log) -> None:
    settled = [(5, "commit marker from 0"), (6, "abort marker from 2")]

    assert told(mixed) == [(0, "commit a"), (1, "commit b"), (2, "aborted batch of 2"), (4, "plain e"), *settled]
    assert told(mixed, isolation_level="read_uncommitted") == [
        (0, "commit a"), (1, "commit b"), (2, "abort c"), (3, "abort d"), (4, "plain e"), *settled, (7, "open f")
    ]  # fmt: skip


def test_a_dump_agrees_with_the_consumer(mixed: Log) -> None:
    for level in ("read_committed", "read_uncommitted"):
        dumped = list(mixed.admin.dump(TOPIC, isolation_level=level))
        records = [entry.record for entry in dumped if isinstance(entry, DumpedRecord)]
        with mixed.consumer(isolation_level=level, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([TOPIC])
            assert consumer.poll() == records


def test_a_dump_begins_in_the_middle_of_a_batch(mixed: Log) -> None:
    first = next(iter(mixed.admin.dump(TOPIC, partition=0, start=1)))

    assert isinstance(first, DumpedRecord)
    assert (first.record.offset, first.sequence, first.record.value) == (1, 1, b"b")
    assert first.owner == own_transaction("copier", first.producer)


def test_a_dump_refuses_what_it_cannot_show(log: Log) -> None:
    with pytest.raises(UsageError, match="name the partition"):
        log.admin.dump(TOPIC, start=0)
    with pytest.raises(OffsetOutOfRangeError):
        log.admin.dump(TOPIC, partition=0, start=1)
    with pytest.raises(UnknownTopicError):
        log.admin.dump("nothing")


def test_a_dump_of_data_that_was_not_settled_shows_it_as_its_owner_decided(log: Log) -> None:
    write_open(copier := started(log), b"a")
    copier.commit_transaction()
    write_aborted(started(log, "loser"), b"b")

    assert told(log) == [(0, "commit a"), (1, "aborted batch of 1")]


def test_a_dump_goes_on_though_the_files_of_its_index_were_rolled_and_collected(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INLINE_BLOCKS_MAX", 0)
    for at in range(3):
        with world.log.producer() as producer:
            send(producer, b"%d" % at)
    entries = world.log.admin.dump(TOPIC, partition=0)
    first = next(entries)
    roll_and_collect(world)

    assert [one.record.value for one in (first, *entries) if isinstance(one, DumpedRecord)] == [b"0", b"1", b"2"]


def test_a_dump_that_retention_overtakes_says_so(world: LogWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INLINE_BLOCKS_MAX", 0)
    for at in range(3):
        with world.log.producer() as producer:
            send(producer, b"%d" % at)
    entries = world.log.admin.dump(TOPIC, partition=0)
    next(entries)
    world.log.admin.delete_records({tp(): 3})
    roll_and_collect(world)

    with pytest.raises(DataLossError):
        next(entries)
