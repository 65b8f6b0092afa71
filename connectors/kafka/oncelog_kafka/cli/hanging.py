"""``oncelog kafka txn find-hanging`` and ``repair``: transactions that nobody ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from oncelog.cli.output import duration, plural, printable, show, show_json, show_table
from oncelog.cli.shell import ExitCode, Settings
from oncelog.folders import absolute
from oncelog.ports import ZnodeStore
from oncelog_kafka.brokers import Brokers, KafkaProducers
from oncelog_kafka.cli.cluster_options import ClusterCommand, cluster, known_ledger_opener, python_driver
from oncelog_kafka.operations import inspection
from oncelog_kafka.operations import repair as repairs
from oncelog_kafka.operations.inspection import TransactionDescription
from oncelog_kafka.operations.repair import NoLongerHangsError, Repaired
from oncelog_kafka.protocol.hanging import Hang, NotAsked, Verdict

_SAFE = {
    Verdict.COMMITTED: "commit; an abort would drop committed rows",
    Verdict.ABORTED: "abort; it loses nothing",
    Verdict.UNKNOWN: "save the rows, and choose: an abort may drop committed rows",
    Verdict.RUNNING: "leave it to its producer",
}
"""What may be done about a hang, in words."""


class _Cluster(NamedTuple):
    """What the commands ask."""

    brokers: Brokers
    producers: KafkaProducers
    store: ZnodeStore | None


@contextmanager
def _opened(settings: Settings) -> Iterator[_Cluster]:
    client = python_driver(
        "give its own settings, as in --config admin.sasl_mechanism=..., or add --coordinators-only to find-hanging"
    )
    with ExitStack() as stack:
        brokers = stack.enter_context(cluster())
        producers = stack.enter_context(closing(KafkaProducers(client)))
        store = known_ledger_opener(settings)()
        if store is not None:
            stack.callback(store.close)
        yield _Cluster(brokers, producers, store)


# Find -----------------------------------------------------------------------------------------------------------------


@click.command("find-hanging", cls=ClusterCommand, example="oncelog kafka --brokers h1:9092 txn find-hanging")
@click.option("--coordinators-only", is_flag=True, help="Do not ask the partitions.")
@click.pass_obj
def find_hanging(settings: Settings, coordinators_only: bool) -> ExitCode:
    """Find transactions that nobody ends. Exit code 1 if there are any.

    Asks the coordinators for transactions that are open beyond their time-out, and all partitions for transactions that
    are open there and over at their coordinator. For each of these it says whether they were committed, and what is
    safe. It needs the rights Describe on the transactional ids and Read on the topics.
    """
    if coordinators_only:
        with cluster() as brokers:
            late, search = inspection.find_hanging(brokers), repairs.Search((), ())
    else:
        with _opened(settings) as asked:
            late, search = inspection.find_hanging(asked.brokers), repairs.find(*_clients(asked))
    if settings.as_json:
        show_json({"hanging": late, "left_open": search.hangs, "not_asked": _by_answer(search.not_asked)})
    else:
        _show_late(late, is_alone=not search.hangs)
        _show_hangs(search.hangs)
        _show_not_asked(search.not_asked)
    return ExitCode.PROBLEM if late or search.hangs else ExitCode.OK


def _clients(asked: _Cluster) -> tuple[KafkaProducers, Brokers, ZnodeStore | None]:
    return asked.producers, asked.brokers, asked.store


def _show_late(late: Sequence[TransactionDescription], *, is_alone: bool) -> None:
    if late or is_alone:
        rows = [
            (duration(one.age_ms), duration(one.timeout_ms), " ".join(one.partitions), one.transactional_id)
            for one in late
        ]
        show_table(("age>", "time-out>", "partitions", "transactional id"), rows, empty="nothing hangs")


def _show_hangs(hangs: Sequence[Hang]) -> None:
    if hangs:
        columns = ("partition", "offset>", "producer", "age>", "was", "transactional id")
        show_table(columns, [_cells(one) for one in hangs], empty="")
        for one in hangs:
            show(f"{printable(one.place)} from {one.start_offset}: {one.why}; safe: {_SAFE[one.verdict]}")


def _cells(one: Hang) -> tuple[object, ...]:
    producer = f"{one.producer_id}.{one.epoch}"
    return one.place, one.start_offset, producer, duration(max(one.age_ms, 0)), one.verdict.value, one.transactional_id


def _show_not_asked(not_asked: Sequence[NotAsked]) -> None:
    for answer, places in _by_answer(not_asked).items():
        named = " ".join(places[:_NAMED])
        more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
        lacks = "; this user needs the right Read" if answer == "TOPIC_AUTHORIZATION_FAILED" else ""
        click.echo(f"not asked, because of {answer}: {printable(named)}{more}{lacks}", err=True)


_NAMED = 5
"""How many partitions that could not be asked are named."""


def _by_answer(not_asked: Sequence[NotAsked]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in not_asked:
        found.setdefault(one.answer, []).append(f"{one.topic}-{one.partition}")
    return found


# Repair ---------------------------------------------------------------------------------------------------------------


@click.command("repair", cls=ClusterCommand, example="oncelog kafka --brokers h1:9092 txn repair --dry-run")
@click.option("--partition", "places", multiple=True, metavar="TOPIC-N", help="Only this partition; may be repeated.")
@click.option(
    "--unknown", type=click.Choice(["commit", "abort"]), help="How to end those of --partition of which nobody knows."
)
@click.option("--save", metavar="FOLDER", help="Save the rows here before, as Avro files.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def repair(
    settings: Settings, places: tuple[str, ...], unknown: str | None, save: str | None, dry_run: bool, yes: bool
) -> ExitCode:
    """End transactions that nobody ends. Exit code 1 if some are left.

    Writes the markers that were left out. A commit makes the rows visible where they are, so nothing is written twice.
    An abort is written if the transaction was aborted. If nobody knows, --unknown says which, and an abort needs
    --save. It needs the right Alter on the cluster.
    """
    if settings.as_json and not (yes or dry_run):
        raise click.UsageError("With --json nothing is asked. Give --yes or --dry-run.")
    if unknown and not places:
        raise click.UsageError("--unknown needs --partition: what is true of one transaction may not be of another.")
    folder = None if save is None else absolute(save)
    with _opened(settings) as asked:
        search = repairs.find(*_clients(asked), _partitions(places))
        plan = _plan(search.hangs, unknown, folder)
        if not settings.as_json:
            _show_hangs(search.hangs)
            _show_not_asked(search.not_asked)
        if plan and not (dry_run or yes or click.confirm(f"End {plural(len(plan), 'transaction')}?", err=True)):
            plan = []
        done = [] if dry_run else _repaired(asked, plan, folder)
    left = [one for one in search.hangs if one not in (hang for hang, _ in plan)]
    if settings.as_json:
        planned = [{"hang": hang, "marker": _kind(is_commit)} for hang, is_commit in plan]
        found = {"planned": planned, "repaired": done, "left": left, "not_asked": _by_answer(search.not_asked)}
        show_json({"dry_run": dry_run, **found})
    else:
        _show_story(plan, done, left, dry_run=dry_run)
    is_done = len(done) == len(plan) and all(one.is_ours for one in done) and not (places and search.not_asked)
    return ExitCode.OK if is_done and not left else ExitCode.PROBLEM


Plan = Sequence[tuple[Hang, bool]]
"""Transactions, and whether each is committed."""


def _plan(hangs: Sequence[Hang], unknown: str | None, folder: Path | None) -> Plan:
    """What can be done about these; nothing about those that are running, or that nobody has decided."""
    chosen = [
        (one, unknown == "commit" if one.verdict is Verdict.UNKNOWN else one.verdict is Verdict.COMMITTED)
        for one in hangs
        if one.verdict is not Verdict.RUNNING and (one.verdict is not Verdict.UNKNOWN or unknown is not None)
    ]
    for hang, is_commit in chosen:
        repairs.check_allowed(hang, is_commit=is_commit, is_saved=folder is not None)
    return chosen


def _repaired(asked: _Cluster, plan: Plan, folder: Path | None) -> list[Repaired]:
    done = []
    for hang, is_commit in plan:
        try:
            done.append(repairs.repair(*_clients(asked), hang, is_commit=is_commit, folder=folder))
        except NoLongerHangsError as problem:
            click.echo(str(problem), err=True)
    return done


_DIGITS = 10
"""Of the greatest number of a partition."""


def _partitions(places: Sequence[str]) -> set[tuple[str, int]] | None:
    if not places:
        return None
    found = set()
    for place in places:
        topic, dash, number = place.rpartition("-")
        if not (topic and dash and number.isascii() and number.isdigit() and len(number) <= _DIGITS):
            raise click.UsageError(f"{place!r} is not a partition; write it like flights-0")
        found.add((topic, int(number)))
    return found


def _show_story(plan: Plan, done: Sequence[Repaired], left: Sequence[Hang], *, dry_run: bool) -> None:
    if not (plan or left):
        show("nothing hangs")
    for hang, is_commit in plan if dry_run else ():
        show(f"would {_kind(is_commit)} {printable(hang.place)} from {hang.start_offset}")
    for one in done:
        place = printable(f"{one.topic}-{one.partition}")
        saved = "" if one.saved is None else f"; saved {plural(one.saved_rows, 'row')} in {printable(one.saved)}"
        other = "" if one.is_ours else ", by another repair"
        show(f"{place} from {one.start_offset}: {one.ended}{other}{saved}")
    for hang in left:
        show(f"left: {printable(hang.place)} from {hang.start_offset}; {_SAFE[hang.verdict]}")


def _kind(is_commit: bool) -> str:
    return "commit" if is_commit else "abort"
