"""Plans over partitions and the rows they show: bounds, limits, neighbours, and what moves meanwhile."""

from __future__ import annotations

import pytest

from oncelog import limits
from oncelog.errors import CorruptDataError, PlanOvertakenError, UnknownTopicError
from oncelog.log import partition_log, snapshot
from oncelog.log.snapshot import LogSnapshot, VisibleRange
from oncelog.runtime import Log
from oncelog.types import IsolationLevel
from oncelog.znodes import paths
from tests.support.log.counted import CountedStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    numbered,
    partition,
    partitions,
    roll_and_collect,
    send,
    started,
    state,
    tp,
    write_aborted,
    write_committed,
    write_open,
)

COMMITTED = IsolationLevel.READ_COMMITTED


def visible(
    log: Log, start: int, end: int, *, max_records: int | None = None, seen: LogSnapshot | None = None
) -> VisibleRange:
    services = log.services
    return snapshot.visible_range(
        services.store,
        services.new_index_files(),
        partition(log),
        start,
        end,
        COMMITTED,
        max_records=max_records,
        seen=seen,
    )


def offsets(found: VisibleRange) -> list[int]:
    return [piece.base_offset + row for piece in found.slices for row in range(piece.first_row, piece.end_row)]


def test_a_range_is_cut_within_blocks_at_both_ends(log: Log) -> None:
    producer = started(log)
    write_committed(producer, *numbered("a", 4))
    write_committed(producer, *numbered("b", 4))

    assert offsets(visible(log, 2, 6)) == [2, 3, 4, 5]
    assert visible(log, 2, 6).count == 4
    assert visible(log, 3, 3) == VisibleRange((), 3)


@pytest.mark.parametrize("max_records", [0, 1, 3, 4, 5, 100])
def test_a_limited_range_ends_behind_its_last_row_and_counts_only_what_is_shown(log: Log, max_records: int) -> None:
    """conformance: 40."""
    producer = started(log)
    write_committed(producer, *numbered("a", 2))
    write_aborted(producer, *numbered("aborted", 5))
    write_committed(producer, *numbered("b", 3))
    found = visible(log, 0, 10, max_records=max_records)
    shown = [0, 1, 7, 8, 9]

    assert offsets(found) == shown[:max_records]
    assert offsets(visible(log, found.end, 10)) == shown[max_records:]
    assert found.end == (10 if max_records >= 5 else shown[max_records])


@pytest.mark.parametrize("start", [1, 2, 7], ids=["within a block", "at an append", "at the last append"])
@pytest.mark.parametrize("meanwhile", ["nothing", "an append", "settling", "settling and a roll", "a removal"])
def test_the_rows_of_a_plan_are_its_own_whatever_came_since(world: LogWorld, meanwhile: str, start: int) -> None:
    log = world.log
    producer = started(log)
    write_committed(producer, *numbered("a", 2))
    write_aborted(producer, *numbered("aborted", 5))
    write_committed(producer, *numbered("b", 3))
    seen = snapshot.take(log.services.store, [partition(log)], positions={partition(log): start})
    end = seen.end(partition(log), COMMITTED)
    match meanwhile:
        case "an append":
            write_committed(producer, b"c")
        case "settling":
            world.settle()
        case "settling and a roll":
            world.settle()
            assert partition_log.roll(log.services.store, log.services.new_index_files(), partition(log))
        case "a removal":
            log.admin.delete_records({tp(): 1})
            roll_and_collect(world)

    assert offsets(visible(log, start, end, seen=seen)) == [offset for offset in (1, 7, 8, 9) if offset >= start]


@pytest.mark.parametrize("requests", [1, 2], ids=["committed with its append", "committed afterwards"])
def test_a_reader_at_the_end_gets_what_one_append_brought_with_the_plan(world: LogWorld, requests: int) -> None:
    producer, where = started(world.log), partition(world.log)
    write_committed(producer, *numbered("a", 2))
    world.settle()
    position = state(world.log).log_end
    if requests == 1:
        with producer.transaction():
            producer.send(TOPIC, b"b", partition=0)
    else:
        write_committed(producer, b"b")
    store, files, news = CountedStore(world.store()), world.log.services.new_index_files(), []

    def read() -> None:
        seen = snapshot.take(store, [where], positions={where: position})
        end = seen.end(where, COMMITTED)
        news.append(snapshot.visible_range(store, files, where, position, end, COMMITTED, seen=seen))

    assert store.requests_of(read) == requests, "the plan, and the owner that the partition lists"
    assert [offsets(found) for found in news] == [[position]]


def test_an_append_that_a_marker_behind_it_aborts_is_not_shown(world: LogWorld) -> None:
    log, where = world.log, partition(world.log)
    aborted = started(log, "aborted")
    write_open(aborted, b"aborted")
    write_open(started(log, "open"), b"open")
    aborted.abort_transaction()
    world.settle()
    seen = snapshot.take(log.services.store, [where], positions={where: 0})

    assert (seen.news[where].end_offset, seen.end(where, COMMITTED)) == (1, 1)
    assert not visible(log, 0, 1, seen=seen).count


def test_read_together_partitions_are_planned_together(log: Log) -> None:
    """conformance: 27."""
    foreign, producer = started(log, "foreign"), started(log)
    write_open(foreign, b"foreign", number=1)
    producer.begin_transaction()
    send(producer, b"a", number=0)
    send(producer, b"a", number=1)
    producer.commit_transaction()
    first, second = partitions(log)
    together = snapshot.take(log.services.store, [first, second])
    alone = snapshot.take(log.services.store, [first])

    assert (together.end(first, COMMITTED), together.end(second, COMMITTED)) == (0, 0)
    assert alone.end(first, COMMITTED) == 1
    assert together.end(second, IsolationLevel.READ_UNCOMMITTED) == 2
    assert set(together.plan.blockers) == {first, second}


def test_neighbours_are_reached_through_the_owners_they_share(world: LogWorld) -> None:
    log = world.log
    log.create_topic("wide", partitions=4)
    for number in (0, 1):
        producer = started(log, f"copier-{number}")
        producer.begin_transaction()
        send(producer, b"a", number=number, topic="wide")
        send(producer, b"a", number=number + 1, topic="wide")
        producer.commit_transaction()
    wide = partitions(log, "wide")
    seen = snapshot.take(log.services.store, [wide[0]], with_neighbours=True)

    assert set(seen.partitions) == set(wide[:3])
    assert len(seen.owners) == 2


def test_a_plan_with_an_older_snapshot_than_a_settler_used_is_overtaken(world: LogWorld) -> None:
    log = world.log
    store = log.services.store
    write_committed(started(log), b"a")
    old = snapshot.commits_zxid(store)
    write_committed(started(log), b"b")
    world.settle()

    with pytest.raises(PlanOvertakenError):
        snapshot.take(store, [partition(log)], snapshot_zxid=old)
    assert snapshot.take(store, [partition(log)]).end(partition(log), COMMITTED) == state(log).log_end


def test_an_owner_that_vanishes_is_corruption_and_never_a_guess(world: LogWorld) -> None:
    world.is_checked = False
    log = world.log
    store = log.services.store
    write_open(started(log), b"a")
    path = f"{paths.transaction('copier')}/{store.children(paths.transaction('copier'))[0]}"
    store.transact(lambda view: view.delete(path))
    with pytest.raises(PlanOvertakenError):
        snapshot.take(store, [partition(log)])
    with pytest.raises(CorruptDataError, match="does not exist"):
        visible(log, 0, 1)


def test_a_deleted_topic_cannot_be_planned_but_is_left_out_as_a_neighbour(log: Log) -> None:
    log.create_topic("other")
    producer = started(log)
    producer.begin_transaction()
    send(producer, b"a")
    send(producer, b"a", topic="other")
    producer.commit_transaction()
    where = partition(log, 0, "other")
    log.admin.delete_topic("other")
    with pytest.raises(UnknownTopicError, match="other"):
        snapshot.take(log.services.store, [where])
    seen = snapshot.take(log.services.store, [partition(log), where], with_neighbours=True)

    assert set(seen.partitions) == {partition(log)}


def test_ten_overtaken_plans_are_a_retriable_error(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLAN_ATTEMPTS", 0)
    with pytest.raises(PlanOvertakenError, match="try again"):
        snapshot.take(log.services.store, partitions(log, TOPIC))
