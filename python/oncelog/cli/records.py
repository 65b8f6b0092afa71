"""Records on stdout: what `oncelog log tail` and `oncelog consume` share.

Owns how a record becomes a line, and how a command waits for the next records. Into a pipe or a file the bytes of keys
and values go as they are; on a terminal their control characters are shown.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from oncelog.cli.output import json_line, printable, show_bytes
from oncelog.cli.parameters import SEPARATOR
from oncelog.clients.consumer import Consumer
from oncelog.runtime import Log
from oncelog.types import ConsumerRecord, TopicPartition

BATCH_RECORDS = 500
"""Records that are written, and committed, at a time."""

PAUSE_MS = 200
"""Between two looks at a log that has nothing new: soon enough for people, and a twentieth of a percent of a core."""


@dataclass(frozen=True)
class RecordFormat:
    """How records are written.

    Attributes:
        as_json: one document a line; it has all of a record, so that the other fields do not count.
        key_separator: what stands between key and value; None to leave keys out.
        with_headers: whether headers stand before them, as kafka-console-consumer has them.
    """

    as_json: bool
    key_separator: bytes | None
    with_headers: bool

    def write(self, records: Iterable[ConsumerRecord]) -> None:
        """Write records to stdout; they have left this process when it returns."""
        show_bytes(b"".join(map(self._line, records)))

    def _line(self, record: ConsumerRecord) -> bytes:
        if self.as_json:
            return json_line(_document(record))
        line = _content(record.value)
        if self.key_separator is not None:
            line = _content(record.key) + self.key_separator + line
        if self.with_headers:
            line = _headers(record) + b"\t" + line
        return (_for_terminal(line) if sys.stdout.isatty() else line) + b"\n"


def record_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that make a `RecordFormat`."""
    for option in (
        click.option("--headers", "with_headers", is_flag=True, help="Write headers first, as name:value, and a tab."),
        click.option("--key-separator", type=SEPARATOR, metavar="TEXT", help="Write keys too, and this behind them."),
    ):
        command = option(command)
    return command


def _document(record: ConsumerRecord) -> dict[str, object]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
        "headers": [{"name": name, "value": value} for name, value in record.headers],
    }


def _content(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(name.encode() + b":" + _content(value) for name, value in record.headers)


def _for_terminal(line: bytes) -> bytes:
    return printable(line.decode(errors="backslashreplace")).encode(sys.stdout.encoding, errors="backslashreplace")


# Reading --------------------------------------------------------------------------------------------------------------


def ends_of(log: Log, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Where a read_committed reader of all of these partitions ends now."""
    with log.consumer() as consumer:
        consumer.assign(partitions)
        consumer.seek_to_end()
        return {partition: consumer.position(partition) for partition in consumer.assignment()}


def read(
    consumer: Consumer, *, ends: Mapping[TopicPartition, int] | None = None, limit: int | None = None
) -> Iterator[list[ConsumerRecord]]:
    """The next records, some at a time.

    Args:
        consumer: of partitions that are assigned.
        ends: where to end at the earliest; None to wait for what comes, without end.
        limit: how many records at most.

    Raises:
        BrokenPipeError: nobody reads stdout any more, as was seen while there was nothing to write.
    """
    left = limit
    while left != 0 and (ends is None or any(consumer.position(partition) < end for partition, end in ends.items())):
        records = consumer.poll(max_records=BATCH_RECORDS if left is None else min(left, BATCH_RECORDS))
        if records:
            yield records
            left = None if left is None else left - len(records)
        elif ends is None:
            _pause()


def _pause() -> None:
    """Wait, and end at once where the reader of stdout leaves: else a write would tell, and none may ever come."""
    stdout = select.poll()
    stdout.register(sys.stdout, 0)  # that the other end is gone is told unasked
    if stdout.poll(PAUSE_MS):
        raise BrokenPipeError
