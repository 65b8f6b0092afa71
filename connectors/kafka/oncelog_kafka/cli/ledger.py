"""``oncelog kafka ledger``: moves the ledgers of sinks, and rebuilds one that is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import click

from oncelog import metadata
from oncelog.cli.completing import operator_name
from oncelog.cli.meta import show_copied
from oncelog.cli.output import printable, progress, show, show_fields, show_json
from oncelog.cli.parameters import Setting
from oncelog.cli.shell import Settings
from oncelog.errors import CorruptDataError, UsageError
from oncelog.folders import absolute
from oncelog.ports import ZnodeStore
from oncelog.znodes import copying
from oncelog.znodes.schemes import Place
from oncelog_kafka.cli import cluster_options
from oncelog_kafka.cli.cluster_options import ClusterGroup, cluster, driver, named_brokers, named_ledger_topic
from oncelog_kafka.ledger import ledger_store
from oncelog_kafka.operations import rebuilding
from oncelog_kafka.operations.rebuilding import Plan
from oncelog_kafka.options.sink_options import DEFAULT_LEDGER_TOPIC, SinkOptions, parse
from oncelog_kafka.protocol.lost_ledger import Fate, LostQuery


@click.group(cls=ClusterGroup, example="oncelog kafka --brokers h1:9092 ledger copy --from /data/ledger")
def ledger() -> None:
    """The ledgers of sinks."""


# Copy -----------------------------------------------------------------------------------------------------------------


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
    topic = named_ledger_topic() or DEFAULT_LEDGER_TOPIC
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
    return ledger_store.open_ledger(driver(), topic, create=False)


def _target(place: str | None, topic: str) -> ZnodeStore:
    if place is not None:
        return metadata.open_target(_place(place), place)
    return ledger_store.store(driver(), topic, create=True)


def _place(place: str) -> Place:
    return metadata.place_of(str(absolute(".")), place)


# Rebuild --------------------------------------------------------------------------------------------------------------


@ledger.command(example="oncelog kafka ledger rebuild /ck/delayed --option topic=out --dry-run")
@click.argument("directory", metavar="DIR")
@click.option("--option", "options", type=Setting(), multiple=True, help="An option of the sink, as its query has it.")
@click.option(
    "--batch",
    type=click.Choice([Fate.WRITTEN.value, Fate.MISSING.value]),
    help="What became of the newest batch, if nobody else knows.",
)
@click.option("--reason", help="With --batch: how you know; the ledger keeps it.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def rebuild(
    settings: Settings,
    directory: str,
    options: Sequence[tuple[str, str]],
    batch: str | None,
    reason: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Write a new ledger for a query whose ledger is lost. Stop the query first.

    DIR is the newest checkpoint of the query. It says which batch was planned last; the brokers say whether that batch
    was written. If nobody knows, the command says why and changes nothing. Compare the topic with the source then, and
    give --batch. Give the sink's options topic, transactionalIdPrefix and sinkName with --option, as far as the query
    sets them. The query continues with these and with the same checkpoint.

    The ledger's topic must be whole, or not exist: delete a damaged one, or give another --ledger-topic. Run the
    command once for each query. Histories of other kinds of sinks are not rebuilt.
    """
    if settings.as_json and not (yes or dry_run):
        raise click.UsageError("With --json nothing is asked. Give --yes or --dry-run.")
    if reason is not None and batch is None:
        raise click.UsageError("--reason belongs to --batch.")
    query, said = rebuilding.query_of(directory, _sink(options)), None if batch is None else Fate(batch)
    _check_absent(settings, query.prefix)
    found = _planned(query, said)
    if not settings.as_json:
        _show_plan(found)
    is_written = not dry_run and (yes or click.confirm("Is the query stopped? Write this ledger?", err=True))
    if is_written:
        _write(settings, query, said, found, reason or "")
    if settings.as_json:
        show_json({"dry_run": dry_run, "rebuilt": found})
    elif is_written:
        show(f"the ledger of {printable(found.prefix)} is written; start the query with the same options")


def _sink(options: Sequence[tuple[str, str]]) -> SinkOptions:
    given = dict(options)
    if {name.lower() for name in given} & {"ledgertopic", "znodes"}:
        raise click.UsageError("Say where to write the ledger with --ledger-topic or --znodes, and not with --option.")
    return parse({"kafka.bootstrap.servers": named_brokers(), **given})


def _planned(query: LostQuery, said: Fate | None) -> Plan:
    with cluster() as brokers:
        return rebuilding.plan(query, rebuilding.traces_of(brokers, query.prefix), said)


def _check_absent(settings: Settings, prefix: str) -> None:
    place = None if named_ledger_topic() or settings.znodes_uri is None else _place(settings.znodes_uri)
    if place is not None and not place.is_there():
        return
    try:
        with _opened(settings, create=False) as store:
            rebuilding.check_absent(store, prefix)
    except ledger_store.MissingTopicError:
        return


def _write(settings: Settings, query: LostQuery, said: Fate | None, shown: Plan, reason: str) -> None:
    if _planned(query, said) != shown:
        raise UsageError("transactions of the sink changed meanwhile: stop the query first", prefix=query.prefix)
    with _opened(settings, create=True) as store:
        rebuilding.write(store, shown, reason=reason, operator=operator_name())


@contextmanager
def _opened(settings: Settings, *, create: bool) -> Iterator[ZnodeStore]:
    try:
        store = cluster_options.ledger_opener(settings, create=create)()
    except CorruptDataError as problem:
        raise UsageError(
            "the ledger cannot be written where it is damaged: delete its topic with kafka-topics.sh once no query "
            "uses it, or name another one with --ledger-topic and in the query's option ledgerTopic",
            problem=str(problem),
        ) from problem
    with closing(store):
        yield store


def _show_plan(found: Plan) -> None:
    known = "" if found.is_known else " (as you say)"
    show_fields(
        [
            ("prefix", found.prefix),
            ("query", found.query_id),
            ("newest planned batch", found.batch_id),
            ("it is", f"{found.fate.value}{known}"),
            ("because", found.reason),
            ("last written batch", found.last_batch_id),
            ("the query continues with batch", found.next_batch_id),
            ("rounds continue after", found.round),
        ]
    )
