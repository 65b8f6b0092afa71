"""``oncelog kafka ui``: a page of a cluster's open transactions, and of the sinks that keep their ledger in it."""

from __future__ import annotations

from pathlib import Path

import click

from oncelog.cli.shell import Settings
from oncelog.cli.ui import listen_option, place_options, serve, token_option
from oncelog.ui.troubles import Commands
from oncelog_kafka.cluster_options import ClusterCommand, named_brokers, named_ledger_topic
from oncelog_kafka.exporter_cli import source_opener


@click.command(cls=ClusterCommand, example="oncelog kafka --brokers h1:9092 ui --listen 127.0.0.1:9466")
@listen_option
@token_option
@click.pass_obj
def ui(settings: Settings, listen: str, token_file: Path | None) -> None:
    """Serve a page of what stands still, and what mends it.

    Serves until it is interrupted. Shows open transactions with what they hold back, and the batches of the sinks that
    keep their ledger here. It only reads, and runs no command.
    """
    place = ["--brokers", named_brokers(), *place_options(settings)]
    topic = named_ledger_topic()
    if topic is not None:
        place += ["--ledger-topic", topic]
    serve(settings, source_opener(settings), Commands(place, ("kafka",)), listen, token_file)
