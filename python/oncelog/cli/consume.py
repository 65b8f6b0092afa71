"""``oncelog consume``: writes the next records of a consumer group, and then commits its offsets."""

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
@click.option(
    "--group", "group_id", required=True, type=GROUP, metavar="GROUP", help="The group whose offsets are committed."
)
@click.option("-f", "--follow", "is_following", is_flag=True, help="Wait for new records, until Ctrl-C.")
@click.option("--max", "max_records", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option(
    "--auto-offset-reset",
    type=click.Choice(["earliest", "latest", "none"]),
    default="earliest",
    show_default=True,
    help="Where to start in a partition for which the group has no offset; with none it is an error.",
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

    Offsets are committed after each batch of at most 500 records has been written to stdout. This is at-least-once: if
    the command is killed in between, the next run writes the last batch again. A reader that closes the pipe early,
    such as head, may miss records whose offsets are committed; use --max instead.

    Run one process at a time per group: two would both get every record.
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
    """Raise before any record is written, and not only at the first commit."""
    group = groups.read_group(log.services.store, group_id)
    if group is not None and group.owning_prefix is not None:
        raise GroupOwnedError(
            "a sink owns this group and commits its offsets with its batches; give another --group",
            group_id=group_id,
            owning_prefix=group.owning_prefix,
        )
