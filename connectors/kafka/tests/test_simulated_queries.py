"""Seeded runs of the sink's driver over simulated brokers: no law breaks, and planted bugs break one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from oncelog_kafka.ledger import ledger
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS, Ledger
from oncelog_kafka.operations import inspection
from oncelog_kafka.protocol import end_txn, extents
from oncelog_kafka.protocol.end_txn import Next, Token
from oncelog_kafka.protocol.participants import Participant
from oncelog_kafka.protocol.ports import Ended
from oncelog_kafka.sinks import finishing, participant_check, partition_checks, target
from oncelog_kafka.sinks.target import KafkaAttempt, KafkaTarget, Lease
from simulation.kafka import tasks
from simulation.kafka.requests import SimulatedRequests
from simulation.kafka.swarm import run
from simulation.runner import Report, run_seeds
from tests.support.simulation.planted import assert_found, named

pytestmark = pytest.mark.sampled

SEEDS = range(150, 300)
SEEDS_MAX = 600


@pytest.fixture(scope="module")
def report() -> Report:
    return run_seeds(SEEDS, run)


def test_no_seed_breaks_a_law(report: Report) -> None:
    assert report.failures == {}
    assert report.counts["batches committed"] > 2 * len(SEEDS)


@pytest.mark.parametrize(
    "what",
    [
        "batches of a query that took over",
        "batches replayed",
        "batches in two steps",
        "checkpoints lost",
        "fault: clock jump",
        "fault: stale read",
        "killed drivers that moved to another host",
        "lives ended by RunSupersededError",
        "lives ended by ParticipantLostError",
        "losers aborted",
        "participants given up",
        "participants rewritten",
        "plans of whole batches",
        "plans that hold a batch back",
        "producers adopted",
        "rounds aborted by an operator",
        "speculative tasks",
        "stages tried again",
        "transactions aborted in one partition",
    ],
)
def test_the_runs_meet(report: Report, what: str) -> None:
    assert report.counts[what] > 0


@pytest.mark.parametrize("seed", [1470, 91689])
def test_a_group_that_stayed_behind_when_a_query_was_taken_over_holds_nobody_up(seed: int) -> None:
    """The heir's first batch lost the part that moves the group, and it was given up: the next one brings it along."""
    assert run(seed, is_stepwise=False).failure is None


def test_a_late_request_of_a_committed_transaction_is_not_taken_for_an_abort_in_a_partition() -> None:
    """At transaction version 1 it begins a transaction with the same epoch, which no partition has open."""
    assert run(113).failure is None


def test_of_two_drivers_that_find_no_checkpoint_one_begins_anew() -> None:
    assert run(2420, is_on_log=True).failure is None


def test_readers_of_whole_batches_see_them_whole_where_old_ones_are_merged_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extents, "MERGED_EVERY", 1)
    monkeypatch.setattr(extents, "KEPT", 1)

    merging = run_seeds(range(40), run)

    assert merging.failures == {}
    assert merging.counts["plans that hold a batch back"] > 0


def test_a_batch_that_a_restored_checkpoint_plans_anew_is_refused() -> None:
    """The law is in the run: whoever takes it for the decided one breaks it."""
    outcome = run(26)

    assert outcome.failure is None
    assert outcome.world.counts["batches planned anew"] > 0


def test_a_seed_is_the_same_run_each_time() -> None:
    first, second = run(7), run(7)

    assert first.world.trace_hash() == second.world.trace_hash()
    assert "python -m simulation.kafka --seeds 7 --trace" in first.story()


def _with_an_operator_who_aborts_what_is_decided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inspection, "_named", lambda rounds: [])


def _with_losers_that_are_not_aborted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(target, "find_losers", lambda *arguments: [])
    patch.setattr(target, "find_old", lambda *arguments: [])


def _with_a_lost_participant_taken_for_committed(patch: pytest.MonkeyPatch) -> None:
    sound = end_txn.decide

    def decide(answer: str, token: Token = Token.NOT_ASKED) -> Next:
        step = sound(answer, token)
        return Next.DONE if step is Next.LOST else step

    patch.setattr(end_txn, "decide", decide)


def _with_a_batch_that_is_complete_before_its_commits(patch: pytest.MonkeyPatch) -> None:
    sound = finishing._settle

    def settle(brokers: Any, store: Any, decided: Any, found: Any = None) -> Any:
        ledger.complete(store, decided.prefix, decided.number)
        return sound(brokers, store, decided, found)

    patch.setattr(finishing, "_settle", settle)


def _with_a_driver_that_never_finds_itself_superseded(patch: pytest.MonkeyPatch) -> None:
    def check(self: Any, view: Any, number: int) -> Any:
        prefix = self.request.prefix
        return KAFKA_LEDGERS.read(view, prefix), KAFKA_LEDGERS.read_round(view, prefix, number)

    patch.setattr("oncelog.batches.steps.BatchSteps.check_open", check)
    patch.setattr("oncelog.batches.steps.BatchSteps.check_live", lambda self, view: check(self, view, 0)[0])


def _with_a_replay_that_finishes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "unfinished", lambda self: {})


def _with_a_recovery_that_finishes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KafkaAttempt, "_recover", KafkaAttempt._fence_old)


def _with_a_decision_without_a_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(participant_check, "find_unprepared", lambda *arguments: {})


def _with_partitions_that_nobody_asks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition_checks, "find_changed", lambda *arguments: {})


def _with_a_fence_that_spares_nothing(patch: pytest.MonkeyPatch) -> None:
    def fence(self: KafkaAttempt, transactional_ids: Sequence[str]) -> None:
        self._brokers.fence(transactional_ids, self._target.timeout_ms)

    patch.setattr(KafkaAttempt, "_fence", fence)


def _with_one_lease_for_all_runs(patch: pytest.MonkeyPatch) -> None:
    sound = KafkaTarget.take_lease
    patch.setattr(KafkaTarget, "take_lease", lambda self, run_id: sound(self, run_id) or Lease(1))


def _with_producers_that_are_kept_at_version_1(patch: pytest.MonkeyPatch) -> None:
    """The brokers name nobody there, so it goes on as itself."""
    sound = SimulatedRequests.end

    def end(self: Any, participants: Sequence[Participant]) -> list[Ended]:
        found = []
        for one, (said, following) in zip(participants, sound(self, participants), strict=True):
            found.append(Ended(said, (following or one.producer) if said == "NONE" else None))
        return found

    patch.setattr(SimulatedRequests, "end", end)
    patch.setattr(tasks, "KEPT_FROM", 1)


PLANTS = named(
    _with_an_operator_who_aborts_what_is_decided,
    _with_losers_that_are_not_aborted,
    _with_a_lost_participant_taken_for_committed,
    _with_a_batch_that_is_complete_before_its_commits,
    _with_a_driver_that_never_finds_itself_superseded,
    _with_a_replay_that_finishes_nothing,
    _with_one_lease_for_all_runs,
    _with_a_recovery_that_finishes_nothing,
    _with_a_decision_without_a_look,
    _with_partitions_that_nobody_asks,
    _with_a_fence_that_spares_nothing,
    _with_producers_that_are_kept_at_version_1,
)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[plant](monkeypatch)

    assert_found(run, SEEDS_MAX)
