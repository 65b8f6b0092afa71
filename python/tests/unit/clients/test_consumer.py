"""The consumer: positions, seeking, groups, and what it does when a block or an offset cannot be read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import oncelog
from oncelog import limits
from oncelog.clients import fetcher as fetcher_module
from oncelog.clients.consumer import Consumer
from oncelog.coordinator import groups
from oncelog.errors import (
    CorruptDataError,
    DataLossError,
    FileUnavailableError,
    GroupOwnedError,
    IllegalStateTransitionError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    UnknownPartitionError,
    UnknownTopicError,
    UnstableOffsetCommitError,
    UsageError,
)
from oncelog.log import snapshot
from oncelog.log.segment import read_block
from oncelog.runtime import Log
from oncelog.types import BlockSlice, IsolationLevel, OffsetAndMetadata, TopicPartition
from tests.support.harness.waiting import until
from tests.support.log.faulty import Fault, FaultyStore, OvertakenStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    columns,
    log_world,
    lso,
    numbered,
    partition,
    send,
    started,
    tp,
    values,
    write_committed,
    write_open,
)


def from_start(log: Log, *assigned: TopicPartition, **options: Any) -> Consumer:
    consumer = log.consumer(auto_offset_reset="earliest", **options)
    consumer.assign(assigned or [tp(0), tp(1)])
    return consumer


COMMITTED = IsolationLevel.READ_COMMITTED

# Reading --------------------------------------------------------------------------------------------------------------


def test_poll_hands_out_at_most_what_is_asked_and_goes_on_behind_it(log: Log) -> None:
    write_committed(started(log), *numbered("a", 7))
    with from_start(log) as consumer:
        sizes = [len(consumer.poll(max_records=3)) for _ in range(4)]

        assert sizes == [3, 3, 1, 0]
        assert consumer.position(tp()) == 7


def test_small_polls_of_one_block_read_it_once(world: LogWorld) -> None:
    with world.log.producer() as producer:
        producer.send_batch(TOPIC, columns(*numbered("a", 50)), partition=0)
    world.files.reads.clear()
    with from_start(world.log) as consumer:
        found = [record.value for _ in range(50) for record in consumer.poll(max_records=1)]

    assert found == numbered("a", 50)
    assert len(world.files.reads) == 1


def test_each_partition_is_handed_out_in_the_order_of_its_offsets(log: Log) -> None:
    producer = started(log)
    for at in range(4):
        write_committed(producer, b"even-%d" % at, number=0)
        write_committed(producer, b"odd-%d" % at, number=1)

    assert values(log, 0) == numbered("even", 4)
    assert values(log, 1) == numbered("odd", 4)


def test_columns_and_records_tell_the_same(log: Log) -> None:
    with log.producer() as producer:
        producer.send_batch(TOPIC, columns(b"a", None, b"c"), partition=1)
    with from_start(log) as rows, from_start(log) as batches:
        records = rows.poll()
        (batch,) = batches.poll_batches()

    assert (batch.topic, batch.partition, batch.base_offset) == (TOPIC, 1, 0)
    assert [record.value for record in records] == batch.records.column("value").to_pylist() == [b"a", None, b"c"]
    assert [record.offset for record in records] == [0, 1, 2]


def test_poll_waits_until_a_record_comes_or_its_time_is_over(world: LogWorld) -> None:
    with from_start(world.log) as consumer:
        began_ms = world.time.durations_ms
        assert consumer.poll(timeout_ms=500) == []
        assert world.time.durations_ms - began_ms == 500

        write_committed(started(world.log), b"a")
        assert len(consumer.poll(timeout_ms=500)) == 1
        assert world.time.durations_ms - began_ms == 500


def test_poll_plans_again_only_when_something_may_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every 20 ms, but for the time-outs of others; a transaction that others keep open makes no difference."""
    with oncelog.open(tmp_path / "log") as log:
        log.create_topic(TOPIC)
        write_open(started(log, "open"), b"a")
        with from_start(log, tp()) as consumer:
            consumer.poll()
            plan = Mock(wraps=snapshot.take)
            monkeypatch.setattr(snapshot, "take", plan)
            assert consumer.poll(timeout_ms=400) == []

    assert plan.call_count < 400 / limits.LOOK_MS / 2


def test_poll_returns_what_another_process_commits_while_it_waits(tmp_path: Path) -> None:
    with oncelog.open(tmp_path / "log") as log, oncelog.open(tmp_path / "log") as other:
        log.create_topic(TOPIC)
        producer = started(other)
        with from_start(log, tp()) as consumer:
            consumer.poll()
            write_open(producer, b"a")
            committer = threading.Timer(0.1, producer.commit_transaction)
            committer.start()
            assert [record.value for record in consumer.poll(timeout_ms=60_000)] == [b"a"]
            committer.join()


def test_a_paused_partition_is_left_alone_until_it_is_resumed(log: Log) -> None:
    producer = started(log)
    write_committed(producer, b"a", number=0)
    write_committed(producer, b"b", number=1)
    with from_start(log) as consumer:
        consumer.pause([tp(0)])
        assert [record.value for record in consumer.poll()] == [b"b"]
        assert consumer.poll() == []
        consumer.resume([tp(0)])
        assert [record.value for record in consumer.poll()] == [b"a"]


def test_a_subscription_is_all_partitions_of_its_topics(log: Log) -> None:
    log.create_topic("more", partitions=3)
    with log.consumer() as consumer:
        consumer.subscribe(["more", TOPIC])

        assert consumer.assignment() == [tp(0), tp(1), tp(0, "more"), tp(1, "more"), tp(2, "more")]


def test_a_new_assignment_keeps_the_positions_of_partitions_it_has_already(log: Log) -> None:
    write_committed(started(log), *numbered("a", 3))
    with from_start(log, tp(0)) as consumer:
        consumer.poll(max_records=2)
        consumer.assign([tp(0), tp(1)])

        assert [record.value for record in consumer.poll()] == [b"a-2"]


# A block that cannot be read ------------------------------------------------------------------------------------------


class Unreliable:
    """Stands in front of `read_block`: the chosen read fails, as a disk that does not answer for a moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails_at: int, failure: BaseException | None = None) -> None:
        self._read = read_block
        self._reads, self._fails_at = 0, fails_at
        self._failure = failure or FileUnavailableError("the test's disk does not answer")
        monkeypatch.setattr(fetcher_module, "read_block", self)

    def __call__(self, *given: Any) -> Any:
        number, self._reads = self._reads, self._reads + 1
        if number == self._fails_at:
            raise self._failure
        return self._read(*given)


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_a_block_that_cannot_be_read_now_is_neither_skipped_nor_does_it_swallow_others(
    log: Log, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    producer = started(log)
    for at in range(3):
        write_committed(producer, b"a-%d" % at)
    Unreliable(monkeypatch, fails_at)
    found = []
    failures = 0
    with from_start(log) as consumer:
        for _ in range(3):
            try:
                found += [record.value for record in consumer.poll()]
            except FileUnavailableError:
                failures += 1

    assert found == numbered("a", 3)
    assert failures == (1 if fails_at == 0 else 0)


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), MemoryError()], ids=type)
def test_what_a_poll_did_not_hand_out_is_not_committed(
    log: Log, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    """Ctrl-C in the middle of a poll, and the usual commit on the way out."""
    for at in range(3):
        write_committed(started(log), b"a-%d" % at, number=at % 2)
    Unreliable(monkeypatch, 2, failure)
    with from_start(log, group_id="readers") as consumer:
        assert [record.value for record in consumer.poll(max_records=1)] == [b"a-0"]
        with pytest.raises(type(failure)):
            consumer.poll()
        consumer.commit()
        again = [record.value for _ in range(2) for record in consumer.poll()]
    with from_start(log, group_id="readers") as successor:
        by_successor = [record.value for record in successor.poll()]

    assert set(again) == set(by_successor) == {b"a-1", b"a-2"}
    assert len(again) == len(by_successor) == 2


def test_a_block_that_a_poll_took_when_it_was_interrupted_comes_with_the_next_one(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was skipped, and the next commit went beyond it."""
    write_committed(started(log), *numbered("a", 3))

    def interrupt(_: BlockSlice) -> int:
        raise KeyboardInterrupt

    with from_start(log) as consumer:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(BlockSlice, "count", property(interrupt))
            consumer.poll()
        assert [record.value for record in consumer.poll()] == numbered("a", 3)


def test_a_block_whose_file_is_gone_or_damaged_stops_the_reader_for_good_and_names_the_file(tmp_path: Path) -> None:
    with log_world(tmp_path, "sqlite") as world:
        world.is_checked = False
        world.log.create_topic(TOPIC)
        with world.log.producer() as producer:
            send(producer, b"good")
            send(producer, b"bad" * 100)
            send(producer, b"behind")
        path = max((tmp_path / "data").iterdir(), key=lambda file: file.stat().st_size)
        damaged = bytearray(path.read_bytes())
        damaged[-30] ^= 1
        path.write_bytes(damaged)
        with from_start(world.log, tp(0)) as consumer:
            assert [record.value for record in consumer.poll()] == [b"good"]
            for _ in range(2):
                with pytest.raises(CorruptDataError, match=path.name):
                    consumer.poll()
            path.unlink()
            with pytest.raises(DataLossError, match=path.name):
                consumer.poll()
            assert consumer.position(tp()) == 1


# Positions ------------------------------------------------------------------------------------------------------------


def test_without_a_committed_offset_the_reset_says_where_to_start(log: Log) -> None:
    write_committed(started(log), b"a")
    with log.consumer(auto_offset_reset="latest") as latest, log.consumer(auto_offset_reset="none") as nowhere:
        latest.assign([tp()])
        nowhere.assign([tp()])

        assert latest.position(tp()) == lso(log)
        assert latest.poll() == []
        with pytest.raises(OffsetOutOfRangeError, match="auto_offset_reset is none"):
            nowhere.poll()
    with pytest.raises(UsageError, match="auto_offset_reset='first'"):
        log.consumer(auto_offset_reset="first")


@pytest.mark.parametrize(
    ("reset", "expected"), [("earliest", [b"a-0", b"a-1", b"b"]), ("latest", [b"b"]), ("none", None)]
)
def test_a_committed_offset_above_the_log_end_is_out_of_range(
    log: Log, reset: str, expected: list[bytes] | None
) -> None:
    """As in Kafka; it is one when an older copy of the log was restored."""
    write_committed(started(log), *numbered("a", 2))
    with log.consumer(group_id="g", auto_offset_reset=reset) as consumer:
        consumer.assign([tp()])
        consumer.commit({tp(): 99})
        if expected is None:
            for ask in (consumer.poll, lambda: consumer.lag(tp())):
                with pytest.raises(OffsetOutOfRangeError, match=r"auto_offset_reset is none.*position=99, log_end=2"):
                    ask()
            return
        assert consumer.lag(tp()) == (2 if reset == "earliest" else 0)
        write_committed(started(log), b"b")

        assert [record.value for record in consumer.poll(timeout_ms=1000)] == expected


def test_seek_moves_the_position_within_the_log_and_not_beyond(log: Log) -> None:
    write_committed(started(log), *numbered("a", 5))
    with from_start(log, tp(0)) as consumer:
        consumer.seek(tp(), 3)
        assert [record.value for record in consumer.poll()] == [b"a-3", b"a-4"]
        consumer.seek(tp(), 0)
        assert len(consumer.poll()) == 5
        for offset in (-1, 6, 100):
            with pytest.raises(OffsetOutOfRangeError, match=f"offset={offset}, log_start=0, log_end=5"):
                consumer.seek(tp(), offset)
        consumer.seek_to_beginning()
        assert consumer.position(tp()) == 0
        consumer.seek_to_end([tp()])
        assert consumer.poll() == []


def test_a_seek_drops_what_was_planned_before_it(log: Log) -> None:
    write_committed(started(log), *numbered("a", 5))
    with from_start(log, tp(0)) as consumer:
        consumer.poll(max_records=1)
        consumer.seek(tp(), 4)

        assert [record.value for record in consumer.poll()] == [b"a-4"]


def test_offsets_for_times_name_the_first_record_of_that_time_or_later(log: Log) -> None:
    """conformance: 37."""
    with log.producer() as producer:
        for timestamp_ms in (10, 30, 20, 40):
            producer.send(TOPIC, b"a", partition=0, timestamp_ms=timestamp_ms)
        producer.flush()
        producer.send(TOPIC, b"b", partition=0, timestamp_ms=50)
    with log.consumer() as consumer:

        def found(timestamp_ms: int) -> int | None:
            return consumer.offsets_for_times({tp(): timestamp_ms})[tp()]

        assert [found(t) for t in (0, 10, 11, 30, 31, 50, 51)] == [0, 0, 1, 1, 3, 4, None]
        assert consumer.offsets_for_times({tp(1): 0}) == {tp(1): None}


def test_retention_that_overtakes_a_reader_is_an_error_with_both_offsets_and_no_silent_gap(log: Log) -> None:
    """conformance: 40."""
    producer = started(log)
    write_committed(producer, *numbered("a", 3))
    write_committed(producer, *numbered("b", 2))
    with from_start(log, tp(0)) as consumer:
        consumer.poll(max_records=1)
        consumer.seek(tp(), 1)
        log.admin.delete_records({tp(): 3})
        with pytest.raises(DataLossError, match="wanted_offset=1, log_start=3"):
            consumer.poll()
        with pytest.raises(OffsetOutOfRangeError):
            consumer.seek(tp(), 1)
        consumer.seek_to_beginning()

        assert [record.value for record in consumer.poll()] == numbered("b", 2)


def test_a_plan_that_retention_outlived_is_told_as_retention_and_not_as_damage(world: LogWorld) -> None:
    """conformance: 40."""
    producer = started(world.log)
    for at in range(4):
        write_committed(producer, b"a-%d" % at)
    world.settle()
    with from_start(world.log, tp(0)) as consumer:
        assert [record.value for record in consumer.poll(max_records=1)] == [b"a-0"]
        world.log.admin.delete_records({tp(): 6})
        for _ in range(4):
            world.log.admin.collect()
            world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
        with pytest.raises(DataLossError, match="log_start=6"):
            consumer.poll()
        world.log.admin.delete_topic(TOPIC)
        with pytest.raises(UnknownTopicError):
            consumer.poll()


@pytest.mark.parametrize("looks", ["poll", "position", "lag"])
def test_who_starts_at_the_latest_offsets_starts_everywhere_at_once_whatever_is_asked_first(
    log: Log, looks: str
) -> None:
    """conformance: 27."""
    write_open(holder := started(log, "holder"), b"held", number=1)
    write_open(other := started(log, "other"), b"half", number=0)
    send(other, b"half", number=1)
    other.commit_transaction()
    with log.consumer(auto_offset_reset="latest") as consumer:
        consumer.subscribe([TOPIC])
        for one in consumer.assignment():
            {"poll": lambda _: consumer.poll(), "position": consumer.position, "lag": consumer.lag}[looks](one)
        holder.commit_transaction()

        assert [record.value for record in consumer.poll()].count(b"half") in {0, 2}


def test_a_partition_that_is_paused_starts_with_the_others(log: Log) -> None:
    with log.consumer(auto_offset_reset="latest") as consumer:
        consumer.subscribe([TOPIC])
        consumer.pause([tp(1)])
        assert consumer.poll() == []
        write_committed(started(log), b"while it is paused", number=1)
        assert consumer.poll() == []
        consumer.resume([tp(1)])

        assert [record.value for record in consumer.poll()] == [b"while it is paused"]


def test_lag_counts_to_the_last_stable_offset_of_the_partition_alone(log: Log) -> None:
    write_committed(started(log), *numbered("a", 3))
    with from_start(log, tp(0)) as consumer:
        assert consumer.lag(tp()) == 3
        write_open(started(log, "other"), *numbered("open", 5))
        assert consumer.lag(tp()) == 3
        consumer.poll()
        assert consumer.lag(tp()) == 0


def test_a_plan_that_settlers_keep_overtaking_leaves_the_reader_where_it_was(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_committed(started(log), b"a")
    with from_start(log, tp(0)) as consumer:
        with monkeypatch.context() as patched:
            patched.setattr(limits, "PLAN_ATTEMPTS", 0)
            assert consumer.poll() == []

        assert [record.value for record in consumer.poll()] == [b"a"]


# Groups ---------------------------------------------------------------------------------------------------------------


def test_a_consumer_goes_on_where_its_group_committed(log: Log) -> None:
    write_committed(started(log), *numbered("a", 5))
    with from_start(log, tp(0), group_id="g") as consumer:
        consumer.poll(max_records=2)
        consumer.commit()
    with from_start(log, tp(0), group_id="g") as consumer:
        assert [record.value for record in consumer.poll()] == [b"a-2", b"a-3", b"a-4"]
    with from_start(log, tp(0), group_id="other") as consumer:
        assert len(consumer.poll()) == 5


def test_two_consumers_of_a_group_each_get_every_record_and_the_one_that_commits_later_warns(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    write_committed(started(log), *numbered("a", 4))
    with (
        log.consumer(group_id="g", auto_offset_reset="earliest") as first,
        log.consumer(group_id="g", auto_offset_reset="earliest") as second,
    ):
        for consumer in (first, second):
            consumer.subscribe([TOPIC])
            assert [record.value for record in consumer.poll()] == numbered("a", 4)
        first.commit()
        first.commit()
        assert caplog.messages == []

        second.commit()
        first.commit({tp(0): 1})
        second.commit()

    assert caplog.messages == [
        "another consumer of this group commits the same partition, and each of them gets every record: there is no "
        "rebalancing; assign different partitions to each [group_id='g', partition='flights-0']"
    ]


def test_consumers_of_a_group_that_are_assigned_different_partitions_share_it_in_silence(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    producer = started(log)
    consumers = [from_start(log, tp(number), group_id="g") for number in (0, 1)]
    for expected in (numbered("a", 2), numbered("b", 3)):
        for number, consumer in enumerate(consumers):
            write_committed(producer, *expected, number=number)
            assert [record.value for record in consumer.poll()] == expected
            consumer.commit()
    for consumer in consumers:
        consumer.close()

    assert caplog.messages == []


def test_commits_carry_metadata_and_only_what_was_committed_is_found(log: Log) -> None:
    with log.consumer(group_id="g") as consumer:
        consumer.commit({tp(0): OffsetAndMetadata(4, "by hand")})

        assert consumer.committed([tp(0), tp(1)]) == {tp(0): OffsetAndMetadata(4, "by hand")}
        consumer.commit({tp(0): 2})
        assert consumer.committed([tp(0)]) == {tp(0): OffsetAndMetadata(2)}
        consumer.commit({})


def test_offsets_of_a_deleted_topic_are_not_those_of_its_successor(log: Log) -> None:
    with log.consumer(group_id="g") as consumer:
        consumer.commit({tp(0): 4})
        log.admin.delete_topic(TOPIC)
        log.create_topic(TOPIC, partitions=2)

        assert consumer.committed([tp(0)]) == {}


@pytest.mark.parametrize("faults", [[Fault.LOST_REPLY], [Fault.LOST_REQUEST, Fault.LOST_REPLY]])
def test_a_plain_commit_whose_answer_was_lost_is_in_once(world: LogWorld, faults: list[Fault]) -> None:
    """conformance: 16, 46."""
    store = FaultyStore(world.store())
    with world.open(store).consumer(group_id="g") as consumer:
        consumer.commit({tp(): 1})
        store.fail_next(*faults)
        consumer.commit({tp(): 2})
        version = store.get("/groups/g")
        assert version is not None
        assert version.stat.version == 1
        assert consumer.committed([tp()])[tp()].offset == 2


def test_a_plain_commit_of_unknown_outcome_is_not_repeated_over_a_later_one(world: LogWorld) -> None:
    """conformance: 46."""
    rival = world.log.consumer(group_id="g")
    rival.commit({tp(): 1})
    store = OvertakenStore(world.store(), lambda: rival.commit({tp(): 9}))
    with world.open(store).consumer(group_id="g") as consumer:
        store.fail_next(Fault.LOST_REPLY)
        with pytest.raises(OutcomeUnknownError):
            consumer.commit({tp(): 5})

        assert consumer.committed([tp()])[tp()].offset == 9


def test_a_group_held_by_a_dead_producers_offsets_is_freed_when_they_time_out(world: LogWorld) -> None:
    """conformance: 45."""
    dead = started(world.log, transaction_timeout_ms=5000)
    dead.begin_transaction()
    dead.send_offsets_to_transaction({tp(): 3}, "g")
    with from_start(world.log, tp(0), group_id="g") as consumer:
        with pytest.raises(UnstableOffsetCommitError, match="copier"):
            consumer.poll()
        world.time.pass_ms(5001)
        with pytest.raises(UnstableOffsetCommitError):
            consumer.poll()

        assert consumer.poll() == []
        assert consumer.position(tp()) == 0


def test_a_group_that_a_sink_owns_takes_no_plain_commits(log: Log) -> None:
    store = log.services.store
    store.transact(lambda view: groups.next_order(view, "g", owning_prefix="sink"))
    producer = started(log)
    producer.begin_transaction()
    with log.consumer(group_id="g") as consumer, pytest.raises(GroupOwnedError, match="owning_prefix='sink'"):
        consumer.commit({tp(): 1})
    with pytest.raises(GroupOwnedError):
        producer.send_offsets_to_transaction({tp(): 1}, "g")


# Bad calls ------------------------------------------------------------------------------------------------------------


CALLS: dict[str, Callable[[Consumer], object]] = {
    "assign": lambda consumer: consumer.assign([tp()]),
    "subscribe": lambda consumer: consumer.subscribe([TOPIC]),
    "pause": lambda consumer: consumer.pause([tp()]),
    "poll": Consumer.poll,
    "poll_batches": Consumer.poll_batches,
    "position": lambda consumer: consumer.position(tp()),
    "seek": lambda consumer: consumer.seek(tp(), 0),
    "beginning_offsets": lambda consumer: consumer.beginning_offsets([tp()]),
    "end_offsets": lambda consumer: consumer.end_offsets([tp()]),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({tp(): 0}),
    "commit": Consumer.commit,
    "committed": lambda consumer: consumer.committed([tp()]),
    "lag": lambda consumer: consumer.lag(tp()),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_consumer_refuses_every_call(log: Log, call: str) -> None:
    consumer = log.consumer(group_id="g")
    consumer.assign([tp()])
    consumer.close()
    consumer.close()
    with pytest.raises(IllegalStateTransitionError, match="closed"):
        CALLS[call](consumer)


def test_threads_that_share_a_consumer_get_an_error_or_each_record_once(log: Log) -> None:
    send(log.producer(), *numbered("record", 400))
    consumer = from_start(log)
    got: list[int] = []
    refused: list[str] = []
    is_read = threading.Event()

    def read() -> None:
        while not is_read.is_set():
            try:
                found = consumer.poll(max_records=3)
            except IllegalStateTransitionError as error:
                refused.append(str(error))
                continue
            got.extend(record.offset for record in found)
            if not found:
                is_read.set()

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(got) == list(range(400))
    assert all("give each thread a consumer of its own" in message for message in refused)


@pytest.mark.parametrize("call", ["poll", "seek", "commit", "assign", "lag"])
def test_a_call_beside_a_waiting_poll_of_another_thread_is_refused(log: Log, call: str) -> None:
    consumer = from_start(log, tp(0), group_id="g")
    waiting = threading.Thread(target=lambda: consumer.poll(60_000))
    waiting.start()

    def is_refused() -> bool:
        try:
            CALLS[call](consumer)
        except IllegalStateTransitionError as error:
            return "another thread is using this consumer" in str(error)
        return False

    until(is_refused)
    send(log.producer(), b"the poll ends")
    waiting.join(60)
    CALLS[call](consumer)


@pytest.mark.parametrize("call", ["pause", "position", "seek", "lag"])
def test_a_partition_that_is_not_assigned_has_no_position(log: Log, call: str) -> None:
    with log.consumer() as consumer, pytest.raises(UsageError, match="flights-0"):
        CALLS[call](consumer)


@pytest.mark.parametrize("call", ["commit", "committed"])
def test_committed_offsets_need_a_group(log: Log, call: str) -> None:
    with log.consumer() as consumer, pytest.raises(UsageError, match=r"log\.consumer\(group_id"):
        CALLS[call](consumer)
    with pytest.raises(UsageError, match="group id"):
        log.consumer(group_id="")


def test_unknown_topics_and_partitions_are_refused_by_name_and_change_no_assignment(log: Log) -> None:
    with log.consumer(group_id="g") as consumer:
        consumer.assign([tp()])
        with pytest.raises(UnknownTopicError, match="topic='nowhere'"):
            consumer.subscribe(["nowhere"])
        with pytest.raises(UnknownPartitionError, match="partition=2, partitions=2"):
            consumer.assign([tp(2)])
        with pytest.raises(UnknownPartitionError):
            consumer.commit({tp(7): 1})
        with pytest.raises(UsageError, match="offset=-2"):
            consumer.commit({tp(): -2})

        assert consumer.assignment() == [tp()]
        assert consumer.committed([tp()]) == {}


def test_a_topic_that_is_deleted_under_a_reader_is_an_error_that_names_it(log: Log) -> None:
    write_committed(started(log), b"a")
    with from_start(log, tp(0)) as consumer:
        log.admin.delete_topic(TOPIC)
        with pytest.raises(UnknownTopicError, match=TOPIC):
            consumer.poll()


def test_a_range_below_the_log_start_or_beyond_its_end_is_never_read_as_empty(log: Log) -> None:
    """conformance: 28, 40."""
    write_committed(started(log), *numbered("a", 3))
    services = log.services

    def read(start: int, end: int) -> snapshot.VisibleRange:
        files = services.new_index_files()
        return snapshot.visible_range(services.store, files, partition(log), start, end, COMMITTED)

    with pytest.raises(DataLossError, match="wanted_end=9, log_end=3"):
        read(0, 9)
    log.admin.delete_records({tp(): 3})
    with pytest.raises(DataLossError, match="wanted_offset=0, log_start=3"):
        read(0, 3)
