"""Rounds as znodes: what each step writes, and what it does when it is asked twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.offsets import GroupProgress
from oncelog.coordinator import groups, transactional_ids
from oncelog.errors import CorruptDataError, OutcomeUnknownError, RunSupersededError
from oncelog.protocol.txn_state import TxnState
from oncelog.runtime import Log
from oncelog.types import OffsetAndMetadata, Outcome
from oncelog.znodes import paths, payloads
from tests.support.log.faulty import Fault, FaultyStore
from tests.support.log.logs import TOPIC, LogWorld, log_world, partitions, state, uncommitted, values
from tests.support.log.rounds import GROUP, PREFIX, SOURCE, begin, offsets, plan_round, request, written


def record_of(log: Log, number: int) -> payloads.OwnerRecord:
    record = EMBEDDED.read_round(log.services.store, PREFIX, number)
    assert record is not None
    return record


def test_a_plan_opens_a_round_that_says_what_it_is_for(log: Log) -> None:
    round_ = begin(log, 4, "run-1", timeout_ms=777)
    record = record_of(log, round_.number)

    assert (record.outcome, record.participants, record.timeout_ms) == (Outcome.OPEN, (), 777)
    assert (record.batch_id, record.fingerprint, record.run_id) == (4, "offsets of 4", "run-1")
    assert round_.path == EMBEDDED.round_path(PREFIX, 1)


def test_a_new_round_aborts_the_undecided_one_before_it_and_no_decided_one(log: Log) -> None:
    first = begin(log, 0)
    second = begin(log, 0)
    assert record_of(log, first.number).outcome is Outcome.ABORT
    second.decide()
    begin(log, 1)

    assert record_of(log, second.number).outcome is Outcome.COMMIT


def test_what_is_written_is_prepared_and_owned_by_the_round(log: Log) -> None:
    round_ = begin(log, 0)
    round_.write(written(log, {0: [b"a"], 1: [b"b"]}))
    record = record_of(log, round_.number)
    stored = transactional_ids.load(log.services.store, f"{PREFIX}-1")

    assert record.partitions == tuple(paths.partition(where) for where in partitions(log, TOPIC))
    assert stored is not None
    assert (stored.state, stored.prepared, stored.round, stored.owner) == (
        TxnState.ONGOING,
        True,
        round_.path,
        round_.path,
    )
    assert record.participants is not None
    assert stored.producer in record.participants
    assert [span.owner for span in state(log).owners] == [round_.path]
    round_.decide()


def test_a_second_write_of_a_round_adds_to_the_first(log: Log) -> None:
    round_ = begin(log, 0)
    round_.write(written(log, {0: [b"a"]}))
    round_.write(written(log, {1: [b"b"]}))
    round_.decide()

    assert values(log) == [b"a", b"b"]
    assert round_.partitions == tuple(partitions(log, TOPIC))


def test_a_write_that_was_carried_out_is_not_repeated(world: LogWorld) -> None:
    """conformance: 16."""
    store = FaultyStore(world.store())
    log = world.open(store)
    round_ = begin(log, 0)
    blocks = written(log, {0: [b"a"], 1: [b"b"]})
    store.fail_next(None, Fault.LOST_REPLY, Fault.LOST_REPLY)
    round_.write(blocks)
    round_.decide()

    assert uncommitted(world.log) == values(world.log) == [b"a", b"b"]


@pytest.mark.parametrize("is_carried_out", [False, True])
def test_a_decision_of_unknown_outcome_is_asked_for_again(world: LogWorld, *, is_carried_out: bool) -> None:
    """conformance: 16, 52."""
    store = FaultyStore(world.store())
    log = world.open(store)
    round_ = begin(log, 0)
    round_.write(written(log, {0: [b"a"]}))
    faults = [Fault.LOST_REQUEST] * 5
    if is_carried_out:
        faults[-1] = Fault.LOST_REPLY
    store.fail_next(*faults)
    with pytest.raises(OutcomeUnknownError):
        round_.decide()
    assert values(world.log) == ([b"a"] if is_carried_out else [])
    round_.decide()

    assert values(world.log) == [b"a"]


def test_a_staging_of_unknown_outcome_does_not_stumble_over_itself(world: LogWorld) -> None:
    """conformance: 16, 44."""
    world.log.create_topic(SOURCE)
    store = FaultyStore(world.store())
    log = world.open(store)
    round_ = begin(log, 0, group_id=GROUP)
    store.fail_next(Fault.LOST_REPLY)
    round_.stage_offsets(offsets(log, 0))
    round_.decide()
    (source,) = partitions(log, SOURCE)

    assert groups.fetch(store, GROUP, [source])[source].offset == 10


@pytest.mark.slow
def test_the_offsets_of_hundreds_of_source_partitions_are_staged_in_bounded_steps(tmp_path: Path) -> None:
    """conformance: 44."""
    with log_world(tmp_path) as world:
        log = world.log
        log.create_topic(TOPIC)
        for name in ("one", "two", "three"):
            log.create_topic(name, partitions=400)
        sources = [where for name in ("one", "two", "three") for where in partitions(log, name)]
        for batch_id in range(2):
            one = GroupProgress(GROUP, dict.fromkeys(sources, batch_id), dict.fromkeys(sources, batch_id + 1))
            round_ = begin(log, batch_id, group_id=GROUP)
            round_.write(written(log, {0: [b"%d" % batch_id]}))
            round_.stage_offsets(one)
            round_.decide()
            assert groups.fetch(log.services.store, GROUP, sources) == dict.fromkeys(
                sources, OffsetAndMetadata(batch_id + 1)
            )
            world.settle()


def test_aborting_is_idempotent_and_never_undoes_a_decision(log: Log) -> None:
    """conformance: 50."""
    store = log.services.store
    lost, kept = begin(log, 0, prefix="lost"), begin(log, 0)
    lost.abort()
    lost.abort()
    kept.decide()
    kept.abort()

    assert EMBEDDED.abort(store, "lost", 1)
    assert not EMBEDDED.abort(store, PREFIX, 1)
    assert not EMBEDDED.abort(store, "nobody", 1)
    assert record_of(log, 1).outcome is Outcome.COMMIT


def test_a_query_whose_prefix_was_taken_over_is_told_by_whom(log: Log) -> None:
    """conformance: 62."""
    old = begin(log, 0)
    begin(log, 0, "run-x", query_id="another", takeover="query")
    with pytest.raises(RunSupersededError):
        old.decide()


def test_a_ledger_that_vanished_under_its_driver_is_corruption(world: LogWorld) -> None:
    world.is_checked = False
    round_ = begin(world.log, 0)
    store = world.log.services.store
    for path in (round_.path, EMBEDDED.rounds_path(PREFIX), EMBEDDED.path(PREFIX)):
        store.transact(lambda view, path=path: view.delete(path))  # type: ignore[misc]
    with pytest.raises(CorruptDataError, match=f"prefix='{PREFIX}'"):
        round_.decide()


def test_a_replayed_batch_answers_none_and_lets_the_new_run_go_on(log: Log) -> None:
    """conformance: 52."""
    begin(log, 0).decide()
    services = log.services.new_round_services()

    assert plan_round(services, request(0, "run-2")) is None
    assert begin(log, 1, "run-2").number == 2
    with pytest.raises(RunSupersededError):
        plan_round(services, request(1, "run-1"))
