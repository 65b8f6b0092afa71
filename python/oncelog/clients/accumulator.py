"""Records on their way into a file: gathered per partition, turned into columns when they are flushed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from oncelog import limits
from oncelog.errors import InvalidRecordError, OncelogError, RecordTooLargeError
from oncelog.log import codec
from oncelog.types import RecordMetadata, TopicIdPartition

Headers = Sequence[tuple[str, bytes | None]]


def pairs_of(headers: Headers) -> Headers:
    """The headers as they are at this moment: the caller may change or use up what it passed before they are written.

    Raises:
        InvalidRecordError: they are no pairs.
    """
    try:
        return tuple((name, content) for name, content in headers)
    except (TypeError, ValueError) as error:
        raise InvalidRecordError("headers are (name, value) pairs", part="headers", found=repr(headers)) from error


def check_record(key: object, value: object, headers: Iterable[tuple[object, object]], timestamp_ms: object) -> int:
    """Refuse what could not be stored, before anything is; returns the bytes of key, value and headers.

    Raises:
        InvalidRecordError: a part of the record is of the wrong type; the error names it.
        RecordTooLargeError: together they exceed `limits.MAX_RECORD_BYTES`.
    """
    size_bytes = _bytes_of("key", key) + _bytes_of("value", value)
    for name, content in headers:
        if not isinstance(name, str) or not _is_text(name):
            raise InvalidRecordError("a header's name is text", part="headers", found=repr(name))
        size_bytes += len(name.encode()) + _bytes_of("headers", content)
    if type(timestamp_ms) is not int or not 0 <= timestamp_ms <= limits.MAX_TIMESTAMP_MS:  # True is no time
        raise InvalidRecordError(
            "a timestamp is milliseconds since 1970",
            part="timestamp_ms",
            found=timestamp_ms,
            maximum=limits.MAX_TIMESTAMP_MS,
        )
    if size_bytes > limits.MAX_RECORD_BYTES:
        raise RecordTooLargeError("the record is too large", size_bytes=size_bytes, maximum=limits.MAX_RECORD_BYTES)
    return size_bytes


def _bytes_of(part: str, content: object) -> int:
    if content is not None and not isinstance(content, bytes):
        raise InvalidRecordError("a record holds bytes or nothing; encode it", part=part, found=type(content).__name__)
    return len(content or b"")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class Receipt:
    """The promise of a sent record (or record batch): filled when it is appended.

    In a transaction, appended is not yet committed: readers see the record once the transaction commits.
    """

    def __init__(self, flush: Callable[[], None], topic: str, partition: int, timestamp_ms: int) -> None:
        self._flush = flush
        self._topic = topic
        self._partition = partition
        self._timestamp_ms = timestamp_ms
        self._offset: int | None = None
        self._error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Whether the record was appended, or failed."""
        return self._offset is not None or self._error is not None

    def result(self) -> RecordMetadata:
        """Where the (first) record is; flushes the producer if that has not happened yet.

        Raises:
            the error that its append ended with.
        """
        if not self.is_done:
            self._flush()
        if self._error is not None:
            raise self._error
        if self._offset is None:
            raise OncelogError("the record was dropped with its transaction", topic=self._topic)
        return RecordMetadata(self._topic, self._partition, self._offset, self._timestamp_ms)

    def appended(self, offset: int) -> None:
        """Called by the producer: the record is at `offset`, though an earlier try may have looked failed."""
        self._offset, self._error = offset, None

    def failed(self, error: BaseException) -> None:
        """Called by the producer: the record was not appended."""
        self._error = error


@dataclass(slots=True)
class PartitionBuffer:
    """Unsent records of one partition, in order: columns first, then the rows sent since."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[Headers | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    receipts: list[tuple[int, Receipt]] = field(default_factory=list)
    count: int = 0

    def add(
        self, key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int, receipt: Receipt
    ) -> None:
        """Append one record."""
        self.keys.append(key)
        self.values.append(value)
        self.headers.append(headers or None)
        self.timestamps.append(timestamp_ms)
        self.receipts.append((self.count, receipt))
        self.count += 1

    def add_batch(self, batch: pa.RecordBatch, receipt: Receipt) -> None:
        """Append a record batch in `codec.RECORD_SCHEMA`."""
        self._rows_to_batch()
        self.batches.append(batch)
        self.receipts.append((self.count, receipt))
        self.count += batch.num_rows

    def columns(self) -> list[pa.RecordBatch]:
        """Everything as record batches, in the order it was added."""
        self._rows_to_batch()
        return self.batches

    def _rows_to_batch(self) -> None:
        if not self.keys:
            return
        headers = [
            None if row is None else [{"key": name, "value": value} for name, value in row] for row in self.headers
        ]
        columns = [self.keys, self.values, headers, self.timestamps]
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, codec.RECORD_SCHEMA, strict=True)]
        self.batches.append(pa.record_batch(arrays, schema=codec.RECORD_SCHEMA))
        self.keys, self.values, self.headers, self.timestamps = [], [], [], []


class Accumulator:
    """All unsent records of a producer, by partition."""

    def __init__(self) -> None:
        self.buffers: defaultdict[TopicIdPartition, PartitionBuffer] = defaultdict(PartitionBuffer)
        self.size_bytes = 0

    def buffer(self, partition: TopicIdPartition, added_bytes: int) -> PartitionBuffer:
        """The partition's buffer, to which the caller adds about `added_bytes`."""
        self.size_bytes += added_bytes
        return self.buffers[partition]

    def drain(self) -> dict[TopicIdPartition, PartitionBuffer]:
        """Take everything out."""
        drained, self.buffers, self.size_bytes = self.buffers, defaultdict(PartitionBuffer), 0
        return drained
