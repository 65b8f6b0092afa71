"""``oncelog kafka exporter``: serves metrics of a cluster, and of the sinks that keep their ledger in it."""

from __future__ import annotations

from contextlib import ExitStack, closing

import click

from oncelog.cli.exporter import listen_option, rules_option, serve
from oncelog.cli.shell import Settings
from oncelog.errors import UsageError
from oncelog.metrics.alerts import ALERTS
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.cluster_options import ClusterCommand, driver, ledger_opener, named_ledger_topic
from oncelog_kafka.metrics import ALERTS as KAFKA_ALERTS
from oncelog_kafka.metrics import KafkaSource


@click.command(cls=ClusterCommand, example="oncelog kafka --brokers h1:9092 exporter --listen 127.0.0.1:9464")
@listen_option
@rules_option((*ALERTS, *KAFKA_ALERTS))
@click.pass_obj
def exporter(settings: Settings, listen: str) -> None:
    """Serve metrics for Prometheus until it is interrupted.

    Shows open transactions, how long they hold readers back, and the batches of the sinks that keep their ledger here.
    It only reads.
    """
    client, open_ledger = driver(), ledger_opener(settings)
    is_named = named_ledger_topic() is not None or settings.znodes_uri is not None

    def open_source() -> KafkaSource:
        with ExitStack() as opening:
            brokers = opening.enter_context(closing(Brokers(client)))
            try:
                store = open_ledger()
            except UsageError:
                if is_named:
                    raise
                store = None  # no sink has its ledger in this cluster
            opening.pop_all()
            return KafkaSource(brokers, store)

    serve(settings, open_source, listen)
