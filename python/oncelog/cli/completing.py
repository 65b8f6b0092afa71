"""``oncelog batch complete``: completes what a sink has decided, without its query."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import click

from oncelog import metadata
from oncelog.cli.output import plural, printable, show, show_json
from oncelog.cli.parameters import Setting
from oncelog.cli.shell import Command, Settings
from oncelog.ledger.overview import find_ledgers
from oncelog.ports import ZnodeStore

if TYPE_CHECKING:
    from oncelog.spark.kit.receipts_sink import Completion

SINKS = "oncelog.sinks"
"""Entry points of this group make the sink of a target (`ReceiptsSink`) from its options."""


@click.command(cls=Command, example="oncelog batch complete delayed --znodes /data/ledger --option path=/out")
@click.argument("prefix")
@click.option("--target", help="Such as postgres, if sinks of several targets have this prefix.")
@click.option("--option", "options", type=Setting(), multiple=True, help="An option of the sink, as its query has it.")
@click.pass_obj
def complete(settings: Settings, prefix: str, target: str | None, options: Sequence[tuple[str, str]]) -> None:
    """Complete a sink's batches, of a query that will not run again.

    Shows what is decided and not visible, and removes what aborted rounds left, as a restart of the query would. Safe
    at any time, also while the query runs. --znodes names the place of the ledger.

    An undecided batch stays as it is; `oncelog batch abort` gives it up.
    """
    if settings.znodes_uri is None:
        raise click.UsageError("Where is the ledger? Give --znodes.")
    with closing(metadata.open_metadata(settings.znodes_uri, create=False)) as store:
        maker = _maker(_only_target(store, prefix, target))
        found = _complete(maker, dict(options), prefix, store)
    if settings.as_json:
        show_json({"completion": found})
        return
    for line in _story(found):
        show(line)


def _only_target(store: ZnodeStore, prefix: str, target: str | None) -> str:
    known = [one.target for one in find_ledgers(store, prefix)]
    asked = [one for one in known if target in {None, one}]
    if len(asked) == 1:
        return asked[0]
    raise click.UsageError(f"Which target? Give --target: sinks with this prefix write to {', '.join(known)}.")


def _maker(target: str) -> EntryPoint:
    for found in entry_points(group=SINKS, name=target):
        return found
    raise click.UsageError(
        f"Batches of the target {target} are not completed by this command: a restart of the query does it"
        + (", or `oncelog kafka batch complete`." if target == "kafka" else ".")
    )


def _complete(maker: EntryPoint, options: dict[str, Any], prefix: str, store: ZnodeStore) -> Completion:
    try:
        sink = maker.load()(**options)
    except ModuleNotFoundError as missing:  # the message names the extra to install
        raise click.ClickException(str(missing)) from None
    from oncelog.spark.kit.receipts_sink import complete_alone

    return complete_alone(sink, prefix, store)


def _story(found: Completion) -> list[str]:
    prefix = printable(found.prefix)
    lines = [f"batch {batch_id} of {prefix} is visible now" for batch_id in found.completed]
    if found.discarded:
        lines.append(f"removed what {plural(found.discarded, 'aborted round')} of {prefix} had left")
    if found.undecided is not None:
        lines.append(
            f"batch {found.undecided} of {prefix} is undecided: a restart of the query writes it again, and "
            "`oncelog batch abort` gives it up"
        )
    return lines or [f"{prefix} has nothing to complete"]
