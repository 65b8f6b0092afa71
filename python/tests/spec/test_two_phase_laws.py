"""Two-phase commit: prepare here, decide there, by a token that another database keeps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import oncelog
from oncelog.clients.prepared import PreparedTransaction
from oncelog.clients.producer import Producer
from oncelog.errors import FatalError, IllegalStateTransitionError, InvalidTxnStateError
from oncelog.runtime import Log
from oncelog.types import MAX_PRODUCER_EPOCH, OffsetAndMetadata, ProducerIdAndEpoch
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    lso,
    partition,
    set_epoch,
    started,
    tp,
    values,
    write_committed,
    write_open,
)

PREPARE = f"""
import sys, oncelog
log = oncelog.open(sys.argv[1], create=False)
producer = log.producer(transactional_id="copier")
producer.init_transactions()
producer.begin_transaction()
producer.send("{TOPIC}", b"prepared", partition=0)
producer.send("{TOPIC}", b"prepared", partition=1)
producer.send_offsets_to_transaction({{oncelog.TopicPartition("{TOPIC}", 0): 5}}, "g")
print(producer.prepare_transaction(), flush=True)
"""

COMPLETE = """
import sys, oncelog
log = oncelog.open(sys.argv[1], create=False)
producer = log.producer(transactional_id="copier")
kept = producer.init_transactions(keep_prepared=True)
token = oncelog.PreparedTransaction.parse(sys.argv[2])
print(str(kept) == str(token), producer.complete_transaction(token), flush=True)
"""


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(oncelog.__file__).parents[1],
    )
    return done.stdout.strip()


def prepared(log: Log, transactional_id: str = "copier") -> tuple[Producer, PreparedTransaction]:
    producer = started(log, transactional_id)
    write_open(producer, b"prepared")
    producer.send_offsets_to_transaction({tp(): 5}, "g")
    return producer, producer.prepare_transaction()


def committed(log: Log) -> int | None:
    with log.consumer(group_id="g") as consumer:
        found = consumer.committed([tp()])
    return found[tp()].offset if found else None


# Processes ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_one_process_prepared_another_commits_with_the_token_alone(tmp_path: Path) -> None:
    """conformance: 49, 55."""
    with oncelog.open(tmp_path) as log:
        log.create_topic(TOPIC, partitions=2)
        token = run(PREPARE, str(tmp_path))
        assert values(log) == []
        assert lso(log) == 0

        assert run(COMPLETE, str(tmp_path), token) == "True True"
        assert values(log) == [b"prepared", b"prepared"]
        assert committed(log) == 5


@pytest.mark.slow
def test_a_token_of_another_transaction_aborts_the_prepared_one(tmp_path: Path) -> None:
    """conformance: 49."""
    with oncelog.open(tmp_path) as log:
        log.create_topic(TOPIC, partitions=2)
        token = PreparedTransaction.parse(run(PREPARE, str(tmp_path)))
        other = PreparedTransaction(token.transactional_id, ProducerIdAndEpoch(token.producer.producer_id, 99))

        assert run(COMPLETE, str(tmp_path), str(other)) == "False False"
        assert values(log) == []
        assert committed(log) is None


# Ends -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [Producer.commit_transaction, Producer.abort_transaction])
def test_the_producer_that_kept_a_prepared_transaction_may_end_it_itself(
    world: LogWorld, end: Callable[[Producer], None]
) -> None:
    """conformance: 49, 55."""
    prepared(world.log)
    successor = world.open().producer(transactional_id="copier")
    assert successor.init_transactions(keep_prepared=True) is not None
    end(successor)
    write_committed(successor, b"next")

    assert values(world.log)[-1:] == [b"next"]
    assert (b"prepared" in values(world.log)) == (end is Producer.commit_transaction)


def test_the_first_producer_is_fenced_once_another_kept_its_transaction(world: LogWorld) -> None:
    """conformance: 3, 49."""
    first, token = prepared(world.log)
    second = world.open().producer(transactional_id="copier")
    second.init_transactions(keep_prepared=True)
    third = world.open().producer(transactional_id="copier")
    third.init_transactions(keep_prepared=True)
    for producer in (first, second):
        with pytest.raises(FatalError):
            producer.commit_transaction()
    assert values(world.log) == []
    assert third.complete_transaction(token)

    assert values(world.log) == [b"prepared"]


def test_an_init_that_does_not_keep_the_prepared_transaction_aborts_it(world: LogWorld) -> None:
    """conformance: 3, 55."""
    first, _ = prepared(world.log)
    successor = started(world.open())
    with pytest.raises(FatalError):
        first.commit_transaction()
    write_committed(successor, b"a")

    assert values(world.log) == [b"a"]
    assert committed(world.log) is None


def test_keep_prepared_keeps_nothing_of_a_transaction_that_nobody_prepared(world: LogWorld) -> None:
    """conformance: 3, 49."""
    write_open(started(world.log), b"open")
    successor = world.open().producer(transactional_id="copier")

    assert successor.init_transactions(keep_prepared=True) is None
    with pytest.raises(IllegalStateTransitionError):
        successor.complete_transaction(PreparedTransaction("copier", ProducerIdAndEpoch(0, 0)))
    write_committed(successor, b"a")
    assert values(world.log) == [b"a"]


def test_other_ids_go_on_beside_a_prepared_transaction(world: LogWorld) -> None:
    """conformance: 55."""
    producer, _ = prepared(world.log)
    other = started(world.log, "other")
    for at in range(3):
        write_committed(other, b"elsewhere-%d" % at, number=1)
        write_committed(other, b"behind-%d" % at, number=0)
        world.settle()
    assert len([value for value in values(world.log, 1) if value]) == 3
    assert values(world.log, 0) == []
    producer.commit_transaction()

    assert values(world.log, 0) == [b"prepared", b"behind-0", b"behind-1", b"behind-2"]


# Twice ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_last_epoch", [False, True])
@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_idempotent_and_its_opposite_fails_loudly_also_after_a_restart(
    world: LogWorld, *, commit: bool, is_settled: bool, is_last_epoch: bool
) -> None:
    """conformance: 6, 50."""
    producer = started(world.log)
    if is_last_epoch:
        set_epoch(world.log, "copier", MAX_PRODUCER_EPOCH - 2)
        producer = started(world.log)
    write_open(producer, b"a")
    identity = world.log.services.coordinator.describe("copier").producer
    answer = world.log.services.coordinator.end_txn("copier", identity, commit=commit)
    if is_settled:
        world.settle()
    restarted = world.open().services.coordinator

    for _ in range(2):
        assert restarted.end_txn("copier", identity, commit=commit) == answer
        with pytest.raises(FatalError):
            restarted.end_txn("copier", identity, commit=not commit)
    assert values(world.log) == ([b"a"] if commit else [])


def test_completing_twice_answers_the_same_and_ends_nothing_else(world: LogWorld) -> None:
    """conformance: 50."""
    _, token = prepared(world.log)
    coordinator = world.open().services.coordinator
    keeper = coordinator.init_producer_id("copier", keep_prepared=True).producer
    answer = coordinator.complete_transaction("copier", keeper, token.producer)

    assert coordinator.complete_transaction("copier", keeper, token.producer) == answer
    assert values(world.log) == [b"prepared"]


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_token_never_commits_what_an_operator_aborted(world: LogWorld, *, is_settled: bool) -> None:
    """conformance: 6, 50."""
    _, token = prepared(world.log)
    successor = world.open().producer(transactional_id="copier")
    assert successor.init_transactions(keep_prepared=True) == token
    world.log.admin.abort_transaction("copier")
    if is_settled:
        world.settle()

    with pytest.raises(FatalError):
        successor.complete_transaction(token)
    assert values(world.log) == []


def test_a_transaction_that_wrote_nothing_has_nothing_to_prepare_and_its_producer_goes_on(log: Log) -> None:
    """conformance: 51."""
    producer = started(log)
    producer.begin_transaction()
    with pytest.raises(IllegalStateTransitionError, match="nothing to prepare"):
        producer.prepare_transaction()
    producer.commit_transaction()
    write_committed(producer, b"a")

    assert values(log) == [b"a"]


def test_a_write_that_arrives_after_the_prepare_is_refused(log: Log) -> None:
    """conformance: 31, 55."""
    producer, token = prepared(log)
    offsets = {partition(log): OffsetAndMetadata(9)}
    with pytest.raises(InvalidTxnStateError, match="prepared"):
        log.services.coordinator.send_offsets("copier", token.producer, "g", offsets)
    producer.commit_transaction()

    assert values(log) == [b"prepared"]
    assert committed(log) == 5
