"""``oncelog consume``: the next records of a consumer group, whose offsets are committed once they are written."""

from __future__ import annotations

import click

from oncelog.cli.completion import GROUP, TOPIC
from oncelog.cli.records import RecordFormat, ends_of, read, record_options
from oncelog.cli.shell import Command, Settings
from oncelog.coordinator import groups
from oncelog.errors import GroupOwnedError
from oncelog.runtime import Log


@click.command(cls=Command, example="oncelog consume flights --group reports --max 100 --json")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, type=TOPIC)
@click.option("--group", "group_id", required=True, type=GROUP, metavar="GROUP", help="Whose offsets are committed.")
@click.option("-f", "--follow", "is_following", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--max", "max_records", type=click.IntRange(min=1), help="End after so many records.")
@click.option(
    "--auto-offset-reset",
    type=click.Choice(["earliest", "latest", "none"]),
    default="earliest",
    show_default=True,
    help="Where to begin in a partition that the group has no offset of; none refuses it.",
)
@record_options
@click.pass_obj
def consume(
    settings: Settings,
    topics: tuple[str, ...],
    group_id: str,
    is_following: bool,
    max_records: int | None,
    auto_offset_reset: str,
    key_separator: bytes | None,
    with_headers: bool,
) -> None:
    """Write what a group has not read yet, and commit its offsets.

    Offsets are committed after each batch of at most 500 records, once it is written to stdout: at least once. A run
    that is killed between the two writes its last batch again the next time. What becomes of a record behind the pipe
    is not known here: a reader that leaves early, as head does, may miss records that count as read; use --max.

    One process at a time per group: two would both get every record.
    """
    form = RecordFormat(settings.as_json, key_separator, with_headers)
    with settings.open() as log:
        _refuse_owned(log, group_id)
        with log.consumer(group_id=group_id, auto_offset_reset=auto_offset_reset) as consumer:
            consumer.subscribe(topics)
            try:
                ends = None if is_following else ends_of(log, consumer.assignment())
                for records in read(consumer, ends=ends, limit=max_records):
                    form.write(records)
                    consumer.commit()
            except KeyboardInterrupt:
                if not is_following:
                    raise


def _refuse_owned(log: Log, group_id: str) -> None:
    """Before a record is written, and not when it is committed."""
    group = groups.read_group(log.services.store, group_id)
    if group is not None and group.owning_prefix is not None:
        raise GroupOwnedError(
            "a sink commits the offsets of this group with its batches; give another --group",
            group_id=group_id,
            owning_prefix=group.owning_prefix,
        )
