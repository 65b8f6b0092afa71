"""``oncelog kafka ui``: a page of a cluster's open transactions, and of the sinks that keep their ledger in it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack, closing
from pathlib import Path

import click

from oncelog.cli.shell import Settings
from oncelog.cli.ui import driver_option, listen_option, place_options, serve, token_option
from oncelog.ui.troubles import Commands
from oncelog_kafka.brokers import Brokers, KafkaProducers
from oncelog_kafka.brokers.overview import KafkaOverview
from oncelog_kafka.cli.cluster_options import (
    ClusterCommand,
    driver,
    known_ledger_opener,
    named_brokers,
    named_ledger_topic,
)
from oncelog_kafka.operations import repair
from oncelog_kafka.operations.metrics import KafkaSource
from oncelog_kafka.operations.ui_source import ClusterSource, HangSearch, Offsets
from oncelog_kafka.options.admin_settings import JavaClient


@click.command(cls=ClusterCommand, example="oncelog kafka --brokers h1:9092 ui --listen 127.0.0.1:9466")
@listen_option
@token_option
@driver_option
@click.option("--topic", "topics", multiple=True, help="Read only this topic, and what is held; may be repeated.")
@click.option("--group", "groups", multiple=True, help="Read only this group; may be repeated.")
@click.pass_obj
def ui(
    settings: Settings,
    listen: str,
    token_file: Path | None,
    drivers: tuple[str, ...],
    topics: tuple[str, ...],
    groups: tuple[str, ...],
) -> None:
    """Serve a page of what is stuck, and how to fix it.

    Serves until it is interrupted. Shows open transactions with what they hold back, partitions, groups with their lag,
    and the batches of the sinks that keep their ledger here. It only reads, and runs no command.
    """
    place = ["--brokers", named_brokers(), *place_options(settings)]
    topic = named_ledger_topic()
    if topic is not None:
        place += ["--ledger-topic", topic]
    opening = _source_opener(settings, topics, groups)
    serve(settings, opening, Commands(place, ("kafka",)), listen, token_file, drivers)


def _source_opener(settings: Settings, topics: Collection[str], groups: Collection[str]) -> Callable[[], ClusterSource]:
    """Opens the cluster and its ledgers, as the options name them, in any thread."""
    client, open_ledger = driver(), known_ledger_opener(settings)

    def open_source() -> ClusterSource:
        with ExitStack() as opening:
            brokers = opening.enter_context(closing(Brokers(client)))
            store = open_ledger()
            if store is not None:
                opening.callback(store.close)
            offsets = None
            if not isinstance(client, JavaClient):
                producers = opening.enter_context(closing(KafkaProducers(client)))
                overview = opening.enter_context(closing(KafkaOverview(client)))
                search = HangSearch(lambda some: repair.find(producers, brokers, store, some))
                offsets = Offsets(overview, search, topics, groups)
            return ClusterSource(KafkaSource(brokers, store), offsets, opening.pop_all())

    return open_source
