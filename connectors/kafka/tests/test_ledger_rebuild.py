"""``oncelog kafka ledger rebuild``, on real brokers: a ledger is lost, and its query goes on exactly once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import oncelog_kafka
from oncelog.batches.giving_up import read_given_up
from oncelog.cli import main
from oncelog.crash_points import CrashPoint
from oncelog.testing.faults import killing_at
from oncelog.testing.target_contract import at, stop
from oncelog_kafka import connections
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.crash_points import KafkaCrashPoint, RebuildCrashPoint
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.ledger.ledger_store import open_ledger, requests_of
from oncelog_kafka.protocol.participants import find_losers
from tests.support.connectors import kafka_sink
from tests.support.connectors.kafka_sink import options
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name, send
from tests.support.spark.queries import forget_last_commit, run_available


class World(kafka_sink.World):
    """A query with its ledger in a topic of its own."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.ledger = fresh_name("ledger")
        self.place = {"ledgerTopic": self.ledger}
        self.settings = {"bootstrap_servers": [self.broker.address]}

    def writer(self) -> DataStreamWriter:
        more = {"transactionalIdPrefix": self.prefix, "znodes": None, **self.place}
        sink = oncelog_kafka.sink(**options(self.broker, self.folder, self.topic, **more))
        return self.rows().writeStream.foreachBatch(sink)

    def run(self, *texts: str) -> None:
        if texts:
            self.add(*texts)
        run_available(self.writer(), self.checkpoint)

    def stopped_at(self, point: str, *texts: str) -> None:
        with at(point, stop), pytest.raises(StreamingQueryException):
            self.run(*texts)

    def command(self, *words: str) -> list[str]:
        named = [f"topic={self.topic}", f"transactionalIdPrefix={self.prefix}"]
        given = [word for one in named for word in ("--option", one)]
        ((option, where),) = self.place.items()
        place = ["--ledger-topic" if option == "ledgerTopic" else "--znodes", where]
        cluster = ["--brokers", self.broker.address, *place]
        return ["kafka", *cluster, "ledger", "rebuild", str(self.checkpoint), *given, *words]

    def rebuild(self, *words: str, exit_code: int = 0) -> Any:
        """What the command answers; its error if it refuses."""
        done = CliRunner().invoke(main, [*self.command(*words), "--json"])
        assert done.exit_code == exit_code, done.output
        return json.loads(done.stdout)["rebuilt"] if exit_code == 0 else done.output

    def lose(self) -> None:
        """Delete the ledger's topic, as the runbook says once no query uses it."""
        self.broker.delete_topic(self.ledger)
        connections.close_connections()
        with closing(requests_of(self.settings)) as requests:
            until(lambda: requests.describe(self.ledger).answer == "UNKNOWN_TOPIC_OR_PARTITION")


@pytest.fixture
def world(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path, topic: str) -> Iterator[World]:
    yield World(spark, kafka, tmp_path, topic)
    connections.close_connections()


def trim(world: World) -> None:
    with closing(requests_of(world.settings)) as requests:
        found: Any = requests.fetch(world.ledger, 0)
    world.broker.delete_records(world.ledger, 0, before=found.high_watermark)


def trim_foreign(world: World) -> None:
    """Another program wrote to the topic, and somebody deleted its records with Kafka's tool."""
    send(world.broker, world.ledger, "a row of somebody else")
    trim(world)


@pytest.mark.parametrize("damage", [trim, pytest.param(trim_foreign, marks=pytest.mark.variant(by="parameter"))])
def test_a_query_whose_ledger_was_trimmed_goes_on_with_a_new_one(world: World, damage: Callable[[World], None]) -> None:
    world.run("0a", "0b")
    world.run("1a", "1b")
    forget_last_commit(world.checkpoint)  # Spark does not know that batch 1 is there
    damage(world)
    connections.close_connections()
    assert "was trimmed, and has no whole snapshot" in world.rebuild("--yes", exit_code=2)

    world.lose()
    shown = world.rebuild("--dry-run")
    assert (shown["fate"], shown["last_batch_id"], shown["next_batch_id"]) == ("written", 1, 2)
    with pytest.raises(StreamingQueryException, match="the history of this query is in another ledger"):
        world.run()
    assert world.rebuild("--yes") == shown

    world.run("2a", "2b")
    assert world.values() == ["0a", "0b", "1a", "1b", "2a", "2b"]
    assert "there is nothing to rebuild" in world.rebuild("--yes", exit_code=2)


def test_a_batch_of_which_nothing_is_committed_is_written_once(world: World) -> None:
    world.run("0a", "0b")
    world.stopped_at(CrashPoint.ROUND_DECIDE, "1a", "1b")
    world.lose()

    found = world.rebuild("--yes")
    assert (found["fate"], found["last_batch_id"], found["next_batch_id"]) == ("missing", 0, 1)
    world.run("2a", "2b")
    assert world.values() == ["0a", "0b", "1a", "1b", "2a", "2b"]


def test_a_batch_that_is_there_in_part_is_left_to_the_operator(world: World) -> None:
    world.run("0a", "0b")
    world.stopped_at(KafkaCrashPoint.ENDED, "1a", "1b")  # one of two transactions is committed
    with closing(Brokers(world.settings)) as brokers:
        open_ids = find_losers(world.prefix, 2**62, (), brokers.list_ids(["Ongoing"]))
        world.lose()
        assert "are not over" in world.rebuild("--yes", exit_code=2)
        brokers.fence(open_ids, 60_000)
    assert "cannot be known" in world.rebuild("--yes", exit_code=2)

    world.rebuild("--yes", "--batch", "missing")
    found = world.rebuild("--yes", "--batch", "written", "--reason", "1b is not needed")
    assert (found["is_known"], found["next_batch_id"]) == (False, 2)
    with closing(open_ledger(world.settings, world.ledger)) as store:
        (given_up,) = read_given_up(store, KAFKA_LEDGERS, world.prefix)
        assert (given_up.batch_id, given_up.reason) == (1, "1b is not needed")
    world.run("2a", "2b")
    assert len(world.values()) == 5


@pytest.mark.sampled("rebuilt ledgers")
def test_a_ledger_that_was_lost_with_its_folder_is_rebuilt_in_another_one(world: World) -> None:
    world.place = {"znodes": str(world.folder / "former")}
    world.run("0a", "0b")
    forget_last_commit(world.checkpoint)
    connections.close_connections()
    world.place = {"znodes": str(world.folder / "new")}

    assert world.rebuild("--yes")["fate"] == "written"
    world.run("1a", "1b")
    assert world.values() == ["0a", "0b", "1a", "1b"]
    refused = world.rebuild("--yes", "--option", f"ledgerTopic={world.ledger}", exit_code=2)
    assert "with --ledger-topic or --znodes" in refused


@pytest.mark.slow
@pytest.mark.sampled("rebuilt ledgers")
@pytest.mark.parametrize("point", [*RebuildCrashPoint])
def test_a_command_that_is_killed_twice_is_run_again(world: World, tmp_path: Path, point: RebuildCrashPoint) -> None:
    world.run("0a", "0b")
    world.run("1a", "1b")
    world.lose()
    command = [sys.executable, "-m", "oncelog", *world.command("--yes")]

    for number in range(2):
        mark = tmp_path / f"mark-{number}"
        killed = subprocess.run(command, env=killing_at(point, mark), check=False, capture_output=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = subprocess.run(command, check=False, capture_output=True)

    assert again.returncode == 0, again.stderr
    world.run("2a", "2b")
    assert world.values() == ["0a", "0b", "1a", "1b", "2a", "2b"]


@pytest.mark.slow
@pytest.mark.sampled("rebuilt ledgers")
def test_two_commands_at_once_write_one_ledger(world: World) -> None:
    world.run("0a", "0b")
    world.lose()
    command = [sys.executable, "-m", "oncelog", *world.command("--yes")]

    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    for one in both:
        _, problem = one.communicate(timeout=120)
        assert one.returncode == 0, problem

    with closing(open_ledger(world.settings, world.ledger)) as store:
        assert len(KAFKA_LEDGERS.round_numbers(store, world.prefix)) == 1
    world.run("1a", "1b")
    assert world.values() == ["0a", "0b", "1a", "1b"]
