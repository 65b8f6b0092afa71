"""What is left by drivers that stop or wake up late, by a store that goes away, and by people who change things."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelog.batches.attempt import Batch
from oncelog.batches.committables import CommittableAttempt
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.crash_points import CrashPoint
from oncelog.errors import CorruptDataError, FileWriteError, RoundAbortedError, RunSupersededError
from oncelog.metadata import open_metadata
from oncelog.spark.kit import staged_names
from oncelog.testing.target_contract import FIRST, SECOND, StoppedOnPurposeError, at, stop
from oncelog_search import manifests
from oncelog_search.committer import KEPT
from oncelog_search.crash_points import SearchCrashPoint
from oncelog_search.errors import IndexChangedError, SearchUnavailableError, StagingChangedError
from oncelog_search.ledgers import SEARCH_LEDGERS
from oncelog_search.sending import SendTask, Sent
from search_worlds import BEFORE_THE_DECISION, BEHIND_THE_DECISION, SearchWorld
from tests.support.servers.opensearch import OpenSearch, running_server

KEYED = {"id": {"type": "keyword"}, "value": {"type": "keyword"}}
UPSERT = {"mode": "upsert", "keyColumns": "id"}


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession, opensearch: OpenSearch) -> Iterator[SearchWorld]:
    found = SearchWorld(tmp_path, spark, opensearch)
    yield found
    found.close()


@pytest.fixture
def keyed(tmp_path: Path, spark: SparkSession, opensearch: OpenSearch) -> Iterator[SearchWorld]:
    found = SearchWorld(tmp_path, spark, opensearch, KEYED, **UPSERT)
    yield found
    found.close()


@pytest.fixture
def _stands_still(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Drivers that stop clean up nothing."""
    with monkeypatch.context() as patched:
        patched.setattr(CommittableAttempt, "abort", lambda self: None)
        yield


def die(world: SearchWorld, point: str, batch_id: int = 0) -> None:
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(batch_id, FIRST)


def staged(world: SearchWorld) -> Path:
    """The staging folder of the only attempt that has one."""
    (attempt,) = world.left()
    return world.staging / staged_names.staging(world.prefix, attempt)


def manifest_files(world: SearchWorld) -> list[Path]:
    return sorted((world.staging / "_oncelog" / "manifests").rglob("*.json"))


@pytest.mark.usefixtures("_stands_still")
@pytest.mark.sampled
@pytest.mark.parametrize("point", [*BEFORE_THE_DECISION, *BEHIND_THE_DECISION])
def test_what_a_dead_driver_left_is_completed_or_removed(world: SearchWorld, point: str) -> None:
    die(world, point)
    if point in BEFORE_THE_DECISION:
        assert world.visible() == []

    report = world.run(0, FIRST, "run-2")

    assert report.is_replay == (point in BEHIND_THE_DECISION)
    assert world.holds(FIRST)
    assert world.left() == []
    assert len(manifest_files(world)) == 1


@pytest.mark.sampled
@pytest.mark.parametrize("point", [SearchCrashPoint.WRITTEN, SearchCrashPoint.LISTED])
def test_of_two_drivers_the_older_one_ends_and_one_copy_is_left(world: SearchWorld, point: str) -> None:
    with at(point, lambda: world.run(0, FIRST, "run-2")), pytest.raises((RunSupersededError, RoundAbortedError)):
        world.run(0, FIRST, "run-1")

    assert world.holds(FIRST)
    world.run(1, SECOND, "run-2")
    assert world.holds(FIRST, SECOND)
    assert world.left() == [], "what the older one wrote meanwhile is removed, too"


@pytest.mark.sampled
@pytest.mark.parametrize("point", [SearchCrashPoint.SEND, SearchCrashPoint.SENT, SearchCrashPoint.PUBLISHED])
def test_of_two_drivers_behind_the_decision_either_may_send_the_documents(world: SearchWorld, point: str) -> None:
    with at(point, lambda: world.run(0, FIRST, "run-2")), suppress(RunSupersededError):
        world.run(0, FIRST, "run-1")

    assert world.holds(FIRST)
    assert (world.left(), len(manifest_files(world))) == ([], 1)


def test_a_driver_whose_files_its_successor_has_removed_is_at_its_end(world: SearchWorld) -> None:
    job = world.job(FIRST)
    send = job.send

    def overtaken(*arguments: Any) -> list[Sent]:
        world.run(0, FIRST, "run-2")
        return send(*arguments)

    job.send = overtaken  # type: ignore[method-assign, assignment]
    with suppress(RunSupersededError):
        world.run_job(0, job)

    assert world.holds(FIRST)
    assert (world.left(), len(manifest_files(world))) == ([], 1)


def test_a_driver_that_wakes_up_with_an_old_batch_replaces_no_newer_document(
    keyed: SearchWorld, tmp_path: Path
) -> None:
    """It stood still with the records in its hand, behind all checks, until its successor had written two batches."""
    hand = tmp_path / "hand"
    with at(SearchCrashPoint.SEND, stop), pytest.raises(StoppedOnPurposeError):
        keyed.run_job(0, keyed.keyed({"a": "old", "b": "old"}))
    shutil.copytree(staged(keyed) / "data", hand)
    keyed.run_job(0, keyed.keyed({"a": "old", "b": "old"}), "run-2")
    keyed.run_job(1, keyed.keyed({"b": "new"}), "run-2")

    resend(keyed, hand)

    assert keyed.opensearch.documents(keyed.index) == {
        "a": {"id": "a", "value": "old"},
        "b": {"id": "b", "value": "new"},
    }


def resend(world: SearchWorld, folder: Path) -> None:
    """Do what a task does that stood still with these files."""
    options = world.target().options
    task = SendTask(options.address, world.index, options.request_bytes, options.retry_timeout_ms, 1, False, True)
    files = sorted(map(str, folder.glob("part-*.txt")))
    assert files
    sent = world.job([]).send(files, 1, task)
    assert [each.problem for each in sent] == [None] * len(files), "what is there is as good as taken"


def clock(monkeypatch: pytest.MonkeyPatch, now_ms: int) -> None:
    """Have the drivers' host believe that it is this time."""
    monkeypatch.setattr("oncelog_search.committer.wall_ms", lambda: now_ms)


def test_the_versions_of_a_ledger_grow_though_its_clock_goes_back_and_a_batch_is_empty(
    keyed: SearchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock(monkeypatch, 1_000)
    keyed.run_job(0, keyed.keyed({"a": "first"}))
    clock(monkeypatch, 1)
    keyed.run_job(1, keyed.keyed({}))
    keyed.run_job(2, keyed.keyed({"a": "second"}))

    assert keyed.opensearch.documents(keyed.index) == {"a": {"id": "a", "value": "second"}}
    assert keyed.opensearch.ask("GET", f"/{keyed.index}/_doc/a")["_version"] == 1_002


def test_a_new_history_replaces_what_an_older_one_wrote(keyed: SearchWorld) -> None:
    for _ in range(3):
        keyed.run_job(0, keyed.keyed({"a": keyed.prefix}))
        keyed.prefix += "-again"

    assert keyed.opensearch.documents(keyed.index) == {"a": {"id": "a", "value": "contract-again-again"}}


# Versions of others --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behind_ms", [60_000, 0], ids=["a clock that is behind", "the same millisecond"])
def test_a_new_history_passes_the_versions_of_an_older_one(
    keyed: SearchWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, behind_ms: int
) -> None:
    """It has another prefix and another ledger, and each of its batches has keys that it has not written before."""
    clock(monkeypatch, 1_800_000_000_000)
    keyed.run_job(0, keyed.keyed(dict.fromkeys(("a", 'quoted"\\', "version", "z"), "old")))
    clock(monkeypatch, 1_800_000_000_000 - behind_ms)
    keyed.store.close()
    keyed.prefix, keyed.store = "another", open_metadata(str(tmp_path / "another"))

    keyed.run_job(1, keyed.keyed({"a": "new", "other": "new", 'quoted"\\': "new"}))
    keyed.run_job(2, keyed.keyed({"version": "new"}))
    keyed.run_job(3, keyed.keyed({"a": "newest"}))

    found = {key: row["value"] for key, row in keyed.opensearch.documents(keyed.index).items()}
    new = dict.fromkeys(("other", 'quoted"\\', "version"), "new")
    assert found == {"a": "newest", "z": "old", **new}


def test_versions_that_another_program_gave_are_passed(keyed: SearchWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/{keyed.index}/_doc/a?version_type=external&version={2**58}"
    keyed.opensearch.ask("PUT", path, {"id": "a", "value": "theirs"})

    keyed.run_job(0, keyed.keyed({"a": "ours", "b": "ours"}))
    assert keyed.opensearch.documents(keyed.index)["a"]["value"] == "ours"

    keyed.opensearch.ask("PUT", path.replace("/a?", "/b?") + "5", {"id": "b", "value": "theirs"})
    keyed.run_job(1, keyed.keyed({"b": "ours again"}))
    assert keyed.opensearch.documents(keyed.index)["b"]["value"] == "ours again"


def test_a_version_that_no_other_passes_is_named(keyed: SearchWorld) -> None:
    path = f"/{keyed.index}/_doc/a?version_type=external&version={2**63 - 1}"
    keyed.opensearch.ask("PUT", path, {"id": "a", "value": "theirs"})

    for run in ("run-1", "run-2"):
        with pytest.raises(IndexChangedError, match=r"the largest version that there is.*the batch is decided"):
            keyed.run_job(0, keyed.keyed({"a": "ours", "b": "ours"}), run)
    keyed.opensearch.ask("PUT", f"/{keyed.index}/_settings", {"index": {"gc_deletes": "0s"}})
    keyed.opensearch.ask("DELETE", f"/{keyed.index}/_doc/a")

    assert keyed.run_job(0, keyed.keyed({}), "run-3").is_replay
    assert {row["value"] for row in keyed.opensearch.documents(keyed.index).values()} == {"ours"}


@pytest.mark.usefixtures("_stands_still")
@pytest.mark.parametrize("point", [SearchCrashPoint.SEND, SearchCrashPoint.SENT])
def test_a_restart_passes_newer_versions_too(keyed: SearchWorld, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    clock(monkeypatch, 1_000)
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        keyed.run_job(0, keyed.keyed({"a": "ours", "b": "ours"}))
    path = f"/{keyed.index}/_doc/b?version_type=external&version=2000"
    keyed.opensearch.ask("PUT", path, {"id": "b", "value": "theirs"})

    assert keyed.run_job(0, keyed.keyed({}), "run-2").is_replay
    keyed.run_job(1, keyed.keyed({"b": "ours again"}), "run-2")

    assert {key: row["value"] for key, row in keyed.opensearch.documents(keyed.index).items()} == {
        "a": "ours",
        "b": "ours again",
    }


def test_a_driver_that_was_replaced_passes_no_newer_version(
    keyed: SearchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops between its decision and its first request; meanwhile its successor writes two batches."""
    clock(monkeypatch, 1_000)
    job = keyed.keyed({"a": "old", "b": "old"})
    send = job.send

    def overtaken(*arguments: Any) -> list[Sent]:
        keyed.run_job(0, keyed.keyed({}), "run-2")
        keyed.run_job(1, keyed.keyed({"b": "new"}), "run-2")
        keyed.opensearch.ask(
            "PUT", f"/{keyed.index}/_doc/a?version_type=external&version=2000", {"id": "a", "value": "theirs"}
        )
        return send(*arguments)

    hand = keyed.folder / "hand"
    with at(SearchCrashPoint.SEND, lambda: shutil.copytree(staged(keyed) / "data", hand)):
        job.send = lambda _, *more: overtaken(sorted(map(str, hand.glob("part-*"))), *more)  # type: ignore[method-assign]
        with suppress(RunSupersededError):
            keyed.run_job(0, job)

    assert {key: row["value"] for key, row in keyed.opensearch.documents(keyed.index).items()} == {
        "a": "theirs",
        "b": "new",
    }


# The store ------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled("search")
def test_a_store_that_is_killed_behind_the_decision_is_waited_for_by_a_restart(
    tmp_path: Path, spark: SparkSession
) -> None:
    with running_server(tmp_path / "server") as server:
        world = SearchWorld(tmp_path, spark, OpenSearch(server.url))
        world.run(0, FIRST)
        with at(SearchCrashPoint.SEND, server.stop), pytest.raises(SearchUnavailableError) as away:
            world.run(1, SECOND)
        assert "the batch is decided, and its documents are safe" in str(away.value)
        assert "see that the store is back" in str(away.value)
        server.restart()

        assert world.run(1, SECOND, "run-2").is_replay
        assert world.holds(FIRST, SECOND)
        assert world.left() == []
        world.close()


# People ---------------------------------------------------------------------------------------------------------------


def test_a_staging_folder_that_is_removed_before_the_decision_decides_nothing(world: SearchWorld) -> None:
    with (
        at(SearchCrashPoint.LISTED, lambda: shutil.rmtree(staged(world))),
        pytest.raises(RoundAbortedError, match="the staging folder of the batch is gone"),
    ):
        world.run(0, FIRST)

    assert not world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST)


def remove_file(world: SearchWorld) -> None:
    min((staged(world) / "data").glob("part-*")).unlink()


def cut_file(world: SearchWorld) -> None:
    """As long as before, and with fewer records."""
    file = min((staged(world) / "data").glob("part-*"))
    file.write_text(file.read_text().replace("\x1e", "\n"))


def remove_folder(world: SearchWorld) -> None:
    shutil.rmtree(staged(world))


@pytest.mark.parametrize("harm", [remove_file, cut_file, remove_folder])
def test_documents_that_are_gone_behind_the_decision_are_never_taken_for_sent(
    world: SearchWorld, harm: Callable[[SearchWorld], None]
) -> None:
    die(world, SearchCrashPoint.SEND)
    harm(world)

    for run in ("run-2", "run-3"):
        with pytest.raises(StagingChangedError, match=r"documents of a decided batch are not .*batch_id=0"):
            world.run(0, FIRST, run)
    assert manifest_files(world) == []


def test_files_that_a_late_task_leaves_next_to_those_of_the_batch_are_not_sent(world: SearchWorld) -> None:
    die(world, SearchCrashPoint.SEND)
    stray = '{"create":{"_id":"late"}}\n{"value":"late"}\n\x1e'
    (staged(world) / "data" / "part-9.txt").write_text(stray)

    assert world.run(0, FIRST, "run-2").is_replay

    assert world.holds(FIRST)
    assert world.left() == []


@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_count_that_is_not_that_of_the_files_decides_nothing(world: SearchWorld, wrong: int) -> None:
    """As if a stage above the counting one had failed, so that Spark counts its rows again."""
    job = world.job(FIRST)
    write = job.write
    job.write = lambda *given: write(*given)._replace(rows=len(FIRST) + wrong)  # type: ignore[method-assign]

    with pytest.raises(FileWriteError, match=rf"nothing was decided.*counted={len(FIRST) + wrong}, found={len(FIRST)}"):
        world.run_job(0, job)

    assert not world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST)
    assert world.left() == []


def test_a_manifest_that_was_changed_is_not_carried_out(world: SearchWorld) -> None:
    die(world, SearchCrashPoint.SEND)
    manifest = staged(world) / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"rows": 3', '"rows": 4'))

    with pytest.raises(CorruptDataError, match="the manifest of a decided batch was changed"):
        world.run(0, FIRST, "run-2")
    assert world.visible() == []


def test_an_index_that_took_the_place_of_another_gets_the_batch_only_if_it_is_named(world: SearchWorld) -> None:
    die(world, SearchCrashPoint.SEND)
    world.opensearch.ask("DELETE", f"/{world.index}")
    with pytest.raises(IndexChangedError, match=r"was removed, or another one has its name.*uuid=None.*batch_id=0"):
        world.run(0, FIRST, "run-2")

    world.opensearch.create(world.index, {"value": {"type": "keyword"}})
    with pytest.raises(IndexChangedError, match="set indexUuid to its uuid") as replaced:
        world.run(0, FIRST, "run-3")
    assert world.visible() == []

    world.options = {"indexUuid": replaced.value.fields["uuid"]}
    assert world.run(0, FIRST, "run-4").is_replay
    assert world.holds(FIRST)


def test_an_index_that_is_replaced_while_a_batch_is_sent_is_told(world: SearchWorld) -> None:
    job = world.job(FIRST)
    send = job.send

    def replaced(*arguments: Any) -> list[Sent]:
        sent = send(*arguments)
        world.opensearch.ask("DELETE", f"/{world.index}")
        world.opensearch.create(world.index, {"value": {"type": "keyword"}})
        return sent

    job.send = replaced  # type: ignore[method-assign, assignment]
    with pytest.raises(IndexChangedError, match="another one has its name now"):
        world.run_job(0, job)


def test_a_document_that_is_refused_is_named_and_sent_once_the_index_is_mended(world: SearchWorld) -> None:
    """Somebody blocks the index in between."""
    die(world, SearchCrashPoint.SEND)
    world.opensearch.ask("PUT", f"/{world.index}/_settings", {"index": {"blocks": {"write": True}}})

    for run in ("run-2", "run-3"):
        with pytest.raises(IndexChangedError, match=r"refuses a document.*fix the index.*id='.*-0'.*blocked"):
            world.run(0, FIRST, run)
    world.opensearch.ask("PUT", f"/{world.index}/_settings", {"index": {"blocks": {"write": False}}})

    assert world.run(0, FIRST, "run-4").is_replay
    assert world.holds(FIRST)


def test_a_batch_goes_where_its_decision_says_whatever_the_options_say_later(world: SearchWorld) -> None:
    die(world, CrashPoint.ROUND_DECIDED)
    decided_for, world.index = world.index, world.opensearch.new_index({"value": {"type": "keyword"}})
    world.staging = world.folder / "another"

    assert world.run(0, FIRST, "run-2").is_replay

    assert world.visible() == []
    world.index = decided_for
    assert world.holds(FIRST)


def test_a_decision_that_says_nothing_is_told() -> None:
    for names in (["{}"], ["[]"], ["nonsense"], ["{}", "{}"], ['{"path":"p","attempt":1}'], []):
        with pytest.raises(CorruptDataError, match="the ledger does not say of a decided batch"):
            manifests.of_parts(names)


def test_manifests_of_a_query_that_took_over_are_kept_though_its_batches_have_small_numbers(
    world: SearchWorld,
) -> None:
    for number in range(KEPT):
        world.run(100 + number, [str(number)])

    for number in range(3):
        asked = BatchRequest(world.prefix, "query-2", "sink", "run-2", number, f"{number}", takeover="query")
        BatchDriver(world.target()).run(Batch(asked, world.job([f"new {number}"])))

    kept = {file.name[:10] for file in manifest_files(world)}
    assert {f"{number:010d}" for number in range(3)} <= kept
    assert len(kept) == KEPT


def test_a_driver_that_comes_late_finds_the_batch_complete_though_no_manifest_of_it_is_left(world: SearchWorld) -> None:
    def complete_and_forget() -> None:
        world.run(0, FIRST, "run-2")
        shutil.rmtree(world.staging / staged_names.MANIFESTS)

    with at(SearchCrashPoint.SEND, complete_and_forget), suppress(RunSupersededError):
        world.run(0, FIRST, "run-1")

    assert world.holds(FIRST)


def test_a_few_manifests_are_kept(world: SearchWorld) -> None:
    for number in range(KEPT + 3):
        world.run(number, [str(number)])

    assert [file.name[:10] for file in manifest_files(world)] == [f"{number:010d}" for number in range(3, KEPT + 3)]
    (record, *_) = SEARCH_LEDGERS.read_rounds(world.store, world.prefix).values()
    assert len(record.names[0]) < 500
