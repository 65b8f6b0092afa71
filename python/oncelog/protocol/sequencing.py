"""Sequence numbers: decides whether a batch may be appended to a partition, or was appended before.

Owns what a partition remembers of a producer id (`ProducerEntry`), and its rules. It must never decide whether a
transaction is open: the append checks the transaction's owner, in the same compare-and-set. The partition log calls
`check_append`, writes the batch, and stores the result of `after_append`, all in one multi. Hence, if an append with an
unknown outcome is retried, it is recognised as a duplicate and gets its old offset (invariant I5).

Source: Kafka's ``ProducerAppendInfo`` and ``ProducerStateEntry`` (KIP-98, KIP-890 part 2 with KAFKA-18202).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from oncelog.errors import InvalidTxnStateError, OutOfOrderSequenceError, ProducerFencedError, ensure
from oncelog.limits import DEDUPE_WINDOW
from oncelog.types import MAX_SEQUENCE, NO_SEQUENCE, Count, ProducerIdAndEpoch, SequenceNumber

_SEQUENCES = MAX_SEQUENCE + 1


def sequence_add(sequence: int, count: int) -> int:
    """The sequence number `count` records after `sequence`; 0 follows 2147483647."""
    return (sequence + count) % _SEQUENCES


def sequence_distance(start: int, end: int) -> int:
    """The number of records in ``[start, end)``: the count with ``sequence_add(start, count) == end``."""
    return (end - start) % _SEQUENCES


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """A batch that a partition remembers, to recognise it if it is sent again."""

    first_sequence: SequenceNumber
    count: Count
    base_offset: int

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record; below `first_sequence` if the numbers wrap around in the batch."""
        return sequence_add(self.first_sequence, self.count - 1)


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """What a partition remembers of one producer id.

    Attributes:
        epoch: the highest epoch that appended.
        batches: the newest batches of this epoch, oldest first, at most `DEDUPE_WINDOW`.
        open_first_offset: first offset of this epoch's transaction in the partition; None if there is none, or if its
            marker is written.
        open_owner: the owner of this transaction; None if `open_first_offset` is None.
    """

    epoch: int
    batches: tuple[AppendedBatch, ...] = ()
    open_first_offset: int | None = None
    open_owner: str | None = None

    def __post_init__(self) -> None:
        ensure(len(self.batches) <= DEDUPE_WINDOW, "a producer entry holds a bounded window", batches=len(self.batches))
        ensure((self.open_first_offset is None) == (self.open_owner is None), "an open transaction has an owner")

    @property
    def last_sequence(self) -> int:
        """The last sequence number of the epoch; `NO_SEQUENCE` before its first batch, so that the next one is 0."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


@dataclass(frozen=True, slots=True)
class Accept:
    """Append the batch."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is already in the partition: answer with this offset, and append nothing."""

    base_offset: int


def check_append(
    entry: ProducerEntry | None,
    producer: ProducerIdAndEpoch,
    base_sequence: int,
    count: int,
    *,
    transactional: bool,
) -> Accept | Duplicate:
    """Decide whether to append a batch.

    The partition has no entry for a producer that never wrote to it, or that expired. Then a transactional producer
    must begin at 0, since each of its transactions has a new epoch. An idempotent producer may continue at any number:
    its entry may have expired, and otherwise every producer that pauses for a day would fail.

    Args:
        entry: what the partition remembers of the producer's id, or None.
        base_sequence: sequence number of the batch's first record.
        count: number of records. The sequence numbers may wrap around in the batch.
        transactional: whether the batch belongs to a transaction.

    Raises:
        ProducerFencedError: a higher epoch has written to the partition (checked first, invariant I7).
        OutOfOrderSequenceError: a batch before this one is missing, or it is a duplicate that is not remembered any
            more.
        InvalidTxnStateError: the batch is not transactional, but the producer has an open transaction in the partition.
    """
    ensure(0 <= base_sequence <= MAX_SEQUENCE, "a sequence is within its range", base_sequence=base_sequence)
    ensure(0 < count <= _SEQUENCES, "a batch has records, and each its own sequence", count=count)
    if entry is None:
        _check_follows(None, producer, base_sequence, expected=0 if transactional else base_sequence)
        return Accept()
    if producer.epoch < entry.epoch:
        raise ProducerFencedError(
            "A newer epoch of this producer has written to the partition; close this producer",
            producer=str(producer),
            epoch=entry.epoch,
        )
    if producer.epoch > entry.epoch:
        _check_follows(entry, producer, base_sequence, expected=0)
    else:
        for batch in entry.batches:
            if (batch.first_sequence, batch.count) == (base_sequence, count):
                return Duplicate(batch.base_offset)
        _check_follows(entry, producer, base_sequence, expected=sequence_add(entry.last_sequence, 1))
    if not transactional and entry.open_owner is not None:
        raise InvalidTxnStateError(
            "A write outside of a transaction while the producer's transaction is open here; commit or abort it first",
            producer=str(producer),
            owner=entry.open_owner,
        )
    return Accept()


def after_append(
    entry: ProducerEntry | None,
    producer: ProducerIdAndEpoch,
    base_sequence: int,
    count: int,
    *,
    base_offset: int,
    owner: str | None,
) -> ProducerEntry:
    """The entry after a batch that `check_append` accepted was appended.

    Args:
        entry, producer, base_sequence, count: as for `check_append`.
        base_offset: offset of the batch's first record.
        owner: of its transaction; None for a batch outside of a transaction.
    """
    if entry is None or entry.epoch < producer.epoch:
        entry = ProducerEntry(producer.epoch)
    window = (*entry.batches, AppendedBatch(base_sequence, count, base_offset))[-DEDUPE_WINDOW:]
    if entry.open_owner is None and owner is not None:
        return ProducerEntry(entry.epoch, window, base_offset, owner)
    ensure(entry.open_owner == owner, "an epoch names one transaction", owner=owner, open_owner=entry.open_owner)
    return ProducerEntry(entry.epoch, window, entry.open_first_offset, entry.open_owner)


def after_marker(entry: ProducerEntry, owner: str) -> ProducerEntry:
    """The entry after the marker of `owner` was appended. A newer open transaction of the producer stays open."""
    if entry.open_owner != owner:
        return entry
    return replace(entry, open_first_offset=None, open_owner=None)


def _check_follows(
    entry: ProducerEntry | None, producer: ProducerIdAndEpoch, base_sequence: int, *, expected: int
) -> None:
    if base_sequence != expected:
        raise OutOfOrderSequenceError(
            "A batch before this one is missing in the partition; close this producer",
            producer=str(producer),
            epoch=None if entry is None else entry.epoch,
            base_sequence=base_sequence,
            expected=expected,
        )
