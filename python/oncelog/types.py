"""Ids, epochs, offsets and partitions: immutable values, with Kafka's names, sentinels and bounds.

Offset ranges are half-open: ``[start, end)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any, Final, NamedTuple, get_type_hints

from oncelog.habits import Guided
from oncelog.signatures import checked

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

MAX_SEQUENCE = 2**31 - 1
"""The sequence number after this one is 0."""

MAX_LONG = 2**63 - 1
"""The highest offset, id, size or time in any format: the maximum of Java's long."""

MAX_PRODUCER_EPOCH = 2**15 - 1
"""Reserved for fencing: transactions only use lower epochs, so that fencing always has a higher one."""


class Bounds(NamedTuple):
    """The least and the greatest number that may be stored; a plain `int` has the defaults."""

    least: int = 0
    most: int = MAX_LONG


Count = Annotated[int, Bounds(least=1)]
Crc32 = Annotated[int, Bounds(most=2**32 - 1)]
SequenceNumber = Annotated[int, Bounds(most=MAX_SEQUENCE)]
TimestampMs = Annotated[int, Bounds(least=NO_TIMESTAMP)]


class IsolationLevel(StrEnum):
    """Which records a reader sees."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Outcome(StrEnum):
    """Whether an owner's data is open, committed or aborted. Only the owner's znode says so."""

    OPEN = "open"
    COMMIT = "commit"
    ABORT = "abort"


@checked
@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition, by topic name and number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class TopicIdPartition:
    """A partition with its topic's id. A topic that is deleted and created again gets a new id."""

    topic: str
    topic_id: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class ProducerIdAndEpoch:
    """Identifies exactly one transaction, since the end of every transaction increases the epoch (KIP-890 part 2)."""

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}.{self.epoch}"


@checked
@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset of a consumer group (the next one to read), and its metadata."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class RecordMetadata(Guided):
    """Where a sent record is in the log."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerRecord(Guided):
    """One record. A `value` of None is a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Block:
    """Where a record batch is in a data file. Tasks send blocks to the driver, and the driver adds them to the index.

    These fields and their order define the rows in znodes and tasks, the columns of a sink's job and the fields in
    index files. Block.java lists the same fields in the same order.

    Attributes:
        file: name of the data file, relative to the log's root.
        position: byte at which the batch's Avro block begins.
        length: bytes of the Avro block, including the sync marker.
        crc32: CRC-32 of those bytes.
        count: records in the batch; at least 1.
    """

    file: str
    position: int
    length: int
    crc32: Crc32
    count: Count
    min_timestamp_ms: TimestampMs
    max_timestamp_ms: TimestampMs


BLOCK_FIELDS: Final[Mapping[str, type]] = get_type_hints(Block)
"""Name and type (`str` or `int`) of every field, in order."""

block_row: Final[Callable[[Block], tuple[Any, ...]]] = attrgetter(*BLOCK_FIELDS)
"""The values of a block, in the order of its fields."""


@dataclass(frozen=True, slots=True)
class BlockSlice:
    """The records ``[first_row, end_row)`` of a block whose first record has `base_offset`."""

    block: Block
    base_offset: int
    first_row: int
    end_row: int

    @property
    def count(self) -> int:
        return self.end_row - self.first_row
