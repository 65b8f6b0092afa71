"""``oncelog kafka exporter``: serves metrics of a cluster, and of the sinks that keep their ledger in it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack, closing

import click

from oncelog.cli.exporter import DASHBOARD, RULES, listen_option, printing_option, serve
from oncelog.cli.shell import Settings
from oncelog.metrics.alerts import ALERTS, render_rules
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.brokers.topics import KafkaTopics
from oncelog_kafka.cluster_options import ClusterCommand, driver, known_ledger_opener, python_driver
from oncelog_kafka.metrics import ALERTS as KAFKA_ALERTS
from oncelog_kafka.metrics import KafkaSource, Watched, render_kafka_dashboard


@click.command(cls=ClusterCommand, example="oncelog kafka --brokers h1:9092 exporter --listen 127.0.0.1:9464")
@listen_option
@printing_option("--rules", lambda: render_rules((*ALERTS, *KAFKA_ALERTS)), RULES)
@printing_option("--dashboard", render_kafka_dashboard, DASHBOARD)
@click.option("--topic", "topics", multiple=True, help="Also show where its partitions end; may be repeated.")
@click.option("--group", "groups", multiple=True, help="Also show how far it is behind; may be repeated.")
@click.pass_obj
def exporter(settings: Settings, listen: str, topics: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """Serve metrics for Prometheus until it is interrupted.

    Shows open transactions, how long they hold readers back, and the batches of the sinks that keep their ledger here.
    It only reads.
    """
    serve(settings, source_opener(settings, topics, groups), listen)


def source_opener(
    settings: Settings, topics: Collection[str] = (), groups: Collection[str] = ()
) -> Callable[[], KafkaSource]:
    """Opens the cluster and its ledgers, as the options name them, in any thread.

    Args:
        topics, groups: whose offsets are asked for, too.
    """
    client, open_ledger = driver(), known_ledger_opener(settings)
    asked = python_driver() if topics or groups else None

    def open_source() -> KafkaSource:
        with ExitStack() as opening:
            brokers = opening.enter_context(closing(Brokers(client)))
            watched = None
            if asked is not None:
                watched = Watched(opening.enter_context(closing(KafkaTopics(asked))), topics, groups)
            store = open_ledger()
            opening.pop_all()
            return KafkaSource(brokers, store, watched)

    return open_source
