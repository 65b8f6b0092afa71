"""Sequence numbers: may this batch of this producer be appended to this partition, or was it appended before?

Owns what a partition remembers of one producer id (`ProducerEntry`) and the rules on it. It must never decide whether
a transaction is open: the append checks the transaction's owner itself, in the same compare-and-set. The partition log
calls `check_append`, writes the batch, and stores what `after_append` returns, all in one multi; hence a retry of an
append whose outcome is unknown finds itself as a duplicate and gets its old offset (invariant I5).

Source: Kafka's ``ProducerAppendInfo`` and ``ProducerStateEntry`` (KIP-98, KIP-890 part 2 with KAFKA-18202).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from oncelog.errors import InvalidTxnStateError, OutOfOrderSequenceError, ProducerFencedError, ensure
from oncelog.limits import DEDUPE_WINDOW
from oncelog.types import MAX_SEQUENCE, NO_SEQUENCE, Count, ProducerIdAndEpoch, SequenceNumber

_SEQUENCES = MAX_SEQUENCE + 1


def sequence_add(sequence: int, count: int) -> int:
    """Return the sequence `count` records after `sequence`; 0 follows 2147483647."""
    return (sequence + count) % _SEQUENCES


def sequence_distance(start: int, end: int) -> int:
    """Return how many records lie in ``[start, end)``: the count with ``sequence_add(start, count) == end``."""
    return (end - start) % _SEQUENCES


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """One batch a partition remembers, to recognise it when it comes again."""

    first_sequence: SequenceNumber
    count: Count
    base_offset: int

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record; below `first_sequence` when the batch straddles the wrap-around."""
        return sequence_add(self.first_sequence, self.count - 1)


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """What a partition remembers of one producer id.

    Attributes:
        epoch: the highest epoch that appended.
        batches: the newest batches of that epoch, oldest first, at most `DEDUPE_WINDOW`.
        open_first_offset: where the transaction of that epoch begins here; None when its marker is written, or none is.
        open_owner: the owner of that transaction. Both are set, or neither.
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
        """The last sequence of the epoch; `NO_SEQUENCE` before its first batch, so that the next one is 0."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


@dataclass(frozen=True, slots=True)
class Accept:
    """Append the batch."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is in the partition already: answer this offset and append nothing."""

    base_offset: int


def check_append(
    entry: ProducerEntry | None,
    producer: ProducerIdAndEpoch,
    base_sequence: int,
    count: int,
    *,
    transactional: bool,
) -> Accept | Duplicate:
    """Decide what becomes of a batch.

    A producer the partition has no state of (it never wrote here, or expired) begins at 0 when it is transactional:
    each of its transactions has an epoch of its own. An idempotent producer may go on at any sequence: its state
    expired under it, and to refuse it would stop every producer that pauses for a day.

    Args:
        entry: what the partition remembers of the producer's id, or None.
        producer: who writes the batch.
        base_sequence: sequence of the batch's first record.
        count: records in the batch; the batch may straddle the wrap-around.
        transactional: whether the batch belongs to a transaction.

    Raises:
        ProducerFencedError: a higher epoch has written here (checked first, invariant I7); close this producer.
        OutOfOrderSequenceError: a batch before this one is missing, or this one left the window of duplicates.
        InvalidTxnStateError: a non-transactional batch while the producer's transaction is open here.
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
    """Return what the partition remembers once `check_append` accepted a batch and it was appended.

    Args:
        entry: as given to `check_append`, like the next three.
        producer: who wrote the batch.
        base_sequence: sequence of its first record.
        count: its records.
        base_offset: where it landed.
        owner: of the transaction it belongs to; None for a batch outside of one.
    """
    if entry is None or entry.epoch < producer.epoch:
        entry = ProducerEntry(producer.epoch)
    window = (*entry.batches, AppendedBatch(base_sequence, count, base_offset))[-DEDUPE_WINDOW:]
    if entry.open_owner is None and owner is not None:
        return replace(entry, batches=window, open_first_offset=base_offset, open_owner=owner)
    ensure(entry.open_owner == owner, "an epoch names one transaction", owner=owner, open_owner=entry.open_owner)
    return replace(entry, batches=window)


def after_marker(entry: ProducerEntry, owner: str) -> ProducerEntry:
    """Return what the partition remembers once the marker of `owner`'s transaction is appended.

    Harmless when repeated, and when the producer's next transaction has begun here already: that one stays open.
    """
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
