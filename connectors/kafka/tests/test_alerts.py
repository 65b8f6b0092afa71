"""The alerts on Kafka fire in a real Prometheus, until the commands of their pages have mended what they are about.

The exporter's clock is an hour ahead, so that the alerts are as they are shipped, but for how long they wait: brokers
of a sound cluster let nothing stand open for as long as that.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from driven_batches import FIRST, SECOND, World
from oncelog import metadata
from oncelog.crash_points import CrashPoint
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog.znodes.clock import SystemClock
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.operations import metrics as k
from tests.support.harness.waiting import until
from tests.support.servers.kafka import Transaction
from tests.support.servers.prometheus import Prometheus, require_prometheus
from watched_alerts import names, run_as_the_page_says, watching

pytestmark = pytest.mark.slow

STANDS_STILL, HANGS = "OncelogKafkaReadersStandStill", "OncelogKafkaTransactionHangs"
RUNS_OUT = "OncelogKafkaBatchRunsOutOfTime"


class LaterClock(SystemClock):
    """An hour ahead."""

    def now_ms(self) -> int:
        return super().now_ms() + 3_600_000


@pytest.fixture
def prometheus(world: World, tmp_path: Path) -> Iterator[Prometheus]:
    require_prometheus()
    brokers = Brokers({"bootstrap_servers": world.broker.address}, LaterClock())
    source = k.KafkaSource(brokers, metadata.open_metadata(str(tmp_path / "ledger")))
    with watching(tmp_path / "prometheus", source) as found:
        yield found


def firing(prometheus: Prometheus, world: World) -> set[str]:
    """What fires about the topic or the sink; the broker is shared."""
    ours = [one for one in prometheus.firing() if world.topic in (one.get("topic"), one.get("prefix", "")[:-2])]
    return {one["alertname"] for one in ours}


def test_a_transaction_of_a_dead_task_holds_readers_back_until_it_is_aborted(
    world: World, prometheus: Prometheus, tmp_path: Path
) -> None:
    world.run(0, FIRST)
    Transaction(world.broker, f"{world.prefix}-0-2.0.0").send(world.topic, "of a task whose driver is dead")

    until(lambda: firing(prometheus, world) == {STANDS_STILL}, tell=prometheus.firing)
    hangs = HANGS in names(prometheus)
    command = "oncelog kafka txn abort --prefix delayed"
    run_as_the_page_says("kafka-readers-stand-still", command, world, tmp_path / "ledger")
    until(lambda: not firing(prometheus, world), tell=prometheus.firing)

    assert hangs
    assert sorted(world.values()) == sorted(FIRST)


@pytest.mark.sampled("alerts on Kafka")
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
