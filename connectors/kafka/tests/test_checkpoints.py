"""Checkpoints of queries on Kafka: what `oncelog kafka checkpoint` says, and that a query goes on from a new one."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

import oncelog
from oncelog.batches.rules import BatchRequest
from oncelog.cli import main
from oncelog.ports import ZnodeStore
from oncelog_kafka.ledger import ledger, ledger_store
from reads import EARLIEST, Source, create_again
from tests.support.connectors.kafka_ledger import Ledger
from tests.support.connectors.kafka_sink import options, values
from tests.support.log.checkpoints import QUERY, HandmadeCheckpoint, opened_round
from tests.support.log.logs import TOPIC
from tests.support.servers.kafka import KafkaBroker, fresh_name, send
from tests.support.spark.queries import forget_last_commit, run_available


class World:
    """A query that copies a topic into another one, its ledger in a folder, and the commands beside it."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, folder: Path) -> None:
        self.spark = spark
        self.broker = broker
        self.folder = folder
        self.name = broker.create_topic(fresh_name("read"))
        self.out = broker.create_topic(fresh_name("written"))
        self.checkpoint = folder / "ck"

    def copy(self, checkpoint: Path, *, name: str | None = None, is_failing: bool = False) -> None:
        value = F.when(F.raise_error(F.lit("no")).isNull(), F.col("value")) if is_failing else F.col("value")
        df = (
            Source(self.spark, self.broker, subscribe=name or self.name).stream(**EARLIEST).select(value.alias("value"))
        )
        sink = options(self.broker, self.folder, self.out, transactionalIdPrefix=f"{self.out}.p")
        run_available(df.writeStream.format("oncelog-kafka").options(**sink), checkpoint)

    def fail(self) -> None:
        """Spark plans the next batch, and its sink gives up its round."""
        with pytest.raises(StreamingQueryException):
            self.copy(self.checkpoint, is_failing=True)

    def written(self) -> list[str]:
        return sorted(values(self.broker, self.out))

    def command(self, *words: str) -> dict[str, Any]:
        """The document of `oncelog kafka checkpoint`."""
        place = ["--brokers", self.broker.address, "--znodes", str(self.folder / "ledger"), "--json"]
        done = CliRunner().invoke(main, ["kafka", "checkpoint", *words, *place])
        assert done.stderr == ""
        document = json.loads(done.stdout)
        assert isinstance(document, dict)
        return document

    def refused(self, *words: str) -> str:
        """The line that a command which is refused says."""
        place = ["--brokers", self.broker.address, "--znodes", str(self.folder / "ledger")]
        done = CliRunner().invoke(main, ["kafka", "checkpoint", *words, *place])
        assert (done.exit_code, done.stdout) == (2, "")
        return done.stderr

    def problems(self, checkpoint: Path) -> list[tuple[str, str]]:
        return [(one["problem"], one["where"]) for one in self.command("verify", str(checkpoint))["findings"]]


@pytest.fixture
def world(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path) -> World:
    return World(spark, kafka, tmp_path)


@pytest.mark.every_spark
def test_a_query_goes_on_in_a_topic_that_was_created_again_from_a_rebased_checkpoint(world: World) -> None:
    send(world.broker, world.name, "old 0", "old 1")
    world.copy(world.checkpoint)
    send(world.broker, world.name, "old 2")
    world.fail()
    assert world.problems(world.checkpoint) == []
    shown = world.command("show", str(world.checkpoint))
    assert (shown["standing"], shown["checkpoint"]["sources"][0]["kind"]) == ("not decided", "oncelog-kafka")
    create_again(world.broker, world.name, "new 0")
    assert world.problems(world.checkpoint) == [("topic was created again", f"source 0, topic {world.name}")]
    new = world.folder / "new"

    words = ("rebase", str(world.checkpoint), str(new), "--topic", world.name, "--accept-loss")
    done = world.command(*words)["written"]

    assert [(one["start"], one["end"]) for one in done["lost"]] == [(2, 3)]
    assert world.problems(new) == []
    world.copy(new)
    send(world.broker, world.name, "new 1")
    world.copy(new)
    assert world.written() == ["new 0", "new 1", "old 0", "old 1"]


@pytest.mark.parametrize("is_decided", [True, False])
@pytest.mark.sampled
def test_a_query_goes_on_in_a_topic_of_another_name_from_a_moved_checkpoint(world: World, is_decided: bool) -> None:
    renamed = world.broker.create_topic(fresh_name("renamed"))
    for name in (world.name, renamed):
        send(world.broker, name, "0", "1")
    world.copy(world.checkpoint)
    for name in (world.name, renamed):
        send(world.broker, name, "2")
    if is_decided:
        world.copy(world.checkpoint)
        forget_last_commit(world.checkpoint)
    else:
        world.fail()
    new = world.folder / "new"

    done = world.command("move", str(world.checkpoint), str(new), "--topic", f"{world.name}={renamed}")["written"]

    assert done["committed_batch"] == (1 if is_decided else None)
    assert world.problems(new) == []
    send(world.broker, renamed, "3")
    world.copy(new, name=renamed)
    assert world.written() == ["0", "1", "2", "3"]


@pytest.mark.sampled("checkpoints of Kafka")
def test_a_query_from_kafka_into_a_log_is_compared_with_both(kafka: KafkaBroker, tmp_path: Path) -> None:
    name = kafka.create_topic(fresh_name("read"))
    send(kafka, name, "0", "1")
    made = HandmadeCheckpoint(tmp_path / "ck")
    made.plan(0, json.dumps({name: {"0": 2}}))
    with oncelog.open(tmp_path / "log") as log:
        log.create_topic(TOPIC, partitions=2)
        opened_round(log, made, 0, "run-1").decide()
    words = ["kafka", "checkpoint", "verify", str(made.root), "--brokers", kafka.address, "--json"]

    done = CliRunner().invoke(main, [*words, "--path", str(tmp_path / "log")])

    document = json.loads(done.stdout)
    assert (document["fits"], document["ledgers"], document["not_compared"]) == (True, ["copies"], [])
    made.plan(0, json.dumps({name: {"0": 3}}))
    done = CliRunner().invoke(main, [*words, "--path", str(tmp_path / "log")])
    found = [one["problem"] for one in json.loads(done.stdout)["findings"]]
    assert found == ["offset is beyond the end", "batch has other offsets"]


@pytest.mark.sampled("checkpoints on Kafka")
def test_a_checkpoint_is_moved_to_another_cluster_that_has_the_offsets(world: World, kafka_tv1: KafkaBroker) -> None:
    send(world.broker, world.name, "0", "1")
    world.copy(world.checkpoint)
    new, elsewhere = world.folder / "new", ["--to-brokers", kafka_tv1.address]
    kafka_tv1.create_topic(world.name)
    send(kafka_tv1, world.name, "0")
    assert "lost or read twice" in world.refused("move", str(world.checkpoint), str(new), *elsewhere)
    send(kafka_tv1, world.name, "1")

    world.command("move", str(world.checkpoint), str(new), *elsewhere)

    assert world.problems(new) == [("topic was created again", f"source 0, topic {world.name}")]
    world.broker = kafka_tv1
    assert world.problems(new) == []
    (source,) = world.command("show", str(new))["checkpoint"]["sources"]
    assert [row["start"] for row in source["partitions"]] == [2]


@pytest.mark.sampled("checkpoints on Kafka")
def test_a_ledger_that_is_copied_too_is_looked_for_in_the_other_cluster(
    kafka: KafkaBroker, kafka_tv1: KafkaBroker, tmp_path: Path
) -> None:
    """Also if its topic is named, which has the same name in both."""
    name, topic = fresh_name("read"), fresh_name("ledger")
    made = HandmadeCheckpoint(tmp_path / "ck")
    for batch_id in (0, 1):
        made.plan(batch_id, json.dumps({name: {"0": batch_id + 1}}))
        made.commit(batch_id)
    for broker, decided in ((kafka, (0, 1)), (kafka_tv1, (0,))):
        broker.create_topic(name)
        send(broker, name, "0", "1")
        with closing(ledger_store.open_ledger({"bootstrap_servers": [broker.address]}, topic)) as store:
            for batch_id in decided:
                decide(store, made, batch_id)
    words = ["move", str(made.root), str(tmp_path / "new"), "--ledger-topic", topic, "--to-brokers", kafka_tv1.address]

    done = CliRunner().invoke(main, ["kafka", "checkpoint", *words, "--brokers", kafka.address])

    assert (done.exit_code, "the other place lacks batches" in done.stderr) == (2, True), done.output


def decide(store: ZnodeStore, made: HandmadeCheckpoint, batch_id: int) -> None:
    """Have a sink of the checkpoint's query decide a batch, and complete it."""
    fingerprint = made.fingerprint(batch_id)
    asked = Ledger(store, BatchRequest("copies", QUERY, "sink", "run-1", batch_id, fingerprint))
    opened = asked.begin(lease=None, buckets=1)
    assert opened is not None
    asked.decide(opened, [], written={})
    ledger.complete(store, "copies", opened.number)


def test_a_checkpoint_of_sparks_own_source_is_read_and_rebased(world: World) -> None:
    """It has the same files, but for those with the ids of topics."""
    send(world.broker, world.name, "old 0", "old 1")
    world.copy(world.checkpoint)
    for file in (world.checkpoint / "sources" / "0").glob("*oncelog-topic-ids*"):
        file.unlink()
    (source,) = world.command("show", str(world.checkpoint))["checkpoint"]["sources"]
    rows = [(row["topic"], row["partition"], row["start"]) for row in source["partitions"]]
    assert (source["kind"], rows) == ("kafka", [(world.name, 0, 2)])
    assert world.problems(world.checkpoint) == []

    create_again(world.broker, world.name, "new 0")
    assert world.problems(world.checkpoint) == [("offset is beyond the end", f"source 0, {world.name}-0")]
    new = world.folder / "new"
    world.command("rebase", str(world.checkpoint), str(new), "--topic", world.name)

    assert world.problems(new) == []
    world.copy(new)
    assert world.written() == ["new 0", "old 0", "old 1"]
