"""The producer: what it accepts, what becomes of its records, and what it remembers when something fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oncelog import limits
from oncelog.clients import delivery as delivery_module
from oncelog.clients.prepared import PreparedTransaction
from oncelog.clients.producer import Producer
from oncelog.errors import (
    AbortableError,
    FileWriteError,
    IllegalStateTransitionError,
    InvalidOptionError,
    InvalidRecordError,
    InvalidTransactionTimeoutError,
    OutcomeUnknownError,
    ProducerFencedError,
    RecordTooLargeError,
    RetriableError,
    TransactionAbortableError,
    UnknownPartitionError,
    UnknownTopicError,
    UsageError,
)
from oncelog.log import partition_log
from oncelog.runtime import Log
from oncelog.types import ProducerIdAndEpoch, RecordMetadata
from oncelog.znodes import paths
from tests.support.log.faulty import Fault, FaultyStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    columns,
    contents,
    full_disk,
    log_world,
    lso,
    numbered,
    partition,
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

# Records --------------------------------------------------------------------------------------------------------------


def test_a_receipt_tells_where_the_record_landed(log: Log) -> None:
    with log.producer() as producer:
        first = producer.send(TOPIC, b"a", partition=1, timestamp_ms=5)
        second = producer.send(TOPIC, b"b", partition=1, timestamp_ms=6)

        assert not first.is_done
        assert second.result() == RecordMetadata(TOPIC, 1, 1, 6)
        assert first.is_done
        assert first.result() == RecordMetadata(TOPIC, 1, 0, 5)


def test_a_record_comes_back_as_it_was_sent(log: Log) -> None:
    headers = (("trace", b"1"), ("empty", b""), ("none", None))
    with log.producer() as producer:
        producer.send(TOPIC, b"value", key=b"key", partition=0, headers=headers, timestamp_ms=7)
        producer.send(TOPIC, None, key=b"gone", partition=0, timestamp_ms=0)

    full, tombstone = records(log)
    assert (full.key, full.value, full.headers, full.timestamp_ms) == (b"key", b"value", headers, 7)
    assert (tombstone.key, tombstone.value, tombstone.headers, tombstone.timestamp_ms) == (b"gone", None, (), 0)


def test_records_of_one_key_go_to_one_partition_by_either_path(log: Log) -> None:
    log.create_topic("many", partitions=7)
    with log.producer() as producer:
        for at in range(20):
            producer.send("many", b"row", key=b"key-%d" % at)
        keys = pa.array([b"key-%d" % at for at in range(20)], pa.binary())
        producer.send_batch("many", columns(*[b"column"] * 20, key=keys))

    found = records(log, "many")
    assert len(found) == 40
    assert len({record.partition for record in found}) > 1
    assert len({(record.key, record.partition) for record in found}) == 20


def test_records_without_a_key_are_spread(log: Log) -> None:
    with log.producer() as producer:
        for _ in range(4):
            producer.send(TOPIC, b"a")

    assert [record.partition for record in records(log)] == [0, 0, 1, 1]


def test_records_without_a_key_are_spread_also_when_topics_are_written_by_turns(log: Log) -> None:
    log.create_topic("other", partitions=2)
    with log.producer() as producer:
        for _ in range(4):
            producer.send(TOPIC, b"a")
            producer.send("other", b"b")

    assert [record.partition for record in records(log)] == [0, 0, 1, 1]
    assert [record.partition for record in records(log, "other")] == [0, 0, 1, 1]


def test_rows_and_columns_sent_in_turn_keep_their_order(log: Log) -> None:
    with log.producer() as producer:
        producer.send(TOPIC, b"0", partition=0)
        producer.send_batch(TOPIC, columns(b"1", b"2"), partition=0)
        producer.send(TOPIC, b"3", partition=0)
        receipts = producer.send_batch(TOPIC, columns(b"4", b"5", timestamp_ms=[7, 8]), partition=0)

        assert receipts[0].result() == RecordMetadata(TOPIC, 0, 4, 7)
    assert values(log, 0) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_an_empty_batch_sends_nothing(log: Log) -> None:
    with log.producer() as producer:
        assert producer.send_batch(TOPIC, columns()) == []
        producer.flush()

    assert state(log).log_end == 0


def test_many_small_batches_become_one_block_and_not_one_each(log: Log) -> None:
    with log.producer() as producer:
        for at in range(200):
            producer.send_batch(TOPIC, columns(b"%d" % at), partition=0)

    with log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp()])
        (batch,) = consumer.poll_batches()
    assert batch.records.column("value").to_pylist() == [b"%d" % at for at in range(200)]


def test_a_full_buffer_is_flushed_by_the_send_that_finds_it_full(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_module, "BUFFER_BYTES", 1000)
    with log.producer() as producer:
        receipts = [producer.send(TOPIC, b"x" * 400, partition=0) for _ in range(4)]

        assert [receipt.is_done for receipt in receipts] == [True, True, True, False]


def test_small_batches_fill_the_buffer_by_what_they_take(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record batch costs some objects beside its records."""
    monkeypatch.setattr(delivery_module, "BUFFER_BYTES", 10_000)
    with log.producer() as producer:
        receipts = [producer.send_batch(TOPIC, columns(b"x"), partition=0)[0] for _ in range(4)]

        assert [receipt.is_done for receipt in receipts] == [True, True, True, False]


def test_a_send_that_cannot_make_room_takes_nothing(world: LogWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller sends it again, and it is there once."""
    monkeypatch.setattr(delivery_module, "BUFFER_BYTES", 1)
    store, log = faulty(world)
    with log.producer(delivery_timeout_ms=0) as producer:
        producer.send(TOPIC, b"a", partition=0)
        store.fail_next(*[Fault.LOST_REQUEST] * 10)
        with pytest.raises(OutcomeUnknownError):
            producer.send(TOPIC, b"b", partition=0)
        with pytest.raises(OutcomeUnknownError):
            producer.send_batch(TOPIC, columns(b"c"), partition=0)
        store.fail_next()
        producer.send(TOPIC, b"b", partition=0)

    assert values(log) == [b"a", b"b"]


def test_closing_an_idempotent_producer_sends_what_is_left(log: Log) -> None:
    producer = log.producer()
    producer.send(TOPIC, b"a")
    producer.close()
    producer.close()

    assert values(log) == [b"a"]


def test_closing_a_transactional_producer_aborts_what_is_open_but_not_what_is_prepared(log: Log) -> None:
    opened = started(log, "opened")
    write_open(opened, b"open")
    opened.close()
    prepared = started(log, "prepared")
    write_open(prepared, b"prepared")
    token = prepared.prepare_transaction()
    prepared.close()

    successor = log.producer(transactional_id="prepared")
    assert successor.init_transactions(keep_prepared=True) == token
    assert successor.complete_transaction(token)
    assert values(log) == [b"prepared"]


# Transactions ---------------------------------------------------------------------------------------------------------


def test_the_context_commits_on_success_and_aborts_on_an_exception(log: Log) -> None:
    producer = started(log)
    with producer.transaction():
        producer.send(TOPIC, b"good")
    with pytest.raises(ZeroDivisionError), producer.transaction():
        producer.send(TOPIC, b"bad")
        producer.flush()
        raise ZeroDivisionError
    with producer.transaction():
        producer.send(TOPIC, b"good too")

    assert sorted(values(log), key=str) == [b"good too", b"good"]
    assert b"bad" in uncommitted(log)


def test_a_transaction_may_be_ended_by_hand_within_its_context(log: Log) -> None:
    producer = started(log)
    with producer.transaction():
        producer.send(TOPIC, b"a")
        producer.abort_transaction()

    assert values(log) == []


def test_records_dropped_by_an_abort_say_so_on_their_receipt(log: Log) -> None:
    producer = started(log)
    producer.begin_transaction()
    receipt = producer.send(TOPIC, b"a")
    producer.abort_transaction()

    with pytest.raises(Exception, match="dropped because its transaction was aborted"):
        receipt.result()


@pytest.mark.parametrize("end", [Producer.commit_transaction, Producer.abort_transaction])
def test_a_transaction_without_data_touches_nothing(log: Log, end: Callable[[Producer], None]) -> None:
    """conformance: 9."""
    producer = started(log)
    before = log.services.coordinator.describe("copier")
    producer.begin_transaction()
    end(producer)

    assert log.services.coordinator.describe("copier") == before
    write_committed(producer, b"a")
    assert values(log) == [b"a"]


def test_offsets_alone_make_a_transaction_that_leaves_nothing_behind(log: Log) -> None:
    producer = started(log)
    for offset in range(3):
        producer.begin_transaction()
        producer.send_offsets_to_transaction({tp(): offset}, "g")
        producer.commit_transaction()

    store = log.services.store
    assert store.children("/transactions/copier") == []
    with log.consumer(group_id="g") as consumer:
        assert consumer.committed([tp()])[tp()].offset == 2


def test_no_offsets_begin_no_transaction(log: Log) -> None:
    producer = started(log)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({}, "g")
    producer.commit_transaction()

    assert log.services.store.children("/groups") == []


@pytest.mark.slow
def test_the_offsets_of_hundreds_of_partitions_are_staged_and_settled_in_bounded_steps(tmp_path: Path) -> None:
    with log_world(tmp_path) as world:
        for name in ("one", "two", "three"):
            world.log.create_topic(name, partitions=400)
        offsets = {tp(number, name): number for name in ("one", "two", "three") for number in range(400)}
        producer = started(world.log)
        producer.begin_transaction()
        producer.send("one", b"a", partition=0)
        producer.send_offsets_to_transaction(offsets, "g")
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send_offsets_to_transaction(dict.fromkeys(offsets, 1000), "g")
        producer.abort_transaction()

        with world.log.consumer(group_id="g") as consumer:
            assert {each: found.offset for each, found in consumer.committed(offsets).items()} == offsets
            consumer.commit(dict.fromkeys(offsets, 7))
            assert {found.offset for found in consumer.committed(offsets).values()} == {7}
        world.log.admin.settle()


def test_headers_are_those_of_the_call_whatever_the_caller_does_with_them_afterwards(log: Log) -> None:
    headers: list[tuple[str, bytes | None]] = []
    with log.producer() as producer:
        for number in range(3):
            headers[:] = [("number", b"%d" % number)]
            producer.send(TOPIC, b"", partition=0, headers=headers)
        producer.send(TOPIC, b"", partition=0, headers=(pair for pair in headers))
        headers.append(("bad", 5))  # type: ignore[arg-type]

    assert [record.headers for record in records(log)] == [(("number", b"%d" % number),) for number in (0, 1, 2, 2)]


# Bad calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [{"topic": 7}, {"partition": "0"}, {"value": "text"}, {"timestamp_ms": 1.5}])
def test_a_record_that_is_refused_costs_neither_an_identity_nor_a_flush(
    memory_world: LogWorld, monkeypatch: pytest.MonkeyPatch, bad: dict[str, Any]
) -> None:
    monkeypatch.setattr(delivery_module, "BUFFER_BYTES", 1)
    producer = memory_world.log.producer()
    before = contents(memory_world)
    with pytest.raises(UsageError):
        producer.send(**{"topic": TOPIC, "value": b"", **bad})
    assert contents(memory_world) == before

    receipt = producer.send(TOPIC, b"good")
    with pytest.raises(UsageError):
        producer.send(**{"topic": TOPIC, "value": b"", **bad})
    assert not receipt.is_done
    producer.close()


def test_a_table_is_sent_as_a_record_batch_is(log: Log) -> None:
    with log.producer() as producer:
        producer.send_batch(TOPIC, pa.Table.from_batches([columns(b"a"), columns(b"b")]), partition=0)

    assert values(log) == [b"a", b"b"]


TOO_LARGE = bytes(limits.MAX_RECORD_BYTES + 1)
BAD_RECORDS: list[tuple[dict[str, Any], type[UsageError], str]] = [
    ({"topic": "fligths"}, UnknownTopicError, "topic='fligths'"),
    ({"partition": 2}, UnknownPartitionError, "partitions=2"),
    ({"partition": -1}, UnknownPartitionError, "partition=-1"),
    ({"value": "text"}, InvalidRecordError, "part='value', found='str'"),
    ({"value": 3}, InvalidRecordError, "part='value'"),
    ({"key": "text"}, InvalidRecordError, "part='key'"),
    ({"headers": [("name", "text")]}, InvalidRecordError, "part='headers'"),
    ({"headers": [(b"name", b"bytes")]}, InvalidRecordError, "part='headers'"),
    ({"headers": [("\ud800", b"bytes")]}, InvalidRecordError, "part='headers'"),
    ({"headers": [("name", b"1", b"2")]}, InvalidRecordError, "part='headers'"),
    ({"headers": {"name": b"bytes"}}, InvalidRecordError, "part='headers'"),
    ({"timestamp_ms": -5}, InvalidRecordError, "found=-5"),
    ({"timestamp_ms": 1.5}, InvalidRecordError, "found=1.5"),
    ({"timestamp_ms": 2**63}, InvalidRecordError, "part='timestamp_ms'"),
    ({"timestamp_ms": True}, InvalidRecordError, "found=True"),
    ({"value": TOO_LARGE}, RecordTooLargeError, "maximum=16777216"),
    ({"headers": [("name", TOO_LARGE)]}, RecordTooLargeError, "maximum=16777216"),
]


@pytest.mark.parametrize(
    ("given", "error", "names"), BAD_RECORDS, ids=lambda given: "-".join(given) if isinstance(given, dict) else None
)
def test_a_bad_record_is_refused_by_name_and_the_transaction_goes_on(
    log: Log, given: dict[str, Any], error: type[UsageError], names: str
) -> None:
    """conformance: 63."""
    producer = started(log)
    producer.begin_transaction()
    producer.send(TOPIC, b"before", partition=0)
    with pytest.raises(error) as raised:
        producer.send(**{"topic": TOPIC, "value": b"bad", **given})
    producer.send(TOPIC, b"after", partition=0)
    producer.commit_transaction()

    assert names in str(raised.value)
    assert uncommitted(log) == [b"before", b"after"]


BAD_COLUMNS: list[tuple[pa.RecordBatch, str]] = [
    (pa.record_batch({"key": pa.array([b"k"])}), "column='value'"),
    (pa.record_batch({"value": pa.array([1.5])}), "column='value'"),
    (columns(b"a", offset=pa.array([1])), "column='offset'"),
    (columns(b"a", headers=pa.array(["no"])), "column='headers'"),
    (columns(b"a", timestamp_ms=pa.array([-1])), "column='timestamp_ms'"),
]


@pytest.mark.parametrize(("batch", "names"), BAD_COLUMNS, ids=lambda given: str(given)[-30:])
def test_bad_columns_are_refused_by_name_and_nothing_is_sent(log: Log, batch: pa.RecordBatch, names: str) -> None:
    with log.producer() as producer, pytest.raises(InvalidRecordError) as raised:
        producer.send_batch(TOPIC, batch)

    assert names in str(raised.value)
    assert state(log).log_end == state(log, 1).log_end == 0


def test_a_batch_for_a_partition_out_of_range_is_refused(log: Log) -> None:
    with log.producer() as producer, pytest.raises(UnknownPartitionError, match="partitions=2"):
        producer.send_batch(TOPIC, columns(b"a"), partition=2)

    log.create_topic("single")
    with log.producer() as producer, pytest.raises(UnknownPartitionError, match="partitions=1"):
        producer.send_batch("single", columns(b"a"), partition=1)


@pytest.mark.parametrize("timeout_ms", [0, -1, limits.MAX_TRANSACTION_TIMEOUT_MS + 1])
def test_a_transaction_timeout_out_of_bounds_is_refused_and_a_right_one_is_taken(log: Log, timeout_ms: int) -> None:
    """conformance: 12."""
    with (
        log.producer(transactional_id="copier", transaction_timeout_ms=timeout_ms) as producer,
        pytest.raises(InvalidTransactionTimeoutError, match=f"timeout_ms={timeout_ms}"),
    ):
        producer.init_transactions()

    assert log.services.store.get("/transactions/copier") is None


def test_unknown_options_are_refused_when_the_client_is_made(log: Log) -> None:
    with pytest.raises(InvalidOptionError, match="codec='gzip'"):
        log.producer(codec="gzip")
    with pytest.raises(UsageError, match="transactional id"):
        log.producer(transactional_id="")
    with pytest.raises(InvalidOptionError, match="isolation_level='dirty'"):
        log.consumer(isolation_level="dirty")


@pytest.mark.parametrize("offset", [-1, -100])
def test_a_negative_offset_is_refused(log: Log, offset: int) -> None:
    producer = started(log)
    producer.begin_transaction()
    with pytest.raises(UsageError, match=f"offset={offset}"):
        producer.send_offsets_to_transaction({tp(): offset}, "g")
    with pytest.raises(UsageError, match="group id"):
        producer.send_offsets_to_transaction({tp(): 1}, "")
    with pytest.raises(UnknownTopicError):
        producer.send_offsets_to_transaction({tp(0, "nowhere"): 1}, "g")
    producer.abort_transaction()

    assert log.services.store.children("/groups") == []


CALLS: dict[str, Callable[[Producer], object]] = {
    "init_transactions": Producer.init_transactions,
    "begin_transaction": Producer.begin_transaction,
    "send": lambda producer: producer.send(TOPIC, b"a"),
    "send_batch": lambda producer: producer.send_batch(TOPIC, columns(b"a")),
    "send_offsets_to_transaction": lambda producer: producer.send_offsets_to_transaction({tp(): 1}, "g"),
    "prepare_transaction": Producer.prepare_transaction,
    "commit_transaction": Producer.commit_transaction,
    "abort_transaction": Producer.abort_transaction,
    "complete_transaction": lambda producer: producer.complete_transaction(
        PreparedTransaction("copier", ProducerIdAndEpoch(0, 0))
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_producer_refuses_every_call(log: Log, call: str) -> None:
    producer = started(log)
    producer.close()
    with pytest.raises(IllegalStateTransitionError, match="closed"):
        CALLS[call](producer)


@pytest.mark.parametrize("call", [name for name in CALLS if name != "init_transactions"])
def test_before_init_transactions_every_call_is_refused_and_says_what_is_legal(log: Log, call: str) -> None:
    producer = log.producer(transactional_id="copier")
    with pytest.raises(IllegalStateTransitionError, match="legal='init_transactions, close'"):
        CALLS[call](producer)


@pytest.mark.parametrize("call", [name for name in CALLS if name not in {"send", "send_batch"}])
def test_transactions_without_a_transactional_id_say_what_is_missing(log: Log, call: str) -> None:
    with log.producer() as producer, pytest.raises(UsageError, match=r"log\.producer\(transactional_id"):
        CALLS[call](producer)


@pytest.mark.parametrize("call", ["send", "send_batch", "commit_transaction", "abort_transaction"])
def test_outside_of_a_transaction_nothing_is_sent_or_ended(log: Log, call: str) -> None:
    """conformance: 31."""
    producer = started(log)
    with pytest.raises(IllegalStateTransitionError, match="begin_transaction"):
        CALLS[call](producer)

    assert state(log).log_end == 0


def test_a_prepared_transaction_takes_no_more_calls_than_its_end(log: Log) -> None:
    """conformance: 55."""
    producer = started(log)
    write_open(producer, b"a")
    producer.prepare_transaction()
    for call in ("begin_transaction", "send", "send_batch", "send_offsets_to_transaction", "prepare_transaction"):
        with pytest.raises(IllegalStateTransitionError, match="commit_transaction"):
            CALLS[call](producer)
    producer.commit_transaction()

    assert values(log) == [b"a"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1:2",
        "1:2:",
        "a:2:copier",
        "1:b:copier",
        "-1:2:copier",
        "²:2:copier",
        "9" * 5000 + ":0:copier",
        f"0:{2**63}:copier",
    ],
)
def test_a_text_that_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="token="):
        PreparedTransaction.parse(text)


def test_a_token_of_another_transactional_id_ends_nothing(log: Log) -> None:
    tokens = []
    for name in ("orders", "payments"):
        write_open(producer := started(log, name), name.encode())
        tokens.append(producer.prepare_transaction())
    successor = log.producer(transactional_id="orders")
    successor.init_transactions(keep_prepared=True)

    with pytest.raises(UsageError, match="transactional_id='orders'"):
        successor.complete_transaction(tokens[1])

    assert successor.complete_transaction(tokens[0])
    assert values(log) == [b"orders"]


def test_a_token_survives_its_text() -> None:
    token = PreparedTransaction("a:b:c", ProducerIdAndEpoch(12, 3))

    assert PreparedTransaction.parse(str(token)) == token


# Failures -------------------------------------------------------------------------------------------------------------


def test_a_failed_flush_fails_its_receipts_and_leaves_only_the_abort(world: LogWorld) -> None:
    files = full_disk(world)
    log = world.open()
    producer = started(log)
    producer.begin_transaction()
    receipt = producer.send(TOPIC, b"a")
    files.is_full = True
    with pytest.raises(FileWriteError):
        producer.flush()
    with pytest.raises(FileWriteError):
        receipt.result()
    for call in ("send", "commit_transaction", "prepare_transaction"):
        with pytest.raises(IllegalStateTransitionError, match="abort_transaction"):
            CALLS[call](producer)
    producer.abort_transaction()

    files.is_full = False
    write_committed(producer, b"b")
    assert values(log) == [b"b"]


def test_a_commit_whose_flush_fails_is_aborted_by_its_context(world: LogWorld) -> None:
    files = full_disk(world)
    producer = started(world.open())
    with pytest.raises(FileWriteError), producer.transaction():
        producer.send(TOPIC, b"a")
        files.is_full = True
    files.is_full = False
    write_committed(producer, b"b")

    assert values(world.log) == [b"b"]


class FullDisk:
    """The disk that files and znodes share, which fails them as test_files.py and test_sqlite_file.py show."""

    def __init__(self, world: LogWorld) -> None:
        self._files = full_disk(world)
        self._store, self.log = faulty(world)

    def fill(self) -> None:
        self._files.is_full = True
        self._store.fail_next(*[Fault.UNAVAILABLE] * 100_000)

    def free(self) -> None:
        self._files.is_full = False
        self._store.fail_next()


def stage(producer: Producer) -> None:
    producer.send_offsets_to_transaction({tp(): 5}, "g")


AT_FULL_DISK: dict[str, tuple[Callable[[Producer], object], Callable[[Producer], object]]] = {
    "send": (lambda producer: None, lambda producer: producer.send(TOPIC, b"never")),
    "send behind a flush": (Producer.flush, lambda producer: producer.send(TOPIC, b"never")),
    "flush": (lambda producer: None, Producer.flush),
    "offsets": (Producer.flush, stage),
    "commit": (lambda producer: None, lambda producer: None),
    "commit behind a flush": (Producer.flush, lambda producer: None),
    "commit with offsets": (stage, lambda producer: None),
}


@pytest.mark.parametrize("ending", ["transaction", "close"])
@pytest.mark.parametrize("failing", AT_FULL_DISK)
def test_a_transaction_that_found_the_disk_full_is_aborted_before_the_next_one(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch, failing: str, ending: str
) -> None:
    disk = FullDisk(world)
    producer = started(disk.log, delivery_timeout_ms=1000)
    write_committed(producer, b"first")
    before, call = AT_FULL_DISK[failing]
    if failing.startswith("send"):
        monkeypatch.setattr(delivery_module, "BUFFER_BYTES", 1)
    with pytest.raises((AbortableError, RetriableError)), producer.transaction():
        producer.send(TOPIC, b"aborted", partition=0)
        before(producer)
        disk.fill()
        call(producer)
    disk.free()
    if ending == "close":
        producer.close()
        assert values(world.log) == [b"first"]
        assert lso(world.log) == state(world.log).log_end
        return
    with producer.transaction():
        producer.send(TOPIC, b"next", partition=0)

    assert values(world.log) == [b"first", b"next"]
    assert lso(world.log) == state(world.log).log_end
    with world.log.consumer(group_id="g") as consumer:
        assert consumer.committed([tp()]) == {}


def test_a_commit_whose_file_is_written_before_the_disk_is_full_is_aborted_before_the_next_one(
    world: LogWorld,
) -> None:
    store, log = faulty(world)
    producer = started(log, delivery_timeout_ms=1000)
    with pytest.raises(RetriableError), producer.transaction():
        producer.send(TOPIC, b"aborted", partition=0)
        store.fail_next(*[Fault.UNAVAILABLE] * 1000)
    store.fail_next()
    with producer.transaction():
        producer.send(TOPIC, b"next", partition=0)

    assert values(world.log) == [b"next"]


def test_a_commit_that_may_have_been_done_is_not_aborted_by_the_next_transaction(world: LogWorld) -> None:
    """It would begin beside a commit that nobody knows of; the same commit again says what became of it."""
    store, log = faulty(world)
    producer = started(log, delivery_timeout_ms=0)
    with pytest.raises(OutcomeUnknownError), producer.transaction():
        producer.send(TOPIC, b"a", partition=0)
        store.fail_next(*[Fault.LOST_REQUEST] * 5, *[Fault.UNAVAILABLE] * 5)
    with pytest.raises(RetriableError):
        producer.commit_transaction()
    with pytest.raises(IllegalStateTransitionError, match="commit_transaction"), producer.transaction():
        pass
    store.fail_next()
    producer.commit_transaction()
    write_committed(producer, b"b")

    assert values(world.log) == [b"a", b"b"]


def test_an_error_of_the_block_is_raised_though_the_abort_behind_it_fails(world: LogWorld) -> None:
    disk = FullDisk(world)
    producer = started(disk.log, delivery_timeout_ms=0)
    with pytest.raises(ZeroDivisionError) as raised, producer.transaction():
        send(producer, b"aborted")
        disk.fill()
        raise ZeroDivisionError
    disk.free()
    write_committed_by_block(producer, b"next")

    assert "could not be aborted" in raised.value.__notes__[0]
    assert values(world.log) == [b"next"]


def write_committed_by_block(producer: Producer, value: bytes) -> None:
    with producer.transaction():
        producer.send(TOPIC, value, partition=0)


def test_a_producer_that_found_the_disk_full_is_initialised_once_there_is_room(world: LogWorld) -> None:
    disk = FullDisk(world)
    producer = disk.log.producer(transactional_id="copier")
    disk.fill()
    with pytest.raises(RetriableError):
        producer.init_transactions()
    disk.free()
    producer.init_transactions()
    write_committed_by_block(producer, b"a")

    assert values(world.log) == [b"a"]


def test_a_block_that_keeps_a_failed_send_to_itself_does_not_end_as_if_it_had_committed(world: LogWorld) -> None:
    files = full_disk(world)
    producer = started(world.open())
    with pytest.raises(TransactionAbortableError, match="so the transaction was aborted"), producer.transaction():
        producer.send(TOPIC, b"a")
        files.is_full = True
        with suppress(FileWriteError):
            producer.flush()
    files.is_full = False
    write_committed(producer, b"b")

    assert values(world.log) == [b"b"]


def test_a_block_that_keeps_its_fencing_to_itself_does_not_end_as_if_it_had_committed(log: Log) -> None:
    producer = started(log)
    with pytest.raises(IllegalStateTransitionError, match="fatal_error"), producer.transaction():
        producer.send(TOPIC, b"a")
        started(log)
        with suppress(ProducerFencedError):
            producer.flush()

    assert values(log) == []


def test_a_commit_of_unknown_outcome_within_a_block_is_asked_again_at_its_end(world: LogWorld) -> None:
    store, log = faulty(world)
    producer = started(log, delivery_timeout_ms=0)
    with producer.transaction():
        producer.send(TOPIC, b"a")
        store.fail_next(*[Fault.LOST_REQUEST] * 5)
        with pytest.raises(OutcomeUnknownError):
            producer.commit_transaction()

    assert values(world.log) == [b"a"]


def faulty(world: LogWorld) -> tuple[FaultyStore, Log]:
    store = FaultyStore(world.store())
    return store, world.open(store)


UNKNOWN = [[Fault.LOST_REQUEST] * 5, [*[Fault.LOST_REQUEST] * 4, Fault.LOST_REPLY]]
"""Every attempt of a step gets no answer; the last one was, or was not, carried out."""


@pytest.mark.parametrize("faults", UNKNOWN, ids=["lost", "done"])
def test_what_an_idempotent_producer_sent_with_an_unknown_outcome_is_in_the_log_once_before_what_it_sends_next(
    world: LogWorld, faults: list[Fault]
) -> None:
    """conformance: 22."""
    store, log = faulty(world)
    with log.producer(delivery_timeout_ms=0) as producer:
        send(producer, b"first")
        receipt = producer.send(TOPIC, b"unknown", partition=0)
        store.fail_next(*faults)
        with pytest.raises(OutcomeUnknownError):
            producer.flush()
        assert not receipt.is_done
        send(producer, b"second")

    assert values(log) == [b"first", b"unknown", b"second"]
    assert receipt.result().offset == 1


@pytest.mark.parametrize("faults", [*UNKNOWN, [Fault.UNAVAILABLE]], ids=["lost", "done", "away"])
def test_a_flush_of_an_idempotent_producer_goes_on_where_it_got_no_answer(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch, faults: list[Fault]
) -> None:
    """conformance: 16, 22."""
    monkeypatch.setattr(partition_log, "PARTITIONS_PER_STEP", 1)
    store, log = faulty(world)
    with log.producer(delivery_timeout_ms=0) as producer:
        receipts = [producer.send(TOPIC, b"%d" % number, partition=number) for number in (0, 1)]
        store.fail_next(None, *faults)
        with pytest.raises((OutcomeUnknownError, RetriableError)):
            producer.flush()
        assert [receipt.is_done for receipt in receipts] == [True, False]
        producer.flush()

    assert [receipt.result().offset for receipt in receipts] == [0, 0]
    assert [values(log, number) for number in (0, 1)] == [[b"0"], [b"1"]]


def test_what_an_idempotent_producer_buffered_behind_dropped_records_is_sent(world: LogWorld) -> None:
    """As the simulation's seed 4108 found it: a flush again failed for good, with later records in the buffer."""
    store, log = faulty(world)
    log.create_topic("other")
    with log.producer(delivery_timeout_ms=0) as producer:
        send(producer, b"first")
        dropped = producer.send("other", b"dropped")
        store.fail_next(Fault.UNAVAILABLE)
        with pytest.raises(RetriableError):
            producer.flush()
        buffered = producer.send(TOPIC, b"buffered", partition=0)
        log.admin.delete_topic("other")
        with pytest.raises(UnknownTopicError):
            producer.flush()

    with pytest.raises(UnknownTopicError):
        dropped.result()
    assert buffered.result().offset == 1
    assert values(log) == [b"first", b"buffered"]


def test_what_is_sent_behind_dropped_records_is_never_taken_for_them_though_they_are_in_the_log(
    world: LogWorld,
) -> None:
    """A flush got no answer, though it was carried out, and failed for good when it was tried again."""
    store, log = faulty(world)
    log.create_topic("other")
    with log.producer(delivery_timeout_ms=0) as producer:
        producer.send(TOPIC, b"in the log", partition=0)
        producer.send("other", b"gone")
        store.fail_next(*UNKNOWN[1])
        with pytest.raises(OutcomeUnknownError):
            producer.flush()
        log.admin.delete_topic("other")
        with pytest.raises(UnknownTopicError):
            producer.flush()
        send(producer, b"next")

    assert values(log) == [b"in the log", b"next"]


def test_closing_a_producer_that_gets_no_answer_fails_the_receipts_of_all_it_has(world: LogWorld) -> None:
    store, log = faulty(world)
    producer = log.producer(delivery_timeout_ms=0)
    receipts = [producer.send(TOPIC, b"a", partition=0)]
    store.fail_next(*[Fault.UNAVAILABLE] * 2)
    with pytest.raises(RetriableError):
        producer.flush()
    receipts.append(producer.send(TOPIC, b"b", partition=0))
    with pytest.raises(RetriableError):
        producer.close()

    for receipt in receipts:
        with pytest.raises(RetriableError):
            receipt.result()
    assert values(log) == []


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_committed_transaction_is_never_called_failed_because_its_topic_went(
    world: LogWorld, partitions: int
) -> None:
    """The answer of the commit was lost, and the topic deleted before it was asked again."""
    store, log = faulty(world)
    log.create_topic("other")
    producer = started(log, delivery_timeout_ms=0)
    producer.begin_transaction()
    receipts = [producer.send("other", b"a")]
    if partitions == 2:
        receipts.append(producer.send(TOPIC, b"b", partition=0))
    store.fail_next(*[Fault.LOST_REQUEST] * 4, Fault.LOST_REPLY)
    with pytest.raises(OutcomeUnknownError):
        producer.commit_transaction()
    world.log.admin.delete_topic("other")
    producer.commit_transaction()
    write_committed(producer, b"next")

    assert values(log) == [b"b", b"next"][2 - partitions :]
    with pytest.raises((UnknownTopicError, OutcomeUnknownError)):
        receipts[0].result()
    assert [receipt.result().offset for receipt in receipts[1:]] == [0] * (partitions - 1)


@pytest.mark.parametrize("transactional", [True, False])
def test_what_is_in_the_log_is_not_called_failed_because_its_topic_went_before_the_tail_was_rolled(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch, *, transactional: bool
) -> None:
    """As the simulation's seed 35551 found it."""
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 1)
    log = world.log
    log.create_topic("other")
    roll = partition_log.roll

    def roll_late(*arguments: Any) -> bool:
        if "other" in [topic.topic for topic in log.admin.list_topics()]:
            log.admin.delete_topic("other")
        return roll(*arguments)

    monkeypatch.setattr(partition_log, "roll", roll_late)
    producer = started(log) if transactional else log.producer()
    if transactional:
        producer.begin_transaction()
    receipt = producer.send("other", b"a")
    if transactional:
        producer.commit_transaction()

    assert receipt.result().offset == 0


def test_a_forked_child_has_no_part_in_the_producer_of_its_parent(log: Log) -> None:
    """Under the same id its records would have the sequences of its parent's, and be taken for them."""
    producer, opened = log.producer(), started(log)
    receipt = producer.send(TOPIC, b"parent", partition=0)
    opened.begin_transaction()
    child = os.fork()
    if child == 0:
        refused = 0
        try:
            for call in (
                lambda: producer.send(TOPIC, b"child"),
                opened.commit_transaction,
                producer.flush,
                receipt.result,
            ):
                with suppress(IllegalStateTransitionError):
                    call()
                    continue
                refused += 1
            producer.close()
            opened.close()
        finally:
            os._exit(refused)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 4
    assert receipt.result().offset == 0
    opened.commit_transaction()
    assert values(log) == [b"parent"]


@pytest.mark.parametrize("faults", UNKNOWN, ids=["lost", "done"])
def test_offsets_of_an_unknown_outcome_are_aborted_with_their_transaction(world: LogWorld, faults: list[Fault]) -> None:
    """conformance: 44."""
    store, log = faulty(world)
    producer = started(log)
    producer.begin_transaction()
    store.fail_next(*faults)
    with pytest.raises(OutcomeUnknownError):
        producer.send_offsets_to_transaction({tp(): 5}, "g")
    producer.abort_transaction()
    write_committed(producer, b"next")

    with log.consumer(group_id="g") as consumer:
        assert consumer.committed([tp()]) == {}


def test_a_store_that_is_away_longer_than_the_delivery_timeout_fails_the_flush(world: LogWorld) -> None:
    """conformance: 16."""
    store, log = faulty(world)
    producer = started(log, delivery_timeout_ms=1000)
    producer.begin_transaction()
    receipt = producer.send(TOPIC, b"a")
    began_ms = world.time.durations_ms
    store.fail_next(*[Fault.UNAVAILABLE] * 1000)
    with pytest.raises(TransactionAbortableError):
        producer.flush()
    assert world.time.durations_ms - began_ms >= 1000
    store.fail_next()

    with pytest.raises(RetriableError):
        receipt.result()
    producer.abort_transaction()
    write_committed(producer, b"b")
    assert values(log) == [b"b"]


@pytest.mark.parametrize("call", ["commit_transaction", "prepare_transaction"])
@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST_REQUEST])
def test_a_transaction_whose_records_could_not_be_sent_is_to_be_aborted_whatever_call_found_it(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch, call: str, fault: Fault
) -> None:
    """The same call again would end it without them. Of several appends the commit takes the last one only."""
    monkeypatch.setattr(partition_log, "PARTITIONS_PER_STEP", 1)
    store, log = faulty(world)
    producer = started(log, delivery_timeout_ms=0)
    producer.begin_transaction()
    for number in (0, 1):
        producer.send(TOPIC, b"a", partition=number)
    store.fail_next(*[fault] * 1000)
    with pytest.raises(TransactionAbortableError):
        getattr(producer, call)()
    store.fail_next()

    with pytest.raises(IllegalStateTransitionError, match="abort_transaction"):
        getattr(producer, call)()
    producer.abort_transaction()
    assert values(log) == []


def test_the_receipts_of_partitions_that_landed_say_so_though_a_later_one_waits(tmp_path: Path) -> None:
    with log_world(tmp_path) as world:
        world.log.create_topic("wide", partitions=60)
        store, log = faulty(world)
        with log.producer(delivery_timeout_ms=0) as producer:
            receipts = [producer.send("wide", b"a", partition=number) for number in range(60)]
            store.fail_next(None, Fault.UNAVAILABLE)
            with pytest.raises(RetriableError):
                producer.flush()

            landed = [receipt for receipt in receipts if receipt.is_done]
            assert 0 < len(landed) < 60
            assert len(values(log, topic="wide")) == len(landed)
            assert [receipt.result().offset for receipt in receipts] == [0] * 60


def test_a_partition_of_a_topic_that_was_created_again_with_more_is_found_at_once(log: Log) -> None:
    """It ended in an IndexError."""
    log.create_topic("grown", partitions=1)
    with log.producer() as producer:
        producer.send("grown", b"a").result()
        log.admin.delete_topic("grown")
        log.create_topic("grown", partitions=4)
        for value in (b"b", b"c"):
            producer.send("grown", value, partition=3)
        producer.send_batch("grown", columns(b"d"), partition=2)

    assert values(log, topic="grown") == [b"d", b"b", b"c"]


def test_a_topic_that_was_created_again_is_found_after_the_failed_send(log: Log) -> None:
    producer = started(log)
    write_committed(producer, b"old")
    log.admin.delete_topic(TOPIC)
    log.create_topic(TOPIC, partitions=2)
    producer.begin_transaction()
    producer.send(TOPIC, b"lost", partition=0)
    with pytest.raises(UnknownTopicError):
        producer.flush()
    producer.abort_transaction()

    write_committed(producer, b"new")
    assert values(log) == [b"new"]


def test_a_commit_does_not_look_failed_because_settling_did(world: LogWorld) -> None:
    log = world.log
    producer, other = started(log), started(log, "other")
    write_committed(producer, b"a")
    write_committed(other, b"b", number=0)
    path = paths.transaction("other")
    znode = log.services.store.get(path)
    assert znode is not None
    log.services.store.transact(lambda view: view.set(path, b"damaged"))
    for _ in range(3):
        world.time.pass_ms(limits.SETTLE_LAG_MS)
        write_committed(producer, b"c", number=1)

    log.services.store.transact(lambda view: view.set(path, znode.data))
    assert values(log) == [b"a", b"b", b"c", b"c", b"c"]


def test_a_full_index_tail_that_cannot_be_rolled_now_fails_no_append(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conformance: 30."""
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 3)
    files = world.files
    log = world.log
    create = files.create

    def no_index_files(name: str) -> Any:
        if name.startswith("index/"):
            raise FileWriteError("the test's disk is full", file=name)
        return create(name)

    monkeypatch.setattr(files, "create", no_index_files)
    with log.producer() as producer:
        for value in numbered("a", 5):
            send(producer, value)
    assert state(log).tail_nodes == 5
    monkeypatch.setattr(files, "create", create)
    with log.producer() as producer:
        send(producer, b"b")

    assert state(log).tail_nodes == 0
    assert values(log) == [*numbered("a", 5), b"b"]


def test_a_partition_with_too_many_unsettled_transactions_is_settled_by_who_is_in_need(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_UNSETTLED_OWNERS", 4)
    for at in range(10):
        write_aborted(started(world.log, f"copier-{at}"), b"aborted")

    assert len(state(world.log).owners) <= 4


def test_a_partition_pinned_by_an_open_transaction_names_it_and_frees_itself_when_that_times_out(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conformance: 43."""
    monkeypatch.setattr(limits, "MAX_UNSETTLED_OWNERS", 3)
    hanging = started(world.log, "hanging", transaction_timeout_ms=5000)
    write_open(hanging, b"hanging")
    for at in range(2):
        write_committed(started(world.log, f"copier-{at}"), b"held back")
    impatient = started(world.log, "impatient", delivery_timeout_ms=1000)
    impatient.begin_transaction()
    impatient.send(TOPIC, b"a", partition=0)
    with pytest.raises(TransactionAbortableError, match="hanging"):
        impatient.flush()
    impatient.abort_transaction()

    write_committed(started(world.log, "patient"), b"b")
    assert values(world.log) == [b"held back", b"held back", b"b"]


def test_the_partition_of_a_send_is_the_one_of_its_topic_id(log: Log) -> None:
    with log.producer() as producer:
        send(producer, b"a")

    assert partition(log).topic_id == log.services.store.children(f"/topics/{TOPIC}")[0]
