"""The alerts on Kafka fire in a real Prometheus, until the commands of their pages have mended what they are about.

The exporter's clock is an hour ahead, so that the alerts are as they are shipped, but for how long they wait: brokers
of a sound cluster let nothing stand open for as long as that.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from driven_batches import FIRST, SECOND, World
from oncelog import metadata
from oncelog.cli import main
from oncelog.crash_points import CrashPoint
from oncelog.metrics.alerts import ALERTS, render_rules
from oncelog.metrics.exposition import Address, CollectorRegistry, ReadingCollector, served
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog.znodes.clock import SystemClock
from oncelog_kafka import exporter_cli
from oncelog_kafka import metrics as k
from oncelog_kafka.brokers import Brokers, KafkaRequests
from planted_hangs import UNGUARDED
from planted_hangs import World as PlantedHangs
from tests.support.docs.blocks import ROOT
from tests.support.harness.waiting import until
from tests.support.servers.kafka import TV2_VERSION, Transaction, running_broker
from tests.support.servers.prometheus import Prometheus, require_prometheus, running_prometheus

pytestmark = [pytest.mark.programs, pytest.mark.servers]

SYMPTOMS = ROOT / "docs" / "operations" / "symptoms"
STANDS_STILL, HANGS = "OncelogKafkaReadersStandStill", "OncelogKafkaTransactionHangs"
RUNS_OUT, LEFT_OUT = "OncelogKafkaBatchRunsOutOfTime", "OncelogKafkaMarkerLeftOut"
RULES = render_rules([replace(alert, lasts="0s") for alert in (*ALERTS, *k.ALERTS)])


class LaterClock(SystemClock):
    """An hour ahead."""

    def now_ms(self) -> int:
        return super().now_ms() + 3_600_000


@contextmanager
def page_of(world: World, ledger: Path) -> Iterator[str]:
    """The address of the page that an exporter serves of the cluster and the ledger."""
    brokers = Brokers({"bootstrap_servers": world.broker.address}, LaterClock())
    with page_from(k.KafkaSource(brokers, metadata.open_metadata(str(ledger)))) as page:
        yield page


@contextmanager
def page_from(source: k.KafkaSource) -> Iterator[str]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector := ReadingCollector(source.read))
    with served(registry, Address("127.0.0.1", 0)) as url:
        yield url.removeprefix("http://").removesuffix("/metrics")
    collector.close()
    source.close()


@pytest.fixture
def prometheus(world: World, tmp_path: Path) -> Iterator[Prometheus]:
    require_prometheus()
    with (
        page_of(world, tmp_path / "ledger") as page,
        running_prometheus(tmp_path / "prometheus", [page], RULES) as found,
    ):
        until(found.is_scraping)
        yield found


def firing(prometheus: Prometheus, world: World) -> set[str]:
    """What fires about the topic or the sink; the broker is shared."""
    ours = [one for one in prometheus.firing() if world.topic in (one.get("topic"), one.get("prefix", "")[:-2])]
    return {one["alertname"] for one in ours}


def run_as_the_page_says(page: str, command: str, world: World, ledger: Path) -> None:
    assert command in (SYMPTOMS / f"{page}.md").read_text()
    _, kafka, *words = shlex.split(command.replace("delayed", world.prefix))
    place = ["--brokers", world.broker.address, "--znodes", str(ledger)]
    done = CliRunner().invoke(main, [kafka, *place, *words])
    assert done.exit_code == 0, done.output


def test_a_transaction_of_a_dead_task_holds_readers_back_until_it_is_aborted(
    world: World, prometheus: Prometheus, tmp_path: Path
) -> None:
    world.run(0, FIRST)
    Transaction(world.broker, f"{world.prefix}-0-2.0.0").send(world.topic, "of a task whose driver is dead")

    until(lambda: firing(prometheus, world) == {STANDS_STILL}, tell=prometheus.firing)
    hangs = HANGS in {one["alertname"] for one in prometheus.firing()}
    command = "oncelog kafka txn abort --prefix delayed"
    run_as_the_page_says("kafka-readers-stand-still", command, world, tmp_path / "ledger")
    until(lambda: not firing(prometheus, world), tell=prometheus.firing)

    assert hangs
    assert sorted(world.values()) == sorted(FIRST)


@pytest.mark.in_turn("alerts on Kafka")
def test_a_batch_that_died_behind_its_decision_runs_out_of_time_until_it_is_committed(
    world: World, prometheus: Prometheus, tmp_path: Path
) -> None:
    world.run(0, FIRST)
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(1, SECOND)

    expected = {STANDS_STILL, RUNS_OUT, "OncelogBatchNotVisible"}
    until(lambda: firing(prometheus, world) == expected, tell=prometheus.firing)
    command = "oncelog kafka batch complete delayed --accept-loss"
    run_as_the_page_says("kafka-batch-runs-out-of-time", command, world, tmp_path / "ledger")
    until(lambda: not firing(prometheus, world), tell=prometheus.firing)

    assert sorted(world.values()) == sorted([*FIRST, *SECOND])


@pytest.mark.in_turn("alerts on Kafka")
def test_a_transaction_that_its_coordinator_left_open_hangs_until_it_is_repaired(tmp_path: Path) -> None:
    require_prometheus()
    with (
        running_broker(tmp_path / "kafka", version=TV2_VERSION, settings=UNGUARDED) as broker,
        closing(KafkaRequests({"bootstrap_servers": broker.address})) as requests,
    ):
        client = {"bootstrap_servers": broker.address}
        hangs = PlantedHangs(broker, 2, requests)
        hangs.leave_open("lost")
        left_open = exporter_cli.left_open(client, lambda: None, every_ms=0)
        with (
            page_from(k.KafkaSource(Brokers(client), None, left_open=left_open)) as page,
            running_prometheus(tmp_path / "prometheus", [page], RULES) as prometheus,
        ):
            until(lambda: [one["alertname"] for one in prometheus.firing()] == [LEFT_OUT], tell=prometheus.firing)
            command = "oncelog kafka txn repair --save /data/saved"
            assert command in (SYMPTOMS / "kafka-marker-left-out.md").read_text()
            done = hangs.ask("txn", "repair", "--save", str(tmp_path / "saved"), says="y\n")
            until(lambda: not prometheus.firing(), tell=prometheus.firing)

        assert done.exit_code == 0, done.output
        assert sorted(hangs.values()) == ["lost", "seen"]
