"""Rows that an abort dropped are written again from the file that a repair saved: once, on real brokers."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition

from oncelog.errors import FileUnavailableError, FileWriteError, UsageError
from oncelog.testing.faults import killing_at
from oncelog.testing.target_contract import at, stop
from oncelog.znodes.clock import wall_ms
from oncelog_kafka.brokers import KafkaProducers, KafkaTransactions
from oncelog_kafka.brokers.producers import Row
from oncelog_kafka.crash_points import RepairCrashPoint, RestoreCrashPoint
from oncelog_kafka.operations import saved_rows
from oncelog_kafka.operations.saved_rows import Origin
from oncelog_kafka.protocol.end_txn import PASSING
from planted_hangs import HOUR_MS, RELEASES, World, unguarded_broker, world_on
from tests.support.harness.variants import variants
from tests.support.servers.kafka import KafkaBroker, fresh_name


@pytest.fixture(scope="module", params=variants(*RELEASES))
def unguarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[KafkaBroker, int]]:
    with unguarded_broker(tmp_path_factory.mktemp("kafka"), request.param) as found:
        yield found


@pytest.fixture
def world(unguarded: tuple[KafkaBroker, int]) -> Iterator[World]:
    with world_on(*unguarded) as found:
        yield found


def saved(world: World, folder: Path, *rows: str, ended: str = "abort") -> str:
    """The file of rows that were dropped."""
    world.leave_forgotten(*rows)
    (done,) = world.repair("--unknown", ended, "--save", str(folder))["repaired"]
    return str(done["saved"])


def restore(world: World, *words: str, exit_code: int = 0) -> list[Any]:
    return list(world.json("txn", "restore", *words, exit_code=exit_code)["restored"])


def test_rows_that_an_abort_dropped_are_written_again_once(world: World, tmp_path: Path) -> None:
    file = saved(world, tmp_path, "a", "b")
    assert world.values() == []

    (first,) = restore(world, file)
    (again,) = restore(world, file)

    assert world.values() == ["a", "b"]
    assert (first["partition"], first["rows"], first["is_ours"]) == (1, 2, True)
    assert again == {**first, "is_ours": False}


def test_keys_headers_and_timestamps_are_as_they_were_in_rows_of_any_size(world: World, tmp_path: Path) -> None:
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", None)]
    world.leave_forgotten("dropped")
    (done,) = world.repair("--unknown", "abort", "--save", str(tmp_path))["repaired"]
    path = Path(done["saved"])
    origin = saved_rows.load(path).origin
    rows = [
        Row(origin.producer_id, origin.epoch, 0, 1_000, None, None, headers),
        *(Row(origin.producer_id, origin.epoch, at, at, b"key", os.urandom(300_000), []) for at in range(1, 6)),
        Row(origin.producer_id, origin.epoch, 6, 2_000, b"", b"x" * 900_000, []),
    ]
    saved_rows.save(path, origin, rows)

    (restored,) = restore(world, str(path))

    with closing(KafkaProducers({"bootstrap_servers": world.broker.address})) as producers:
        found = [one for one in producers.read(world.topic, 1, restored["first_offset"]) if isinstance(one, Row)]
    assert [(*one[3:6], list(one.headers)) for one in found] == [(*one[3:6], list(one.headers)) for one in rows]
    assert (restored["rows"], restored["last_offset"]) == (7, restored["first_offset"] + 6)


# Killed, raced and cut off --------------------------------------------------------------------------------------------


def killed_and_run_again(world: World, folder: Path, point: RestoreCrashPoint) -> None:
    file = saved(world, folder / "saved", "a", "b")
    command = [sys.executable, "-m", "oncelog", "kafka", "--brokers", world.broker.address, "txn", "restore", file]

    killed = subprocess.run(command, env=killing_at(point, folder / "mark"), check=False, capture_output=True)
    again = subprocess.run([*command, "--json"], check=False, capture_output=True)

    assert (killed.returncode, again.returncode) == (-signal.SIGKILL, 0), again.stderr
    (done,) = json.loads(again.stdout)["restored"]
    assert done["is_ours"] == (point is not RestoreCrashPoint.COMMITTED)
    assert world.values() == ["a", "b"]


@pytest.mark.slow
@pytest.mark.parametrize("point", [RestoreCrashPoint.COMMIT, RestoreCrashPoint.COMMITTED])
def test_a_restore_that_is_killed_around_its_commit_is_run_again(
    world: World, point: RestoreCrashPoint, tmp_path: Path
) -> None:
    killed_and_run_again(world, tmp_path, point)


@pytest.mark.walk("a restore that is killed and run again leaves one copy")
@pytest.mark.parametrize("point", [RestoreCrashPoint.FENCED, RestoreCrashPoint.WRITTEN])
def test_a_restore_that_is_killed_before_its_commit_is_run_again(
    world: World, point: RestoreCrashPoint, tmp_path: Path
) -> None:
    killed_and_run_again(world, tmp_path, point)


def test_a_restore_that_another_one_overtook_before_it_began_writes_nothing(world: World, tmp_path: Path) -> None:
    file = saved(world, tmp_path, "a", "b")

    with at(RestoreCrashPoint.FENCED, lambda: restore(world, file)):
        assert [one["is_ours"] for one in restore(world, file)] == [False]

    assert world.values() == ["a", "b"]


@pytest.mark.parametrize("point", [RestoreCrashPoint.WRITTEN, RestoreCrashPoint.COMMIT])
def test_of_two_restores_at_once_the_newer_one_writes_the_rows(
    world: World, point: RestoreCrashPoint, tmp_path: Path
) -> None:
    file = saved(world, tmp_path, "a", "b")

    with at(point, lambda: restore(world, file)):
        older = world.ask("txn", "restore", file)

    assert older.exit_code != 0
    assert "restore the file again" in older.output
    assert world.values() == ["a", "b"]
    assert [one["is_ours"] for one in restore(world, file)] == [False]


def test_requests_whose_answers_are_lost_are_sent_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = saved(world, tmp_path, "a", "b")
    lost = []

    def losing_the_first_answer(owner: type, name: str) -> None:
        send = getattr(owner, name)

        def sent(*args: Any, **named: Any) -> Any:
            answer = send(*args, **named)
            if name in lost or answer in PASSING:
                return answer
            lost.append(name)
            return "NETWORK_EXCEPTION"

        monkeypatch.setattr(owner, name, sent)

    for name in ("init", "add_partition", "add_offsets", "stage", "end"):
        losing_the_first_answer(KafkaTransactions, name)
    losing_the_first_answer(KafkaProducers, "append")

    assert [one["is_ours"] for one in restore(world, file)] == [True]
    assert lost == ["init", "add_partition", "append", "add_offsets", "stage", "end"]
    assert world.values() == ["a", "b"]


def test_a_restore_that_fails_in_the_middle_holds_nobody_back(world: World, tmp_path: Path) -> None:
    file = saved(world, tmp_path, "a", "b")

    def fail() -> None:
        raise FileUnavailableError("a reason")

    with at(RestoreCrashPoint.WRITTEN, fail):
        failed = world.ask("txn", "restore", file)
    other = world.began()
    world.write(other, 1, "behind it")
    world.end(other, is_commit=True)

    assert failed.exit_code == 3
    assert world.values() == ["behind it"]
    restore(world, file)
    assert world.values() == ["a", "b", "behind it"]


# Refused --------------------------------------------------------------------------------------------------------------


def refusal(world: World, file: str, *words: str) -> str:
    """What is said, when nothing is written."""
    before = world.values()
    done = world.ask("txn", "restore", file, *words)
    assert done.exit_code == 2, done.output
    assert world.values() == before
    return done.output


def changed(file: str, **fields: Any) -> str:
    """A whole file with another origin."""
    found = saved_rows.load(Path(file))
    rows = list(found.rows())
    saved_rows.save(found.path, replace(found.origin, **fields), rows)
    return file


def test_rows_that_are_visible_are_not_written_again(world: World, tmp_path: Path) -> None:
    file = saved(world, tmp_path, "a", "b", ended="commit")

    assert "the rows are not lost: their transaction was committed" in refusal(world, file, "--accept-duplicates")


def test_rows_of_an_open_transaction_are_not_written_again(world: World, tmp_path: Path) -> None:
    world.leave_forgotten("a")
    with at(RepairCrashPoint.SAVED, stop):
        world.ask("txn", "repair", "--partition", world.place, "--yes", "--unknown", "abort", "--save", str(tmp_path))
    (file,) = tmp_path.glob("*.avro")

    assert "is still open: end it by oncelog kafka txn repair" in refusal(world, str(file), "--accept-duplicates")
    assert [one["ended"] for one in world.repair("--unknown", "commit")["repaired"]] == ["commit"]
    assert world.values() == ["a"]


@pytest.mark.sampled("restores")
def test_rows_of_another_cluster_or_topic_are_refused(world: World, tmp_path: Path) -> None:
    file = saved(world, tmp_path, "a")
    again = saved_rows.load(Path(file)).origin

    assert "these rows are of another cluster" in refusal(world, changed(file, cluster_id="another"))
    changed(file, cluster_id=again.cluster_id)
    assert "is gone, or was created again" in refusal(world, changed(file, topic_id="AAAAAAAAAAAAAAAAAAAAAA"))
    assert "is gone, or was created again" in refusal(world, changed(file, topic_id=again.topic_id, partition=7))
    assert "is gone, or was created again" in refusal(world, changed(file, topic=fresh_name("gone"), partition=1))


def test_a_transaction_that_is_gone_from_the_partition_is_doubted(world: World, tmp_path: Path) -> None:
    file = saved(world, tmp_path, "a", "b")
    with world.broker.admin() as admin:
        admin.delete_records({TopicPartition(world.topic, 1): 3})

    assert "gone from the partition" in refusal(world, file)
    assert [one["is_ours"] for one in restore(world, file, "--accept-duplicates")] == [True]
    assert [one["is_ours"] for one in restore(world, file, "--accept-duplicates")] == [False]
    assert world.values() == ["a", "b"]


@pytest.mark.parametrize("days", [-1, 7])
def test_a_file_that_brokers_may_have_forgotten_is_doubted(world: World, days: int, tmp_path: Path) -> None:
    file = saved(world, tmp_path, "a")
    changed(file, saved_ms=wall_ms() - days * 24 * HOUR_MS)

    assert "offsets.retention.minutes" in refusal(world, file)
    assert [one["is_ours"] for one in restore(world, file, "--accept-duplicates")] == [True]
    assert [one["is_ours"] for one in restore(world, file)] == [False]


def test_of_two_files_of_one_transaction_one_is_restored(world: World, tmp_path: Path) -> None:
    file = saved(world, tmp_path, "a", "b")
    restore(world, file)
    found = saved_rows.load(Path(file))
    saved_rows.save(found.path, found.origin, list(found.rows())[:1])

    assert "another file of the same transaction was restored" in refusal(world, file)


# Files ----------------------------------------------------------------------------------------------------------------

ORIGIN = Origin("cluster", "topic", "id", 1, 10, 7, 0, 1_000)
ROWS = [Row(7, 0, 10 + at, at, None, b"value %d" % at, []) for at in range(100)]


def test_a_file_that_was_torn_or_changed_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "saved.avro"
    assert saved_rows.save(path, ORIGIN, ROWS) == len(ROWS)
    found = saved_rows.load(path)
    assert (found.origin, list(found.rows())) == (ORIGIN, ROWS)
    whole = path.read_bytes()

    for cut in range(0, len(whole), 3):
        for damaged in (whole[:cut], whole[:cut] + bytes([whole[cut] ^ 0x10]) + whole[cut + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(UsageError):
                saved_rows.load(path)


def test_a_file_that_is_not_there_is_named(world: World, tmp_path: Path) -> None:
    done = world.ask("txn", "restore", str(tmp_path / "gone.avro"))

    assert done.exit_code == 3
    assert "gone.avro" in done.output


def test_what_a_killed_repair_left_behind_is_removed_and_what_a_living_one_writes_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "saved.avro"
    killed = tmp_path / ".other.avro.abc.tmp"
    killed.write_bytes(b"half")

    def meanwhile() -> Iterator[Row]:
        yield ROWS[0]
        saved_rows.save(tmp_path / "another.avro", ORIGIN, ROWS)
        yield ROWS[1]

    assert saved_rows.save(path, ORIGIN, meanwhile()) == 2
    assert sorted(one.name for one in tmp_path.iterdir()) == ["another.avro", "saved.avro"]
    assert list(saved_rows.load(path).rows()) == ROWS[:2]


def test_rows_that_cannot_be_saved_leave_nothing_behind(tmp_path: Path) -> None:
    def full() -> Iterator[Row]:
        yield ROWS[0]
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(FileWriteError, match="No space left"):
        saved_rows.save(tmp_path / "saved.avro", ORIGIN, full())

    assert list(tmp_path.iterdir()) == []
