"""Transactions that nobody ends, planted on real brokers: they are found, judged and ended without loss."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition

from oncelog import metadata
from oncelog.batches.rules import BatchRequest
from oncelog.testing.faults import killing_at
from oncelog.testing.target_contract import at
from oncelog.znodes.clock import wall_ms
from oncelog_kafka.brokers import Brokers, KafkaProducers, partitions
from oncelog_kafka.brokers import producers as asking
from oncelog_kafka.crash_points import RepairCrashPoint
from oncelog_kafka.ledger import ledger
from oncelog_kafka.operations import inspection, repair
from oncelog_kafka.protocol.hanging import Hang, Verdict
from oncelog_kafka.protocol.participants import Participant
from planted_hangs import HOUR_MS, RELEASES, LaterClock, World, avro_rows, unguarded_broker, world_on
from tests.support.connectors.kafka_ledger import Ledger
from tests.support.harness.variants import variants
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name, send


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


@pytest.mark.sampled("transactions that hang")
def test_a_marker_that_was_left_out_of_a_commit_is_found_and_written(world: World, tmp_path: Path) -> None:
    who = world.leave_open("lost-1", "lost-2")
    (hang,) = world.hangs()
    assert (hang["partition"], hang["start_offset"], hang["verdict"]) == (1, 0, world.verdict("committed"))
    assert (hang["transactional_id"], hang["state"]) == (who.transactional_id, "CompleteCommit")
    assert world.values() == ["seen"]

    done = world.repair(*world.choice("commit", tmp_path))

    assert [(one["ended"], one["is_ours"]) for one in done["repaired"]] == [("commit", True)]
    assert world.hangs() == []
    assert sorted(world.values()) == ["lost-1", "lost-2", "seen"]


def test_a_marker_that_was_left_out_of_an_abort_is_found_and_written(world: World, tmp_path: Path) -> None:
    world.leave_open("dropped", is_commit=False)
    (hang,) = world.hangs()
    assert (hang["verdict"], hang["state"]) == (world.verdict("aborted"), "CompleteAbort")

    assert [one["ended"] for one in world.repair(*world.choice("abort", tmp_path))["repaired"]] == ["abort"]

    assert world.hangs() == []
    assert world.values() == []


def test_a_write_behind_the_end_of_its_transaction_is_found(world: World, tmp_path: Path) -> None:
    who = world.began()
    world.write(who, 0, "gone")
    world.end(who, is_commit=False)
    world.write(who, 1, "late", is_known=False)

    (hang,) = world.hangs()
    assert (hang["verdict"], hang["transactional_id"]) == (world.verdict("aborted"), who.transactional_id)
    assert [one["ended"] for one in world.repair(*world.choice("abort", tmp_path))["repaired"]] == ["abort"]


def test_readers_go_on_behind_a_repaired_transaction(world: World, tmp_path: Path) -> None:
    world.leave_open("first")
    other = world.began()
    world.write(other, 1, "second")
    world.end(other, is_commit=True)
    assert world.values() == ["seen"]

    world.repair(*world.choice("commit", tmp_path))

    assert world.values() == ["first", "second", "seen"]


def test_open_transactions_that_their_coordinator_will_end_do_not_hang(world: World) -> None:
    who = world.began()
    world.write(who, 0, "open")
    world.write(who, 1, "open")

    assert world.hangs() == []
    assert world.repair() == {"dry_run": False, "planned": [], "repaired": [], "left": [], "not_asked": {}}
    world.end(who, is_commit=True)
    assert world.values() == ["open", "open"]


def test_a_transaction_beyond_its_time_out_hangs_at_its_coordinator_and_is_not_repaired(world: World) -> None:
    who = world.began()
    world.write(who, 0, "open")
    settings = {"bootstrap_servers": world.broker.address}
    with closing(Brokers(settings, LaterClock())) as brokers, closing(KafkaProducers(settings)) as producers:
        late = [one.transactional_id for one in inspection.find_hanging(brokers)]
        hangs = repair.find(producers, brokers, None, {(world.topic, 0)}).hangs

    world.end(who, is_commit=False)
    assert who.transactional_id in late
    assert not hangs


def test_the_transaction_of_a_running_producer_is_left_to_it(world: World) -> None:
    who = world.leave_open("lost")
    if world.version >= 2:
        who = world.began(who.transactional_id)  # which has an epoch of its own
    until(lambda: world.raw.add_partitions(who, [(world.topic, 0)]) == "NONE")

    (hang,) = world.hangs()
    done = world.repair(exit_code=1)

    assert hang["verdict"] == ("unknown" if world.version >= 2 else "running")
    assert [one["partition"] for one in done["left"]] == [1]
    assert done["repaired"] == []


def test_a_producer_that_began_anew_leaves_a_transaction_of_which_nobody_knows(world: World) -> None:
    who = world.leave_open("lost")
    for _ in range(2):
        world.began(who.transactional_id)

    assert [one["verdict"] for one in world.hangs()] == ["unknown"]


def test_a_transaction_that_no_coordinator_knows_hangs_when_it_is_old(world: World) -> None:
    world.leave_forgotten("young", ago_ms=0)
    assert world.hangs() == []

    world.leave_forgotten("old")
    (hang,) = world.hangs()
    assert (hang["verdict"], hang["transactional_id"]) == ("unknown", None)
    done = world.repair(exit_code=1)
    assert (done["repaired"], len(done["left"])) == ([], 1)


def test_the_rows_of_an_unknown_transaction_are_saved_before_they_are_dropped(world: World, tmp_path: Path) -> None:
    world.leave_forgotten("a", "b")
    assert "--unknown needs --partition" in world.ask("txn", "repair", "--yes", "--unknown", "abort").output
    refused = world.ask("txn", "repair", "--partition", world.place, "--yes", "--unknown", "abort")
    assert refused.exit_code == 2
    assert "name a folder to save them in" in refused.output

    (done,) = world.repair("--unknown", "abort", "--save", str(tmp_path / "saved"))["repaired"]

    assert (done["ended"], done["saved_rows"]) == ("abort", 2)
    rows = avro_rows(Path(done["saved"]))
    assert [(row["offset"], row["key"], row["value"], row["headers"]) for row in rows] == [
        (0, None, b"a", []),
        (1, None, b"b", []),
    ]
    assert all(row["timestamp_ms"] <= wall_ms() - HOUR_MS for row in rows)
    assert world.hangs() == []
    assert world.values() == []


def test_the_ledger_tells_what_the_coordinators_have_forgotten(world: World, tmp_path: Path) -> None:
    stranger = world.leave_forgotten("a", "b")
    place = str(tmp_path / "ledger")
    with closing(metadata.open_metadata(place)) as store:
        steps = Ledger(store, BatchRequest("sink", "query", "sink", "run", 0, "fingerprint"))
        opened = steps.begin(lease=None, buckets=None)
        assert opened is not None
        written = Participant(stranger.transactional_id, 0, stranger.producer_id, stranger.epoch, 2, 2, 0, world.topic)
        steps.decide(opened, (written,))
        before = world.json("--znodes", place, "txn", "repair", "--partition", world.place, "--dry-run", exit_code=1)
        ledger.complete(store, "sink", opened.number)

    done = world.json("--znodes", place, "txn", "repair", "--partition", world.place, "--yes")

    assert [one["verdict"] for one in before["left"]] == ["running"]  # the query may still write the batch again
    assert [one["ended"] for one in done["repaired"]] == ["commit"]
    assert world.values() == ["a", "b"]


def test_rows_of_many_pages_are_saved_without_those_of_others(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_one_batch = (partitions.PARTITION, 1, -1)  # a leader answers a fetch of one byte with one batch
    monkeypatch.setattr(partitions.fetch_request, "__defaults__", of_one_batch)
    stranger = world.leave_forgotten("0", "1")
    other = world.began()
    world.write(other, 1, "of another")
    world.end(other, is_commit=True)
    for number in (2, 3):
        world.write(stranger, 1, str(number), sequence=number, is_known=False, ago_ms=HOUR_MS)

    (done,) = world.repair("--unknown", "commit", "--save", str(tmp_path))["repaired"]

    assert [row["value"] for row in avro_rows(Path(done["saved"]))] == [b"0", b"1", b"2", b"3"]
    assert world.values() == ["0", "1", "2", "3", "of another"]


def test_keys_headers_and_timestamps_are_saved_as_they_are(world: World, tmp_path: Path) -> None:
    headers: list[tuple[str, str | bytes | None]] = [("a", b"1"), ("a", None)]
    fields: dict[str, Any] = {"keys": ["key", None], "headers": [headers, []], "timestamps_ms": [1_000, 2_000]}
    send(world.broker, world.topic, "full", None, enable_idempotence=False, **fields)  # so that no producer id is known
    of_anybody = Hang(world.topic, 0, -1, -1, 0, 0, None, None, None, Verdict.UNKNOWN, "")
    with closing(KafkaProducers({"bootstrap_servers": world.broker.address})) as producers:
        path, count = repair.save(producers, of_anybody, tmp_path)

    full, empty = avro_rows(path)
    assert count == 2
    assert (full["timestamp_ms"], full["key"], full["value"]) == (1_000, b"key", b"full")
    assert full["headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert (empty["timestamp_ms"], empty["key"], empty["value"], empty["headers"]) == (2_000, None, None, [])


def test_rows_that_retention_has_removed_are_not_waited_for(world: World, tmp_path: Path) -> None:
    world.leave_forgotten("a", "b")
    with world.broker.admin() as admin:
        admin.delete_records({TopicPartition(world.topic, 1): 1})

    (done,) = world.repair("--unknown", "abort", "--save", str(tmp_path))["repaired"]

    assert (done["ended"], done["saved_rows"]) in {("abort", 1), ("abort", 2)}  # a batch is removed whole
    assert world.hangs() == []


def test_many_partitions_are_asked_by_one_request(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.broker.create_topic(fresh_name("many"), partitions=100)
    made = []

    def counted(asked: Sequence[tuple[str, int]]) -> Any:
        made.append(len(asked))
        return describe_request(asked)

    describe_request = asking.describe_request
    monkeypatch.setattr(asking, "describe_request", counted)
    with closing(KafkaProducers({"bootstrap_servers": world.broker.address})) as producers:
        producers.open_transactions()

    assert len(made) == 1
    assert made[0] > 100


def test_a_partition_that_does_not_exist_is_not_called_sound(world: World) -> None:
    done = world.ask("txn", "repair", "--partition", "not-there-7", "--yes")

    assert done.exit_code == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION: not-there-7" in done.output
    for place in ("not-there", "-7", "not-there-99999999999"):
        assert world.ask("txn", "repair", "--partition", place).exit_code == 2


def test_an_unknown_transaction_becomes_visible_if_the_operator_says_so(world: World) -> None:
    world.leave_forgotten("a", "b")

    assert [one["ended"] for one in world.repair("--unknown", "commit")["repaired"]] == ["commit"]

    assert world.values() == ["a", "b"]


def test_nothing_changes_in_a_dry_run_or_without_a_yes(world: World, tmp_path: Path) -> None:
    world.leave_open("lost")
    words = ("txn", "repair", "--partition", world.place, *world.choice("commit", tmp_path))

    dry = world.json(*words, "--dry-run", exit_code=1)
    asked = world.ask(*words, says="n\n")
    unasked = world.ask(*words, "--json")

    assert [one["marker"] for one in dry["planned"]] == ["commit"]
    assert (asked.exit_code, unasked.exit_code) == (1, 2)
    assert "Give --yes or --dry-run" in unasked.output
    assert len(world.hangs()) == 1
    said = world.ask(*words, says="y\n")
    assert said.exit_code == 0
    assert f"{world.place} from 0: commit" in said.stdout


def test_what_is_found_is_shown_with_what_is_safe(world: World) -> None:
    world.leave_open("lost")

    found = world.ask("txn", "find-hanging")

    assert found.exit_code == 1
    assert f"{world.place} from 0: the coordinator says CompleteCommit" in found.stdout
    assert ("safe: commit; an abort would drop" if world.version >= 2 else "safe: save the rows") in found.stdout


def test_partitions_are_not_asked_where_only_javas_client_can_log_in(world: World, tmp_path: Path) -> None:
    world.leave_open("lost")

    alone = world.json("txn", "find-hanging", "--coordinators-only")
    refused = world.ask("txn", "find-hanging", "--config", "admin.client=java")

    assert (alone["left_open"], alone["not_asked"]) == ([], {})
    assert refused.exit_code == 2
    assert "--coordinators-only" in refused.output
    world.repair(*world.choice("commit", tmp_path))


def test_of_two_repairs_one_ends_it_and_the_other_says_so(world: World) -> None:
    world.leave_forgotten("a")

    def other() -> None:
        assert len(world.repair("--unknown", "commit")["repaired"]) == 1

    with at(RepairCrashPoint.SAVED, other):
        done = world.ask("txn", "repair", "--partition", world.place, "--yes", "--unknown", "commit")

    assert "it does not hang any more" in done.output
    assert world.values() == ["a"]


def test_a_repair_that_another_one_overtook_at_the_last_moment_says_what_the_other_did(
    world: World, tmp_path: Path
) -> None:
    world.leave_forgotten("a")

    with at(RepairCrashPoint.END, lambda: world.repair("--unknown", "commit")):
        done = world.repair("--unknown", "abort", "--save", str(tmp_path), exit_code=1)

    assert [(one["ended"], one["is_ours"]) for one in done["repaired"]] == [("commit", False)]
    assert world.values() == ["a"]


@pytest.mark.walk("a repair that is killed and run again leaves one copy")
@pytest.mark.parametrize("point", RepairCrashPoint)
def test_a_repair_that_is_killed_is_run_again(world: World, point: RepairCrashPoint, tmp_path: Path) -> None:
    world.leave_forgotten("a", "b")
    words = ["txn", "repair", "--partition", world.place, "--yes", "--unknown", "commit", "--save", str(tmp_path / "s")]
    command = [sys.executable, "-m", "oncelog", "kafka", "--brokers", world.broker.address, *words]

    killed = subprocess.run(command, env=killing_at(point, tmp_path / "mark"), check=False, capture_output=True)
    again = subprocess.run(command, check=False, capture_output=True)

    assert (killed.returncode, again.returncode) == (-signal.SIGKILL, 0), again.stderr
    assert world.hangs() == []
    assert world.values() == ["a", "b"]
    (saved,) = (tmp_path / "s").iterdir()
    assert [row["value"] for row in avro_rows(saved)] == [b"a", b"b"]
