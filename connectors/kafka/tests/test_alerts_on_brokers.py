"""Alerts on transactions that brokers leave open, in a real Prometheus by the brokers' and the exporter's own clocks.

A broker leaves out a marker, or never looks for what is beyond its time-out. The alerts fire until the commands of
their pages have mended it.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from driven_batches import FIRST
from driven_batches import World as Sink
from oncelog_kafka.brokers import Brokers, KafkaRequests
from oncelog_kafka.cli import exporter as exporter_cli
from oncelog_kafka.operations.metrics import KafkaSource
from planted_hangs import RELEASES, World, unguarded_broker, world_on
from tests.support.connectors.kafka_sink import values
from tests.support.harness.variants import variants
from tests.support.harness.waiting import until
from tests.support.servers.kafka import (
    DEFAULT_VERSION,
    TV2_VERSION,
    KafkaBroker,
    Transaction,
    fresh_name,
    running_broker,
)
from tests.support.servers.prometheus import require_prometheus
from two_brokers import running_two_brokers
from watched_alerts import check_page_says, names, run_as_the_page_says, watching

pytestmark = pytest.mark.slow

LEFT_OUT, HANGS = "OncelogKafkaMarkerLeftOut", "OncelogKafkaTransactionHangs"
PAGE = "kafka-marker-left-out"


def asking_partitions(broker: KafkaBroker) -> KafkaSource:
    """What an exporter reads that asks the partitions again as soon as it has their answers."""
    client = {"bootstrap_servers": broker.address}
    return KafkaSource(Brokers(client), None, left_open=exporter_cli.left_open(client, lambda: None, every_ms=0))


@pytest.mark.sampled("alerts on Kafka")
@pytest.mark.parametrize("release", variants(*RELEASES))
def test_a_marker_that_was_left_out_is_an_alert_until_it_is_written(release: str, tmp_path: Path) -> None:
    require_prometheus()
    check_page_says(PAGE, "oncelog kafka txn repair --save /data/saved")
    check_page_says(PAGE, "`--partition TOPIC-N --unknown commit`")
    with unguarded_broker(tmp_path / "kafka", release) as on_broker, world_on(*on_broker) as hangs:
        hangs.leave_open("lost")
        with watching(tmp_path / "prometheus", asking_partitions(hangs.broker)) as prometheus:
            until(lambda: names(prometheus) == {LEFT_OUT}, tell=prometheus.firing)
            saved = ("--save", str(tmp_path / "saved"))
            partition = ("--partition", hangs.place) if hangs.choice("commit", tmp_path) else ()
            done = hangs.ask("txn", "repair", *saved, *partition, *hangs.choice("commit", tmp_path), says="y\n")
            until(lambda: not prometheus.firing(), tell=prometheus.firing)

        assert done.exit_code == 0, done.output
        assert sorted(hangs.values()) == ["lost", "seen"]


@pytest.mark.walk("alerts")
def test_a_broker_leaves_out_the_marker_of_a_partition_without_a_leader(tmp_path: Path) -> None:
    """KAFKA-20734, by nothing but a kill -9: the only copy is away while its transaction is committed.

    Of librdkafka's transactions a coordinator is no proof, so the operator says that it was committed.
    """
    require_prometheus()
    with running_two_brokers(tmp_path / "kafka", version=TV2_VERSION) as brokers:
        topic = brokers.create_topic_on_second(fresh_name("only"))
        client = Transaction(brokers.first).send(topic, "1", "2")
        brokers.lose_second()
        client.commit()
        brokers.return_second()
        with (
            closing(KafkaRequests({"bootstrap_servers": brokers.first.address})) as requests,
            watching(tmp_path / "prometheus", asking_partitions(brokers.first)) as prometheus,
        ):
            until(lambda: names(prometheus) == {LEFT_OUT}, tell=prometheus.firing)
            before = values(brokers.first, topic)
            verdicts = {one["verdict"] for one in prometheus.firing()}
            choice = ("--partition", f"{topic}-0", "--unknown", "commit")
            done = World(brokers.first, 2, requests).ask("txn", "repair", *choice, says="y\n")
            until(lambda: not prometheus.firing(), tell=prometheus.firing)

        assert done.exit_code == 0, done.output
        assert verdicts == {"unknown"}
        assert (before, values(brokers.first, topic)) == ([], ["1", "2"])


@pytest.mark.walk("alerts")
def test_the_default_broker_writes_the_marker_when_the_leader_returns(tmp_path: Path) -> None:
    """Trials start this release, so it must not be one with KAFKA-20734."""
    with running_two_brokers(tmp_path / "kafka", version=DEFAULT_VERSION) as brokers:
        topic = brokers.create_topic_on_second(fresh_name("only"))
        client = Transaction(brokers.first).send(topic, "1", "2")
        brokers.lose_second()
        client.commit()
        brokers.return_second()
        until(lambda: values(brokers.first, topic) == ["1", "2"])


@pytest.mark.walk("alerts")
def test_what_a_coordinator_does_not_abort_in_time_is_an_alert_until_the_operator_aborts_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A task dies after its driver, on a broker that looks for time-outs once an hour."""
    require_prometheus()
    seldom = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000"}
    with running_broker(tmp_path / "kafka", settings=seldom) as broker:
        sink = Sink(spark, broker, tmp_path)
        sink.run(0, FIRST)
        dead = Transaction(broker, f"{sink.prefix}-0-2.0.0", transaction_timeout_ms=1_000)
        dead.send(sink.topic, "of a dead task")
        with watching(tmp_path / "prometheus", KafkaSource(sink.brokers, sink.store)) as prometheus:
            until(lambda: names(prometheus) == {HANGS}, tell=prometheus.firing)
            run_as_the_page_says(
                "kafka-readers-stand-still", "oncelog kafka txn abort --prefix delayed", sink, tmp_path / "ledger"
            )
            until(lambda: not prometheus.firing(), tell=prometheus.firing)

        assert sorted(sink.values()) == sorted(FIRST)
