"""``oncelog kafka``: transactions of a Kafka cluster, and the batches of the sinks that write to it.

An entry point adds this group to the command ``oncelog``. A command connects to the brokers and the ledger, calls
inspection.py, and prints the answer.
"""

from __future__ import annotations

import click

from oncelog.cli.batch import show_given_up
from oncelog.cli.completing import operator_name
from oncelog.cli.output import duration, plural, printable, show, show_fields, show_json, show_table
from oncelog.cli.shell import Settings
from oncelog_kafka.cli import cluster_options
from oncelog_kafka.cli.checkpoint import checkpoint
from oncelog_kafka.cli.cluster_options import ClusterGroup, cluster
from oncelog_kafka.cli.exporter import exporter
from oncelog_kafka.cli.hanging import find_hanging, repair
from oncelog_kafka.cli.ledger import ledger
from oncelog_kafka.cli.restore import restore
from oncelog_kafka.cli.ui import ui
from oncelog_kafka.ledger import ledger_store
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.operations import inspection
from oncelog_kafka.sinks import batch_writes

_NAMED = "export ONCELOG_KAFKA_BROKERS=h1:9092\n"
"""Names the cluster in examples."""


@click.group(cls=ClusterGroup, example="oncelog kafka --brokers h1:9092 txn find-hanging")
def kafka() -> None:
    """Transactions of a Kafka cluster, and its sinks' batches.

    The ledger of a sink is in a topic of the cluster (--ledger-topic), or where --znodes says, as with the sink's
    options of these names.
    """


# Transactions ---------------------------------------------------------------------------------------------------------


@kafka.group(cls=ClusterGroup, example="oncelog kafka --brokers h1:9092 txn list")
def txn() -> None:
    """Transactions of the cluster."""


@txn.command("list", example="oncelog kafka --brokers h1:9092 txn list --prefix delayed")
@click.option("--prefix", help="Only those of the sink with this prefix.")
@click.option("--state", "states", multiple=True, help="Only ids in this state, such as Ongoing; may be repeated.")
@click.pass_obj
def list_transactions(settings: Settings, prefix: str | None, states: tuple[str, ...]) -> None:
    """List transactional ids with their states."""
    with cluster() as brokers:
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
    with cluster() as brokers:
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


@txn.command(example=f"{_NAMED}oncelog kafka txn abort --prefix delayed")
@click.option("--prefix", help="The sink's prefix.")
@click.option("--transactional-id", help="Of a program that is no sink.")
@click.pass_obj
def abort(settings: Settings, prefix: str | None, transactional_id: str | None) -> None:
    """Abort what a sink or a program left open and undecided.

    Decided batches of a sink are never aborted. A producer with the transactional id that is still alive can write no
    more.
    """
    if prefix is not None and transactional_id is None:
        with cluster_options.ledger(settings) as store, cluster() as brokers:
            aborted = inspection.abort_open(brokers, store, prefix)
            batch_writes.forget_aborted(store, prefix)
    elif transactional_id is not None and prefix is None:
        with cluster() as brokers:
            was_open = inspection.abort_of_other_program(brokers, transactional_id)
        aborted = [transactional_id] if was_open else []
    else:
        raise click.UsageError("Give either --prefix or --transactional-id.")
    if settings.as_json:
        show_json({"prefix": prefix, "transactional_id": transactional_id, "aborted": aborted})
    else:
        whose = printable(prefix or transactional_id or "")
        show_table(("aborted",), [(name,) for name in aborted], empty=f"{whose} has nothing undecided open")


txn.add_command(find_hanging)
txn.add_command(repair)
txn.add_command(restore)


# Batches --------------------------------------------------------------------------------------------------------------


@kafka.group(cls=ClusterGroup, example="oncelog kafka --brokers h1:9092 batch list")
def batch() -> None:
    """Micro-batches of sinks."""


@batch.command("list", example="oncelog kafka batch list --brokers h1:9092")
@click.pass_obj
def list_prefixes(settings: Settings) -> None:
    """List the prefixes of all sinks that keep their ledger here."""
    with cluster_options.ledger(settings) as store:
        found = KAFKA_LEDGERS.prefixes(store)
        foreign = ledger_store.foreign_records(store)
    if settings.as_json:
        show_json({"prefixes": found, "foreign_records": foreign})
        return
    show_table(("prefix",), [(name,) for name in found], empty="no sink has its ledger here")
    if foreign:
        show(f"the topic also has {plural(foreign, 'record')} of other programs, which are left out")


@batch.command("show", example=f"{_NAMED}oncelog kafka batch show delayed")
@click.argument("query")
@click.pass_obj
def show_batch(settings: Settings, query: str) -> None:
    """Show a query's latest batch.

    Also shows its participants, and what a restart does with it.

    QUERY is the sink's prefix: its transactionalIdPrefix, or the id of the query.
    """
    with cluster_options.ledger(settings) as store, cluster() as brokers:
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
    show_given_up(found.given_up)


@batch.command(example=f"{_NAMED}oncelog kafka batch complete delayed --accept-loss")
@click.argument("query")
@click.option(
    "--accept-loss",
    is_flag=True,
    required=True,
    expose_value=False,
    help="Confirm that the missing rows were written by hand, or may stay missing.",
)
@click.option("--reason", help="Why; the ledger keeps it.")
@click.pass_obj
def complete(settings: Settings, query: str, reason: str | None) -> None:
    """Let a query continue after its decided batch lost a part. Stop the query first.

    Commits what can still be committed of the batch, and lists the rest, which the sink never writes again. The ledger
    records it; `oncelog kafka batch show` and `oncelog batch show` show what was given up.
    """
    with cluster_options.ledger(settings) as store, cluster() as brokers:
        found = inspection.accept_loss(brokers, store, query, reason=reason or "", operator=operator_name())
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


kafka.add_command(checkpoint)
kafka.add_command(exporter)
kafka.add_command(ledger)
kafka.add_command(ui)
