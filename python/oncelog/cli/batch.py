"""``oncelog batch``: the ledgers of sinks."""

from __future__ import annotations

import click

from oncelog.cli.output import duration, plural, printable, show, show_fields, show_json, show_table
from oncelog.cli.owners import partitions_text
from oncelog.cli.shell import Group, Settings
from oncelog.coordinator.inspection import LedgerDescription


@click.group(cls=Group, example="oncelog batch list")
def batch() -> None:
    """The ledgers of sinks, with their micro-batches."""


@batch.command("list", example="oncelog batch list")
@click.pass_obj
def list_prefixes(settings: Settings) -> None:
    """List the prefixes of all sinks, with their last batches."""
    with settings.open() as log:
        found = [log.admin.describe_ledger(prefix) for prefix in log.admin.list_prefixes()]
    if settings.as_json:
        show_json({"ledgers": found})
        return
    rows = [(one.prefix, one.query_id, one.sink_name, one.last_batch_id, len(one.open_rounds)) for one in found]
    show_table(("prefix", "query", "sink", "last batch>", "open>"), rows, empty="no sink has written here")


@batch.command("show", example="oncelog batch show delayed")
@click.argument("prefix")
@click.pass_obj
def show_ledger(settings: Settings, prefix: str) -> None:
    """Show the ledger of one sink.

    Shows its query, its last batch, its rounds and their participants.
    """
    with settings.open() as log:
        found = log.admin.describe_ledger(prefix)
    if settings.as_json:
        show_json({"ledger": found})
    else:
        _show(found)


def _show(ledger: LedgerDescription) -> None:
    show_fields(
        [
            ("prefix", ledger.prefix),
            ("query", ledger.query_id),
            ("sink", ledger.sink_name),
            ("run", ledger.run_id),
            ("superseded", plural(len(ledger.superseded_runs), "run")),
            ("group", ledger.group_id),
            ("last batch", ledger.last_batch_id),
            ("decided in", None if ledger.last_round is None else f"round {ledger.last_round}"),
            ("fingerprint", ledger.last_fingerprint),
        ]
    )
    rows = [
        (r.number, r.batch_id, r.outcome, duration(r.age_ms), partitions_text(r.partitions), _ids(r.transactional_ids))
        for r in ledger.rounds
    ]
    if rows:
        show()
        show_table(("round>", "batch>", "state", "age>", "partitions", "participants"), rows, empty="")


def _ids(transactional_ids: tuple[str, ...]) -> str:
    return " ".join(transactional_ids) or "-"


@batch.command(example="oncelog batch abort delayed")
@click.argument("prefix")
@click.pass_obj
def abort(settings: Settings, prefix: str) -> None:
    """Abort the undecided round of a prefix.

    If the sink is running, it runs the batch again.
    """
    with settings.open() as log:
        number = log.admin.abort_round(prefix)
    if settings.as_json:
        show_json({"prefix": prefix, "aborted_round": number})
    elif number is None:
        show(f"{printable(prefix)} has no undecided round")
    else:
        show(f"aborted round {number} of {printable(prefix)}, with all its participants")
