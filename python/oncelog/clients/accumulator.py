"""Buffers a producer's unsent records per partition, and turns them into columns when they are flushed.

A record and its receipt are one entry of one list, so Ctrl-C can never leave one without the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from oncelog import limits
from oncelog.errors import InvalidRecordError, OncelogError, OutcomeUnknownError, RecordTooLargeError, Shown
from oncelog.habits import Guided
from oncelog.log import codec
from oncelog.log.segment import PIECE_OVERHEAD_BYTES
from oncelog.types import RecordMetadata, TopicIdPartition

RECORD_OVERHEAD_BYTES = 64
"""Approximate memory of a buffered record, in addition to its key, value and headers."""

Headers = Iterable[tuple[str, bytes | None]]


def pairs_of(headers: Headers) -> Headers:
    """A copy of the headers, since the caller may change or exhaust them before they are written.

    Raises:
        InvalidRecordError: they are not pairs.
    """
    try:
        return tuple([(name, content) for name, content in headers])  # faster than a generator
    except (TypeError, ValueError) as error:
        found = Shown(repr(headers))
        raise InvalidRecordError("headers are (name, value) pairs", part="headers", found=found) from error


def check_record(key: object, value: object, headers: Iterable[tuple[object, object]], timestamp_ms: object) -> int:
    """Check that a record can be stored; returns the size in bytes of key, value and headers.

    Raises:
        InvalidRecordError: a part of the record has the wrong type; the error names it.
        RecordTooLargeError: the size exceeds `limits.MAX_RECORD_BYTES`.
    """
    size_bytes = _bytes_of("key", key) + _bytes_of("value", value)
    for name, content in headers:
        if not isinstance(name, str) or not _is_text(name):
            raise InvalidRecordError("a header's name must be text", part="headers", found=Shown(repr(name)))
        size_bytes += len(name.encode()) + _bytes_of("headers", content)
    if type(timestamp_ms) is not int or not 0 <= timestamp_ms <= limits.MAX_TIMESTAMP_MS:  # a bool is no timestamp
        raise InvalidRecordError(
            "a timestamp must be milliseconds since 1970",
            part="timestamp_ms",
            found=timestamp_ms,
            maximum=limits.MAX_TIMESTAMP_MS,
        )
    if size_bytes > limits.MAX_RECORD_BYTES:
        raise RecordTooLargeError("the record is too large", size_bytes=size_bytes, maximum=limits.MAX_RECORD_BYTES)
    return size_bytes


def _bytes_of(part: str, content: object) -> int:
    if content is None:
        return 0
    if not isinstance(content, bytes):
        raise InvalidRecordError("a record holds bytes or None; encode it", part=part, found=type(content).__name__)
    return len(content)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class Receipt(Guided):
    """What a send returns: the offset of its record (or record batch), as soon as it is appended.

    In a transaction an appended record is not yet committed: readers see it once the transaction commits.
    """

    __slots__ = ("_error", "_flush", "_offset", "_partition", "_timestamp_ms", "_topic")

    def __init__(self, flush: Callable[[], None], topic: str, partition: int, timestamp_ms: int) -> None:
        self._flush = flush
        self._topic = topic
        self._partition = partition
        self._timestamp_ms = timestamp_ms
        self._offset: int | None = None
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        place = f"{self._topic!r}, {self._partition}"
        return f"Receipt({place}, {f'error={self._error!r}' if self._error else f'offset={self._offset}'})"

    @property
    def is_done(self) -> bool:
        """Whether the record was appended or has failed."""
        return self._offset is not None or self._error is not None

    def result(self) -> RecordMetadata:
        """Where the record (of a batch, the first one) is in the log. Flushes the producer if it is not yet appended.

        Raises:
            OncelogError: the record was not appended; this is why.
        """
        if not self.is_done:
            self._flush()
        if self._error is not None:
            raise self._error
        if self._offset is None:
            raise OncelogError("the record was dropped because its transaction was aborted", topic=self._topic)
        return RecordMetadata(self._topic, self._partition, self._offset, self._timestamp_ms)

    def appended(self, offset: int) -> None:
        """Called by the producer: the record is at `offset`, even if an earlier try seemed to have failed."""
        self._offset, self._error = offset, None

    def failed(self, error: BaseException) -> None:
        """Called by the producer: the record was not appended."""
        self._error = error


Row: TypeAlias = tuple[bytes | None, bytes | None, Headers, int, Receipt]
"""Key, value, headers and timestamp of a record, and its receipt."""

Piece: TypeAlias = list[Row] | tuple[pa.RecordBatch, Receipt]
"""Consecutive records of one partition: sent one by one, or as one record batch."""


def as_batches(pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """The records in `codec.RECORD_SCHEMA`, in the order in which they were sent."""
    for piece in pieces:
        yield _batch_of(piece) if isinstance(piece, list) else piece[0]


def _batch_of(rows: list[Row]) -> pa.RecordBatch:
    columns: list[list[Any]] = [
        [key for key, _, _, _, _ in rows],
        [value for _, value, _, _, _ in rows],
        [_map_of(headers) if headers else None for _, _, headers, _, _ in rows],
        [timestamp_ms for _, _, _, timestamp_ms, _ in rows],
    ]
    arrays = [_array_of(column, kind) for column, kind in zip(columns, codec.RECORD_SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=codec.RECORD_SCHEMA)


def _array_of(column: list[Any], kind: pa.DataType) -> pa.Array:
    """Most records have no key and no headers, and Arrow makes a column of nulls many times as fast."""
    return pa.nulls(len(column), kind) if column.count(None) == len(column) else pa.array(column, kind)


def _map_of(headers: Headers) -> list[dict[str, object]]:
    return [{"key": name, "value": content} for name, content in headers]


def _receipts_of(pieces: Iterable[Piece]) -> Iterator[tuple[int, Receipt]]:
    """Each receipt, with the position of its (first) record among all records of the pieces."""
    position = 0
    for piece in pieces:
        if isinstance(piece, list):
            for _, _, _, _, receipt in piece:
                yield position, receipt
                position += 1
        else:
            batch, receipt = piece
            yield position, receipt
            position += batch.num_rows


class Accumulator:
    """All unsent records of a producer, by partition, in the order in which they were sent."""

    def __init__(self) -> None:
        self.buffers: dict[TopicIdPartition, list[Piece]] = {}
        self.size_bytes = 0

    def add(self, partition: TopicIdPartition, row: Row, size_bytes: int) -> None:
        """Append one record of about `size_bytes`."""
        self.size_bytes += size_bytes + RECORD_OVERHEAD_BYTES
        pieces = self.buffers.get(partition)
        if pieces is not None and isinstance(pieces[-1], list):
            pieces[-1].append(row)
        else:
            self._add_piece(partition, [row])

    def add_batch(self, partition: TopicIdPartition, batch: pa.RecordBatch, receipt: Receipt) -> None:
        """Append a record batch in `codec.RECORD_SCHEMA`."""
        self.size_bytes += batch.nbytes + PIECE_OVERHEAD_BYTES
        self._add_piece(partition, (batch, receipt))

    @property
    def unsent(self) -> int:
        """How many of the records have no offset yet."""
        return sum(
            len(piece) if isinstance(piece, list) else piece[0].num_rows
            for pieces in self.buffers.values()
            if not all(receipt.is_done for _, receipt in _receipts_of(pieces))
            for piece in pieces
        )

    def landed(self, partition: TopicIdPartition, base_offset: int) -> None:
        """Fill the partition's receipts with their offsets, and let go of the records. Safe to call again."""
        for position, receipt in _receipts_of(self.buffers.get(partition, ())):
            receipt.appended(base_offset + position)
        self.buffers.pop(partition, None)

    def failed(self, error: BaseException) -> None:
        """Fail the receipts that are not done yet."""
        if not isinstance(error, OncelogError):  # a receipt must not raise a Ctrl-C again
            interruption = error
            error = OutcomeUnknownError("the send of the record was interrupted", cause=repr(interruption))
            error.__cause__ = interruption
        for pieces in self.buffers.values():
            for _, receipt in _receipts_of(pieces):
                if not receipt.is_done:
                    receipt.failed(error)

    def _add_piece(self, partition: TopicIdPartition, piece: Piece) -> None:
        if partition in self.buffers:
            self.buffers[partition].append(piece)
        else:
            self.buffers[partition] = [piece]
