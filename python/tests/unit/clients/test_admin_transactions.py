"""The admin client on transactions and rounds: what it says of them, and what an operator's word does to them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import oncelog
from oncelog import limits
from oncelog.coordinator.inspection import RoundName
from oncelog.errors import (
    FatalError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
    RoundAbortedError,
    UnknownPrefixError,
)
from oncelog.protocol.txn_state import TxnState
from oncelog.runtime import Log
from oncelog.testing import invariants
from tests.support.log.copies import open_round
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    lso,
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
from tests.support.log.rounds import Round

DAY_MS = 24 * 3600 * 1000


# Transactions ---------------------------------------------------------------------------------------------------------


def listed(log: Log, **filters: object) -> list[str]:
    return [found.transactional_id for found in log.admin.list_transactions(**filters)]  # type: ignore[arg-type]


def test_transactions_are_listed_by_state_prefix_and_producer_id(log: Log) -> None:
    """conformance: 19"""
    write_open(open_one := started(log, "copier-0"), b"a")
    write_committed(started(log, "copier-1"), b"b")
    write_aborted(started(log, "loader-0"), b"c")
    started(log, "loader-1")

    assert listed(log) == ["copier-0", "copier-1", "loader-0", "loader-1"]
    assert listed(log, states=["ongoing"]) == ["copier-0"]
    assert listed(log, states=[TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT]) == ["copier-1", "loader-0"]
    assert listed(log, prefix="loader-") == ["loader-0", "loader-1"]
    producer_id = log.admin.describe_transaction("loader-1").producer.producer_id
    assert listed(log, producer_ids=[producer_id]) == ["loader-1"]
    assert listed(log, producer_ids=[producer_id], states=["ongoing"]) == []
    open_one.abort_transaction()


def test_an_expired_id_is_neither_listed_nor_described(world: LogWorld) -> None:
    """conformance: 13, 19"""
    started(world.log, "idle")
    world.time.pass_ms(limits.TRANSACTIONAL_ID_EXPIRATION_MS + 1)

    assert world.log.admin.expire_transactional_ids() == ["idle"]

    assert listed(world.log) == []
    with pytest.raises(InvalidProducerIdMappingError):
        world.log.admin.describe_transaction("idle")
    write_committed(started(world.log, "idle"), b"again")
    assert listed(world.log) == ["idle"]


def test_a_transaction_is_described_with_what_it_touched(world: LogWorld) -> None:
    """conformance: 19"""
    producer = started(world.log, transaction_timeout_ms=9000)
    write_open(producer, b"a", number=1)
    producer.send_offsets_to_transaction({tp(0): 5}, "readers")
    world.time.pass_ms(400)

    found = world.log.admin.describe_transaction("copier")

    assert (found.state, found.timeout_ms, found.idle_ms) == (TxnState.ONGOING, 9000, 400)
    assert (found.partitions, found.groups) == ((tp(1),), ("readers",))
    assert found.owner is not None
    assert found.owner.producer == found.producer
    producer.commit_transaction()
    assert world.log.admin.describe_transaction("copier").state is TxnState.PREPARE_COMMIT
    world.log.admin.settle()
    settled = world.log.admin.describe_transaction("copier")
    assert (settled.state, settled.partitions, settled.owner) == (TxnState.COMPLETE_COMMIT, (), None)


def test_an_id_that_nobody_used_is_not_described(log: Log) -> None:
    with pytest.raises(InvalidProducerIdMappingError, match="no such transactional id"):
        log.admin.describe_transaction("nobody")


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (lambda found: None, TxnState.ONGOING),
        (Round.decide, TxnState.PREPARE_COMMIT),
        (Round.abort, TxnState.PREPARE_ABORT),
    ],
)
def test_a_participant_of_a_micro_batch_shows_what_its_round_decided(
    log: Log, end: Callable[[Round], None], state: TxnState
) -> None:
    end(open_round(log))

    found = log.admin.list_transactions()

    assert [(t.transactional_id, t.state, t.round) for t in found] == [
        (name, state, RoundName("copies", 1)) for name in ("copies-0", "copies-1")
    ]
    assert listed(log, states=[state]) == ["copies-0", "copies-1"]
    log.admin.abort_round("copies")


# An operator's abort --------------------------------------------------------------------------------------------------


def test_an_operators_abort_drops_the_data_and_the_late_commit_of_the_owner_fails(log: Log) -> None:
    """conformance: 43"""
    write_open(hanging := started(log), b"lost")
    write_committed(started(log, "other"), b"behind it")
    assert values(log) == []

    aborted = log.admin.abort_transaction("copier")

    assert (aborted.was_open, aborted.round) == (True, None)
    assert values(log) == [b"behind it"]
    with pytest.raises(FatalError):
        hanging.commit_transaction()
    assert values(log) == [b"behind it"]
    write_committed(started(log), b"its successor")
    assert values(log) == [b"behind it", b"its successor"]


def test_a_late_append_of_an_aborted_transactions_owner_fails_too(log: Log) -> None:
    """conformance: 43"""
    write_open(hanging := started(log), b"lost")
    log.admin.abort_transaction("copier")

    with pytest.raises(ProducerFencedError):
        send(hanging, b"more")

    assert uncommitted(log) == [b"lost"]


def test_a_prepared_transaction_is_aborted_by_an_operator(log: Log) -> None:
    write_open(producer := started(log), b"promised")
    producer.prepare_transaction()

    assert log.admin.describe_transaction("copier").is_prepared
    assert log.admin.abort_transaction("copier").was_open
    assert (values(log), lso(log)) == ([], state(log).log_end)


def test_an_abort_is_harmless_when_repeated_and_refused_when_there_is_nothing_to_abort(log: Log) -> None:
    """conformance: 50"""
    write_open(started(log), b"lost")
    assert log.admin.abort_transaction("copier").was_open
    assert not log.admin.abort_transaction("copier").was_open

    write_committed(started(log, "done"), b"kept")
    with pytest.raises(InvalidTxnStateError, match="no open transaction to abort"):
        log.admin.abort_transaction("done")
    with pytest.raises(InvalidProducerIdMappingError):
        log.admin.abort_transaction("nobody")
    assert values(log) == [b"kept"]


def test_an_abort_of_the_transaction_an_operator_saw_leaves_the_ids_next_one_alone(log: Log) -> None:
    """conformance: 21"""
    write_open(producer := started(log), b"first")
    seen = log.admin.describe_transaction("copier").owner
    assert seen is not None
    producer.commit_transaction()
    write_open(producer, b"second")

    assert not log.services.coordinator.force_abort("copier", seen.path)

    producer.commit_transaction()
    assert values(log) == [b"first", b"second"]


def test_aborting_a_participant_aborts_its_whole_undecided_round(log: Log) -> None:
    found = open_round(log)
    assert lso(log, 1) == 0

    aborted = log.admin.abort_transaction("copies-0")

    assert aborted.round == RoundName("copies", 1)
    with pytest.raises(RoundAbortedError):
        found.decide()
    assert (values(log), [lso(log, number) for number in (0, 1)]) == ([], [2, 2])
    open_round(log).decide()
    assert len(values(log)) == 2
    log.admin.settle()


def test_an_abort_settles_what_is_left_where_a_topic_was_created_again_with_fewer_partitions(log: Log) -> None:
    """It raised UnknownPartitionError, and had aborted."""
    write_open(started(log), b"a", number=1)
    open_round(log)
    log.admin.delete_topic(TOPIC)
    log.create_topic(TOPIC, partitions=1)

    assert log.admin.abort_transaction("copier").was_open
    assert log.admin.abort_round("copies") == 1
    log.admin.upkeep()
    assert log.admin.describe_transaction("copier").state is TxnState.COMPLETE_ABORT


def test_a_decided_round_is_not_aborted_by_its_participants_name(log: Log) -> None:
    open_round(log).decide()

    with pytest.raises(InvalidTxnStateError, match="no open transaction to abort"):
        log.admin.abort_transaction("copies-0")

    assert log.admin.abort_round("copies") is None
    assert len(values(log)) == 2


# Hanging --------------------------------------------------------------------------------------------------------------


def hanging(log: Log, **settings: int) -> list[str | None]:
    return [owner.transactional_id or str(owner.round) for owner in log.admin.find_hanging(**settings)]


def test_a_transaction_hangs_once_it_is_older_than_its_time_out(world: LogWorld) -> None:
    """conformance: 43"""
    write_open(started(world.log, "slow", transaction_timeout_ms=5000), b"a")
    world.time.pass_ms(4999)
    write_open(started(world.log, "young", transaction_timeout_ms=5000), b"b")
    world.time.pass_ms(1)
    assert hanging(world.log) == []

    world.time.pass_ms(1)

    assert hanging(world.log) == ["slow"]
    assert hanging(world.log, max_age_ms=1) == ["slow", "young"], "oldest first"
    assert [overdue.owner for overdue in world.log.admin.time_out()] == ["/transactions/slow/0.0"]
    assert hanging(world.log) == []
    world.log.admin.abort_transaction("young")


def test_a_prepared_transaction_hangs_only_by_an_age_that_somebody_names(world: LogWorld) -> None:
    """conformance: 56"""
    write_open(producer := started(world.log), b"promised")
    producer.prepare_transaction()
    world.time.pass_ms(30 * DAY_MS)

    assert hanging(world.log) == []
    assert world.log.admin.time_out() == []
    assert hanging(world.log, max_age_ms=DAY_MS) == ["copier"]
    producer.commit_transaction()
    assert values(world.log) == [b"promised"]


def test_an_undecided_round_hangs_once_its_driver_stopped_renewing_it(world: LogWorld) -> None:
    found = open_round(world.log)
    world.time.pass_ms(limits.ROUND_TIMEOUT_MS - 1)
    found.renew()
    world.time.pass_ms(limits.ROUND_TIMEOUT_MS)
    assert hanging(world.log) == []

    world.time.pass_ms(1)

    assert [owner.round for owner in world.log.admin.find_hanging()] == [RoundName("copies", 1)]
    assert world.log.admin.abort_round("copies") == 1
    assert hanging(world.log) == []


def test_a_transaction_that_holds_nothing_but_offsets_hangs_too(world: LogWorld) -> None:
    producer = started(world.log, transaction_timeout_ms=10)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({tp(): 1}, "readers")
    world.time.pass_ms(11)

    (found,) = world.log.admin.find_hanging()

    assert (found.partitions, found.groups) == ((), ("readers",))
    world.log.admin.abort_transaction("copier")
    assert hanging(world.log) == []


DIES_IN_A_TRANSACTION = """
import os, signal, sys
import oncelog
log = oncelog.open(sys.argv[1], create=False)
producer = log.producer(transactional_id="victim")
producer.init_transactions()
producer.begin_transaction()
for number in (0, 1):
    producer.send("flights", b"never seen", partition=number)
producer.send_offsets_to_transaction({oncelog.TopicPartition("flights", 0): 0}, "readers")
producer.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_what_a_killed_producer_left_open_is_found_and_aborted(tmp_path: Path) -> None:
    """The process is really killed, between its appends and its commit.

    conformance: 43, 44
    """
    with oncelog.open(tmp_path) as log:
        log.create_topic(TOPIC, partitions=2)
        died = subprocess.run([sys.executable, "-c", DIES_IN_A_TRANSACTION, tmp_path], check=False)
        assert died.returncode == -signal.SIGKILL
        write_committed(started(log), b"behind it", number=1)
        assert values(log) == []

        (found,) = log.admin.find_hanging(max_age_ms=0)

        assert (found.transactional_id, found.partitions, found.groups) == ("victim", (tp(0), tp(1)), ("readers",))
        assert log.admin.describe_group("readers").partitions[0].undecided == (found.path,)
        log.admin.abort_transaction("victim")
        assert values(log) == [b"behind it"]
        assert log.admin.describe_group("readers").partitions == ()
        invariants.check(log)


# Ledgers --------------------------------------------------------------------------------------------------------------


def test_a_ledger_shows_query_last_batch_open_round_and_participants(world: LogWorld) -> None:
    open_round(world.log, 0).decide()
    pending = open_round(world.log, 1)
    world.time.pass_ms(250)

    found = world.log.admin.describe_ledger("copies")

    assert (found.query_id, found.sink_name, found.run_id) == ("query-1", "sink", "run-1")
    assert (found.last_batch_id, found.last_round, found.last_fingerprint) == (0, 1, "offsets-0")
    (unfinished,) = found.open_rounds
    assert (unfinished.number, unfinished.batch_id, unfinished.age_ms) == (2, 1, 250)
    assert unfinished.transactional_ids == ("copies-0", "copies-1")
    assert unfinished.partitions == (tp(0), tp(1))
    pending.abort()
    assert world.log.admin.list_prefixes() == ["copies"]


def test_a_prefix_that_no_sink_wrote_under_has_no_ledger(log: Log) -> None:
    with pytest.raises(UnknownPrefixError):
        log.admin.describe_ledger("copies")
    with pytest.raises(UnknownPrefixError):
        log.admin.abort_round("copies")
