"""``oncelog kafka exporter``: serves metrics of a cluster, and of the sinks that keep their ledger in it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack, closing

import click

from oncelog.cli.exporter import DASHBOARD, RULES, listen_option, printing_option, serve
from oncelog.cli.parameters import DURATION, OrNone
from oncelog.cli.shell import Settings
from oncelog.metrics.alerts import ALERTS, render_rules
from oncelog.ports import ZnodeStore
from oncelog_kafka.brokers import Brokers, KafkaProducers
from oncelog_kafka.brokers.overview import KafkaOverview
from oncelog_kafka.cli.cluster_options import ClusterCommand, driver, known_ledger_opener, python_driver
from oncelog_kafka.ledger.ledger_store import Settings as Client
from oncelog_kafka.operations.left_open import LeftOpen, Partitions
from oncelog_kafka.operations.metrics import ALERTS as KAFKA_ALERTS
from oncelog_kafka.operations.metrics import KafkaSource, Watched, render_kafka_dashboard
from oncelog_kafka.operations.repair import Search, find
from oncelog_kafka.options.admin_settings import JavaClient


@click.command(cls=ClusterCommand, example="oncelog kafka --brokers h1:9092 exporter --listen 127.0.0.1:9464")
@listen_option
@printing_option("--rules", lambda: render_rules((*ALERTS, *KAFKA_ALERTS)), RULES)
@printing_option("--dashboard", render_kafka_dashboard, DASHBOARD)
@click.option("--topic", "topics", multiple=True, help="Also show where its partitions end; may be repeated.")
@click.option("--group", "groups", multiple=True, help="Also show how far it is behind; may be repeated.")
@click.option(
    "--ask-partitions",
    "every_ms",
    type=OrNone(DURATION),
    default="15m",
    show_default=True,
    help="How often to ask all partitions for transactions that nobody ends, as in 15m, or none.",
)
@click.pass_obj
def exporter(
    settings: Settings, listen: str, topics: tuple[str, ...], groups: tuple[str, ...], every_ms: list[int | None]
) -> None:
    """Serve metrics for Prometheus until it is interrupted.

    Shows open transactions, how long they hold readers back, and the batches of the sinks that keep their ledger here.
    It only reads.
    """
    serve(settings, _source_opener(settings, topics, groups, every_ms[0]), listen)


def _source_opener(
    settings: Settings, topics: Collection[str], groups: Collection[str], every_ms: int | None
) -> Callable[[], KafkaSource]:
    """Opens the cluster and its ledgers, as the options name them, in any thread.

    Args:
        topics, groups: whose offsets are asked for, too.
        every_ms: how often the partitions are asked for transactions that nobody ends, unless only Java's client can
            log in; None for never.
    """
    client, open_ledger = driver(), known_ledger_opener(settings)
    asked = python_driver() if topics or groups else None
    asking = left_open(client, open_ledger, every_ms)  # once: a source that is opened again asks no more often

    def open_source() -> KafkaSource:
        with ExitStack() as opening:
            brokers = opening.enter_context(closing(Brokers(client)))
            watched = None
            if asked is not None:
                watched = Watched(opening.enter_context(closing(KafkaOverview(asked))), topics, groups)
            store = open_ledger()
            opening.pop_all()
            return KafkaSource(brokers, store, watched, asking)

    return open_source


def left_open(client: Client, open_ledger: Callable[[], ZnodeStore | None], every_ms: int | None) -> LeftOpen | None:
    """What asks the partitions; None if they are not asked."""
    if every_ms is None or isinstance(client, JavaClient):
        return None

    def search(partitions: Partitions) -> Search:
        with ExitStack() as opened:  # for so few searches, no connection is kept
            brokers = opened.enter_context(closing(Brokers(client)))
            producers = opened.enter_context(closing(KafkaProducers(client)))
            store = open_ledger()
            if store is not None:
                opened.callback(store.close)
            return find(producers, brokers, store, partitions)

    return LeftOpen(search, every_ms)
