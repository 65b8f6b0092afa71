"""What the metrics of a log and its ledgers say, of a log in which something of everything is under way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.transaction import run_steps
from oncelog.batches.two_functions import OnceTarget
from oncelog.clients.producer import Producer
from oncelog.metrics import catalogue as c
from oncelog.metrics.logs import GROUP_MS, LogReader
from oncelog.metrics.reading import Labels, Reading
from oncelog.metrics.sources import LedgerSource, LogSource
from oncelog.protocol.partition import PartitionState
from oncelog.znodes import paths, payloads
from oncelog.znodes.clock import wall_ms
from tests.support.log.counted import CountedStore
from tests.support.log.logs import (
    TOPIC,
    DrivenTime,
    LogWorld,
    checked,
    partition,
    send,
    started,
    tp,
    write_committed,
    write_open,
)
from tests.support.log.rounds import PREFIX, begin, request

MINUTE_MS = 60_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    """A log of two topics."""
    with checked(LogWorld(tmp_path, time=DrivenTime(wall_ms()))) as found:
        found.log.create_topic(TOPIC, partitions=3)
        found.log.create_topic("quiet")
        yield found


@pytest.fixture
def reader(world: LogWorld) -> LogReader:
    return LogReader(world.log.services)


def left_open(world: LogWorld, name: str, number: int, timeout_ms: int = 10 * MINUTE_MS) -> Producer:
    producer = started(world.log, name, transaction_timeout_ms=timeout_ms)
    write_open(producer, b"undecided", number=number)
    return producer


def values(reading: Reading, metric: c.Metric) -> dict[Labels, float]:
    return dict(reading.values[metric])


def decide_elsewhere(world: LogWorld, prefix: str) -> None:
    """A batch of a sink into another store, which is decided and not shown there yet."""
    attempt = OnceTarget(world.log.services.store, lambda rows, token: None, lambda token: False).attempt(
        Batch(request(4, prefix=prefix), None)
    )
    report, store = BatchReport(4), world.log.services.store
    run_steps(store, [attempt.plan])
    assert attempt.is_open
    attempt.write(report)
    attempt.prepare(report)
    run_steps(store, [lambda: attempt.decide(report)])


def test_a_quiet_log_has_its_offsets_and_zeros(world: LogWorld, reader: LogReader) -> None:
    send(world.log.producer(), b"a", b"b", number=1)
    started(world.log)

    reading = reader.read()

    assert values(reading, c.LOG_END)[TOPIC, "1"] == 2
    assert values(reading, c.LAST_STABLE) == values(reading, c.LOG_END)
    assert values(reading, c.LOG_START) == {(TOPIC, "0"): 0, (TOPIC, "1"): 0, (TOPIC, "2"): 0, ("quiet", "0"): 0}
    assert values(reading, c.SIZE)[TOPIC, "0"] == 0 < values(reading, c.SIZE)[TOPIC, "1"]
    assert values(reading, c.UNDECIDED_AGE) == {(TOPIC,): 0, ("quiet",): 0}
    assert values(reading, c.TRANSACTIONS) == {("open",): 0, ("overdue",): 0, ("prepared",): 0, ("decided",): 0}
    assert values(reading, c.LOG_INFO) == {(world.log.cluster_id,): 1}
    assert values(reading, c.TOPICS) == {(): 2}
    assert values(reading, c.TRANSACTIONAL_IDS) == {(): 1}


def test_open_overdue_and_prepared_transactions_are_told_apart(world: LogWorld, reader: LogReader) -> None:
    left_open(world, "overdue", 0, timeout_ms=2 * MINUTE_MS)
    left_open(world, "prepared", 1, timeout_ms=2 * MINUTE_MS).prepare_transaction()
    world.time.sleep_ms(3 * MINUTE_MS)
    left_open(world, "open", 2)

    reading = reader.read()

    assert values(reading, c.TRANSACTIONS) == {("open",): 1, ("overdue",): 1, ("prepared",): 1, ("decided",): 0}
    assert values(reading, c.OLDEST_PREPARED) == {(): 180}
    assert values(reading, c.UNDECIDED_AGE) == {(TOPIC,): 180, ("quiet",): 0}
    assert {values(reading, c.LAST_STABLE)[TOPIC, str(number)] for number in range(3)} == {0}
    assert {values(reading, c.LOG_END)[TOPIC, str(number)] for number in range(3)} == {1}
    assert values(reading, c.TRANSACTIONAL_IDS) == {(): 3}


def test_a_partition_ends_where_its_own_transactions_hold_readers_back(world: LogWorld, reader: LogReader) -> None:
    left_open(world, "blocker", 0)
    producer = started(world.log, "both")
    producer.begin_transaction()
    for number in (0, 1):
        send(producer, b"decided", number=number)
    producer.commit_transaction()

    ends = values(reader.read(), c.LAST_STABLE)

    # Together, partition 1 would end at 0, too: the transaction of both is not shown by half.
    assert (ends[TOPIC, "0"], ends[TOPIC, "1"]) == (0, 1)
    described = world.log.admin.describe_topic(TOPIC).partitions
    assert [one.lso for one in described] == [ends[TOPIC, str(one.partition)] for one in described]


def test_a_decided_transaction_is_told_until_it_is_settled(
    world: LogWorld, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SETTLE_LAG_MS", 0)
    producer = left_open(world, "decided", 0)
    send(producer, b"and here", number=1)
    producer.commit_transaction()
    before = values(reader.read(), c.TRANSACTIONS)

    world.settle()

    assert (before["decided",], values(reader.read(), c.TRANSACTIONS)["decided",]) == (1, 0)


def test_a_group_lags_up_to_the_last_stable_offset_and_to_the_end(
    world: LogWorld, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SETTLE_LAG_MS", 0)
    write_committed(started(world.log, "first"), b"a", b"b", b"c", number=0)
    write_committed(started(world.log, "second"), b"a", b"b", number=1)
    world.settle()
    world.log.admin.alter_offsets("readers", {tp(0): 1, tp(1): 2})
    left_open(world, "blocker", 0)
    staged = started(world.log, "stages")
    staged.begin_transaction()
    staged.send_offsets_to_transaction({tp(2): 0}, "readers")

    reading = reader.read()

    first, second = ("readers", TOPIC, "0"), ("readers", TOPIC, "1")
    assert values(reading, c.GROUP_OFFSET) == {first: 1, second: 2}
    assert values(reading, c.GROUP_LAG) == {first: 3, second: 0}  # behind the second are only markers
    assert values(reading, c.GROUP_LAG_TO_END) == {first: 4, second: 1}
    assert values(reading, c.GROUP_UNDECIDED) == {("readers",): 1}
    assert values(reading, c.GROUP_BEYOND) == {("readers",): 0}
    assert values(reading, c.TRANSACTIONS)["open",] == 2
    described = world.log.admin.describe_group("readers").partitions
    assert [one.lag for one in described] == [3, 0, None]


def test_a_lag_is_looked_up_anew_when_an_offset_moves(world: LogWorld, reader: LogReader) -> None:
    producer = world.log.producer()
    send(producer, b"a", b"b")
    world.log.admin.alter_offsets("readers", {tp(): 0})
    lags = [values(reader.read(), c.GROUP_LAG)]

    world.log.admin.alter_offsets("readers", {tp(): 2})
    lags.append(values(reader.read(), c.GROUP_LAG))
    send(producer, b"c")
    lags.append(values(reader.read(), c.GROUP_LAG))

    assert [lag["readers", TOPIC, "0"] for lag in lags] == [2, 0, 1]


def test_an_offset_beyond_the_log_is_told(world: LogWorld, reader: LogReader) -> None:
    """As after the log was restored from an older copy; here the partition is emptied by hand."""
    send(world.log.producer(), b"a", b"b")
    world.log.admin.alter_offsets("readers", {tp(): 2})
    world.is_checked = False
    path = paths.partition(partition(world.log))
    world.log.services.store.transact(lambda view: view.set(path, payloads.encode_partition(PartitionState())))

    reading = reader.read()

    assert values(reading, c.GROUP_BEYOND) == {("readers",): 1}
    assert values(reading, c.GROUP_LAG)["readers", TOPIC, "0"] == 0


def test_a_group_of_a_deleted_topic_has_no_lag(world: LogWorld, reader: LogReader) -> None:
    world.log.admin.alter_offsets("readers", {tp(0, "quiet"): 0})
    world.log.admin.delete_topic("quiet")

    reading = reader.read()

    assert values(reading, c.GROUP_OFFSET) == {}
    assert values(reading, c.GROUP_UNDECIDED) == {("readers",): 0}
    assert values(reading, c.TOPICS) == {(): 1}


def test_ledgers_tell_what_their_newest_batch_waits_for(world: LogWorld, reader: LogReader) -> None:
    begin(world.log, 0).decide()
    begin(world.log, 1, timeout_ms=2 * MINUTE_MS)
    decide_elsewhere(world, "elsewhere")
    world.time.sleep_ms(3 * MINUTE_MS)

    reading = reader.read()

    ours, theirs = ("log", PREFIX), ("once", "elsewhere")
    states = {labels for labels, is_so in values(reading, c.BATCH_STATE).items() if is_so}
    assert states == {(*ours, "undecided"), (*theirs, "decided")}
    assert values(reading, c.BATCH_UNDECIDED) == {ours: 180, theirs: 0}
    assert values(reading, c.BATCH_INVISIBLE) == {ours: 0, theirs: 180}
    assert values(reading, c.BATCH_LAST) == {ours: 0, theirs: 4}
    assert values(reading, c.BATCH_NEWEST) == {ours: 1, theirs: 4}
    assert values(reading, c.BATCH_ROUND) == {ours: 2, theirs: 1}
    assert values(reading, c.BATCH_PARTS)[ours] == 0 < values(reading, c.BATCH_PARTS)[theirs]


def test_ledgers_without_a_log_are_read_alone(world: LogWorld) -> None:
    decide_elsewhere(world, "elsewhere")

    reading = LedgerSource(world.log.services.store).read()

    assert set(reading.values) == set(c.LEDGER)
    assert values(reading, c.BATCH_LAST) == {("once", "elsewhere"): 4}


def test_collection_tells_of_dead_files_and_of_missing_upkeep(world: LogWorld, reader: LogReader) -> None:
    for name, size_bytes in (("orphan", 1_000), ("another", 500)):
        file = world.files.create(f"data/00000000-{name}.avro")
        file.write(b"x" * size_bytes)
        file.finish()
    before, dead = reader.read(), []
    for _ in range(3):
        world.time.sleep_ms(limits.GENERATION_MIN_AGE_MS)
        world.log.admin.collect()
        reading = reader.read()
        dead.append((values(reading, c.DEAD_FILES)[()], values(reading, c.DEAD_BYTES)[()]))

    assert (values(before, c.DEAD_FILES), values(before, c.DEAD_BYTES)) == ({(): 0}, {(): 0})
    assert dead == [(2, 1_500), (0, 0), (0, 0)]
    assert values(reading, c.GENERATION)[()] > 0
    assert values(reading, c.GENERATION_AGE) == {(): 0}
    world.time.sleep_ms(MINUTE_MS)
    assert values(reader.read(), c.GENERATION_AGE) == {(): 60}


def test_what_a_reading_costs_does_not_depend_on_the_number_of_ids_and_lags_are_not_looked_up_again(
    world: LogWorld,
) -> None:
    send(world.log.producer(), b"a", b"b")
    world.log.admin.alter_offsets("readers", {tp(): 0})
    store = CountedStore(world.store())
    reader = LogReader(world.open(store).services)
    costs = [store.cost_of(reader.read), store.cost_of(reader.read)]

    for number in range(50):
        started(world.log, f"id-{number}")
    counted_anew = store.cost_of(reader.read)

    assert costs[1] < costs[0]
    assert counted_anew == costs[1] + 1 + 50  # one list of their names
    assert store.cost_of(reader.read) == costs[1]


def test_a_group_is_read_again_once_it_has_changed_and_while_a_transaction_holds_its_offsets(world: LogWorld) -> None:
    send(world.log.producer(), b"a", b"b")
    world.log.admin.alter_offsets("readers", {tp(): 0})
    store = CountedStore(world.store())
    reader = LogReader(world.open(store).services)
    staged = started(world.log, "stages")
    reader.read()
    unchanged = store.cost_of(reader.read)

    staged.begin_transaction()
    staged.send_offsets_to_transaction({tp(): 2}, "readers")
    held = reader.read()
    costs_more = store.cost_of(reader.read)
    staged.commit_transaction()
    committed = reader.read()
    world.settle()
    reader.read()

    where = ("readers", TOPIC, "0")
    assert values(held, c.GROUP_OFFSET)[where] == 0
    assert costs_more > unchanged
    assert values(committed, c.GROUP_OFFSET)[where] == 2
    assert values(reader.read(), c.GROUP_OFFSET)[where] == 2
    assert store.cost_of(reader.read) == unchanged


def test_an_offset_that_upkeep_expires_is_soon_gone_though_its_group_stays(world: LogWorld, reader: LogReader) -> None:
    world.log.admin.alter_offsets("readers", {tp(0): 0})
    world.time.sleep_ms(limits.OFFSETS_RETENTION_MS)
    world.log.admin.alter_offsets("readers", {tp(1): 0})
    before = values(reader.read(), c.GROUP_OFFSET)

    world.time.sleep_ms(MINUTE_MS)
    assert world.log.admin.expire_offsets() == ["readers"]
    world.time.sleep_ms(GROUP_MS)

    assert list(before) == [("readers", TOPIC, "0"), ("readers", TOPIC, "1")]
    assert list(values(reader.read(), c.GROUP_OFFSET)) == [("readers", TOPIC, "1")]


def test_a_group_that_was_deleted_and_made_again_has_its_new_offsets(world: LogWorld, reader: LogReader) -> None:
    world.log.admin.alter_offsets("readers", {tp(0): 0})
    before = values(reader.read(), c.GROUP_OFFSET)
    world.log.admin.delete_group("readers")
    between = values(reader.read(), c.GROUP_OFFSET)
    world.log.admin.alter_offsets("readers", {tp(1): 0})

    assert [list(one) for one in (before, between, values(reader.read(), c.GROUP_OFFSET))] == [
        [("readers", TOPIC, "0")],
        [],
        [("readers", TOPIC, "1")],
    ]


def test_open_transactions_are_asked_for_together(world: LogWorld) -> None:
    store = CountedStore(world.store())
    reader = LogReader(world.open(store).services)
    left_open(world, "first", 0)
    one = store.requests_of(reader.read)
    for number in range(5):
        left_open(world, f"id-{number}", 1)
    reader.read()

    assert values(reader.read(), c.TRANSACTIONS)["open",] == 6
    assert store.requests_of(reader.read) <= one


def test_reading_writes_nothing(world: LogWorld, reader: LogReader) -> None:
    left_open(world, "open", 0)
    store = world.log.services.store

    def znodes(path: str = "/") -> Iterator[tuple[str, object]]:
        yield path, store.get(path)
        for name in store.children(path):
            yield from znodes(f"{path.rstrip('/')}/{name}")

    before = dict(znodes())

    LogSource(world.log).read()

    assert dict(znodes()) == before
