"""``oncelog group``: list, describe, reset, delete."""

from __future__ import annotations

from typing import Literal

import click

from oncelog.cli.completion import GROUP, TOPIC
from oncelog.cli.output import plural, printable, show, show_fields, show_json, show_table
from oncelog.cli.parameters import PartitionOffset
from oncelog.cli.shell import Group, Settings
from oncelog.clients.admin import Admin
from oncelog.clients.descriptions import GroupPartitionProgress, GroupProgress
from oncelog.types import TopicPartition


@click.group(cls=Group, example="oncelog group describe reports")
def group() -> None:
    """Consumer groups: committed offsets and lag."""


@group.command("list", example="oncelog group list")
@click.pass_obj
def list_groups(settings: Settings) -> None:
    """List groups with their lag over all partitions."""
    with settings.open() as log:
        found = [log.admin.describe_group(group_id) for group_id in log.admin.list_groups()]
    if settings.as_json:
        show_json({"groups": [_summary(one) for one in found]})
        return
    rows = [(g.group_id, len(g.partitions), _lag(g), g.owning_prefix) for g in found]
    show_table(("group", "partitions>", "lag>", "owned by sink"), rows, empty="no groups")


def _summary(found: GroupProgress) -> dict[str, object]:
    return {
        "group_id": found.group_id,
        "owning_prefix": found.owning_prefix,
        "partitions": len(found.partitions),
        "lag": _lag(found),
    }


def _lag(found: GroupProgress) -> int | None:
    """The lag over all partitions; None if an offset is beyond the log, which does not mean a lag of 0."""
    if any(partition.is_beyond_log for partition in found.partitions):
        return None
    return sum(partition.lag or 0 for partition in found.partitions)


@group.command(example="oncelog group describe reports")
@click.argument("group_id", metavar="GROUP", type=GROUP)
@click.pass_obj
def describe(settings: Settings, group_id: str) -> None:
    """Show committed offsets and lag per partition.

    Lag counts offsets up to the last stable offset. It is 0 where no record is left to read: control markers and
    aborted records only count before one that is. "undecided": an open transaction holds a newer offset. "beyond the
    log end": the log is an older copy of the one that the group read.
    """
    with settings.open() as log:
        found = log.admin.describe_group(group_id)
    if settings.as_json:
        show_json({"group": found})
        return
    show_fields([("group", found.group_id), ("owned by sink", found.owning_prefix), ("lag", _lag(found))])
    show()
    rows = [(p.topic, p.partition, p.offset, p.lso, p.lag, _remark(p)) for p in found.partitions]
    show_table(("topic", "part>", "offset>", "LSO>", "lag>", "remark"), rows, empty="no offsets")


def _remark(found: GroupPartitionProgress) -> str:
    if found.lso is None:
        return "topic deleted"
    if found.is_beyond_log:
        return "beyond the log end"
    return "undecided" if found.undecided else ""


@group.command(example="oncelog group reset reports --to earliest --topic flights")
@click.argument("group_id", metavar="GROUP", type=GROUP)
@click.option("--to", type=click.Choice(["earliest", "latest"]), help="The log start, or the last stable offset.")
@click.option("--offset", "offsets", type=PartitionOffset(), multiple=True, help="An explicit offset; may be repeated.")
@click.option("--topic", "names", type=TOPIC, multiple=True, help="With --to: all partitions of this topic.")
@click.pass_obj
def reset(
    settings: Settings,
    group_id: str,
    to: Literal["earliest", "latest"] | None,
    offsets: tuple[tuple[TopicPartition, int], ...],
    names: tuple[str, ...],
) -> None:
    """Set the committed offsets of a group. Stop its consumers first.

    The offsets of a sink's group cannot be set: delete the group first.
    """
    if (to is None) == (not offsets):
        raise click.UsageError("Give either --to or --offset.")
    if names and to is None:
        raise click.UsageError("--topic needs --to; --offset already names its topic.")
    with settings.open() as log:
        wanted = _reset(log.admin, group_id, to, dict(offsets), names)
    if settings.as_json:
        committed = [{"topic": p.topic, "partition": p.partition, "offset": o} for p, o in sorted(wanted.items())]
        show_json({"group_id": group_id, "offsets": committed})
        return
    rows = [(partition.topic, partition.partition, offset) for partition, offset in sorted(wanted.items())]
    show_table(("topic", "part>", "offset>"), rows, empty="the group has offsets of no topic that exists")


def _reset(
    admin: Admin,
    group_id: str,
    to: Literal["earliest", "latest"] | None,
    offsets: dict[TopicPartition, int],
    names: tuple[str, ...],
) -> dict[TopicPartition, int]:
    if to is not None:
        return admin.reset_group(group_id, to, names=names)
    admin.alter_offsets(group_id, offsets)
    return offsets


@group.command(example="oncelog group delete reports")
@click.argument("group_id", metavar="GROUP", type=GROUP)
@click.pass_obj
def delete(settings: Settings, group_id: str) -> None:
    """Delete all offsets of a group.

    Refused while an undecided transaction holds offsets of the group.
    """
    with settings.open() as log:
        partitions = log.admin.describe_group(group_id).partitions
        log.admin.delete_group(group_id)
    if settings.as_json:
        show_json({"deleted": group_id})
    else:
        show(f"deleted group {printable(group_id)} with offsets of {plural(len(partitions), 'partition')}")
