"""Tests of what every target of sinks must do, to derive from. oncelog's own targets pass them too.

    class TestMyTarget(TargetContract):
        world_class = MyWorld

They need pytest. A world has one place to write to, and one store for its ledger. The tests stop drivers at the crash
points of a batch (oncelog.crash_points), and start others.
"""

from __future__ import annotations

import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from oncelog.extras import extras

with extras("testing", part="oncelog.testing.target_contract"):
    import pytest

from oncelog import crash_points
from oncelog.batches.attempt import Attempt, Batch, BatchReport, Target
from oncelog.batches.committables import CommitterTarget
from oncelog.batches.giving_up import give_up, read_given_up
from oncelog.batches.ledger import LedgerKind
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.crash_points import CrashPoint, StoppedHereError
from oncelog.errors import BatchRefusedError, NotCommittedError, RoundAbortedError, RunSupersededError
from oncelog.metadata import open_metadata
from oncelog.randomness import random_id

PREFIX = "contract"

FIRST, SECOND = ("a", "b", "c"), ("d", "e")

BEFORE_THE_DECISION = (CrashPoint.SINK_PLANNED, CrashPoint.ROUND_DECIDE)
BEHIND_THE_DECISION = (CrashPoint.ROUND_DECIDED, CrashPoint.SINK_DONE)


class TargetWorld(ABC):
    """A place to write to, its ledger, and any number of drivers.

    Attributes:
        folder: the test's own.
        prefix: of the sink; a world whose place is shared by several tests sets its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = PREFIX

    @abstractmethod
    def target(self) -> Target[Any]:
        """The target of a new driver, always over the same place and ledger."""

    @abstractmethod
    def job(self, values: Sequence[str]) -> Any:
        """A job that writes these values, one row each, in the form that the target takes."""

    @abstractmethod
    def visible(self) -> list[str]:
        """The values that a reader sees now, in any order."""

    def broken_job(self) -> Any:
        """A job that fails while it runs."""
        return BrokenJob()

    def lose_ledger(self) -> bool:
        """Have later drivers use an empty ledger.

        Returns:
            False if the target's store keeps no record of queries, or has the ledger itself: there is nothing to test.
        """
        return False

    def close(self) -> None:  # noqa: B027 - most worlds have nothing to close
        """Clean up after the test."""

    def run(self, batch_id: int, values: Sequence[str], run: str = "run-1", target: Any = None) -> BatchReport:
        """Write a batch in this run of the query."""
        return self.run_job(batch_id, self.job(values), run, target)

    def run_job(self, batch_id: int, job: Any, run: str = "run-1", target: Any = None) -> BatchReport:
        """Write a batch with this job; its fingerprint depends on its id only, as in a true replay."""
        offsets = f"offsets of {batch_id}"
        request = BatchRequest(self.prefix, "query", "sink", run, batch_id, offsets, call_id=random_id())
        return self.drive(request, job, target)

    def drive(self, request: BatchRequest, job: Any, target: Any = None) -> BatchReport:
        """Answer a request for a batch."""
        return BatchDriver(target or self.target()).run(Batch(request, job))

    def remove_staged(self, attempt: str) -> None:
        """Remove by hand what an attempt has staged; nothing else removes it after the batch was given up."""
        target = self.target()
        if isinstance(target, CommitterTarget):
            request = BatchRequest(self.prefix, "query", "sink", "run-2", -1, "")
            with target.open_committer(Batch(request, self.job([]))) as committer:
                committer.discard(attempt)

    def holds(self, *batches: Sequence[str]) -> bool:
        """Whether a reader sees exactly these batches, each value once."""
        return sorted(self.visible()) == sorted(value for batch in batches for value in batch)


class LedgerWorld(TargetWorld):
    """A world whose ledger is in a store of its own, and whose target keeps a record of its queries.

    Attributes:
        ledger: where the store is.
        store: of the drivers that begin from now on.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ledger = str(folder / "ledger")
        self.store = open_metadata(self.ledger)

    def lose_ledger(self) -> bool:
        self.store.close()
        self.store = open_metadata(str(self.folder / "another ledger"))
        return True

    def close(self) -> None:
        self.store.close()


class BrokenJob:
    """Fails whatever is called."""

    def __getattr__(self, name: str) -> Any:
        raise StoppedOnPurposeError(f"the job fails on purpose at {name}")


class StoppedOnPurposeError(StoppedHereError):
    """Stops a driver, or fails a job, on purpose."""


class HinderedTarget:
    """A target whose store refuses each decided batch with an error of Python's own."""

    def __init__(self, target: Target[Any]) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def attempt(self, batch: Batch[Any]) -> Any:
        return HinderedAttempt(self._target.attempt(batch))


class HinderedAttempt:
    """An attempt of such a target."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._attempt, name)

    def commit(self, report: BatchReport) -> None:
        raise OverflowError("date value out of range")


def at(point: str, action: Callable[[], object]) -> AbstractContextManager[list[str]]:
    """Call `action` when this process reaches the point for the first time; yields the points that it has reached."""
    return _armed(point, action, most=1)


def always_at(point: str, action: Callable[[], object]) -> AbstractContextManager[list[str]]:
    """The same, each time the process reaches the point."""
    return _armed(point, action, most=sys.maxsize)


@contextmanager
def _armed(point: str, action: Callable[[], object], *, most: int) -> Iterator[list[str]]:
    passed: list[str] = []

    def act(reached: str) -> None:
        passed.append(reached)
        if reached == point and passed.count(point) <= most:
            action()

    crash_points.arm(act)
    try:
        yield passed
    finally:
        crash_points.arm(None)


def stop() -> None:
    """An action for `at`: the driver dies."""
    raise StoppedOnPurposeError("the driver stops on purpose")


class TargetContract:
    """The tests; a subclass only has to set `world_class`."""

    world_class: ClassVar[type[TargetWorld]]

    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[TargetWorld]:
        found = self.world_class(tmp_path)
        yield found
        found.close()

    def test_batches_become_visible_one_after_the_other_and_each_is_reported(self, world: TargetWorld) -> None:
        target = world.target()

        reports = [world.run(0, FIRST, target=target), world.run(1, SECOND, target=target)]

        assert world.holds(FIRST, SECOND)
        assert [(report.batch_id, report.rows, report.is_replay) for report in reports] == [
            (0, len(FIRST), False),
            (1, len(SECOND), False),
        ]

    def test_a_batch_that_is_run_again_writes_nothing(self, world: TargetWorld) -> None:
        world.run(0, FIRST)

        assert world.run(0, FIRST, "run-2").is_replay
        assert world.holds(FIRST)

    def test_a_second_call_for_a_batch_is_refused_also_in_a_run_that_replays_it(self, world: TargetWorld) -> None:
        """Its rows are not those that were decided: a replay would lose them without an error."""
        world.run(0, FIRST)
        with pytest.raises(BatchRefusedError, match="already written in this run"):
            world.run(0, SECOND)

        for run in ("run-2", "run-3"):
            assert world.run(0, FIRST, run).is_replay
            with pytest.raises(BatchRefusedError, match="already written in this run"):
                world.run(0, SECOND, run)

        world.run(1, SECOND, "run-3")
        assert world.holds(FIRST, SECOND)

    def test_an_empty_batch_is_decided_like_any_other(self, world: TargetWorld) -> None:
        world.run(0, [])

        assert world.run(0, [], "run-2").is_replay
        world.run(1, FIRST, "run-2")
        assert world.holds(FIRST)

    def test_nothing_is_visible_before_the_decision(self, world: TargetWorld) -> None:
        seen: list[list[str]] = []
        with at(CrashPoint.ROUND_DECIDE, lambda: seen.append(world.visible())):
            world.run(0, FIRST)

        assert seen == [[]]

    @pytest.mark.parametrize("point", [*BEFORE_THE_DECISION, *BEHIND_THE_DECISION])
    def test_a_driver_that_dies_leaves_one_copy_behind_its_successor(self, world: TargetWorld, point: str) -> None:
        with at(point, stop), pytest.raises(StoppedOnPurposeError):
            world.run(0, FIRST)
        if point in BEFORE_THE_DECISION:
            assert world.holds()

        report = world.run(0, FIRST, "run-2")

        assert report.is_replay == (point in BEHIND_THE_DECISION)
        assert world.holds(FIRST)

    def test_drivers_that_die_one_after_the_other_leave_one_copy(self, world: TargetWorld) -> None:
        world.run(0, FIRST)
        for number in range(12):
            with at(CrashPoint.ROUND_DECIDE, stop), pytest.raises(StoppedOnPurposeError):
                world.run(1, SECOND, f"again-{number}")

        world.run(1, SECOND, "last")

        assert world.holds(FIRST, SECOND)

    def test_what_was_decided_is_visible_before_a_later_batch(self, world: TargetWorld) -> None:
        with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
            world.run(0, FIRST)
        seen: list[list[str]] = []

        with at(CrashPoint.ROUND_DECIDE, lambda: seen.append(sorted(world.visible()))):
            world.run(1, SECOND, "run-2")

        assert seen == [sorted(FIRST)]
        assert world.holds(FIRST, SECOND)

    def test_a_job_that_fails_leaves_nothing(self, world: TargetWorld) -> None:
        with pytest.raises(StoppedOnPurposeError):
            world.run_job(0, world.broken_job())

        assert world.holds()
        world.run(0, FIRST)
        assert world.holds(FIRST)

    @pytest.mark.parametrize("point", BEFORE_THE_DECISION)
    def test_a_driver_that_wakes_up_behind_its_successor_writes_nothing(self, world: TargetWorld, point: str) -> None:
        with (
            at(point, lambda: world.run(0, FIRST, "run-2")),
            pytest.raises((RunSupersededError, RoundAbortedError)),
        ):
            world.run(0, FIRST, "run-1")
        assert world.holds(FIRST)

        with pytest.raises(RunSupersededError):
            world.run(1, SECOND, "run-1")
        assert world.holds(FIRST)

    def test_a_driver_that_wakes_up_behind_its_decision_does_no_harm(self, world: TargetWorld) -> None:
        def go_on() -> None:
            world.run(0, FIRST, "run-2")
            world.run(1, SECOND, "run-2")

        with at(CrashPoint.ROUND_DECIDED, go_on), suppress(RunSupersededError):
            world.run(0, FIRST, "run-1")

        assert world.holds(FIRST, SECOND)

    def test_a_batch_of_other_offsets_is_refused(self, world: TargetWorld) -> None:
        world.run(0, FIRST)
        other = BatchRequest(world.prefix, "query", "sink", "run-2", 0, "other offsets")

        with pytest.raises(BatchRefusedError):
            world.drive(other, world.job(SECOND))

        assert world.holds(FIRST)

    def test_an_error_after_the_decision_says_so_and_a_restart_commits_the_batch(self, world: TargetWorld) -> None:
        with pytest.raises(NotCommittedError, match="the batch is decided, so it will be neither lost") as found:
            world.run(0, FIRST, target=HinderedTarget(world.target()))

        passed_on = pickle.loads(pickle.dumps(found.value))
        assert "OverflowError: date value out of range" in str(passed_on)
        assert passed_on.fields["decided_batch_id"] == 0
        assert world.run(0, FIRST, "run-2").is_replay
        assert world.holds(FIRST)

    def test_a_decided_batch_that_can_never_be_committed_is_given_up_and_the_next_one_follows(
        self, world: TargetWorld
    ) -> None:
        target: Any = world.target()
        kind: LedgerKind[Any] | None = getattr(target, "ledgers", None)
        if kind is None or kind.completed is None:
            return  # a decision is visible at once, or the target has a command of its own
        with pytest.raises(NotCommittedError):
            world.run(0, FIRST, target=HinderedTarget(target))

        given_up = give_up(target.store, kind, world.prefix, reason="of no use", operator="me")

        assert [(one.batch_id, one.reason, one.operator) for one in given_up] == [(0, "of no use", "me")]
        assert world.run(0, FIRST, "run-2").is_replay
        world.run(1, SECOND, "run-2")
        assert world.holds(SECOND)
        assert read_given_up(target.store, kind, world.prefix) == given_up
        assert give_up(target.store, kind, world.prefix, reason="", operator="me") == []
        world.remove_staged(kind.read_rounds(target.store, world.prefix)[given_up[0].round].nonce)

    def test_a_ledger_that_lacks_a_querys_first_batch_is_refused(self, world: TargetWorld) -> None:
        """Spark may not have recorded that batch. A query that never wrote anything may begin with any ledger."""
        world.run(0, FIRST)
        if not world.lose_ledger():
            return

        with pytest.raises(BatchRefusedError, match=r"the history of this query is in another ledger.*batch_id=0"):
            world.run(0, FIRST, "run-2")
        assert world.holds(FIRST)

        other = BatchRequest(world.prefix, "another query", "sink", "run-3", 0, "offsets of 0")
        world.drive(other, world.job(SECOND))
        assert world.holds(FIRST, SECOND)

    def test_a_ledger_that_lacks_the_history_is_refused(self, world: TargetWorld) -> None:
        world.run(0, FIRST)
        if not world.lose_ledger():
            return

        with pytest.raises(BatchRefusedError, match=r"the history of this query is in another ledger.*batch_id=1"):
            world.run(1, SECOND)
        assert world.holds(FIRST)

    def test_many_batches_are_each_there_once(self, world: TargetWorld) -> None:
        target = world.target()
        for batch_id in range(12):
            world.run(batch_id, [str(batch_id)], target=target)

        assert world.holds([str(batch_id) for batch_id in range(12)])
        assert world.run(11, ["11"], "run-2").is_replay
