"""Settling: when it is due, in which steps, and what is left where it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.batches.ledger import EMBEDDED
from oncelog.coordinator import groups, settler
from oncelog.coordinator.settler import Settler
from oncelog.errors import CorruptDataError, TransactionAbortableError
from oncelog.ports import Znode, ZnodeReader, ZnodeStore
from oncelog.protocol.partition import OwnerState
from oncelog.runtime import Log
from oncelog.testing import invariants
from oncelog.types import OffsetAndMetadata, Outcome, TopicIdPartition
from oncelog.znodes import paths
from tests.support.log.faulty import Crashed, Fault, FaultyStore, InterruptedStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    log_world,
    partition,
    partitions,
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
from tests.support.log.rounds import GROUP, SOURCE, begin, offsets, written


def owners(log: Log, number: int = 0) -> list[str]:
    return [span.owner for span in state(log, number).owners]


# When -----------------------------------------------------------------------------------------------------------------


def test_settling_is_due_once_a_snapshot_is_old_enough(world: LogWorld) -> None:
    services = world.log.services
    settling = Settler(services.store, world.time)
    write_committed(started(world.log), b"a")
    where = partitions(world.log)
    settled = []
    for _ in range(4):
        settled.append(settling.settle_if_due(where))
        world.time.pass_ms(limits.SETTLE_LAG_MS // 2)

    assert settled == [0, 0, 1, 0]
    assert owners(world.log) == []


def test_what_was_decided_behind_the_snapshot_waits_for_the_next_one(world: LogWorld) -> None:
    services = world.log.services
    settling = Settler(services.store, world.time)
    producer = started(world.log)
    write_committed(producer, b"a")
    settling.settle_if_due(partitions(world.log))
    write_committed(producer, b"b")
    world.time.pass_ms(limits.SETTLE_LAG_MS)

    assert settling.settle_if_due(partitions(world.log)) == 1
    assert len(owners(world.log)) == 1
    world.time.pass_ms(limits.SETTLE_LAG_MS)
    assert settling.settle_if_due(partitions(world.log)) == 1
    assert owners(world.log) == []


class ReadingStore(FaultyStore):
    """Remembers the partitions that are read together, in their order."""

    def __init__(self, store: ZnodeStore) -> None:
        super().__init__(store)
        self.read: list[list[str]] = []

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        yield self

    def recent(self) -> None:
        """No read but those of a snapshot."""

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        wanted = list(paths)
        self.read += [wanted] if wanted else []
        return super().get_many(wanted)


def test_the_order_in_which_partitions_are_named_decides_nothing(world: LogWorld) -> None:
    read = []
    for where in (partitions(world.log), partitions(world.log)[::-1]):
        store = ReadingStore(world.store())
        settling = Settler(store, world.time)
        settling.settle_if_due(where)
        world.time.pass_ms(limits.SETTLE_LAG_MS)
        settling.settle_if_due(where)
        read.append(store.read)

    assert read[0] == read[1] == [[paths.partition(each) for each in partitions(world.log)]]
    assert len(read[0][0]) > 1


def test_a_partition_is_looked_at_until_it_lists_nothing_decided_and_no_longer(world: LogWorld) -> None:
    store = ReadingStore(world.store())
    settling = Settler(store, world.time)
    first, second = partitions(world.log)[:2]
    write_open(started(world.log, "holding"), b"held", number=second.partition)
    producer = started(world.log)
    looked_at = []

    def settle(*where: TopicIdPartition) -> None:
        store.read.clear()
        settling.settle_if_due(where)
        looked_at.append(
            {each for each in (first, second) if any(paths.partition(each) in read for read in store.read)}
        )
        world.time.pass_ms(limits.SETTLE_LAG_MS)

    settle()
    write_committed(producer, b"a", number=first.partition)
    settle(first)  # decided behind the snapshot
    settle()
    settle()
    write_aborted(producer, b"b", number=second.partition)
    settle(second)
    settle()
    settle()

    assert looked_at == [set(), {first}, {first}, set(), {second}, {second}, set()]
    assert (len(owners(world.log, first.partition)), len(owners(world.log, second.partition))) == (0, 1)


def test_where_nothing_is_decided_nobody_waits_for_it_to_be_settled(world: LogWorld) -> None:
    settling = Settler(world.log.services.store, world.time)
    write_open(started(world.log, "open"), b"a")
    write_committed(started(world.log), b"b", number=1)
    began_ms, waited_ms = world.time.monotonic_ms(), []
    for _ in range(2):
        settling.settle_now(partitions(world.log))
        waited_ms.append(world.time.monotonic_ms() - began_ms)

    assert waited_ms == [limits.SETTLE_LAG_MS, limits.SETTLE_LAG_MS]
    assert owners(world.log) != []
    assert owners(world.log, 1) == []


def test_a_settler_that_another_overtook_leaves_the_work_to_it(world: LogWorld) -> None:
    services = world.log.services
    slow = Settler(services.store, world.time)
    write_committed(started(world.log), b"a")
    slow.settle_if_due(partitions(world.log))
    write_committed(started(world.log), b"b")
    world.settle()
    write_committed(started(world.log), b"c")
    world.time.pass_ms(limits.SETTLE_LAG_MS)
    end = state(world.log).log_end

    assert slow.settle_if_due(partitions(world.log)) == 0
    assert state(world.log).log_end == end
    world.time.pass_ms(limits.SETTLE_LAG_MS)
    assert slow.settle_if_due([]) == 1


def test_where_settling_fails_it_is_left_to_the_next_one_who_comes(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_damaged(*_: object) -> None:
        raise CorruptDataError("damaged")

    settling = Settler(world.log.services.store, world.time)
    first, second = partitions(world.log)[:2]
    for each in (first, second):
        write_committed(started(world.log, str(each)), b"a", number=each.partition)
    settling.settle_if_due([first])
    world.time.pass_ms(limits.SETTLE_LAG_MS)
    with monkeypatch.context() as patched:
        patched.setattr(Settler, "_look", is_damaged)
        with pytest.raises(CorruptDataError):
            settling.settle_if_due([])
    world.time.pass_ms(limits.SETTLE_LAG_MS)

    assert settling.settle_if_due([second]) == 1
    assert (len(owners(world.log, first.partition)), len(owners(world.log, second.partition))) == (1, 0)


def test_what_is_held_back_elsewhere_is_not_settled(world: LogWorld) -> None:
    """conformance: 27."""
    foreign, producer = started(world.log, "foreign"), started(world.log)
    write_open(foreign, b"foreign", number=1)
    producer.begin_transaction()
    send(producer, b"a", number=0)
    send(producer, b"a", number=1)
    producer.commit_transaction()
    write_aborted(started(world.log, "aborted"), b"gone", number=1)

    assert world.settle() == 1
    assert (len(owners(world.log, 0)), len(owners(world.log, 1))) == (1, 2)


def test_transactions_that_overlap_without_end_hold_readers_back_no_longer_than_a_partition_has_room(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conformance: 27."""
    monkeypatch.setattr(limits, "MAX_UNSETTLED_OWNERS", 4)
    older = started(world.log, "copier-0", delivery_timeout_ms=0)
    write_open(older, b"0")
    for at in range(1, 4):
        younger = started(world.log, f"copier-{at}", delivery_timeout_ms=0)
        write_open(younger, b"%d" % at)
        send(older, b"end")
        older.commit_transaction()
        assert values(world.log) == []
        older = younger
    waiting = started(world.log, "waiting", delivery_timeout_ms=0)
    with pytest.raises(TransactionAbortableError, match="unsettled"):
        write_open(waiting, b"late")
    older.commit_transaction()
    shown = values(world.log)
    world.settle()
    waiting.abort_transaction()
    write_committed(waiting, b"next")

    assert set(shown) == {b"0", b"1", b"2", b"3", b"end"}
    assert values(world.log) == [*shown, b"next"]


# In which steps -------------------------------------------------------------------------------------------------------


def test_a_settler_that_dies_at_any_multi_leaves_what_the_next_one_finishes(tmp_path: Path) -> None:
    """conformance: 14, 33."""
    for at in range(30):
        with log_world(tmp_path / str(at)) as world, pytest.MonkeyPatch.context() as patched:
            patched.setattr(settler, "OWNERS_PER_STEP", 2)
            patched.setattr(settler, "PARTITIONS_PER_STEP", 1)
            patched.setattr(settler, "OPERATIONS_PER_STEP", 8)
            world.log.create_topic(TOPIC, partitions=3)
            for number in (0, 1, 2):
                producer = started(world.log, f"copier-{number}")
                producer.begin_transaction()
                for where in (number, (number + 1) % 3):
                    send(producer, b"%d" % number, number=where)
                producer.send_offsets_to_transaction({tp(where): number for where in range(3)}, "g")
                producer.commit_transaction()
                write_aborted(producer, b"aborted", number=number)
            before = sorted(values(world.log), key=str)
            store = FaultyStore(world.store(), Fault.CRASH_AFTER, at)
            with suppress(Crashed):
                world.settle(world.open(store))
            assert sorted(values(world.log), key=str) == before
            world.settle()
            settler.forget_unlisted(world.log.services.store)
            assert [state(world.log, number).owners for number in range(3)] == [()] * 3
            if not store.has_struck:
                assert at > 5
                return
    pytest.fail("settling never ended")


def test_more_owners_than_one_step_takes_are_settled_by_and_by(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settler, "OWNERS_PER_STEP", 3)
    for at in range(8):
        write_committed(started(world.log, f"copier-{at}"), b"%d" % at)
    settling = Settler(world.log.services.store, world.time)
    left = []
    while settling.settle_now(partitions(world.log)):
        left.append(len(owners(world.log)))
        assert values(world.log) == [b"%d" % at for at in range(8)]

    assert left == [5, 2, 0]


def test_two_settlers_at_once_write_one_marker(world: LogWorld) -> None:
    """conformance: 33."""
    write_committed(started(world.log), b"a")
    store = InterruptedStore(world.store(), world.settle)
    log = world.open(store)
    store.interrupt()
    world.settle(log)

    assert store.has_struck
    assert state(world.log).log_end == 2


def test_an_append_between_the_reads_and_the_write_of_a_settler_stays_where_it_is(world: LogWorld) -> None:
    """conformance: 33."""
    write_committed(started(world.log), b"a")
    other = started(world.log, "other")
    store = InterruptedStore(world.store(), lambda: write_open(other, b"b"))
    log = world.open(store)
    store.interrupt()
    world.settle(log)

    assert len(owners(world.log)) == 1
    assert uncommitted(world.log) == [b"a", b"b"]
    other.commit_transaction()
    assert values(world.log) == [b"a", b"b"]


def test_an_owner_of_more_groups_and_participants_than_a_step_takes_is_finished_in_parts() -> None:
    whole = OwnerState(
        Outcome.COMMIT,
        5,
        partitions=tuple(f"/topics/t/i/{at}" for at in range(700)),
        groups=tuple(f"/groups/g/t/i/{at}" for at in range(650)),
    )
    owner = EMBEDDED.round_path("sink", 1)
    steps = settler._steps({owner: whole, "/transactions/a/1.0": OwnerState(Outcome.ABORT, 4)})
    parts = [part for step in steps for part in step if part.owner == owner]

    assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert [name for part in parts for name in part.state.groups] == list(whole.groups)
    assert [name for part in parts for name in part.state.partitions] == list(whole.partitions)
    assert all(sum(part.operations for part in step) <= settler.OPERATIONS_PER_STEP for step in steps)


def test_a_round_keeps_its_znode_while_it_is_the_ledgers_memory(world: LogWorld) -> None:
    """conformance: 52."""
    for batch_id in range(2):
        round_ = begin(world.log, batch_id)
        round_.write(written(world.log, {0: [b"%d" % batch_id]}))
        round_.decide()
    world.settle()
    store = world.log.services.store

    assert store.children(EMBEDDED.rounds_path("sink")) == ["2"]
    settler.forget(store, [EMBEDDED.round_path("sink", 2)])
    assert store.children(EMBEDDED.rounds_path("sink")) == ["2"]


def test_open_and_listed_owners_are_never_forgotten(world: LogWorld) -> None:
    write_open(started(world.log, "open"), b"a", number=0)
    write_committed(started(world.log, "listed"), b"b", number=1)
    store = world.log.services.store
    settler.forget_unlisted(store)

    assert (len(store.children("/transactions/open")), len(store.children("/transactions/listed"))) == (1, 1)


def test_a_decided_owner_whose_topic_is_gone_is_found_by_upkeep(world: LogWorld) -> None:
    write_committed(started(world.log), b"a")
    world.log.admin.delete_topic(TOPIC)
    assert world.settle() == 0
    assert invariants.leaks(world.log, before_upkeep=False) != []
    settler.forget_unlisted(world.log.services.store)

    assert invariants.leaks(world.log, before_upkeep=False) == []


def test_settling_reaches_partitions_through_the_owners_they_share(world: LogWorld) -> None:
    producer = started(world.log)
    producer.begin_transaction()
    send(producer, b"a", number=0)
    send(producer, b"a", number=1)
    producer.commit_transaction()
    settling = Settler(world.log.services.store, world.time)

    assert settling.settle_now([partition(world.log, 0)]) == 1
    assert owners(world.log, 1) == []


def test_an_owner_that_is_still_open_keeps_the_offsets_it_staged(log: Log) -> None:
    """conformance: 48."""
    log.create_topic(SOURCE)
    round_ = begin(log, 0, group_id=GROUP)
    round_.stage_offsets(offsets(log, 0))
    settler.forget(log.services.store, [round_.path])
    round_.decide()

    (source,) = partitions(log, SOURCE)
    assert groups.fetch(log.services.store, GROUP, [source]) == {source: OffsetAndMetadata(10)}
