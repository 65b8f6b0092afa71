"""A log goes on from a copy of its metadata as if nothing had happened, whatever state it was in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.clients.prepared import PreparedTransaction
from oncelog.coordinator import transactional_ids
from oncelog.errors import InvalidTxnStateError
from oncelog.log import partition_log, partition_reads, topics
from oncelog.log.partition_log import Append
from oncelog.ports import ZnodeStore
from oncelog.runtime import Log
from oncelog.testing import invariants
from oncelog.types import IsolationLevel, ProducerIdAndEpoch
from oncelog.znodes import copying, paths, payloads
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.sqlite import SqliteZnodeStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    log_world,
    lso,
    numbered,
    partition,
    records,
    send,
    started,
    tp,
    values,
    write_aborted,
    write_committed,
    write_open,
)
from tests.support.log.rounds import GROUP, PREFIX, SOURCE, begin, request, run_batch, written
from tests.unit.znodes.worlds import LiveReadsStore

READERS = "readers"
LIVE_READS = "live-reads"
"""A store whose reads are as ZooKeeper's: in order of time, not of one moment."""


@dataclass
class Busy:
    """A log in every state at once, and what its clients know of it."""

    world: LogWorld
    open_producer: ProducerIdAndEpoch
    token: PreparedTransaction

    @property
    def log(self) -> Log:
        return self.world.log


def fill(world: LogWorld) -> Busy:
    """Settled and unsettled transactions and rounds of every outcome, offsets, a rolled index, a deleted topic."""
    log = world.log
    log.create_topic(SOURCE)
    write_rolled_history(log)
    run_batch(log, request(0, group_id=GROUP))
    for offset in (1, 2, 3):
        log.admin.alter_offsets(READERS, {tp(): offset})
    log.create_topic("doomed")
    write_committed(started(log, "doomed"), b"lost", topic="doomed")
    log.admin.settle()
    log.admin.delete_topic("doomed")

    run_batch(log, request(1, group_id=GROUP))
    committed = started(log, "unsettled-commit")
    committed.begin_transaction()
    for number in (0, 1):
        send(committed, b"decided", number=number)
    committed.send_offsets_to_transaction({tp(1): 7}, READERS)
    committed.commit_transaction()
    write_aborted(started(log, "unsettled-abort"), b"given up")
    opened = started(log, "open")
    write_open(opened, b"undecided", number=1)
    opened.send_offsets_to_transaction({tp(): 4}, READERS)
    prepared = started(log, "prepared")
    write_open(prepared, b"promised")
    token = prepared.prepare_transaction()
    begin(log, 0, prefix="other", query_id="other").write(written(log, {1: [b"of an open round"]}))
    stored = transactional_ids.load(log.services.store, "open")
    assert stored is not None
    return Busy(world, stored.producer, token)


def write_rolled_history(log: Log) -> None:
    copier, loser = started(log, "copier"), started(log, "loser")
    for value in numbered("settled", 6):
        write_committed(copier, value)
        write_aborted(loser, b"never", number=1)
    with log.producer() as plain:
        for value in numbered("plain", 6):
            send(plain, value)
    log.admin.settle()


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Callable[[str], ZnodeStore]]:
    """Makes empty stores of each kind."""
    made: list[ZnodeStore] = []

    def make(kind: str) -> ZnodeStore:
        if kind == "sqlite":
            made.append(SqliteZnodeStore(tmp_path / f"copy-{len(made)}.sqlite"))
        else:
            made.append(LiveReadsStore() if kind == LIVE_READS else MemoryZnodeStore())
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture(autouse=True)
def _short_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the index is rolled."""
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 5)
    monkeypatch.setattr(limits, "INDEX_FANOUT", 2)


@pytest.fixture
def busy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Busy]:
    """In memory, unless a test asks for another store."""
    with log_world(tmp_path / "log", getattr(request, "param", "memory")) as world:
        world.log.create_topic(TOPIC, partitions=2)
        yield fill(world)


@pytest.fixture
def moved(busy: Busy, stores: Callable[[str], ZnodeStore]) -> Log:
    """The busy log, on a copy of its metadata in a SQLite file."""
    return opened_on(busy.world, stores("sqlite"))


def opened_on(world: LogWorld, target: ZnodeStore) -> Log:
    """The world's log, copied to `target` and opened there by a process that knows nothing of the old store."""
    copying.copy(world.store(), target)
    return world.open(target)


def seen(log: Log) -> dict[str, object]:
    """What readers and tools see of a log, but for ages."""
    store, admin = log.services.store, log.admin
    found: dict[str, object] = {"cluster id": log.cluster_id, "topics": admin.list_topics()}
    for name in topics.states(store):
        for isolation in IsolationLevel:
            found[f"{name} {isolation}"] = records(log, name, isolation)
        described = admin.describe_topic(name).partitions
        found[f"{name} ends"] = [(p.log_start, p.log_end, p.lso, p.lso_together, p.size_bytes) for p in described]
        found[f"{name} index"] = [(p.index_roots, p.tail_length) for p in described]
        found[f"{name} owners"] = [(o.first_offset, o.owner.path, o.owner.outcome) for p in described for o in p.owners]
    found["transactions"] = admin.list_transactions()
    found["groups"] = [admin.describe_group(group) for group in admin.list_groups()]
    ledgers = [admin.describe_ledger(prefix) for prefix in admin.list_prefixes()]
    found["ledgers"] = [(one.prefix, one.last_batch_id, one.last_fingerprint, one.run_id) for one in ledgers]
    found["rounds"] = [(r.number, r.outcome, r.partitions, r.transactional_ids) for one in ledgers for r in one.rounds]
    found["verified"] = admin.verify()
    return found


def test_the_log_that_is_copied_here_is_in_every_state(busy: Busy) -> None:
    found = busy.log.admin.describe_topic(TOPIC).partitions

    assert {o.owner.outcome for p in found for o in p.owners} == {"open", "commit", "abort"}
    assert any(o.owner.is_prepared for p in found for o in p.owners)
    assert any(o.owner.round and o.owner.outcome == "commit" for p in found for o in p.owners)
    assert any(o.owner.round and o.owner.outcome == "open" for p in found for o in p.owners)
    assert all(p.index_roots for p in found)
    assert all(partition_reads.read_partition(busy.log.services.store, partition(busy.log, n)).trim for n in (0, 1))
    assert busy.log.services.store.children(f"{paths.TOPICS}/doomed") == []
    assert busy.log.services.store.get(f"{paths.TOPICS}/doomed") is not None


@pytest.mark.parametrize(("busy", "kind"), [("memory", "sqlite"), ("sqlite", LIVE_READS)], indirect=["busy"])
def test_readers_and_tools_see_the_same_before_and_after(
    busy: Busy, stores: Callable[[str], ZnodeStore], kind: str
) -> None:
    """Also where the copy is copied once more."""
    before = seen(busy.log)

    first = opened_on(busy.world, stores(kind))
    assert seen(first) == before

    copying.copy(first.services.store, second := stores("sqlite"))
    again = busy.world.open(second)
    assert seen(again) == before
    invariants.check(again)


@pytest.mark.slow
@pytest.mark.parametrize("busy", ["sqlite"], indirect=True)
def test_readers_see_the_same_in_a_store_on_zookeeper(
    busy: Busy, stores: Callable[[str], ZnodeStore], zookeeper: object
) -> None:
    """There, and back again."""
    from oncelog.znodes.zookeeper import ZookeeperZnodeStore  # needs an extra

    before = seen(busy.log)
    store = ZookeeperZnodeStore(zookeeper.url())  # type: ignore[attr-defined]
    try:
        assert seen(opened_on(busy.world, store)) == before
        copying.copy(store, back := stores("sqlite"))
    finally:
        store.close()
    assert seen(busy.world.open(back)) == before


def test_settling_after_the_copy_changes_nothing_that_is_read(busy: Busy, moved: Log) -> None:
    before = values(moved)

    moved.admin.settle()

    assert values(moved) == before
    outcomes = {o.owner.outcome for p in moved.admin.describe_topic(TOPIC).partitions for o in p.owners}
    assert outcomes == {"open"}
    invariants.check(moved)


def test_an_open_transaction_is_committed_after_the_copy_and_everything_behind_it_shows(busy: Busy, moved: Log) -> None:
    blocked = lso(moved, 1)

    moved.services.coordinator.end_txn("open", busy.open_producer, commit=True)
    moved.admin.abort_round("other")

    assert lso(moved, 1) > blocked
    assert b"undecided" in values(moved, 1)
    assert moved.admin.describe_group(READERS).partitions[0].offset == 4
    invariants.check(moved)


def test_a_prepared_transaction_is_completed_by_its_token_after_the_copy(busy: Busy, moved: Log) -> None:
    with moved.producer(transactional_id="prepared") as producer:
        assert producer.init_transactions(keep_prepared=True) == busy.token
        assert producer.complete_transaction(busy.token)

    assert b"promised" in values(moved, 0)
    invariants.check(moved)


def test_what_was_decided_before_the_copy_stays_decided(busy: Busy, moved: Log) -> None:
    stored = transactional_ids.load(moved.services.store, "unsettled-abort")
    assert stored is not None

    with pytest.raises(InvalidTxnStateError):
        moved.services.coordinator.end_txn("unsettled-abort", stored.producer, commit=True)
    assert b"given up" not in values(moved)
    assert values(moved, 0).count(b"decided") == values(moved, 1).count(b"decided")


def test_a_batch_that_is_replayed_after_the_copy_is_a_no_op_and_the_next_one_is_written(busy: Busy, moved: Log) -> None:
    moved.admin.abort_transaction("open")
    moved.admin.abort_transaction("prepared")
    moved.admin.abort_round("other")
    before = values(moved)
    assert [value for value in before if value == b"batch-1-0"] == [b"batch-1-0"]

    assert not run_batch(moved, request(1, "run-2", group_id=GROUP))
    assert values(moved) == before

    assert run_batch(moved, request(2, "run-2", group_id=GROUP))
    assert b"batch-2-0" in values(moved)
    (progress,) = moved.admin.describe_group(GROUP).partitions
    assert progress.offset == 30
    assert moved.admin.describe_group(GROUP).owning_prefix == PREFIX
    invariants.check(moved)


def test_a_batch_of_records_that_is_sent_again_after_the_copy_is_a_duplicate(busy: Busy, moved: Log) -> None:
    where = partition(moved)
    _, index = partition_reads.read_with_index(moved.services.store, where)
    files = moved.services.new_index_files()
    sent = [e for e in index.entries(files, 0, lso(moved)) if e.block and e.owner is None][-limits.DEDUPE_WINDOW :]
    assert len(sent) == limits.DEDUPE_WINDOW

    for entry in sent:
        assert entry.block is not None
        again = Append(where, entry.producer, entry.base_sequence, None, (entry.block,))
        answer = moved.services.store.transact(lambda view, again=again: partition_log.append(view, again))  # type: ignore[misc]
        assert (answer.base_offset, answer.is_duplicate) == (entry.base_offset, True)


def test_a_new_producer_gets_an_id_that_no_other_has(busy: Busy, moved: Log) -> None:
    def ids(log: Log) -> set[int]:
        store = log.services.store
        return {int(name) for number in (0, 1) for name in store.children(paths.producers(partition(log, number)))}

    before = ids(moved)
    with moved.producer() as producer:
        send(producer, b"new")

    assert len(ids(moved)) == len(before) + 1


def offset_of(log: Log, number: int = 0) -> int | None:
    return next(p.offset for p in log.admin.describe_group(READERS).partitions if p.partition == number)


def test_an_offset_committed_after_the_copy_wins_over_all_before_it(busy: Busy, moved: Log) -> None:
    """Though the versions that order a group's commits begin again at 0. conformance: 46"""
    moved.admin.alter_offsets(READERS, {tp(0): 0, tp(1): 0})

    assert (offset_of(moved, 0), offset_of(moved, 1)) == (0, 0)
    moved.services.coordinator.end_txn("open", busy.open_producer, commit=True)
    moved.admin.settle()
    assert offset_of(moved, 0) == 0, "the transaction staged its offset before"


def test_an_offset_committed_before_the_copy_wins_over_those_staged_before_it(
    busy: Busy, stores: Callable[[str], ZnodeStore]
) -> None:
    """conformance: 46"""
    busy.log.admin.alter_offsets(READERS, {tp(0): 1})
    moved = opened_on(busy.world, stores("memory"))

    moved.services.coordinator.end_txn("open", busy.open_producer, commit=True)
    moved.admin.settle()

    assert offset_of(moved, 0) == 1


def test_a_transaction_has_its_whole_time_again_after_the_copy(tmp_path: Path) -> None:
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=2)
        write_open(started(world.log, transaction_timeout_ms=1000), b"a")
        world.time.pass_ms(900)
        target = MemoryZnodeStore(now_ms=world.time.now_ms, clock=world.time)
        moved = opened_on(world, target)

        world.time.pass_ms(900)
        assert moved.admin.find_hanging() == []
        world.time.pass_ms(200)
        assert len(moved.admin.find_hanging()) == 1


def test_no_trim_of_the_old_store_is_left(busy: Busy, moved: Log) -> None:
    for number in (0, 1):
        path = paths.partition(partition(moved, number))
        old, new = busy.log.services.store.get(path), moved.services.store.get(path)
        assert old is not None
        assert new is not None
        assert payloads.decode_partition(path, old.data).trim > 0
        assert payloads.decode_partition(path, new.data).trim == 0
