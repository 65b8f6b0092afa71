"""``oncelog kafka``: transactions of a Kafka cluster, and the batches of the sinks that write to it.

An entry point adds this group to the command ``oncelog``. A command connects to the brokers and the ledger, calls
inspection.py, and prints the answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import click

from oncelog import metadata
from oncelog.cli.exporter import listen_option, rules_option, serve
from oncelog.cli.meta import show_copied
from oncelog.cli.output import duration, printable, progress, show, show_fields, show_json, show_table
from oncelog.cli.parameters import shared
from oncelog.cli.shell import Command, ExitCode, Group, Settings
from oncelog.errors import UsageError
from oncelog.folders import absolute
from oncelog.metrics.alerts import ALERTS
from oncelog.ports import ZnodeStore
from oncelog.znodes import copying
from oncelog.znodes.schemes import Place
from oncelog_kafka import admin_settings, inspection, ledger_store
from oncelog_kafka import options as sink_options
from oncelog_kafka.admin_settings import ADMIN, CONNECTION, CONNECTION_PREFIXES, KAFKA
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.inspection import TransactionDescription
from oncelog_kafka.ledger import KAFKA_LEDGERS
from oncelog_kafka.metrics import ALERTS as KAFKA_ALERTS
from oncelog_kafka.metrics import KafkaSource
from oncelog_kafka.options import DEFAULT_LEDGER_TOPIC

BROKERS_VARIABLE = "ONCELOG_KAFKA_BROKERS"

_CLIENT = "oncelog_kafka.client"
"""The key in click's context for the client's settings: those for the tasks' client, and those for the driver's."""


_LEDGER_TOPIC = "oncelog_kafka.ledger_topic"
"""The key of the topic with the ledger."""

_NAMED = "export ONCELOG_KAFKA_BROKERS=h1:9092\n"
"""Names the cluster in examples."""


def _given(context: click.Context) -> tuple[dict[str, str], dict[str, str]]:
    client, admin = context.meta.setdefault(_CLIENT, ({}, {}))
    return client, admin


def _remember_brokers(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value:
        _given(context)[0]["bootstrap.servers"] = value


def _remember_settings(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
    client, admin = _given(context)
    for setting in values:
        name, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"{setting!r} is not a setting; write it like security.protocol=SSL")
        known = name.removeprefix(KAFKA)
        if name.startswith(ADMIN):
            admin[name.removeprefix(ADMIN)] = value
        elif known in CONNECTION or known.startswith(CONNECTION_PREFIXES):
            client[known] = value
        else:
            raise click.UsageError(
                f"this command does not use the setting {name!r}; give {ADMIN}<kafka-python's name>, "
                f"one of {', '.join(sorted(CONNECTION))}, or one that begins with "
                f"{' or '.join(CONNECTION_PREFIXES)}"
            )


def _remember_topic(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value:
        try:
            context.meta[_LEDGER_TOPIC] = sink_options.topic_name(value)
        except ValueError as problem:
            raise click.BadParameter(f"expected {problem}") from None


def _cluster_options() -> list[click.Parameter]:
    """The options that name the cluster and its ledger. The groups and each command have them, to be given anywhere."""
    return [
        shared("--brokers", _remember_brokers, metavar="HOST:PORT,...", help=f"The cluster. [env: {BROKERS_VARIABLE}]"),
        shared(
            "--config",
            _remember_settings,
            multiple=True,
            metavar="NAME=VALUE",
            help="A setting of the client, like the sink's options kafka.* and admin.*; may be repeated.",
        ),
        shared(
            "--ledger-topic",
            _remember_topic,
            metavar="TOPIC",
            help=f"Where the ledger is, without --znodes. [default: {DEFAULT_LEDGER_TOPIC}]",
        ),
    ]


class _Command(Command):
    """A command that also has the options of the cluster."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params = [*self.params, *_cluster_options()]


class _Group(Group):
    """A group of such commands."""

    command_class = _Command

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params = [*self.params, *_cluster_options()]


@click.group(cls=_Group, example="oncelog kafka --brokers h1:9092 txn find-hanging")
def kafka() -> None:
    """Transactions of a Kafka cluster, and its sinks' batches.

    The ledger of a sink is in a topic of the cluster (--ledger-topic), or where --znodes says, as with the sink's
    options of these names.
    """


def _driver() -> ledger_store.Settings:
    """The settings of the client that asks the brokers."""
    client, admin = _given(click.get_current_context())
    named = {"bootstrap.servers": os.environ.get(BROKERS_VARIABLE, ""), **client}
    if not named["bootstrap.servers"]:
        raise click.UsageError(f"Which cluster? Give --brokers, or set {BROKERS_VARIABLE}.")
    return admin_settings.derive(named, admin)


def _cluster() -> closing[Brokers]:
    return closing(Brokers(_driver()))


def _ledger(settings: Settings) -> closing[ZnodeStore]:
    return closing(_ledger_opener(settings)())


def _ledger_opener(settings: Settings) -> Callable[[], ZnodeStore]:
    """What opens the ledger that the options name, in any thread."""
    topic = click.get_current_context().meta.get(_LEDGER_TOPIC)
    if topic and settings.znodes:
        raise click.UsageError("--znodes and --ledger-topic exclude each other; give one of them.")
    if topic is None and settings.znodes_uri is not None:
        return partial(metadata.open_metadata, settings.znodes_uri, create=False)
    return partial(ledger_store.open_ledger, _driver(), topic or DEFAULT_LEDGER_TOPIC, create=False)


# Metrics --------------------------------------------------------------------------------------------------------------


@kafka.command(example="oncelog kafka --brokers h1:9092 exporter --listen 127.0.0.1:9464")
@listen_option
@rules_option((*ALERTS, *KAFKA_ALERTS))
@click.pass_obj
def exporter(settings: Settings, listen: str) -> None:
    """Serve metrics for Prometheus until it is interrupted.

    Shows open transactions, how long they hold readers back, and the batches of the sinks that keep their ledger here.
    It only reads.
    """
    driver, open_ledger = _driver(), _ledger_opener(settings)
    is_named = _LEDGER_TOPIC in click.get_current_context().meta or settings.znodes_uri is not None

    def open_source() -> KafkaSource:
        with ExitStack() as opening:
            brokers = opening.enter_context(closing(Brokers(driver)))
            try:
                store = open_ledger()
            except UsageError:
                if is_named:
                    raise
                store = None  # no sink has its ledger in this cluster
            opening.pop_all()
            return KafkaSource(brokers, store)

    serve(settings, open_source, listen)


# Transactions ---------------------------------------------------------------------------------------------------------


@kafka.group(cls=_Group, example="oncelog kafka --brokers h1:9092 txn list")
def txn() -> None:
    """Transactions of the cluster."""


@txn.command("list", example="oncelog kafka --brokers h1:9092 txn list --prefix delayed")
@click.option("--prefix", help="Only those of the sink with this prefix.")
@click.option("--state", "states", multiple=True, help="Only ids in this state, such as Ongoing; may be repeated.")
@click.pass_obj
def list_transactions(settings: Settings, prefix: str | None, states: tuple[str, ...]) -> None:
    """List transactional ids with their states."""
    with _cluster() as brokers:
        found = inspection.list_transactions(brokers, prefix, states)
    if settings.as_json:
        show_json({"transactions": found})
        return
    rows = [(one.state, one.transactional_id) for one in found]
    show_table(("state", "transactional id"), rows, empty="no transactional ids")


@txn.command(example="oncelog kafka --brokers h1:9092 txn describe delayed-0")
@click.argument("transactional_id")
@click.pass_obj
def describe(settings: Settings, transactional_id: str) -> None:
    """Show everything about one transactional id."""
    with _cluster() as brokers:
        (found,) = inspection.describe_transactions(brokers, [transactional_id])
    if settings.as_json:
        show_json({"transaction": found})
        return
    show_fields(
        [
            ("transactional id", found.transactional_id),
            ("state", found.state),
            ("producer", f"{found.producer_id}.{found.epoch}"),
            ("time-out", duration(found.timeout_ms)),
            ("age", duration(found.age_ms)),
            ("partitions", " ".join(found.partitions) or None),
            ("sink", found.prefix),
        ]
    )


@txn.command("find-hanging", example="oncelog kafka --brokers h1:9092 txn find-hanging")
@click.pass_obj
def find_hanging(settings: Settings) -> ExitCode:
    """Find transactions that are open beyond their time-out. Exit code 1 if there are any."""
    with _cluster() as brokers:
        found = inspection.find_hanging(brokers)
    if settings.as_json:
        show_json({"hanging": found})
    else:
        show_table(("age>", "time-out>", "partitions", "transactional id"), map(_cells, found), empty="nothing hangs")
    return ExitCode.PROBLEM if found else ExitCode.OK


def _cells(one: TransactionDescription) -> tuple[str | None, ...]:
    return duration(one.age_ms), duration(one.timeout_ms), " ".join(one.partitions), one.transactional_id


@txn.command(example=f"{_NAMED}oncelog kafka txn abort --prefix delayed")
@click.option("--prefix", required=True, help="The sink's prefix.")
@click.pass_obj
def abort(settings: Settings, prefix: str) -> None:
    """Abort what a sink has left open and undecided. Decided batches are never aborted."""
    with _ledger(settings) as store, _cluster() as brokers:
        aborted = inspection.abort_open(brokers, store, prefix)
    if settings.as_json:
        show_json({"prefix": prefix, "aborted": aborted})
    else:
        show_table(("aborted",), [(name,) for name in aborted], empty=f"{printable(prefix)} has nothing undecided open")


# Batches --------------------------------------------------------------------------------------------------------------


@kafka.group(cls=_Group, example="oncelog kafka --brokers h1:9092 batch list")
def batch() -> None:
    """Micro-batches of sinks."""


@batch.command("list", example="oncelog kafka batch list --brokers h1:9092")
@click.pass_obj
def list_prefixes(settings: Settings) -> None:
    """List the prefixes of all sinks that keep their ledger here."""
    with _ledger(settings) as store:
        found = KAFKA_LEDGERS.prefixes(store)
    if settings.as_json:
        show_json({"prefixes": found})
    else:
        show_table(("prefix",), [(name,) for name in found], empty="no sink has its ledger here")


@batch.command("show", example=f"{_NAMED}oncelog kafka batch show delayed")
@click.argument("query")
@click.pass_obj
def show_batch(settings: Settings, query: str) -> None:
    """Show a query's latest batch.

    Also shows its participants, and what a restart does with it.

    QUERY is the sink's prefix: its transactionalIdPrefix, or the id of the query.
    """
    with _ledger(settings) as store, _cluster() as brokers:
        found = inspection.describe_batch(brokers, store, query)
    if settings.as_json:
        show_json({"batch": found})
        return
    show_fields(
        [
            ("prefix", found.prefix),
            ("query", found.query_id),
            ("run", found.run_id),
            ("last decided batch", found.last_batch_id),
            ("batch", found.batch_id),
            ("round", found.round),
            ("state", found.state),
            ("a restart", found.recovery),
        ]
    )
    rows = [
        (p.partition, p.rows, "lost" if p.is_lost else p.state, duration(p.left_ms), p.transactional_id)
        for p in found.participants
    ]
    if rows:
        show()
        show_table(("partition>", "rows>", "state", "time left>", "transactional id"), rows, empty="")
    for name in found.undecided:
        show(f"open and not decided: {printable(name)}")


@batch.command(example=f"{_NAMED}oncelog kafka batch complete delayed --accept-loss")
@click.argument("query")
@click.option(
    "--accept-loss",
    is_flag=True,
    required=True,
    expose_value=False,
    help="Confirm that the missing rows were written by hand, or may stay missing.",
)
@click.pass_obj
def complete(settings: Settings, query: str) -> None:
    """Let a query continue after its decided batch lost a part. Stop the query first.

    Commits what can still be committed of the batch, and lists the rest, which the sink never writes again.
    """
    with _ledger(settings) as store, _cluster() as brokers:
        found = inspection.accept_loss(brokers, store, query)
    if settings.as_json:
        show_json({"prefix": query, "completed": found})
        return
    for one in found:
        rows = sum(part.rows for part in one.missing)
        lacking = f"without {rows} of its rows" if one.missing else "and no rows are missing"
        show(f"batch {one.batch_id} of {printable(query)} is complete, {lacking}")
        for part in one.missing:
            doubt = "" if part.is_certain else ", which may have been committed"
            show(f"missing: {part.rows} rows of {printable(part.transactional_id)}{doubt}")


# Ledgers --------------------------------------------------------------------------------------------------------------


@kafka.group(cls=_Group, example="oncelog kafka --brokers h1:9092 ledger copy --from /data/ledger")
def ledger() -> None:
    """The ledgers of sinks."""


@ledger.command(example="oncelog kafka --brokers h1:9092 ledger copy --from /data/ledger")
@click.option("--from", "source", metavar="URI", help="The ledger, as in --znodes; by default the cluster's topic.")
@click.option("--to", metavar="URI", help="The other place, which must be empty; by default the cluster's topic.")
@click.pass_obj
def copy(settings: Settings, source: str | None, to: str | None) -> None:
    """Copy all ledgers of a place to another one, and compare both.

    Stop the queries first, and start them with the new place afterwards: with the old one they would write again what
    was decided since. A batch may be in doubt; the new place knows it. If anything writes to the ledgers during the
    copy, the copy fails.
    """
    if (source is None) == (to is None):
        raise click.UsageError("From where to where? Give --from or --to; the other place is the cluster's topic.")
    topic = click.get_current_context().meta.get(_LEDGER_TOPIC, DEFAULT_LEDGER_TOPIC)
    with (
        closing(_source(source, topic)) as read,
        closing(_target(to, topic)) as written,
        progress("copying ledgers") as advance,
    ):
        done = copying.copy(read, written, on_progress=advance)
    named = f"ledgerTopic={topic}" if to is None else f"znodes={_place(to)}"
    show_copied(settings, done, named, then=f"start the queries only with {named}")


def _source(place: str | None, topic: str) -> ZnodeStore:
    if place is not None:
        return metadata.open_metadata(place, create=False)
    return ledger_store.open_ledger(_driver(), topic, create=False)


def _target(place: str | None, topic: str) -> ZnodeStore:
    if place is not None:
        return metadata.open_target(_place(place), place)
    return ledger_store.store(_driver(), topic, create=True)


def _place(place: str) -> Place:
    return metadata.place_of(str(absolute(".")), place)
