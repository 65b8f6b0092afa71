"""``oncelog kafka txn``: transactions of a cluster, those that hang, and what ends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict

import click

from oncelog.cli.output import duration, printable, show, show_fields, show_json, show_table
from oncelog.cli.shell import ExitCode, Settings
from oncelog.ports import ZnodeStore
from oncelog_kafka import cluster_options, hanging, inspection
from oncelog_kafka.cluster_options import ClusterGroup, cluster
from oncelog_kafka.hanging import HangingPartition
from oncelog_kafka.inspection import TransactionDescription

_NAMED = "export ONCELOG_KAFKA_BROKERS=h1:9092\n"
"""Names the cluster in examples."""


@click.group(cls=ClusterGroup, example="oncelog kafka --brokers h1:9092 txn list")
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


@txn.command("find-hanging", example="oncelog kafka --brokers h1:9092 txn find-hanging")
@click.pass_obj
def find_hanging(settings: Settings) -> ExitCode:
    """Find transactions that nobody ends. Exit code 1 if there are any.

    Coordinators are asked for transactions that are open beyond their time-out, and the leaders of all partitions for
    those that no coordinator will end there: a marker was left out, or a record came late. For each of these it says
    what is known of its outcome; `repair` ends it.
    """
    with cluster() as brokers, _known_ledger(settings) as store:
        overdue = inspection.find_hanging(brokers)
        left = []
        if asks_leaders := not cluster_options.is_javas():
            with cluster_options.leaders() as leaders:
                left = hanging.find_in_partitions(leaders, brokers, store)
    if settings.as_json:
        show_json({"hanging": overdue, "partitions": left})
        return ExitCode.PROBLEM if overdue or left else ExitCode.OK
    if overdue or not left:
        cells = map(_cells, overdue)
        show_table(("age>", "time-out>", "partitions", "transactional id"), cells, empty="nothing hangs")
    if left:
        rows = [(one.topic, one.partition, one.start_offset, one.ended.value, _producer(one)) for one in left]
        show_table(("topic", "partition>", "from offset>", "outcome", "producer"), rows, empty="")
        for ended in dict.fromkeys(one.ended for one in left):
            show(f"{ended.value}: {ended.advice}")
    if not asks_leaders:
        show("the partitions were not asked: this takes kafka-python, which cannot log in as these settings say")
    return ExitCode.PROBLEM if overdue or left else ExitCode.OK


def _cells(one: TransactionDescription) -> tuple[str | None, ...]:
    return duration(one.age_ms), duration(one.timeout_ms), " ".join(one.partitions), one.transactional_id


def _producer(one: HangingPartition) -> str:
    return f"{one.producer_id}.{one.epoch}" if one.transactional_id is None else one.transactional_id


@contextmanager
def _known_ledger(settings: Settings) -> Iterator[ZnodeStore | None]:
    """The ledgers, if the options name a place, or the cluster has the topic of the default name."""
    store = cluster_options.known_ledger_opener(settings)()
    with nullcontext() if store is None else closing(store):
        yield store


@txn.command(example=f"{_NAMED}oncelog kafka txn repair flights 0")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.option("--commit/--abort", "is_commit", default=None, help="The outcome, where it is not certain.")
@click.pass_obj
def repair(settings: Settings, topic: str, partition: int, is_commit: bool | None) -> None:
    """End what hangs in a partition, so that its readers go on.

    Writes the marker that is missing. What a decision of a sink names is committed, in its place: nothing is lost, and
    nothing is written again. Of all else you must say what became of it: read the rows first, with the isolation level
    read_uncommitted. Stop its producer before. The brokers want the right to alter the cluster for this.
    """
    with cluster() as brokers, _known_ledger(settings) as store, cluster_options.leaders() as leaders:
        found = hanging.repair(leaders, brokers, store, (topic, partition), is_commit=is_commit)
    if settings.as_json:
        show_json({"ended": [{**asdict(one), "marker": marker} for one, marker in found]})
        return
    for one, marker in found:
        where = f"{printable(one.topic)}-{one.partition} from offset {one.start_offset}"
        show(f"{marker}: {where}, of {printable(_producer(one))}")


@txn.command(example=f"{_NAMED}oncelog kafka txn abort --prefix delayed")
@click.option("--prefix", required=True, help="The sink's prefix.")
@click.pass_obj
def abort(settings: Settings, prefix: str) -> None:
    """Abort what a sink has left open and undecided. Decided batches are never aborted."""
    with cluster_options.ledger(settings) as store, cluster() as brokers:
        aborted = inspection.abort_open(brokers, store, prefix)
    if settings.as_json:
        show_json({"prefix": prefix, "aborted": aborted})
    else:
        show_table(("aborted",), [(name,) for name in aborted], empty=f"{printable(prefix)} has nothing undecided open")
