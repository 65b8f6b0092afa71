"""What a sink has decided is completed by the sink itself or by the command line, without the query."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import oncelog_files
from folder_worlds import FilesWorld, visible
from oncelog.batches import overview
from oncelog.batches.committables import CommittableAttempt
from oncelog.batches.steps import REMEMBERED_ROUNDS
from oncelog.cli import main
from oncelog.crash_points import CrashPoint
from oncelog.errors import UnknownPrefixError, UsageError
from oncelog.spark import together
from oncelog.spark.kit import staged_names
from oncelog.spark.kit.committer_sink import Completion
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog.testing.target_contract import FIRST, SECOND, StoppedOnPurposeError, at, stop
from oncelog_files.crash_points import FilesCrashPoint
from tests.support.spark.staging import left_staging


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[FilesWorld]:
    """Its drivers clean up nothing when they die."""
    monkeypatch.setattr(CommittableAttempt, "abort", lambda self: None)
    found = FilesWorld(tmp_path, spark)
    yield found
    found.close()
    close_ledgers()


def die(world: FilesWorld, point: str) -> None:
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)


def refused(world: FilesWorld, *words: str) -> str:
    done = CliRunner().invoke(main, ["--znodes", world.ledger, "batch", "complete", *words])
    assert done.exit_code == 2
    return done.output


def test_a_sink_completes_what_it_has_decided(world: FilesWorld, spark: SparkSession) -> None:
    die(world, FilesCrashPoint.SHOW)
    sink = oncelog_files.sink(path=str(world.out), znodes=world.ledger, transactionalIdPrefix=world.prefix)

    told = [sink.complete(spark), sink.complete(spark, world.prefix)]

    assert told == [Completion(world.prefix, (0,), 0, None), Completion(world.prefix, (), 0, None)]
    assert (visible(world.out, "value"), left_staging(world.out)) == ([(value,) for value in FIRST], [])
    assert world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST)


def test_an_undecided_batch_is_given_up_and_then_removed(world: FilesWorld, spark: SparkSession) -> None:
    die(world, FilesCrashPoint.LISTED)
    sink = oncelog_files.sink(path=str(world.out), znodes=world.ledger, transactionalIdPrefix=world.prefix)
    assert sink.complete(spark) == Completion(world.prefix, (), 0, undecided=0)
    assert len(left_staging(world.out)) == 1

    assert overview.abort(world.store, world.prefix) == {"files": 1}

    assert sink.complete(spark) == Completion(world.prefix, (), 1, None)
    assert left_staging(world.out) == []


def test_what_a_task_writes_when_the_ledger_has_forgotten_its_round_is_removed(
    world: FilesWorld, spark: SparkSession
) -> None:
    die(world, FilesCrashPoint.LISTED)
    (dead,) = left_staging(world.out)
    overview.abort(world.store, world.prefix)
    for batch_id in range(REMEMBERED_ROUNDS + 2):
        world.run(batch_id, [str(batch_id)], "run-2")
    late = world.out / staged_names.data(world.prefix, dead) / "part-0"
    late.parent.mkdir(parents=True)
    late.write_text("late")
    of_another = world.out / staged_names.data("another", dead)
    of_another.mkdir(parents=True)
    sink = oncelog_files.sink(path=str(world.out), znodes=world.ledger, transactionalIdPrefix=world.prefix)

    told = [sink.complete(spark), sink.complete(spark)]

    assert [one.discarded for one in told] == [1, 0]
    assert (late.exists(), of_another.exists()) == (False, True)
    assert world.holds(*([str(batch_id)] for batch_id in range(REMEMBERED_ROUNDS + 2)))


def test_sinks_that_decide_together_are_completed_together(world: FilesWorld, tmp_path: Path) -> None:
    spark, other = world.spark, tmp_path / "other"
    sinks = [
        oncelog_files.sink(path=str(path), znodes=world.ledger, transactionalIdPrefix=prefix)
        for path, prefix in ((world.out, world.prefix), (other, "other"))
    ]
    die(world, CrashPoint.ROUND_DECIDED)
    world.out, world.prefix = other, "other"
    die(world, CrashPoint.ROUND_DECIDED)

    told = together(*sinks).complete(spark)

    assert [one.completed for one in told] == [(0,), (0,)]
    assert world.holds(FIRST)


def test_what_cannot_be_completed_says_why(world: FilesWorld, spark: SparkSession) -> None:
    world.run(0, SECOND)
    folder = ["--option", f"path={world.out}"]

    assert "no sink has written under this prefix" in refused(world, "another", *folder)
    assert "'path' is not an option; write it like table=public.delayed" in refused(world, "x", "--option", "path")
    assert "a required option is missing" in refused(world, world.prefix)
    assert "Give --target: sinks with this prefix write to files" in refused(world, world.prefix, "--target", "delta")
    assert "Where is the ledger?" in CliRunner().invoke(main, ["batch", "complete", world.prefix]).output
    with pytest.raises(UsageError, match="the sink has no transactionalIdPrefix"):
        oncelog_files.sink(path=str(world.out), znodes=world.ledger).complete(spark)
    with pytest.raises(UnknownPrefixError):
        oncelog_files.sink(path=str(world.out), znodes=world.ledger, transactionalIdPrefix="b").complete(spark)
    assert world.holds(SECOND)


@pytest.mark.sampled("files")
def test_the_command_completes_a_batch_with_a_session_of_its_own(world: FilesWorld) -> None:
    die(world, FilesCrashPoint.SHOWN)
    words = ["--znodes", world.ledger, "batch", "complete", world.prefix, "--option", f"path={world.out}"]

    done = subprocess.run([sys.executable, "-m", "oncelog", *words], capture_output=True, text=True, check=True)

    assert done.stdout == f"batch 0 of {world.prefix} is visible now\n"
    assert world.holds(FIRST)
