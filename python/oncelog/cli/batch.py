"""``oncelog batch``: the ledgers of sinks, either those in a log or all in a store that holds no log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime

import click

from oncelog import metadata
from oncelog.batches import overview
from oncelog.batches.overview import LedgerOverview
from oncelog.batches.payloads import GivenUp
from oncelog.cli.completing import complete
from oncelog.cli.completion import PREFIX
from oncelog.cli.output import duration, plural, printable, show, show_fields, show_json, show_table
from oncelog.cli.owners import partitions_text
from oncelog.cli.shell import Group, Settings
from oncelog.coordinator.inspection import LedgerDescription
from oncelog.ports import ZnodeStore
from oncelog.types import Outcome


@click.group(cls=Group, example="oncelog batch list")
def batch() -> None:
    """The ledgers of sinks, with their micro-batches.

    With --znodes and without --path, they are all ledgers of that place, whatever their sinks write to: Kafka,
    PostgreSQL, logs.
    """


def _store(settings: Settings) -> closing[ZnodeStore] | None:
    """The store whose ledgers are asked for; None if those of a log are."""
    if settings.named_place is not None or settings.znodes_uri is None:
        return None
    return closing(metadata.open_metadata(settings.znodes_uri, create=False))


@batch.command("list", example="oncelog batch list")
@click.pass_obj
def list_prefixes(settings: Settings) -> None:
    """List the prefixes of all sinks, with their last batches."""
    store = _store(settings)
    if store is not None:
        _list_all(settings, store)
        return
    with settings.open() as log:
        found = [log.admin.describe_ledger(prefix) for prefix in log.admin.list_prefixes()]
    if settings.as_json:
        show_json({"ledgers": found})
        return
    rows = [(one.prefix, one.query_id, one.sink_name, one.last_batch_id, len(one.open_rounds)) for one in found]
    show_table(("prefix", "query", "sink", "last batch>", "open>"), rows, empty="no sink has written here")


def _list_all(settings: Settings, store: closing[ZnodeStore]) -> None:
    with store as opened, opened.snapshot() as reader:
        found = overview.list_ledgers(reader)
    if settings.as_json:
        show_json({"ledgers": found})
        return
    rows = [(one.target, one.prefix, one.sink_name, one.last_batch_id, one.batch_id, _state(one)) for one in found]
    columns = ("target", "prefix", "sink", "last batch>", "newest>", "state")
    show_table(columns, rows, empty="no sink has its ledger here")


@batch.command("show", example="oncelog batch show delayed")
@click.argument("prefix", type=PREFIX)
@click.pass_obj
def show_ledger(settings: Settings, prefix: str) -> None:
    """Show the ledger of one sink.

    Shows its query, its last batch, its rounds and their participants.
    """
    store = _store(settings)
    if store is not None:
        _show_all(settings, store, prefix)
        return
    with settings.open() as log:
        found = log.admin.describe_ledger(prefix)
    if settings.as_json:
        show_json({"ledger": found})
    else:
        _show(found)


def _show_all(settings: Settings, store: closing[ZnodeStore], prefix: str) -> None:
    with store as opened, opened.snapshot() as reader:
        found = overview.find_ledgers(reader, prefix)
    if settings.as_json:
        show_json({"ledgers": found})
        return
    for number, one in enumerate(found):
        if number:
            show()
        _show_overview(one)


def _show_overview(ledger: LedgerOverview) -> None:
    show_fields(
        [
            ("target", ledger.target),
            ("prefix", ledger.prefix),
            ("query", ledger.query_id),
            ("sink", ledger.sink_name),
            ("run", ledger.run_id),
            ("last decided batch", ledger.last_batch_id),
            ("batch", ledger.batch_id),
            ("round", ledger.round),
            ("state", _state(ledger)),
            ("a restart", ledger.recovery),
        ]
    )
    if ledger.parts:
        show()
        show_table(("the batch consists of",), [(part,) for part in ledger.parts], empty="")
    show_given_up(ledger.given_up)


def show_given_up(given_up: Sequence[GivenUp]) -> None:
    """Show what operators gave up of decided batches; nothing if there is nothing."""
    if given_up:
        show()
        columns = ("given up: batch>", "round>", "parts>", "at", "by", "reason")
        show_table(columns, [_given_up_row(one) for one in given_up], empty="")


def _given_up_row(one: GivenUp) -> tuple[object, ...]:
    at = datetime.fromtimestamp(one.at_ms / 1000, UTC).isoformat(timespec="seconds")
    reason = f"{one.reason} (visible after all)".strip() if one.was_shown else one.reason
    return one.batch_id, one.round, one.part_count, at, one.operator, reason


def _state(ledger: LedgerOverview) -> str | None:
    if ledger.outcome is Outcome.COMMIT and not ledger.is_over:
        return "commit, not complete"
    return ledger.outcome


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
@click.argument("prefix", type=PREFIX)
@click.pass_obj
def abort(settings: Settings, prefix: str) -> None:
    """Abort the undecided round of a prefix.

    If the sink is running, it runs the batch again.
    """
    store = _store(settings)
    if store is not None:
        _abort_all(settings, store, prefix)
        return
    with settings.open() as log:
        number = log.admin.abort_round(prefix)
    if settings.as_json:
        show_json({"prefix": prefix, "aborted_round": number})
    elif number is None:
        show(f"{printable(prefix)} has no undecided round")
    else:
        show(f"aborted round {number} of {printable(prefix)}, with all its participants")


def _abort_all(settings: Settings, store: closing[ZnodeStore], prefix: str) -> None:
    with store as opened:
        aborted = overview.abort(opened, prefix)
    if settings.as_json:
        show_json({"prefix": prefix, "aborted": aborted})
        return
    for target, number in aborted.items():
        show(f"aborted round {number} of {printable(prefix)} in {target}")
    if not aborted:
        show(f"{printable(prefix)} has no undecided round")


batch.add_command(complete)
