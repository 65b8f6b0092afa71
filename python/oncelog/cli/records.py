"""Writes records to stdout, for `oncelog log tail` and `oncelog consume`.

Owns how a record becomes a line, and how a command waits for the next records. In a pipe or a file, keys and values are
written unchanged; on a terminal, their control characters are escaped.
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
"""Records that are written and committed together."""

PAUSE_MS = 200
"""Pause between two polls of a log that has nothing new: fast enough for people, and 0.05 % of a core."""


@dataclass(frozen=True)
class RecordFormat:
    """How records are written.

    Attributes:
        as_json: one JSON document per line, with everything in the record; the other fields are ignored.
        key_separator: the text between key and value; None to leave out keys.
        with_headers: whether to write headers before them, as kafka-console-consumer does.
    """

    as_json: bool
    key_separator: bytes | None
    with_headers: bool

    def write(self, records: Iterable[ConsumerRecord]) -> None:
        """Write records to stdout; when it returns, they have left this process."""
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
        click.option("--key-separator", type=SEPARATOR, metavar="TEXT", help="Write each key, and this text after it."),
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
    """The current ends of these partitions, planned together, for a read_committed reader."""
    with log.consumer() as consumer:
        consumer.assign(partitions)
        consumer.seek_to_end()
        return {partition: consumer.position(partition) for partition in consumer.assignment()}


def read(
    consumer: Consumer, *, ends: Mapping[TopicPartition, int] | None = None, limit: int | None = None
) -> Iterator[list[ConsumerRecord]]:
    """The next records, in batches.

    Args:
        consumer: has its partitions assigned.
        ends: read at least up to these offsets, and stop; None to wait for new records forever.
        limit: the largest number of records.

    Raises:
        BrokenPipeError: the reader of stdout left while there was nothing to write.
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
    """Wait, but notice at once if the reader of stdout leaves: there may never be a write that would fail."""
    stdout = select.poll()
    stdout.register(sys.stdout, 0)  # poll always reports a closed pipe, even for no events
    if stdout.poll(PAUSE_MS):
        raise BrokenPipeError
