"""``oncelog log tail``: shows the last records of a topic, and new ones as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import click

from oncelog.cli.completion import TOPIC
from oncelog.cli.records import RecordFormat, ends_of, read, record_options
from oncelog.cli.shell import Command, Settings
from oncelog.clients.consumer import Consumer
from oncelog.log import topics
from oncelog.runtime import Log
from oncelog.types import ConsumerRecord, TopicPartition


@click.command(cls=Command, example="oncelog log tail flights --lines 20 --follow --key-separator :")
@click.argument("topic", type=TOPIC)
@click.option(
    "-n", "--lines", type=click.IntRange(min=0), default=10, show_default=True, help="How many of the last records."
)
@click.option("--from-beginning", is_flag=True, help="All records, instead of the last ones.")
@click.option("-f", "--follow", "is_following", is_flag=True, help="Wait for new records, until Ctrl-C.")
@click.option("--partition", type=click.IntRange(min=0), help="Only this one.")
@record_options
@click.pass_obj
def tail(
    settings: Settings,
    topic: str,
    lines: int,
    from_beginning: bool,
    is_following: bool,
    partition: int | None,
    key_separator: bytes | None,
    with_headers: bool,
) -> None:
    """Show the last records of a topic, and new ones with --follow.

    It shows what a read_committed reader sees: whole transactions, none that is open or aborted.

    Each line is a record's value; null is shown as null. With --json, each line is a document with the whole record.
    The records of one partition are in the order of their offsets, those of several in the order of their timestamps.
    """
    form = RecordFormat(settings.as_json, key_separator, with_headers)
    with settings.open() as log, log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign(_partitions(log, topic, partition))
        ends = ends_of(log, consumer.assignment())
        try:
            if from_beginning:
                for records in read(consumer, ends=ends):
                    form.write(records)
            else:
                form.write(_last(consumer, ends, lines))
            for records in read(consumer) if is_following else ():
                form.write(records)
        except KeyboardInterrupt:
            if not is_following:
                raise


def _partitions(log: Log, topic: str, partition: int | None) -> list[TopicPartition]:
    if partition is not None:
        return [TopicPartition(topic, partition)]
    return [found.topic_partition for found in topics.partitions_of(log.services.store, topic)]


def _last(consumer: Consumer, ends: dict[TopicPartition, int], count: int) -> Iterable[ConsumerRecord]:
    """The last records before `ends`; the consumer's positions are there afterwards.

    Markers and aborted records have offsets, too, so it starts further back until there are enough records.
    """
    starts = consumer.beginning_offsets(ends)
    reach = count
    while True:
        for partition, end in ends.items():
            consumer.seek(partition, max(end - reach, starts[partition]))
        found = _read_last(consumer, ends, count)
        if len(found) >= count or all(end - reach <= starts[partition] for partition, end in ends.items()):
            return found
        reach *= 4


def _read_last(consumer: Consumer, ends: dict[TopicPartition, int], count: int) -> list[ConsumerRecord]:
    kept = {partition: deque[ConsumerRecord](maxlen=count) for partition in ends}
    for records in read(consumer, ends=ends):
        for record in records:
            kept[TopicPartition(record.topic, record.partition)].append(record)
    ordered = sorted((record for part in kept.values() for record in part), key=lambda record: record.timestamp_ms)
    return ordered[max(len(ordered) - count, 0) :]
