"""``oncelog batch complete``: completes what a sink has decided, without its query."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import click

from oncelog import metadata
from oncelog.batches import giving_up
from oncelog.batches.ledger import all_kinds
from oncelog.batches.overview import find_ledgers
from oncelog.cli.completion import PREFIX
from oncelog.cli.output import plural, printable, show, show_json
from oncelog.cli.parameters import Setting
from oncelog.cli.shell import Command, Settings
from oncelog.ports import ZnodeStore

if TYPE_CHECKING:
    from oncelog.spark.kit.committer_sink import Completion

KAFKA = "kafka"

SINKS = "oncelog.sinks"
"""Entry points of this group make the sink of a target (`CommitterSink`) from its options."""


@click.command(cls=Command, example="oncelog batch complete delayed --znodes /data/ledger --option path=/out")
@click.argument("prefix", type=PREFIX)
@click.option("--target", help="Such as postgres, if sinks of several targets have this prefix.")
@click.option("--option", "options", type=Setting(), multiple=True, help="An option of the sink, as its query has it.")
@click.option("--accept-loss", is_flag=True, help="Give up decided batches that can never be completed.")
@click.option("--reason", help="With --accept-loss: why; the ledger keeps it.")
@click.pass_obj
def complete(
    settings: Settings,
    prefix: str,
    target: str | None,
    options: Sequence[tuple[str, str]],
    accept_loss: bool,
    reason: str | None,
) -> None:
    """Complete a sink's batches, of a query that will not run again.

    Shows what is decided and not visible, and removes what aborted rounds left, as a restart of the query would. Safe
    at any time, also while the query runs. --znodes names the place of the ledger; if it is in a log, --path does.

    With --accept-loss, the last resort, a decided batch that its target will never take counts as complete without
    being visible, and the query continues with the next one. `oncelog batch show` says what was given up.

    An undecided batch stays as it is; `oncelog batch abort` gives it up.
    """
    if (accept_loss and options) or (reason is not None and not accept_loss):
        raise click.UsageError("--reason belongs to --accept-loss, which takes no --option.")
    with _ledgers(settings) as store:
        chosen = _only_target(store, prefix, target)
        if accept_loss:
            _give_up(settings, store, chosen, prefix, reason or "")
            return
        found = _complete(_maker(chosen), dict(options), prefix, store)
    if settings.as_json:
        show_json({"completion": found})
        return
    for line in _story(found):
        show(line)


@contextmanager
def _ledgers(settings: Settings) -> Iterator[ZnodeStore]:
    if settings.znodes_uri is not None:
        with closing(metadata.open_metadata(settings.znodes_uri, create=False)) as store:
            yield store
    elif settings.named_place is not None:
        with settings.open() as log:
            yield log.services.store
    else:
        raise click.UsageError("Where is the ledger? Give --znodes, or --path if it is in a log.")


def _give_up(settings: Settings, store: ZnodeStore, target: str, prefix: str, reason: str) -> None:
    kind = all_kinds()[target]
    if kind.completed is None:
        raise click.UsageError(
            f"Batches of the target {target} are not given up by this command"
            + (": `oncelog kafka batch complete --accept-loss` does it." if target == KAFKA else ".")
        )
    found = giving_up.give_up(store, kind, prefix, reason=reason, operator=operator_name())
    if settings.as_json:
        show_json({"prefix": prefix, "target": target, "given_up": found})
        return
    for one in found:
        show(
            f"batch {one.batch_id} of {printable(prefix)} is given up, with {plural(one.part_count, 'part')} that will "
            "never be visible; the query continues with the next batch"
        )
    if not found:
        show(f"{printable(prefix)} has no decided batch that is not complete")


def operator_name() -> str:
    """The user who runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


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
        + (", or `oncelog kafka batch complete`." if target == KAFKA else ".")
    )


def _complete(maker: EntryPoint, options: dict[str, Any], prefix: str, store: ZnodeStore) -> Completion:
    try:
        sink = maker.load()(**options)
    except ModuleNotFoundError as missing:  # the message names the extra to install
        raise click.ClickException(str(missing)) from None
    from oncelog.spark.kit.committer_sink import complete_alone

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
