"""``oncelog txn``: list, describe, abort, find-hanging."""

from __future__ import annotations

import click

from oncelog.cli.completion import TRANSACTIONAL_ID
from oncelog.cli.output import duration, printable, quoted, show, show_fields, show_json, show_table
from oncelog.cli.owners import OWNER_COLUMNS, owner_cells, owner_name, partitions_text, producer_text, round_text
from oncelog.cli.parameters import DURATION
from oncelog.cli.shell import ExitCode, Group, Settings
from oncelog.clients.aborts import AbortedTransaction
from oncelog.coordinator.inspection import OwnerDescription, TransactionDescription
from oncelog.protocol.txn_state import PENDING_ONLY, TxnState

STATES = [state.value for state in TxnState if state not in PENDING_ONLY and state is not TxnState.DEAD]


@click.group(cls=Group, example="oncelog txn find-hanging")
def txn() -> None:
    """Transactions of producers and sinks."""


@txn.command("list", example="oncelog txn list --prefix delayed- --state ongoing")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES),
    multiple=True,
    metavar="STATE",
    help=f"Only {', '.join(STATES)}; may be repeated.",
)
@click.option("--prefix", default="", help="Only transactional ids that begin with this.")
@click.option("--producer-id", "producer_ids", type=int, multiple=True, help="Only this one; may be repeated.")
@click.pass_obj
def list_transactions(settings: Settings, states: tuple[str, ...], prefix: str, producer_ids: tuple[int, ...]) -> None:
    """List transactional ids with their states.

    If a micro-batch's round owns the transaction, the state is the round's.
    """
    with settings.open() as log:
        found = log.admin.list_transactions(states=states, prefix=prefix, producer_ids=producer_ids)
    if settings.as_json:
        show_json({"transactions": found})
        return
    rows = [
        (t.state, producer_text(t.producer), t.transactional_id, round_text(t.round) if t.round else None)
        for t in found
    ]
    show_table(("state", "producer", "transactional id", "owned by"), rows, empty="no transactional ids")


@txn.command(example="oncelog txn describe loader-0")
@click.argument("transactional_id", type=TRANSACTIONAL_ID)
@click.pass_obj
def describe(settings: Settings, transactional_id: str) -> None:
    """Show everything about one transactional id."""
    with settings.open() as log:
        found = log.admin.describe_transaction(transactional_id)
    if settings.as_json:
        show_json({"transaction": found})
    else:
        show_fields(_fields(found))


def _fields(found: TransactionDescription) -> list[tuple[str, object]]:
    owner = found.owner
    transaction: list[tuple[str, object]] = [
        ("partitions", partitions_text(found.partitions)),
        ("groups", " ".join(found.groups) or None),
    ]
    if owner is not None:
        transaction += [("outcome", owner.outcome), ("age", duration(owner.age_ms))]
    return [
        ("transactional id", found.transactional_id),
        ("state", found.state),
        ("prepared", found.is_prepared),
        ("producer", producer_text(found.producer)),
        ("time-out", duration(found.timeout_ms)),
        ("idle for", duration(found.idle_ms)),
        ("owned by", round_text(found.round) if found.round else None),
        *transaction,
    ]


@txn.command(example="oncelog txn abort loader-0")
@click.argument("transactional_id", type=TRANSACTIONAL_ID)
@click.pass_obj
def abort(settings: Settings, transactional_id: str) -> None:
    """Abort the open transaction of an id.

    The transaction may be prepared. Its producer is fenced. If an undecided micro-batch owns the transaction, its whole
    round is aborted; a running sink then runs the batch again.
    """
    with settings.open() as log:
        aborted = log.admin.abort_transaction(transactional_id)
    if settings.as_json:
        show_json({"aborted": aborted})
    else:
        show(_story(aborted))


def _story(aborted: AbortedTransaction) -> str:
    name = printable(aborted.transactional_id)
    if not aborted.was_open:
        return f"the transaction of {name} had been aborted before"
    if aborted.round is None:
        return f"aborted the transaction of {name}; its producer is fenced"
    return f"{name} belongs to {printable(round_text(aborted.round))}, which was aborted with all its participants"


@txn.command("find-hanging", example="oncelog txn find-hanging --max-age 15m")
@click.option("--max-age", type=DURATION, help="Also find those that are older than this, as in 15m, even if prepared.")
@click.pass_obj
def find_hanging(settings: Settings, max_age: int | None) -> ExitCode:
    """Find what is open beyond its time-out.

    Finds transactions and undecided micro-batches. Exit code 1 if there are any.

    They hold back every read_committed reader of their partitions. Readers and writers of these partitions will abort
    them; `oncelog gc` and `oncelog txn abort` do it now.
    """
    with settings.open() as log:
        found = log.admin.find_hanging(max_age_ms=max_age)
    if settings.as_json:
        show_json({"hanging": found})
    else:
        rows = [(*owner_cells(owner)[:3], partitions_text(owner.partitions), owner_name(owner)) for owner in found]
        show_table((*OWNER_COLUMNS[:3], "partitions", OWNER_COLUMNS[3]), rows, empty="nothing hangs")
        for owner in found:
            show(f"to abort it: {_remedy(owner)}")
    return ExitCode.PROBLEM if found else ExitCode.OK


def _remedy(owner: OwnerDescription) -> str:
    if owner.round is not None:
        return f"oncelog batch abort {quoted(owner.round.prefix)}"
    return f"oncelog txn abort {quoted(str(owner.transactional_id))}"
