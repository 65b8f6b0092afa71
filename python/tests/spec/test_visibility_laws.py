"""What readers see: committed transactions whole, in order, up to the last stable offset, and nothing else."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from oncelog import limits
from oncelog.errors import FatalError
from oncelog.log import codec
from oncelog.runtime import Log
from oncelog.types import ConsumerRecord, IsolationLevel
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    columns,
    lso,
    numbered,
    records,
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

UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


def interleaved(log: Log) -> None:
    """Offsets 0 and 3 of a committed transaction, 1 and 2 of an aborted one."""
    first, second = started(log, "first"), started(log, "second")
    write_open(first, b"committed-0")
    write_open(second, b"aborted-0")
    send(second, b"aborted-1")
    send(first, b"committed-1")
    second.abort_transaction()
    first.commit_transaction()


# Two transactions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_settled", [False, True])
def test_of_two_interleaved_transactions_only_the_committed_one_is_seen(world: LogWorld, *, is_settled: bool) -> None:
    """conformance: 36."""
    interleaved(world.log)
    if is_settled:
        world.settle()
    found = records(world.log)

    assert [(record.offset, record.value) for record in found] == [(0, b"committed-0"), (3, b"committed-1")]


@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize("max_records", [1, 500])
def test_an_abort_and_a_commit_of_one_producer_are_told_apart_in_one_fetch_and_across_fetches(
    world: LogWorld, max_records: int, *, is_settled: bool
) -> None:
    """conformance: 39."""
    producer = started(world.log)
    expected = []
    for at in range(3):
        write_aborted(producer, *numbered(f"aborted-{at}", 2))
        write_committed(producer, *numbered(f"committed-{at}", 2))
        expected += numbered(f"committed-{at}", 2)
        if is_settled:
            world.settle()
    found = records(world.log, max_records=max_records)

    assert [record.value for record in found] == expected


def test_the_lso_is_the_first_undecided_offset_and_passes_interleaved_ends_in_the_right_order(world: LogWorld) -> None:
    """conformance: 27."""
    log = world.log
    producers = {name: started(log, name) for name in ("a", "b", "c")}
    for name, producer in producers.items():
        write_open(producer, name.encode())
    write_committed(started(log, "d"), b"d")
    assert (lso(log), values(log)) == (0, [])

    producers["b"].commit_transaction()
    assert (lso(log), values(log)) == (0, [])
    producers["a"].abort_transaction()
    assert (lso(log), values(log)) == (2, [b"b"])
    world.settle()
    assert (lso(log), values(log)) == (2, [b"b"])
    producers["c"].commit_transaction()
    assert (lso(log), values(log)) == (state(log).log_end, [b"b", b"c", b"d"])


def test_an_open_transaction_holds_back_later_data_also_outside_of_transactions(log: Log) -> None:
    """conformance: 27."""
    producer = started(log)
    write_open(producer, b"open")
    with log.producer() as plain:
        send(plain, b"plain")
    assert values(log) == []
    producer.abort_transaction()

    assert values(log) == [b"plain"]


def test_a_foreign_transaction_that_holds_half_of_a_committed_one_holds_all_of_it(world: LogWorld) -> None:
    """conformance: 27."""
    log = world.log
    foreign, producer = started(log, "foreign"), started(log)
    write_open(foreign, b"foreign", number=1)
    producer.begin_transaction()
    send(producer, b"half", number=0)
    send(producer, b"half", number=1)
    producer.commit_transaction()
    world.settle()

    assert values(log) == []
    assert lso(log, 0) == state(log, 0).log_end  # alone, the partition knows nothing of the other half
    foreign.commit_transaction()
    assert values(log) == [b"half", b"foreign", b"half"]


def test_a_chain_of_transactions_is_held_back_as_far_as_it_reaches(world: LogWorld) -> None:
    """conformance: 27."""
    log = world.log
    log.create_topic("wide", partitions=4)
    foreign = started(log, "foreign")
    write_open(foreign, b"foreign", number=3, topic="wide")
    for number in (2, 1, 0):
        producer = started(log, f"copier-{number}")
        producer.begin_transaction()
        send(producer, b"link", number=number + 1, topic="wide")
        send(producer, b"link", number=number, topic="wide")
        producer.commit_transaction()
    free = started(log, "free")
    write_committed(free, b"free", topic=TOPIC)
    world.settle()

    assert values(log, topic="wide") == []
    assert values(log) == [b"free"]
    foreign.abort_transaction()
    assert values(log, topic="wide") == [b"link"] * 6


@pytest.mark.parametrize("start", ["latest", "seek"])
def test_a_reader_that_starts_at_the_end_never_gets_one_half_of_a_transaction_alone(log: Log, start: str) -> None:
    """conformance: 27, 37."""
    foreign, producer = started(log, "foreign"), started(log)
    write_open(foreign, b"foreign", number=1)
    producer.begin_transaction()
    send(producer, b"half", number=0)
    send(producer, b"half", number=1)
    producer.commit_transaction()
    with log.consumer(auto_offset_reset="latest" if start == "latest" else "earliest") as consumer:
        consumer.subscribe([TOPIC])
        if start == "seek":
            consumer.seek_to_end()
        assert consumer.poll() == []
        foreign.abort_transaction()
        found = [record.value for record in consumer.poll()]

    assert found == [b"half", b"half"]


# What is undecided ----------------------------------------------------------------------------------------------------


def test_undecided_data_is_invisible_and_bounds_every_way_to_ask_for_the_end(log: Log) -> None:
    """conformance: 37."""
    with log.producer() as plain:
        plain.send(TOPIC, b"plain", partition=0, timestamp_ms=10)
    producer = started(log)
    producer.begin_transaction()
    producer.send(TOPIC, b"open", partition=0, timestamp_ms=20)
    producer.flush()
    with log.consumer(auto_offset_reset="latest") as consumer:
        consumer.assign([tp()])
        consumer.seek_to_end()

        assert consumer.position(tp()) == 1
        assert consumer.end_offsets([tp()]) == {tp(): 1}
        assert consumer.offsets_for_times({tp(): 15}) == {tp(): None}
        assert consumer.poll() == []
        producer.commit_transaction()
        assert consumer.offsets_for_times({tp(): 15}) == {tp(): 1}
        assert [record.value for record in consumer.poll()] == [b"open"]
    with log.consumer(isolation_level=UNCOMMITTED) as consumer:
        assert consumer.end_offsets([tp()]) == {tp(): 2}


def test_read_uncommitted_sees_everything_and_control_markers_never(world: LogWorld) -> None:
    """conformance: 42."""
    interleaved(world.log)
    world.settle()
    write_open(started(world.log), b"open")

    assert state(world.log).log_end == 7
    expected = [b"committed-0", b"aborted-0", b"aborted-1", b"committed-1", b"open"]
    assert uncommitted(world.log) == expected
    assert [record.offset for record in records(world.log, TOPIC, UNCOMMITTED)] == [0, 1, 2, 3, 6]


def test_a_prepared_transaction_blocks_readers_at_its_first_offset_until_it_is_decided(log: Log) -> None:
    """conformance: 55."""
    producer, other = started(log), started(log, "other")
    write_committed(other, b"before")
    write_open(producer, b"prepared")
    producer.prepare_transaction()
    write_committed(other, b"behind")
    write_committed(other, b"elsewhere", number=1)
    with log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp(0)])
        assert [record.value for record in consumer.poll()] == [b"before"]
        producer.commit_transaction()
        assert [record.value for record in consumer.poll()] == [b"prepared", b"behind"]


# Reads that begin or end within aborted data --------------------------------------------------------------------------


@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize("start", range(9))
def test_a_read_that_begins_anywhere_still_leaves_out_aborted_data(
    world: LogWorld, start: int, *, is_settled: bool
) -> None:
    """conformance: 38."""
    producer = started(world.log)
    write_committed(producer, b"a")
    write_open(producer, *numbered("aborted", 2))
    send(producer, *numbered("aborted", 2))
    send(producer, b"aborted")
    producer.abort_transaction()
    write_committed(producer, b"b")
    if is_settled:
        world.settle()
    start = min(start, state(world.log).log_end)
    expected = [value for offset, value in ((0, b"a"), (6, b"b")) if offset >= start]

    assert values(world.log, starts={tp(): start}) == expected


def test_positions_pass_markers_and_fully_aborted_spans_and_that_is_no_data_loss(world: LogWorld) -> None:
    """conformance: 40."""
    producer = started(world.log)
    write_committed(producer, b"a")
    write_aborted(producer, *numbered("aborted", 5))
    world.settle()
    with world.log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp()])
        assert [record.value for record in consumer.poll()] == [b"a"]
        assert consumer.poll() == []
        assert consumer.position(tp()) == state(world.log).log_end == 8
        write_aborted(producer, b"aborted")
        assert consumer.poll() == []
        assert consumer.position(tp()) == state(world.log).log_end


def test_a_poll_that_ends_within_a_block_does_not_pass_what_is_left_of_it(log: Log) -> None:
    """conformance: 40."""
    producer = started(log)
    write_committed(producer, *numbered("a", 3))
    write_aborted(producer, b"aborted")
    with log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp()])
        positions = []
        while consumer.poll(max_records=1):
            positions.append(consumer.position(tp()))

    assert positions == [1, 2, 4]


# Compression ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize("name", codec.CODECS)
def test_aborted_data_of_every_codec_is_left_out_and_committed_data_comes_back(
    world: LogWorld, name: str, *, is_settled: bool
) -> None:
    """conformance: 41."""
    good = [b"%d" % at * 50 for at in range(300)]
    with world.log.producer(transactional_id="copier", codec=name) as producer:
        producer.init_transactions()
        for sent, is_committed in ((good, True), ([b"bad" * 100] * 300, False), (good, True)):
            producer.begin_transaction()
            producer.send_batch(TOPIC, columns(*sent), partition=0)
            producer.flush()
            if is_committed:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    if is_settled:
        world.settle()

    assert values(world.log) == good + good
    assert len(uncommitted(world.log)) == 900


# Large records --------------------------------------------------------------------------------------------------------


def large(size_bytes: int, count: int) -> pa.RecordBatch:
    return columns(*[b"%06d" % at + bytes(size_bytes) for at in range(count)])


def test_a_batch_over_the_block_limit_is_split_and_stays_atomic(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """conformance: 63."""
    size_bytes = limits.BLOCK_TARGET_BYTES // 2
    producer = started(log)
    producer.begin_transaction()
    producer.send_batch(TOPIC, large(size_bytes, 7), partition=0)
    producer.flush()
    with log.consumer(isolation_level=UNCOMMITTED, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp()])
        assert len(consumer.poll_batches()) > 2
    assert values(log) == []
    producer.commit_transaction()

    found = records(log)
    assert [record.offset for record in found] == list(range(7))
    assert [record.value[:6] for record in found if record.value] == [b"%06d" % at for at in range(7)]


def test_an_append_of_more_blocks_than_a_znode_holds_goes_through_a_manifest_and_stays_atomic(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conformance: 63."""
    monkeypatch.setattr(limits, "INLINE_BLOCKS_MAX", 2)
    size_bytes = limits.BLOCK_TARGET_BYTES // 2
    for end, expected in (("commit", 7), ("abort", 7), ("commit", 14)):
        producer = started(log)
        producer.begin_transaction()
        producer.send_batch(TOPIC, large(size_bytes, 7), partition=0)
        producer.flush()
        if end == "commit":
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        assert len(records(log)) == expected
    assert any(name.startswith("manifests/") for name, _, _ in log.services.files.names("manifests"))


# Concurrent readers ---------------------------------------------------------------------------------------------------


def test_a_reader_beside_a_writer_and_settlers_sees_each_transaction_whole_and_once(world: LogWorld) -> None:
    """conformance: 36, 37, 66."""
    log = world.log
    seen: list[ConsumerRecord] = []
    with log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.subscribe([TOPIC])
        foreign = started(log, "foreign")
        producer = started(log)
        for at in range(30):
            if at % 5 == 0:
                write_open(foreign, b"foreign", number=at % 2)
            producer.begin_transaction()
            send(producer, b"%d" % at, number=0)
            send(producer, b"%d" % at, number=1)
            if at % 3 == 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
            if at % 5 == 3:
                foreign.abort_transaction()
            world.time.pass_ms(limits.SETTLE_LAG_MS // 2)
            polled = consumer.poll()
            seen += polled
            assert _values_of(polled, 0) == _values_of(polled, 1)
        seen += consumer.poll()

    expected = [b"%d" % at for at in range(30) if at % 3 != 2]
    assert _values_of(seen, 0) == _values_of(seen, 1) == expected


@pytest.mark.parametrize("ahead", [1, 2, 4, 7])
@pytest.mark.parametrize("is_settled", [False, True])
def test_a_reader_however_far_behind_gets_a_plan_to_its_end_before_anything_newer(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch, ahead: int, *, is_settled: bool
) -> None:
    """conformance: 36, 66."""
    monkeypatch.setattr(limits, "PLANNED_RECORDS", ahead)
    producer = started(world.log)

    def write(name: str) -> None:
        producer.begin_transaction()
        for number in (0, 1, 0, 1):
            send(producer, *numbered(name, 2), number=number)
        producer.commit_transaction()
        write_aborted(producer, *numbered("aborted", 3))
        if is_settled:
            world.settle()

    def both(*names: str) -> list[list[bytes | None]]:
        return [[value for name in names for value in numbered(name, 2) * 2]] * 2

    with world.log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.subscribe([TOPIC])
        write("first")
        write("second")
        whole = consumer.poll()
        write("third")
        first = consumer.poll(max_records=3)
        write("fourth")
        rest = consumer.poll()
        newer = consumer.poll()

        assert [_values_of(whole, number) for number in (0, 1)] == both("first", "second")
        assert [_values_of(first + rest, number) for number in (0, 1)] == both("third")
        assert [_values_of(newer, number) for number in (0, 1)] == both("fourth")
        assert consumer.poll() == []
        assert [consumer.position(tp(number)) for number in (0, 1)] == [
            state(world.log, number).log_end for number in (0, 1)
        ]


def _values_of(found: list[ConsumerRecord], number: int) -> list[Any]:
    return [record.value for record in found if record.partition == number and record.value != b"foreign"]


def test_ends_never_move_back_for_the_same_partitions(world: LogWorld) -> None:
    """conformance: 27."""
    log = world.log
    ends = [(0, 0)]
    producers = [started(log, f"copier-{at}") for at in range(3)]
    for at in range(24):
        producer = producers[at % 3]
        if at % 6 < 3:
            write_open(producer, b"a", number=at % 2)
        else:
            producer.commit_transaction()
        if at % 4 == 0:
            world.settle()
        with log.consumer(auto_offset_reset="latest") as consumer:
            consumer.subscribe([TOPIC])
            ends.append((consumer.position(tp(0)), consumer.position(tp(1))))

    assert all(before[n] <= after[n] for before, after in pairwise(ends) for n in (0, 1))


def test_a_transaction_that_failed_to_commit_is_never_seen(log: Log) -> None:
    """conformance: 3, 10."""
    producer = started(log)
    write_open(producer, b"a")
    started(log)
    with pytest.raises(FatalError):
        producer.commit_transaction()

    assert values(log) == []
