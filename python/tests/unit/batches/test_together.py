"""Several targets under one decision: the contract of targets, on a log and two folders, and what only several do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oncelog import crash_points
from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.committables import CommittableAttempt, CommittableRound, CommitterTarget, committable_ledgers
from oncelog.batches.ledger import EMBEDDED, LedgerKind
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.crash_points import CrashPoint
from oncelog.errors import RoundAbortedError, StoreUnavailableError
from oncelog.ports import ZnodeStore
from oncelog.spark.log_target import LogAttempt
from oncelog.testing.target_contract import HinderedTarget, StoppedOnPurposeError, TargetContract, TargetWorld, at, stop
from oncelog.types import Outcome
from tests.support.spark.targets import TEXTS, LogTargetWorld, TextFolder

OTHER_TEXTS: LedgerKind[CommittableRound] = committable_ledgers("/other_texts")

KINDS: list[LedgerKind[Any]] = [EMBEDDED, TEXTS, OTHER_TEXTS]

Jobs = Sequence[Any]


class Targets(tuple[Any, ...]):
    """The targets of one driver. The ledgers of all are in the store of the first."""

    reports: Sequence[BatchReport] = ()

    @property
    def store(self) -> ZnodeStore:
        store: ZnodeStore = self[0].store
        return store


class TogetherWorld(TargetWorld):
    """A log and two folders."""

    is_log_last = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.log = LogTargetWorld(folder / "log")
        for name in ("one", "other"):
            (folder / name).mkdir()
        self.folders = [TextFolder(folder / "one"), TextFolder(folder / "other")]
        self.store = self.log.target().store

    def target(self) -> Any:
        return Targets(self._in_order([self.log.target(), *self._folder_targets()]))

    def drive(self, request: BatchRequest, job: Any, target: Any = None) -> BatchReport:
        """The request is the same for all targets."""
        targets = target or self.target()
        if isinstance(targets, HinderedTarget):
            targets = Targets(HinderedTarget(one) for one in targets._target)  # type: ignore[attr-defined]
        if not isinstance(targets, Targets):
            return super().drive(request, job, target)
        driver = BatchDriver(*targets)
        report = driver.run(*(Batch(request, one) for one in job))
        targets.reports = driver.reports
        return report

    def target_of_one(self) -> CommitterTarget[Any]:
        """The first folder's, alone."""
        return self._folder_targets()[0]

    def _folder_targets(self) -> list[CommitterTarget[Any]]:
        kinds = zip((TEXTS, OTHER_TEXTS), self.folders, strict=True)
        return [CommitterTarget(self.store, kind, lambda _, place=place: place) for kind, place in kinds]  # type: ignore[misc]

    def _in_order(self, found: list[Any]) -> list[Any]:
        return found[::-1] if self.is_log_last else found

    def job(self, values: Sequence[str]) -> Jobs:
        return self._in_order([self.log.job(values), lambda: values, lambda: values])

    def run(self, batch_id: int, values: Sequence[str], run: str = "run-1", target: Any = None) -> BatchReport:
        report = super().run(batch_id, values, run, target)
        return replace(report, rows=report.rows // 3)  # each value is a row of each target

    def broken_job(self) -> Jobs:
        return self._in_order([self.log.job(["x"]), lambda: ["x"], stop])

    def places(self) -> list[list[str]]:
        """What a reader of each place sees."""
        return [sorted(self.log.visible()), *map(self._lines, self.folders)]

    def _lines(self, place: TextFolder) -> list[str]:
        return sorted(path.read_text() for path in place.shown.iterdir())

    def visible(self) -> list[str]:
        first, *others = self.places()
        return first if all(other == first for other in others) else [f"not the same in all: {self.places()}"]

    def outcomes(self) -> list[Outcome | None]:
        """Of the newest round in each ledger; None before the first."""
        rounds = [list(kind.read_rounds(self.store, self.prefix).values()) for kind in KINDS]
        return [found[-1].outcome if found else None for found in rounds]

    def close(self) -> None:
        self.log.close()


class LogLastWorld(TogetherWorld):
    is_log_last = True


class TestTogether(TargetContract):
    world_class = TogetherWorld


class TestTogetherWithTheLogLast(TargetContract):
    world_class = LogLastWorld


@pytest.fixture(params=[TogetherWorld, LogLastWorld])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TogetherWorld]:
    found = request.param(tmp_path)
    yield found
    found.close()


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who dies aborts nothing."""
    for attempt in (CommittableAttempt, LogAttempt):
        monkeypatch.setattr(attempt, "abort", lambda _: None)


def stop_at_number(number: int) -> list[str]:
    """Stop the driver at the crash point that it reaches as this one of all; returns those that it has reached."""
    passed: list[str] = []

    def act(point: str) -> None:
        passed.append(point)
        if len(passed) == number:
            stop()

    crash_points.arm(act)
    return passed


@pytest.mark.slow
@pytest.mark.usefixtures("killed")
def test_a_driver_may_die_at_each_point_that_it_passes(tmp_path: Path) -> None:
    """After each death all targets have decided the batch, or none has; and a restart leaves one copy in each."""
    points = 0
    for number in range(1, 100):
        (tmp_path / str(number)).mkdir()
        world = TogetherWorld(tmp_path / str(number))
        world.run(0, ["a"])
        passed = stop_at_number(number)
        try:
            world.run(1, ["b", "c"], "run-2")
            break  # behind the last point
        except StoppedOnPurposeError:
            points += 1
        finally:
            crash_points.arm(None)

        assert len(set(world.outcomes())) == 1, passed
        is_decided = world.log.visible() != ["a"]
        assert world.run(1, ["b", "c"], "run-3").is_replay == is_decided, passed
        assert world.holds(["a"], ["b", "c"]), passed
        world.close()
    assert CrashPoint.ROUND_DECIDED in passed
    assert points > len(set(passed)), "some points are passed once for each target"


def test_a_target_that_is_away_behind_the_decision_holds_up_no_other(
    world: TogetherWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Sequence[str]) -> None:
        raise StoreUnavailableError("the disk is away", file="x")

    with monkeypatch.context() as patch:
        patch.setattr(world.folders[0], "commit", away)
        with pytest.raises(StoreUnavailableError):
            world.run(0, ["a"])
        assert world.places() == [["a"], [], ["a"]]
        with pytest.raises(StoreUnavailableError):
            world.run(0, ["a"], "run-2")

    assert world.run(0, ["a"], "run-3").is_replay
    assert world.holds(["a"])


def test_errors_of_two_targets_are_both_told(world: TogetherWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, place in enumerate(world.folders):

        def away(_: Sequence[str], number: int = number) -> None:
            raise StoreUnavailableError("the disk is away", number=number)

        monkeypatch.setattr(place, "commit", away)
    with pytest.raises(StoreUnavailableError) as error:
        world.run(0, ["a"])

    (note,) = error.value.__notes__
    assert {error.value.fields["number"], *(number for number in (0, 1) if f"[{number=}," in note)} == {0, 1}


@pytest.mark.parametrize("kind", KINDS, ids=["log", "folder", "other_folder"])
def test_a_round_that_others_abort_is_decided_in_no_ledger(world: TogetherWorld, kind: LedgerKind[Any]) -> None:
    def abort() -> None:
        kind.abort(world.store, world.prefix, 1)

    with at(CrashPoint.ROUND_DECIDE, abort), pytest.raises(RoundAbortedError):
        world.run(0, ["a"])
    assert world.holds()

    world.run(0, ["a"])

    assert world.holds(["a"])
    for one in KINDS:
        outcomes = [record.outcome for record in one.read_rounds(world.store, world.prefix).values()]
        assert outcomes == [Outcome.ABORT, Outcome.COMMIT]


def test_a_target_that_had_the_batch_before_it_was_among_the_others_gets_it_once(world: TogetherWorld) -> None:
    world.run_job(0, lambda: ["a"], target=world.target_of_one())

    report = world.run(0, ["a"], "run-2")

    assert not report.is_replay
    assert world.holds(["a"])
    assert world.run(0, ["a"], "run-3").is_replay


def test_a_batch_that_fails_is_undone_although_a_target_had_it_before(world: TogetherWorld) -> None:
    """The job's error was lost in one that called this a bug of oncelog, and the other rounds stayed open."""
    world.run_job(0, lambda: ["a"], target=world.target_of_one())

    with pytest.raises(StoppedOnPurposeError):
        world.run_job(0, world.broken_job(), "run-2")

    assert world.outcomes() == [Outcome.ABORT, Outcome.COMMIT, Outcome.ABORT]
    assert not world.run(0, ["a"], "run-3").is_replay
    assert world.holds(["a"])


def test_the_report_counts_what_each_target_did(world: TogetherWorld) -> None:
    target = world.target()

    report = world.run_job(0, world.job(["a", "b"]), target=target)

    assert report.rows == 6
    assert report.participants == sum(part.participants for part in target.reports)
    assert [part.rows for part in target.reports] == [2, 2, 2]
    assert report.size_bytes == next(part.size_bytes for part in target.reports if part.size_bytes is not None)
