"""``oncelog produce``: writes the lines of stdin as records.

Without a transaction, lines are written as they come; if one is refused, those before it are written. In a transaction,
either all become visible at the commit, or none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import click

from oncelog import limits
from oncelog.cli.completion import TOPIC
from oncelog.cli.output import plural, show_json
from oncelog.cli.parameters import DURATION, SEPARATOR, Header, Moment
from oncelog.cli.shell import Command, Settings
from oncelog.clients.producer import Producer
from oncelog.errors import AbortableError, OncelogError, OutcomeUnknownError, RetriableError, UsageError
from oncelog.log import partition_reads


@dataclass(frozen=True)
class Shape:
    """How a line becomes a record.

    Attributes:
        key_separator: the key is the text before the first one; None if lines have no keys.
        null_marker: a key or value that equals this text is null.
        headers, partition, timestamp: of each record; see `Producer.send`.
    """

    key_separator: bytes | None
    null_marker: str | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None
    timestamp: int | None

    def send(self, producer: Producer, topic: str, line: bytes) -> None:
        """Send a line as a record. Raises a UsageError if the line is malformed."""
        key, found, value = line.partition(self.key_separator) if self.key_separator else (None, b"", line)
        if self.key_separator and not found:
            raise UsageError("the line has no key separator", key_separator=self.key_separator.decode(errors="replace"))
        producer.send(
            topic,
            self._content(value),
            key=self._content(key),
            partition=self.partition,
            headers=self.headers,
            timestamp_ms=self.timestamp,
        )

    def _content(self, text: bytes | None) -> bytes | None:
        is_null = self.null_marker is not None and text == self.null_marker.encode(errors="surrogateescape")
        return None if is_null else text


@click.command(cls=Command, example="printf 'UA:1545\\nAA:1141\\n' | oncelog produce flights --key-separator :")
@click.argument("topic", type=TOPIC)
@click.option("--key-separator", type=SEPARATOR, metavar="TEXT", help="The text before the first one is the key.")
@click.option("--null-marker", metavar="TEXT", help="A key or value that equals this text is null.")
@click.option("-H", "--header", "headers", type=Header(), multiple=True, help="For each record; may be repeated.")
@click.option("--partition", type=click.IntRange(min=0), help="For all records, regardless of their keys.")
@click.option("--timestamp", type=Moment(), help="For each record, like 2013-01-01T10:00:00Z. [default: now]")
@click.option("--transactional-id", metavar="ID", help="All lines in one transaction, committed at the end of stdin.")
@click.option(
    "--transaction-timeout",
    type=DURATION,
    default="1m",
    show_default=True,
    help="Anyone may abort the transaction after this time.",
)
@click.pass_obj
def produce(
    settings: Settings, /, topic: str, transactional_id: str | None, transaction_timeout: int, **shape: Any
) -> None:
    """Write each line of stdin as a record.

    Without --transactional-id, lines are written as they come. With it, all of them become visible at once when stdin
    ends; if a line is refused, or at Ctrl-C or a kill, none does. The next run with the same id aborts the transaction
    that a killed run left open; so does `oncelog txn abort ID`.
    """
    with settings.open() as log:
        partition_reads.identify(log.services.store, topic, shape["partition"] or 0)
        with (
            _without_retry_advice() if transactional_id is None else nullcontext(),
            log.producer(transactional_id=transactional_id, transaction_timeout_ms=transaction_timeout) as producer,
            _transaction(producer, transactional_id),
        ):
            count = _send_lines(producer, topic, Shape(**shape), is_atomic=transactional_id is not None)
    if settings.as_json:
        show_json({"produced": {"topic": topic, "records": count, "transactional_id": transactional_id}})
    else:
        how = "" if transactional_id is None else " in one transaction"
        click.echo(f"{plural(count, 'record')} written to {topic}{how}", err=True)


@contextmanager
def _without_retry_advice() -> Iterator[None]:
    """Without a transaction, do not advise to run the command again: some lines would be written twice."""
    try:
        yield
    except (RetriableError, AbortableError, OutcomeUnknownError) as error:
        raise OncelogError(
            f"{error.message}; some lines may have been written, so check before you send them again (with "
            "--transactional-id all or none are written)",
            **error.fields,
        ) from error


def _transaction(producer: Producer, transactional_id: str | None) -> AbstractContextManager[object]:
    if transactional_id is None:
        return nullcontext()
    producer.init_transactions()
    return producer.transaction()


def _send_lines(producer: Producer, topic: str, shape: Shape, *, is_atomic: bool) -> int:
    """Send all lines of stdin; returns their number."""
    count = 0
    for line in _lines():
        try:
            shape.send(producer, topic, line)
        except UsageError as error:
            if not is_atomic:
                producer.flush()
            before = "nothing was written" if is_atomic or not count else f"written before it: {plural(count, 'line')}"
            raise UsageError(f"line {count + 1:,}: {error.message}; {before}", **error.fields) from None
        count += 1
    return count


def _lines() -> Iterator[bytes]:
    """Lines of stdin without line ends. Reads no more of a line than fits into a record."""
    if sys.stdin is None:  # the caller closed it with `<&-`
        return
    if sys.stdin.isatty():
        click.echo("each line is a record; end with Ctrl-D at the beginning of a line", err=True)
    while line := sys.stdin.buffer.readline(limits.MAX_RECORD_BYTES + 2):
        yield line.removesuffix(b"\n")
