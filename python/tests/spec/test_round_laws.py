"""A micro-batch is a round with one decision: whoever dies or wakes up late, it is in the log once and whole."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.batches import steps
from oncelog.batches.ledger import EMBEDDED
from oncelog.clients.producer import Producer
from oncelog.coordinator import groups, rounds, transactional_ids
from oncelog.errors import (
    BatchRefusedError,
    ConcurrentTransactionsError,
    FatalError,
    GroupOwnedError,
    InvalidTxnStateError,
    OncelogError,
    RoundAbortedError,
    RunSupersededError,
)
from oncelog.runtime import Log
from oncelog.types import TopicPartition
from tests.support.log.faulty import HICCUPS, Crashed, Fault, InterruptedStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    log_world,
    numbered,
    records,
    started,
    state,
    uncommitted,
    values,
    write_committed,
)
from tests.support.log.rounds import (
    GROUP,
    PREFIX,
    SOURCE,
    Round,
    Sink,
    assert_written_once,
    begin,
    committed,
    expected,
    offsets,
    plan_round,
    request,
    restarted_at_every_multi,
    run_batch,
    struck_at_every_multi,
    written,
)

BATCHES = 3


@pytest.fixture
def log(log: Log) -> Log:
    """With the topic that the batches are made from."""
    log.create_topic(SOURCE)
    return log


# Drivers that die -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("memory", Fault.CRASH_AFTER),
        pytest.param("memory", Fault.CRASH_BEFORE, marks=pytest.mark.slow),
        pytest.param("sqlite", Fault.CRASH_AFTER, marks=pytest.mark.slow),
    ],
)
def test_a_driver_that_dies_at_any_multi_leaves_each_batch_in_the_log_once_after_its_restart(
    tmp_path: Path, kind: str, fault: Fault
) -> None:
    """conformance: 52, 53, 57."""
    multis = restarted_at_every_multi(lambda folder: log_world(folder, kind), tmp_path, fault, BATCHES, ends=[Crashed])

    assert multis > 8


@pytest.mark.parametrize("fault", [HICCUPS[0], *(pytest.param(fault, marks=pytest.mark.slow) for fault in HICCUPS[1:])])
def test_a_lost_or_refused_multi_fails_the_batch_at_most_and_never_writes_it_twice(
    tmp_path: Path, fault: Fault
) -> None:
    """conformance: 16, 52."""
    for world, store in struck_at_every_multi(log_world, tmp_path, fault):
        sink = Sink()
        with suppress(OncelogError):
            sink.run(world.open(store), BATCHES)
        assert fault is Fault.UNAVAILABLE or len(sink.finished) == BATCHES
        sink.run(world.open(store), BATCHES)
        assert_written_once(world.log, BATCHES)


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_batch_that_is_run_again_after_it_was_decided_writes_nothing(world: LogWorld, *, is_settled: bool) -> None:
    """conformance: 52."""
    world.log.create_topic(SOURCE)
    assert run_batch(world.log, request(0, "run-1", group_id=GROUP))
    if is_settled:
        world.settle()
    end = state(world.log).log_end

    assert not run_batch(world.log, request(0, "run-2", group_id=GROUP))
    assert not run_batch(world.log, request(0, "run-3", group_id=GROUP))
    assert state(world.log).log_end == end
    assert_written_once(world.log, 1)


def test_an_undecided_batch_is_invisible_and_its_restart_writes_it_anew(log: Log) -> None:
    """conformance: 53, 55."""
    begin(log, 0).write(written(log, {0: [b"lost"], 1: [b"lost"]}))
    assert values(log) == []
    assert uncommitted(log) == [b"lost", b"lost"]
    second = begin(log, 0, "run-2")
    second.write(written(log, {0: [b"kept"]}))
    second.decide()

    assert values(log) == [b"kept"]


@pytest.mark.parametrize("partitions", [[0], [1], [0, 1, 2, 3]])
def test_a_restart_may_write_to_fewer_or_more_partitions(world: LogWorld, partitions: list[int]) -> None:
    """conformance: 57."""
    log = world.log
    log.create_topic("wide", partitions=4)
    begin(log, 0).write(written(log, {0: [b"lost"], 1: [b"lost"]}, "wide"))
    second = begin(log, 0, "run-2")
    second.write(written(log, {number: [b"kept"] for number in partitions}, "wide"))
    second.decide()
    world.settle()

    assert values(log, topic="wide") == [b"kept"] * len(partitions)
    third = begin(log, 1, "run-2")
    third.write(written(log, {0: [b"next"], 1: [b"next"]}, "wide"))
    third.decide()
    assert sorted(values(log, topic="wide"), key=str) == [*[b"kept"] * len(partitions), b"next", b"next"]


def test_an_empty_batch_decides_too_and_leaves_nothing_but_its_place_in_the_ledger(log: Log) -> None:
    """conformance: 51."""
    for batch_id in range(3):
        round_ = begin(log, batch_id)
        round_.write({})
        round_.decide()

    ledger = EMBEDDED.read(log.services.store, PREFIX)
    assert ledger is not None
    assert ledger.last is not None
    assert ledger.last.batch_id == 2
    assert state(log).log_end == 0
    assert plan_round(log.services.new_round_services(), request(2, "run-2")) is None


# Drivers that wake up late --------------------------------------------------------------------------------------------


STEPS: dict[str, Callable[[Round, Log], object]] = {
    "write": lambda round_, log: round_.write(written(log, {1: [b"zombie"]})),
    "stage": lambda round_, log: round_.stage_offsets(offsets(log, 0)),
    "decide": lambda round_, _: round_.decide(),
    "renew": lambda round_, _: round_.renew(),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_successor_done", [False, True])
def test_a_driver_whose_successor_began_gets_a_fatal_error_at_its_next_step_whatever_that_is(
    log: Log, step: str, *, is_successor_done: bool
) -> None:
    """conformance: 54, 62."""
    zombie = begin(log, 0)
    zombie.write(written(log, {0: [b"zombie"]}))
    successor = begin(log, 0, "run-2")
    if is_successor_done:
        successor.decide()
    with pytest.raises(RunSupersededError, match="newer_run_id='run-2'"):
        STEPS[step](zombie, log)
    zombie.abort()
    with pytest.raises(RunSupersededError):
        begin(log, 1)
    if not is_successor_done:
        successor.write(written(log, {0: [b"kept"]}))
        successor.decide()

    assert values(log) == ([] if is_successor_done else [b"kept"])
    assert b"zombie" not in values(log, 1, isolation="read_uncommitted")


def test_a_successor_that_runs_the_batch_between_the_reads_and_the_write_of_any_step_ends_in_one_copy(
    tmp_path: Path,
) -> None:
    """conformance: 54, 62."""
    for at in range(100):
        with log_world(tmp_path / str(at)) as world:
            world.log.create_topic(TOPIC, partitions=2)
            world.log.create_topic(SOURCE)
            old = Sink()

            def start_anew(world: LogWorld = world, old: Sink = old) -> None:
                Sink(list(old.finished), runs=1).run(world.log, BATCHES)

            store = InterruptedStore(world.store(), start_anew)
            zombie = world.open(store)
            store.interrupt(at)
            with suppress(FatalError, RoundAbortedError):
                old.run(zombie, BATCHES)
                assert not store.has_struck
            assert_written_once(world.log, BATCHES)
            if not store.has_struck:
                return
    pytest.fail("the zombie never came to its end")


def test_what_the_tasks_of_losing_attempts_wrote_are_orphan_files_and_no_records(log: Log) -> None:
    """conformance: 54."""
    attempts = [written(log, {0: [b"attempt-%d" % number]}) for number in range(3)]
    round_ = begin(log, 0)
    round_.write(attempts[1])
    round_.decide()

    assert uncommitted(log) == values(log) == [b"attempt-1"]


@pytest.mark.parametrize("end", [Producer.commit_transaction, Producer.abort_transaction])
def test_nobody_but_the_round_ends_what_its_participants_wrote(log: Log, end: Callable[[Producer], None]) -> None:
    """conformance: 53, 54, 56."""
    round_ = begin(log, 0)
    round_.write(written(log, {0: [b"batch"]}))
    participant = f"{PREFIX}-0"
    stranger = log.producer(transactional_id=participant)
    with pytest.raises(ConcurrentTransactionsError):
        stranger.init_transactions()
    coordinator = log.services.coordinator
    identity = coordinator.describe(participant).producer
    with pytest.raises(InvalidTxnStateError, match="micro-batch"):
        coordinator.end_txn(participant, identity, commit=end is Producer.commit_transaction)
    round_.decide()

    assert values(log) == [b"batch"]
    assert stranger.init_transactions() is None
    write_committed(stranger, b"own")
    assert values(log) == [b"batch", b"own"]


@pytest.mark.parametrize("is_decided", [False, True])
def test_an_id_that_a_round_used_carries_the_outcome_of_the_round(log: Log, *, is_decided: bool) -> None:
    """conformance: 52, 57."""
    round_ = begin(log, 0)
    round_.write(written(log, {0: [b"batch"]}))
    if is_decided:
        round_.decide()
    else:
        round_.abort()
    write_committed(started(log, f"{PREFIX}-0"), b"own")

    assert values(log) == ([b"batch", b"own"] if is_decided else [b"own"])


# Time-outs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_an_undecided_round_times_out_though_its_participants_are_prepared(world: LogWorld, step: str) -> None:
    """conformance: 12, 56."""
    world.log.create_topic(SOURCE)
    round_ = begin(world.log, 0, timeout_ms=5000)
    round_.write(written(world.log, {0: [b"late"]}))
    write_committed(started(world.log), b"held back")
    world.time.pass_ms(5001)
    assert len(world.sweep()) == 1

    with pytest.raises(RoundAbortedError, match="run the batch again"):
        STEPS[step](round_, world.log)
    assert values(world.log) == [b"held back"]
    again = begin(world.log, 0)
    again.write(written(world.log, {0: [b"in time"]}))
    again.decide()
    assert values(world.log) == [b"held back", b"in time"]


def test_a_round_that_is_renewed_does_not_time_out(world: LogWorld) -> None:
    """conformance: 56."""
    round_ = begin(world.log, 0, timeout_ms=5000)
    round_.write(written(world.log, {0: [b"slow"]}))
    for _ in range(4):
        world.time.pass_ms(4000)
        assert world.sweep() == []
        round_.renew()
    round_.decide()

    assert values(world.log) == [b"slow"]


def test_a_decided_round_never_times_out(world: LogWorld) -> None:
    """conformance: 11, 52."""
    round_ = begin(world.log, 0, timeout_ms=5000)
    round_.write(written(world.log, {0: [b"a"]}))
    round_.decide()
    world.time.pass_ms(1_000_000)

    assert world.sweep() == []
    round_.abort()
    assert values(world.log) == [b"a"]


@pytest.mark.parametrize("at", range(3))
def test_a_time_out_that_races_a_decision_wins_or_loses(tmp_path: Path, at: int) -> None:
    """conformance: 11, 56."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=2)
        swept: list[int] = []
        store = InterruptedStore(world.store(), lambda: swept.append(len(world.sweep())))
        round_ = begin(world.open(store), 0, timeout_ms=5000)
        round_.write(written(world.log, {0: [b"a"]}))
        world.time.pass_ms(5001)
        store.interrupt(at)
        try:
            round_.decide()
            is_decided = True
        except RoundAbortedError:
            is_decided = False

        assert swept == [] if at else swept == [1]
        assert values(world.log) == ([b"a"] if is_decided else [])


# Histories that do not fit --------------------------------------------------------------------------------------------


def test_a_restored_older_checkpoint_is_refused_and_says_what_to_do(log: Log) -> None:
    """conformance: 58."""
    Sink().run(log, 3)
    for batch_id in (0, 1):
        with pytest.raises(BatchRefusedError, match="older than the log"):
            run_batch(log, request(batch_id, "run-9", group_id=GROUP))

    assert_written_once(log, 3)


def test_a_checkpoint_that_is_restored_twice_writes_its_last_batch_once(log: Log) -> None:
    """conformance: 58."""
    Sink().run(log, 3)
    for run_id in ("run-2", "run-3"):
        assert not run_batch(log, request(2, run_id, group_id=GROUP))
    run_batch(log, request(3, "run-3", group_id=GROUP))
    with pytest.raises(RunSupersededError):
        run_batch(log, request(3, "run-2", group_id=GROUP))

    assert_written_once(log, 4)


def test_a_batch_id_with_other_source_offsets_is_refused(log: Log) -> None:
    """conformance: 58."""
    Sink().run(log, 1)
    with pytest.raises(BatchRefusedError, match="other source offsets"):
        run_batch(log, request(0, "run-2", group_id=GROUP, fingerprint="edited"))

    assert_written_once(log, 1)


def test_a_query_that_shares_the_prefix_of_another_is_refused_until_it_names_whom_it_takes_over(log: Log) -> None:
    """conformance: 62."""
    Sink().run(log, 2)
    with pytest.raises(BatchRefusedError, match="takeover=<query id>"):
        run_batch(log, request(0, "run-x", query_id="another"))
    with pytest.raises(BatchRefusedError):
        run_batch(log, request(0, "run-x", query_id="another", takeover="a third"))
    assert_written_once(log, 2)
    taken = begin(log, 0, "run-x", query_id="another", takeover="query")
    taken.write(written(log, {0: [b"taken over"]}))
    taken.decide()
    with pytest.raises(RunSupersededError):
        run_batch(log, request(2, "run-1", group_id=GROUP))

    assert values(log, 0) == [*expected(2, 0), b"taken over"]


def test_two_sinks_of_one_run_under_one_prefix_are_refused(log: Log) -> None:
    """conformance: 62."""
    Sink().run(log, 1)
    with pytest.raises(BatchRefusedError, match="two sinks share a prefix"):
        run_batch(log, request(0, "run-1", group_id=GROUP))
    with pytest.raises(BatchRefusedError, match="sinkName"):
        run_batch(log, request(0, "run-2", group_id=GROUP, sink_name="another"))

    assert_written_once(log, 1)


def test_prefixes_do_not_disturb_each_other_also_where_one_begins_like_the_other(log: Log) -> None:
    """conformance: 57, 62."""
    first, second = begin(log, 0, prefix="sink"), begin(log, 0, "run-2", prefix="sink-a", query_id="another")
    first.write(written(log, {0: [b"first"]}))
    second.write(written(log, {0: [b"second"]}))
    log.admin.abort_round("sink")
    second.decide()
    with pytest.raises(RoundAbortedError):
        first.decide()

    assert values(log) == [b"second"]


# Group offsets --------------------------------------------------------------------------------------------------------


def test_the_groups_offsets_become_visible_with_the_batch(log: Log) -> None:
    """conformance: 44, 45."""
    round_ = begin(log, 0, group_id=GROUP)
    round_.write(written(log, {0: [b"a"]}))
    round_.stage_offsets(offsets(log, 0))
    with pytest.raises(OncelogError, match="in an undecided transaction"):
        committed(log)
    round_.decide()

    assert (committed(log), values(log)) == (10, [b"a"])


def test_a_batch_that_does_not_begin_where_the_group_stands_is_refused(log: Log) -> None:
    """conformance: 58."""
    Sink().run(log, 1)
    round_ = begin(log, 1, group_id=GROUP)
    with pytest.raises(BatchRefusedError, match="startingOffsets=group"):
        round_.stage_offsets(offsets(log, 2))
    round_.abort()

    assert committed(log) == 10


def test_nobody_else_moves_the_offsets_of_a_group_that_a_sink_owns(log: Log) -> None:
    """conformance: 46, 47."""
    Sink().run(log, 1)
    source = TopicPartition(SOURCE, 0)
    with log.consumer(group_id=GROUP) as consumer, pytest.raises(GroupOwnedError):
        consumer.commit({source: 3})
    producer = started(log)
    producer.begin_transaction()
    with pytest.raises(GroupOwnedError):
        producer.send_offsets_to_transaction({source: 3}, GROUP)
    with pytest.raises(GroupOwnedError):
        begin(log, 0, prefix="other").stage_offsets(offsets(log, 1))

    assert committed(log) == 10


def test_a_group_that_moved_while_the_batch_was_written_fails_its_decision(log: Log) -> None:
    """conformance: 46, 53."""
    round_ = begin(log, 0, group_id=GROUP)
    round_.write(written(log, {0: [b"a"]}))
    round_.stage_offsets(offsets(log, 0))
    store = log.services.store
    store.transact(lambda view: groups.next_order(view, GROUP, owning_prefix=PREFIX))
    with pytest.raises(BatchRefusedError, match="another client committed"):
        round_.decide()
    round_.abort()

    assert (values(log), committed(log)) == ([], None)


# Size -----------------------------------------------------------------------------------------------------------------


def test_a_batch_of_more_blocks_than_a_znode_holds_is_written_whole(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conformance: 63."""
    monkeypatch.setattr(limits, "INLINE_BLOCKS_MAX", 4)
    rows = {0: numbered("a", 10), 1: numbered("b", 3)}
    round_ = begin(world.log, 0)
    round_.write(written(world.log, rows))
    assert values(world.log) == []
    round_.decide()
    world.settle()

    assert values(world.log) == [*rows[0], *rows[1]]
    assert len(list(world.files.names("manifests"))) == 1


@pytest.mark.slow
def test_a_batch_over_hundreds_of_partitions_of_two_topics_is_one_flip_in_bounded_steps(tmp_path: Path) -> None:
    """conformance: 52, 63."""
    with log_world(tmp_path) as world:
        log = world.log
        for name in ("one", "two"):
            log.create_topic(name, partitions=300)
        for batch_id in range(2):
            round_ = begin(log, batch_id)
            rows = {number: [b"%d" % batch_id] for number in range(300)}
            round_.write({**written(log, rows, "one"), **written(log, rows, "two")})
            assert len(records(log, "one")) == len(records(log, "two")) == 300 * batch_id
            round_.decide()
            assert len(records(log, "one")) == len(records(log, "two")) == 300 * (batch_id + 1)
            world.settle()
        rounds.forget_old_rounds(log.services.store, PREFIX)

        stored = transactional_ids.load(log.services.store, f"{PREFIX}-7")
        assert stored is not None
        assert stored.epoch == 2, "each participant is initialised once a round, and ended once"


def test_settled_rounds_are_forgotten_but_never_the_newest(world: LogWorld) -> None:
    """conformance: 52."""
    for batch_id in range(12):
        round_ = begin(world.log, batch_id)
        round_.write(written(world.log, {0: [b"%d" % batch_id]}) if batch_id % 2 else {})
        round_.decide()
        world.settle()
        rounds.forget_old_rounds(world.log.services.store, PREFIX)
    left = world.log.services.store.children(EMBEDDED.rounds_path(PREFIX))

    assert EMBEDDED.round_path(PREFIX, 12).rpartition("/")[2] in left
    assert len(left) <= steps.REMEMBERED_ROUNDS + 1
    assert plan_round(world.log.services.new_round_services(), request(11, "run-2")) is None
