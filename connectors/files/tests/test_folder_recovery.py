"""What is left by drivers that stop or wake up late, and by people who change the folder meanwhile."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from folder_worlds import BEFORE_THE_DECISION, BEHIND_THE_DECISION, FilesWorld, is_visible
from oncelog.batches.attempt import Batch
from oncelog.batches.committables import CommittableAttempt
from oncelog.batches.rules import BatchRequest
from oncelog.crash_points import CrashPoint
from oncelog.errors import (
    CorruptDataError,
    FileUnavailableError,
    RoundAbortedError,
    RunSupersededError,
)
from oncelog.spark.kit import staged_names
from oncelog.testing.target_contract import FIRST, SECOND, StoppedOnPurposeError, at, stop
from oncelog_files import manifests
from oncelog_files.crash_points import FilesCrashPoint
from oncelog_files.errors import FolderChangedError
from oncelog_files.ledgers import FILES_LEDGERS

pytestmark = pytest.mark.sampled("files")


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> Iterator[FilesWorld]:
    found = FilesWorld(tmp_path, spark)
    yield found
    found.close()


@pytest.fixture
def _stands_still(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Drivers that stop clean up nothing."""
    with monkeypatch.context() as patched:
        patched.setattr(CommittableAttempt, "abort", lambda self: None)
        yield


def die(world: FilesWorld, point: str, batch_id: int = 0) -> None:
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(batch_id, FIRST)


def shown(world: FilesWorld) -> list[Path]:
    """The files that readers see."""
    return sorted(file for file in world.out.rglob("*.parquet") if is_visible(file, world.out))


def manifest_files(world: FilesWorld) -> list[Path]:
    return sorted((world.out / "_oncelog" / "manifests").rglob("*.json"))


def staged(world: FilesWorld) -> Path:
    """The staging folder of the only attempt that has one."""
    (attempt,) = world.left()
    return world.out / staged_names.staging(world.prefix, attempt)


@pytest.mark.usefixtures("_stands_still")
@pytest.mark.sampled
@pytest.mark.parametrize("point", [*BEFORE_THE_DECISION, *BEHIND_THE_DECISION])
def test_what_a_dead_driver_left_is_completed_or_removed(world: FilesWorld, point: str) -> None:
    die(world, point)
    if point in BEFORE_THE_DECISION:
        assert world.visible() == []

    report = world.run(0, FIRST, "run-2")

    assert report.is_replay == (point in BEHIND_THE_DECISION)
    assert world.holds(FIRST)
    assert world.left() == []
    assert len(manifest_files(world)) == 1


@pytest.mark.sampled
@pytest.mark.parametrize("point", [FilesCrashPoint.WRITTEN, FilesCrashPoint.LISTED])
def test_of_two_drivers_the_older_one_ends_and_one_copy_is_left(world: FilesWorld, point: str) -> None:
    with at(point, lambda: world.run(0, FIRST, "run-2")), pytest.raises((RunSupersededError, RoundAbortedError)):
        world.run(0, FIRST, "run-1")

    assert world.holds(FIRST)
    world.run(1, SECOND, "run-2")
    assert world.holds(FIRST, SECOND)
    assert world.left() == [], "what the older one wrote meanwhile is removed, too"


@pytest.mark.sampled
@pytest.mark.parametrize("point", [FilesCrashPoint.SHOW, FilesCrashPoint.SHOWN, FilesCrashPoint.PUBLISHED])
def test_of_two_drivers_behind_the_decision_either_may_show_the_files(world: FilesWorld, point: str) -> None:
    with at(point, lambda: world.run(0, FIRST, "run-2")), suppress(RunSupersededError):
        world.run(0, FIRST, "run-1")

    assert world.holds(FIRST)
    assert (world.left(), len(manifest_files(world))) == ([], 1)


@pytest.mark.sampled("files")
def test_drivers_may_move_the_files_of_a_batch_at_the_same_moment(world: FilesWorld) -> None:
    values = [[f"{turn}-{number}" for number in range(8)] for turn in range(6)]
    for turn, rows in enumerate(world.job(written).repartition(8) for written in values):
        world.prefix = f"turn {turn}"
        with at(FilesCrashPoint.SHOW, stop), pytest.raises(StoppedOnPurposeError):
            world.run_job(0, rows)
        (record,) = FILES_LEDGERS.read_rounds(world.store, world.prefix).values()

        def commit(_: int, rows: DataFrame = rows, parts: Sequence[str] = record.names) -> None:
            request = BatchRequest(world.prefix, "query", "sink", "run-2", 0, "")
            world.target().open_committer(Batch(request, rows)).commit(parts)

        with ThreadPoolExecutor(4) as drivers:
            list(drivers.map(commit, range(4)))

    assert world.holds(*values)
    assert (world.left(), len(manifest_files(world))) == ([], len(values))


def test_a_driver_that_dies_between_two_files_is_followed_by_one_that_moves_the_others(world: FilesWorld) -> None:
    die(world, FilesCrashPoint.SHOW)
    one, two = sorted((staged(world) / "data").glob("*.parquet"))
    one.rename(world.out / one.name)
    shutil.copy(two, world.out / two.name)  # as on S3, where a move is a copy first

    assert world.run(0, FIRST, "run-2").is_replay

    assert world.holds(FIRST)
    assert [file.name for file in shown(world)] == [one.name, two.name]
    assert world.left() == []


def test_what_tasks_of_a_dead_driver_write_late_is_removed(world: FilesWorld) -> None:
    die(world, FilesCrashPoint.WRITTEN)
    (attempt,) = [record.nonce for record in FILES_LEDGERS.read_rounds(world.store, world.prefix).values()]
    world.run(0, FIRST, "run-2")
    late = world.out / staged_names.data(world.prefix, attempt) / "_temporary" / "0" / "part-00000.parquet"
    late.parent.mkdir(parents=True)
    late.write_text("late")

    world.run(1, SECOND, "run-2")

    assert world.left() == []
    assert world.holds(FIRST, SECOND)


def test_what_is_decided_is_on_the_disk_and_so_are_the_names_of_what_is_shown(
    world: FilesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[Path] = set()
    sync = os.fsync

    def seen(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    def check_files() -> None:
        files = staged(world) / "data"
        above = itertools.takewhile(lambda folder: folder != world.out.parent, files.parents)
        expected = {*files.glob("*.parquet"), *files.glob(".*.parquet.crc"), files, *above}
        assert len(expected) > 8
        assert expected <= synced
        synced.clear()

    def check_names() -> None:
        assert {world.out, manifest_files(world)[0].parent} <= synced

    monkeypatch.setattr(os, "fsync", seen)
    with at(CrashPoint.ROUND_DECIDE, check_files):
        world.run(0, FIRST)
    with at(FilesCrashPoint.PUBLISHED, check_names):
        world.run(1, SECOND)


# People ---------------------------------------------------------------------------------------------------------------


def test_a_staging_folder_that_is_removed_before_the_decision_decides_nothing(world: FilesWorld) -> None:
    with (
        at(FilesCrashPoint.LISTED, lambda: shutil.rmtree(staged(world))),
        pytest.raises(RoundAbortedError, match="the staging folder of the batch is gone"),
    ):
        world.run(0, FIRST)

    assert not world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST)


@pytest.mark.sampled
@pytest.mark.parametrize("point", [FilesCrashPoint.SHOW, FilesCrashPoint.SHOWN])
def test_files_that_are_gone_behind_the_decision_are_never_taken_for_an_empty_batch(
    world: FilesWorld, point: str
) -> None:
    die(world, point)
    lost = shown(world) or sorted((staged(world) / "data").glob("*.parquet"))
    lost[0].unlink()

    for run in ("run-2", "run-3"):
        with pytest.raises(FolderChangedError, match=r"files of a decided batch are neither .*batch_id=0"):
            world.run(0, FIRST, run)
    assert manifest_files(world) == []


@pytest.mark.sampled("files")
def test_a_staging_folder_that_is_gone_behind_the_decision_is_told(world: FilesWorld) -> None:
    die(world, FilesCrashPoint.SHOW)
    shutil.rmtree(staged(world))

    with pytest.raises(FolderChangedError, match="files of a decided batch are neither in its staging folder"):
        world.run(0, FIRST, "run-2")


def test_files_that_a_late_task_leaves_next_to_those_of_the_batch_are_not_shown(world: FilesWorld) -> None:
    """As committers other than Spark's default one may do."""
    die(world, FilesCrashPoint.SHOW)
    data = staged(world) / "data"
    shutil.copy(min(data.glob("*.parquet")), data / "part-late.parquet")

    assert world.run(0, FIRST, "run-2").is_replay

    assert world.holds(FIRST)
    assert world.left() == []


def test_a_manifest_that_was_changed_is_not_carried_out(world: FilesWorld) -> None:
    die(world, FilesCrashPoint.SHOW)
    manifest = staged(world) / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"rows": 3', '"rows": 4'))

    with pytest.raises(CorruptDataError, match="the manifest of a decided batch was changed"):
        world.run(0, FIRST, "run-2")
    assert shown(world) == []


def test_a_file_in_the_way_is_named_and_the_batch_completed_once_it_is_gone(world: FilesWorld) -> None:
    world.options = {"partitionBy": "day"}
    rows = world.spark.sql("SELECT 1 AS id, 'a' AS day UNION SELECT 2, 'b'")
    with at(FilesCrashPoint.SHOW, stop), pytest.raises(StoppedOnPurposeError):
        world.run_job(0, rows)
    (world.out / "day=b").write_text("a file, where a folder must be")

    for run in ("run-2", "run-3"):
        with pytest.raises(FileUnavailableError, match=r"the batch is decided: .*restart.*path='.*day=b'"):
            world.run_job(0, rows, run)
    (world.out / "day=b").unlink()

    assert world.run_job(0, rows, "run-4").is_replay
    assert [file.parent.name for file in shown(world)] == ["day=a", "day=b"]


def test_a_batch_goes_where_its_decision_says_whatever_the_options_say_later(world: FilesWorld) -> None:
    die(world, CrashPoint.ROUND_DECIDED)
    decided_for, world.out = world.out, world.folder / "another"

    assert world.run(0, FIRST, "run-2").is_replay

    assert world.visible() == []
    world.out = decided_for
    assert world.holds(FIRST)


def test_a_decision_that_says_nothing_is_told(world: FilesWorld) -> None:
    for names in (["{}"], ["[]"], ["nonsense"], ["{}", "{}"], ['{"path":"p","attempt":1}']):
        with pytest.raises(CorruptDataError, match="the ledger does not say of a decided batch"):
            manifests.of_parts(names)


@pytest.mark.sampled("files")
def test_the_names_of_many_files_take_no_room_in_the_ledger(world: FilesWorld) -> None:
    values = [str(number) for number in range(40)]
    world.run_job(0, world.job(values).repartition(40))

    assert world.holds(values)
    assert len(shown(world)) == len(json.loads(manifest_files(world)[0].read_text())["files"]) > 20
    (record,) = FILES_LEDGERS.read_rounds(world.store, world.prefix).values()
    assert len(record.names) == 1
    assert len(record.names[0]) < 500


@pytest.mark.sampled("files")
def test_a_long_prefix_has_a_folder_of_its_own(world: FilesWorld) -> None:
    for end in "ab":
        world.prefix = "ü/" * 100 + end
        world.run(0, [end])

    assert len({file.parent for file in manifest_files(world)}) == 2
    assert world.holds("a", "b")
