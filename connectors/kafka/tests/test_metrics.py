"""What ``oncelog kafka exporter`` serves of a real broker, beside a sink that stopped somewhere."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from driven_batches import FIRST, SECOND, World
from oncelog.cli import main
from oncelog.crash_points import CrashPoint
from oncelog.metrics import catalogue as c
from oncelog.metrics.alerts import ALERTS
from oncelog.metrics.reading import Labels, Reading
from oncelog.spark.observing import observe
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog.ui.troubles import Commands, find_troubles
from oncelog.znodes.clock import SystemClock
from oncelog_kafka import FORMAT_NAME
from oncelog_kafka.brokers import Brokers, overview
from oncelog_kafka.brokers.client import answer_to
from oncelog_kafka.brokers.overview import KafkaOverview
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.operations import metrics as k
from oncelog_kafka.operations.left_open import ASKED, LEFT_OPEN
from oncelog_kafka.operations.metrics import KafkaSource, Watched
from tests.support.harness.waiting import until
from tests.support.log.pages import Page, check_catalogued, page_at, value
from tests.support.log.shell import serving
from tests.support.servers.kafka import KafkaBroker, Transaction, fresh_name

HOUR_MS = 3_600_000


def read(world: World) -> Reading:
    """Everything, as an exporter reads it; the world closes what it opened."""
    return KafkaSource(world.brokers, world.store).read()


def of(reading: Reading, metric: c.Metric, *labels: str) -> float | None:
    found: dict[Labels, float] = dict(reading.values[metric])
    return found.get(labels)


def test_a_batch_before_its_decision_is_open_and_undecided(world: World) -> None:
    readings: list[Reading] = []
    world.run(0, FIRST)
    with at(KafkaCrashPoint.WRITTEN, lambda: readings.append(read(world))):
        world.run(1, SECOND)

    reading, ledger = readings[0], ("kafka", world.prefix)
    assert of(reading, c.BATCH_LAST, *ledger) == 0
    assert of(reading, c.BATCH_NEWEST, *ledger) == 1
    assert of(reading, c.BATCH_STATE, *ledger, "undecided") == 1
    assert (of(reading, k.SINK_OPEN, world.prefix) or 0) >= 1
    assert of(reading, k.TIME_LEFT, world.prefix) is None
    assert ("prefix", world.prefix) in [one.abort for one in reading.holders]


def test_a_decided_batch_that_is_not_complete_has_so_much_time_left(world: World) -> None:
    world.run(0, FIRST)
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(1, SECOND)

    reading = read(world)

    ledger = ("kafka", world.prefix)
    assert of(reading, c.BATCH_STATE, *ledger, "decided") == 1
    assert (of(reading, k.SINK_OPEN, world.prefix) or 0) >= 1
    assert 0 < (of(reading, k.TIME_LEFT, world.prefix) or 0) < 24 * 3600
    assert of(reading, k.UNDECIDED_AGE, world.topic) is not None
    assert (of(reading, k.TRANSACTIONS, "Ongoing") or 0) >= 1

    assert world.run(1, SECOND, run="run-2").is_replay
    after = read(world)
    assert of(after, c.BATCH_STATE, *ledger, "visible") == 1
    assert of(after, k.SINK_OPEN, world.prefix) == 0
    assert of(after, k.UNDECIDED_AGE, world.topic) is None


class LaterClock(SystemClock):
    """A clock that is an hour ahead: a coordinator of a sound cluster leaves no transaction open for so long."""

    def now_ms(self) -> int:
        return super().now_ms() + HOUR_MS


def test_a_transaction_beyond_its_time_out_hangs(kafka: KafkaBroker, topic: str) -> None:
    hanging = Transaction(kafka).send(topic, "held")
    present, later = (Brokers({"bootstrap_servers": kafka.address}, clock) for clock in (SystemClock(), LaterClock()))

    readings = [KafkaSource(brokers, None).read() for brokers in (present, later)]

    hanging.abort()
    for brokers in (present, later):
        brokers.close()
    assert of(readings[0], k.HANGING) == 0
    assert (of(readings[1], k.HANGING) or 0) >= 1
    assert (of(readings[1], k.OLDEST_OPEN) or 0) >= HOUR_MS / 1000
    assert (
        (of(readings[1], k.UNDECIDED_AGE, topic) or 0)
        >= HOUR_MS / 1000
        > (of(readings[0], k.UNDECIDED_AGE, topic) or 0)
    )
    assert dict(readings[1].values[c.BATCH_LAST]) == {}  # there is no ledger


def test_what_is_beyond_its_time_out_is_aborted_by_the_command_of_the_page(kafka: KafkaBroker, topic: str) -> None:
    hanging = Transaction(kafka).send(topic, "held")
    with closing(Brokers({"bootstrap_servers": kafka.address}, LaterClock())) as later:
        reading = KafkaSource(later, None).read()
    troubles = find_troubles(reading, Commands(("--brokers", kafka.address), ("kafka",)))
    (mend,) = [one.command for one in troubles if one.who == hanging.transactional_id]

    done = CliRunner().invoke(main, ["--json", *shlex.split(mend)[1:]])

    assert json.loads(done.stdout)["aborted"] == [hanging.transactional_id], done.output


@pytest.mark.slow
def test_a_page_of_a_cluster_is_the_catalogue_no_more_and_no_less(world: World, tmp_path: Path) -> None:
    group = fresh_name("watchers")
    Transaction(world.broker, f"{world.topic}-a").send(world.topic, "a").stage(group, world.topic, 0).commit()
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)

    with serving(
        "kafka",
        "exporter",
        "--listen",
        "127.0.0.1:0",
        "--brokers",
        world.broker.address,
        "--znodes",
        tmp_path / "ledger",
        "--group",
        group,
    ) as (_, url):
        until(lambda: value(page_at(url), ASKED) is not None)
        page: Page = page_at(url)

    assert value(page, c.UP) == 1
    assert value(page, LEFT_OPEN, verdict="committed") == 0
    assert value(page, c.BATCH_STATE, target="kafka", prefix=world.prefix, state="decided") == 1
    assert value(page, k.GROUP_LAG, group=group, topic=world.topic, partition="0") == 2
    check_catalogued(page, {*c.EXPORTER, *k.KAFKA, *c.LEDGER} - {c.READ_ERRORS})
    assert world.run(0, FIRST, run="run-2").is_replay


def test_what_open_transactions_hold_back_is_a_metric_of_the_source(
    spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    held = Transaction(kafka).send(topic, "held", "held")
    options = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, "startingOffsets": "earliest"}
    df = spark.readStream.format(FORMAT_NAME).options(**options).load()
    with observe(spark, listen="127.0.0.1:0") as observation:
        query = df.writeStream.format("noop").queryName("held").option("checkpointLocation", str(tmp_path)).start()
        url = observation.url or ""
        until(lambda: value(page_at(url), c.SOURCE_HELD, query="held", source=0) == 2)
        held.commit()
        until(lambda: value(page_at(url), c.SOURCE_HELD, query="held", source=0) == 0)
        query.stop()


def test_a_ledger_that_is_named_must_be_there(kafka: KafkaBroker, tmp_path: Path) -> None:
    command = ["kafka", "--brokers", kafka.address, "exporter", "--listen", "127.0.0.1:0"]

    done = CliRunner().invoke(main, [*command, "--ledger-topic", fresh_name("none")])
    assert (done.exit_code, "there is no such topic" in done.stderr) == (2, True)

    elsewhere = CliRunner().invoke(main, [*command, "--znodes", str(tmp_path / "none")])
    assert (elsewhere.exit_code, "there is no log or ledger" in elsewhere.stderr) == (2, True)


def test_every_alert_is_on_metrics_that_name_it() -> None:
    metrics = {one.name: one for one in k.KAFKA}
    for alert in k.ALERTS:
        names = re.findall(r"oncelog_\w+", alert.expr)
        assert [metrics[name].alert for name in names] == [alert.name]
        assert set(re.findall(r"\$labels\.(\w+)", alert.summary)) <= set(metrics[names[0]].labels)
    assert {one.alert for one in k.KAFKA} - {None} == {alert.name for alert in k.ALERTS}


def test_the_dashboard_of_kafka_has_a_panel_for_every_metric_of_its_page() -> None:
    printed = CliRunner().invoke(main, ["kafka", "exporter", "--dashboard"]).stdout

    panels = [panel for panel in json.loads(printed)["panels"] if panel["type"] == "timeseries"]
    found = [re.findall(r"oncelog_\w+", target["expr"])[0] for panel in panels for target in panel["targets"]]
    assert sorted(found) == sorted(one.name for one in (*c.EXPORTER, *k.KAFKA, *c.LEDGER))
    described = "\n".join(panel["description"] for panel in panels)
    assert [alert.name for alert in k.ALERTS if f"Runbook: {alert.runbook_url}" not in described] == []


def test_the_command_prints_the_rules_of_both() -> None:
    printed = CliRunner().invoke(main, ["kafka", "exporter", "--rules"]).stdout

    assert re.findall(r"- alert: (\w+)", printed) == [alert.name for alert in (*ALERTS, *k.ALERTS)]


def test_offsets_of_topics_and_groups_that_are_named_end_where_readers_do(world: World) -> None:
    """A reader of committed records is not behind what is undecided; the end of the log is."""
    read_to, other = fresh_name("readers"), world.broker.create_topic(fresh_name("other"))
    Transaction(world.broker, f"{world.topic}-a").send(world.topic, "a", "b").stage(read_to, world.topic, 1).commit()
    still_open = Transaction(world.broker, f"{world.topic}-b").send(world.topic, "c")
    asked = KafkaOverview({"bootstrap_servers": world.broker.address})
    with closing(asked):
        reading = KafkaSource(world.brokers, None, Watched(asked, [other], [read_to, "nobody"])).read()
    still_open.abort()

    assert of(reading, k.STABLE_END, world.topic, "0") == 3  # two records, and the marker of their commit
    assert of(reading, k.LOG_END, world.topic, "0") == 4
    assert of(reading, k.GROUP_LAG, read_to, world.topic, "0") == 2
    assert of(reading, k.GROUP_LAG_TO_END, read_to, world.topic, "0") == 3
    assert of(reading, k.LOG_END, other, "0") == 0
    assert {group for group, _, _ in reading.values[k.GROUP_LAG]} == {read_to}


def test_a_broker_is_asked_for_the_offsets_of_many_topics_as_often_as_for_those_of_one(
    kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [topic, *(kafka.create_topic(fresh_name("other"), partitions=3) for _ in range(4))]
    partitions = 2 + 4 * 3
    requests: list[object] = []

    def counted(client: Any, request: Any, node: Any) -> Any:
        requests.append(request)
        return answer_to(client, request, node)

    monkeypatch.setattr(overview, "answer_to", counted)

    def read(topics: list[str]) -> tuple[int, Reading]:
        requests.clear()
        reading = Reading(k.OFFSETS)
        k.read_offsets(reading, Watched(asked, topics, ()))
        return len(requests), reading

    with closing(KafkaOverview({"bootstrap_servers": kafka.address})) as asked:
        until(lambda: len(read(names)[1].values[k.STABLE_END]) == partitions)  # leaders take office
        of_one, _ = read([topic])
        of_all, reading = read([*names, fresh_name("none")])

    assert (of_one, of_all) == (2, 2)
    assert {name for name, _ in reading.values[k.LOG_END]} == set(names)
    assert len(reading.values[k.STABLE_END]) == partitions
