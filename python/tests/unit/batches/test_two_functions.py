"""The target of two functions, without Spark: the contract of targets, as far as it can be met without staging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from oncelog.batches.attempt import Batch
from oncelog.batches.ledger import all_kinds
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.batches.two_functions import ONCE_LEDGERS, OnceTarget
from oncelog.crash_points import CrashPoint
from oncelog.errors import BatchRefusedError, UsageError
from oncelog.metadata import open_metadata
from oncelog.testing.target_contract import StoppedOnPurposeError, TargetContract, TargetWorld, at, stop


class Shelf(TargetWorld):
    """A store in memory that keeps the contract: values by the token that they were written with."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = open_metadata(str(folder / "ledger"))
        self.written: dict[str, Sequence[str]] = {}

    def target(self) -> OnceTarget:
        return OnceTarget(self.store, self.write, self.was_written)

    def job(self, values: Sequence[str]) -> Callable[[], Sequence[str]]:
        return lambda: values

    def broken_job(self) -> Any:
        return stop

    def write(self, job: Callable[[], Sequence[str]], token: str) -> None:
        values = job()
        self.written.setdefault(token, values)

    def was_written(self, token: str) -> bool:
        return token in self.written

    def visible(self) -> list[str]:
        return [value for values in self.written.values() for value in values]

    def run(self, batch_id: int, values: Sequence[str], run: str = "run-1", target: Any = None) -> Any:
        report = super().run(batch_id, values, run, target)
        if not report.is_replay:
            report.rows = len(values)  # which the functions do not tell
        return report

    def close(self) -> None:
        self.store.close()


class TestOnce(TargetContract):
    world_class = Shelf

    def test_what_was_decided_is_visible_before_a_later_batch(self, world: TargetWorld) -> None:
        """Only the replay has the rows: a later batch is refused until that was written."""
        with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
            world.run(0, ["a"])

        with pytest.raises(BatchRefusedError) as error:
            world.run(1, ["b"], "run-2")

        assert error.value.fields["decided_batch_id"] == 0
        world.run(0, ["a"], "run-3")
        world.run(1, ["b"], "run-3")
        assert world.holds(["a"], ["b"])

    def test_a_job_that_fails_leaves_nothing(self, world: TargetWorld) -> None:
        """It fails behind the decision, so its replay writes it."""
        with pytest.raises(StoppedOnPurposeError):
            world.run_job(0, world.broken_job())
        assert world.holds()

        assert world.run(0, ["a"], "run-2").is_replay
        assert world.holds(["a"])


@pytest.fixture
def shelf(tmp_path: Path) -> Any:
    found = Shelf(tmp_path)
    yield found
    found.close()


def test_a_token_names_the_history_and_the_batch(shelf: Shelf) -> None:
    shelf.run(0, ["a"])
    shelf.run(1, ["b"])

    assert [token.rpartition(".")[0] for token in shelf.written] == [f"{shelf.prefix}.0", f"{shelf.prefix}.1"]


def test_functions_that_contradict_each_other_are_told_from_a_batch_that_was_written(shelf: Shelf) -> None:
    forgetful = OnceTarget(shelf.store, shelf.write, lambda _: False)

    with pytest.raises(UsageError, match="was_written does not know the token"):
        shelf.run(0, ["a"], target=forgetful)

    assert shelf.run(0, ["a"], "run-2").is_replay
    assert shelf.holds(["a"])


def test_a_driver_that_stands_still_before_it_writes_writes_no_second_copy(shelf: Shelf) -> None:
    """Its successor has written by then: the functions' contract makes the second write nothing."""

    def standing_still(job: Any, token: str) -> None:
        shelf.run(0, ["a"], "run-2")
        shelf.write(job, token)

    shelf.run(0, ["a"], target=OnceTarget(shelf.store, standing_still, shelf.was_written))

    assert shelf.holds(["a"])


@pytest.mark.parametrize("is_written", [False, True])
def test_a_history_is_taken_over_when_its_last_batch_is_written(shelf: Shelf, is_written: bool) -> None:
    """Before that, only the former query has the rows. It could not go on: the ledger had forgotten its last batch."""
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        shelf.run(0, ["a"])
    if is_written:
        (record,) = ONCE_LEDGERS.read_rounds(shelf.store, shelf.prefix).values()
        shelf.write(lambda: ["a"], record.names[0])
    successor = BatchRequest(shelf.prefix, "successor", "sink", "run-2", 0, "offsets of 1", takeover="query")

    def take_over() -> None:
        BatchDriver(shelf.target()).run(Batch(successor, lambda: ["b"]))

    if not is_written:
        with pytest.raises(BatchRefusedError, match="only Spark's replay of it has its rows"):
            take_over()
        assert shelf.run(0, ["a"], "run-3").is_replay
    take_over()

    assert shelf.visible() == ["a", "b"]


def test_a_takeover_does_not_overtake_a_decision_of_the_former_driver(shelf: Shelf) -> None:
    """Between the successor's look at the ledger and its step, the former driver decides one more batch, and dies."""
    shelf.run(0, ["a"])
    successor = BatchRequest(shelf.prefix, "successor", "sink", "run-2", 0, "offsets of 1", takeover="query")

    def dying(job: Any, token: str) -> None:
        raise StoppedOnPurposeError("the driver dies before it writes")

    def decide_one_more() -> None:
        with pytest.raises(StoppedOnPurposeError):
            shelf.run(1, ["b"], target=OnceTarget(shelf.store, dying, shelf.was_written))

    with at(CrashPoint.SINK_PLAN, decide_one_more), pytest.raises(BatchRefusedError, match="only Spark's replay"):
        BatchDriver(shelf.target()).run(Batch(successor, lambda: ["b"]))

    assert shelf.run(1, ["b"], "run-3").is_replay
    assert shelf.holds(["a"], ["b"])


def test_a_takeover_by_a_query_with_the_same_offsets_writes_no_batch_of_the_former_one(shelf: Shelf) -> None:
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        shelf.run(0, ["a"])
    successor = BatchRequest(shelf.prefix, "successor", "sink", "run-2", 0, "offsets of 0", takeover="query")

    with pytest.raises(BatchRefusedError, match="only Spark's replay"):
        BatchDriver(shelf.target()).run(Batch(successor, lambda: ["a"]))

    assert shelf.run(0, ["a"], "run-3").is_replay
    assert shelf.holds(["a"])


def test_commands_know_the_ledgers() -> None:
    assert all_kinds()["once"] is ONCE_LEDGERS
