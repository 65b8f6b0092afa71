"""``oncelog exporter``: serves the metrics of a log, or of the ledgers of a place, to Prometheus."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable

import click

from oncelog import metadata
from oncelog.cli.output import show, show_json
from oncelog.cli.shell import Command, Settings
from oncelog.metrics.alerts import ALERTS, render_rules
from oncelog.metrics.dashboards import render_dashboard
from oncelog.metrics.sources import LedgerSource, LogSource, Reopening, Source

DEFAULT_ADDRESS = "127.0.0.1:9464"

listen_option = click.option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_ADDRESS,
    show_default=True,
    help="Where to serve /metrics. Beyond loopback, everybody who reaches it sees the names of topics and groups.",
)


def printing_option(
    name: str, text: Callable[[], str], what: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """An option that prints a file for Prometheus or Grafana, and ends the command.

    Args:
        name: of the option.
        text: what it prints.
        what: it is, for the help.
    """

    def show_text(context: click.Context, _: click.Parameter, is_given: bool) -> None:
        if is_given:
            show(text().rstrip())
            context.exit()

    return click.option(
        name,
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show_text,
        help=f"Print {what}, and end.",
    )


RULES = "alert rules for Prometheus, as a file of rules"
DASHBOARD = "a dashboard for Grafana, as JSON to import"


@click.command(cls=Command, example="oncelog exporter --path /data/log --listen 127.0.0.1:9464")
@listen_option
@printing_option("--rules", lambda: render_rules(ALERTS), RULES)
@printing_option("--dashboard", render_dashboard, DASHBOARD)
@click.pass_obj
def exporter(settings: Settings, listen: str) -> None:
    """Serve metrics for Prometheus until it is interrupted.

    Shows what a log is doing: offsets, open transactions, groups with their lag, ledgers of sinks, collection. With
    --znodes and without --path, it shows all ledgers of that place. It only reads.
    """
    serve(settings, lambda: open_source(settings), listen)


def open_source(settings: Settings) -> Source:
    """Open what the options name: a log, or the ledgers of a place."""
    if settings.named_place is None and settings.znodes_uri is not None:
        return LedgerSource(metadata.open_metadata(settings.znodes_uri, create=False))
    return LogSource(settings.open())


def serve(settings: Settings, open_source: Callable[[], Source], listen: str) -> None:
    """Serve a source until the process is interrupted.

    Args:
        open_source: opens it, and opens it again after a read that failed.
        listen: the address, as the user wrote it.
    """
    try:
        from oncelog.metrics.exposition import CollectorRegistry, ReadingCollector, parse_address, served
    except ModuleNotFoundError as missing:  # the message names the extra to install
        raise click.ClickException(str(missing)) from None
    address = parse_address(listen)
    source = Reopening(open_source)
    collector = ReadingCollector(source.read)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    gc.freeze()  # what was imported stays: no search for garbage, of which a page makes much, looks at it again
    try:
        with served(registry, address) as url:
            if not address.is_loopback:
                click.echo(
                    f"oncelog: everybody who reaches {address} sees the names of topics, groups and sinks; no records",
                    err=True,
                )
            if settings.as_json:
                show_json({"url": url})
            else:
                show(f"serving {url}")
            sys.stdout.flush()
            threading.Event().wait()
    finally:
        collector.close()
        source.close()
