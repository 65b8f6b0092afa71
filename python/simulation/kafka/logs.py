"""A partition's log in memory: records, markers, and what its leader knows about producers. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from oncelog_kafka.protocol.participants import ProducerIdAndEpoch
from simulation.kafka.transactions import NONE, Identity

V = TypeVar("V")

BATCHES_KEPT = 5
"""How many batches of a producer are remembered: as many as may be in flight, so a repeated batch is one of them."""

OLD_EPOCH = "INVALID_PRODUCER_EPOCH"
OUT_OF_ORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class Batch(NamedTuple):
    first: int
    last: int
    """Sequence numbers."""


@dataclass(slots=True)
class Producer:
    """What the leader knows about one producer id.

    Attributes:
        batches: the last batches of this epoch, oldest first.
        open_from: offset of the first record of its open transaction here.
    """

    epoch: int = -1
    batches: deque[Batch] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))
    open_from: int | None = None

    def advance(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


@dataclass(slots=True)
class Entry(Generic[V]):
    """A record, or a marker.

    Attributes:
        value: of a record; None for a marker.
        is_committed: of a transactional record; None until its transaction's marker is written.
    """

    value: V | None
    producer_id: int
    at_ms: int
    is_committed: bool | None = None


class PartitionLog(Generic[V]):
    """One partition.

    Attributes:
        entries: by offset.
        producers: by producer id.
    """

    def __init__(self) -> None:
        self.entries: list[Entry[V]] = []
        self.producers: dict[int, Producer] = {}
        self._attempts: dict[int, tuple[int, int]] = {}

    def attempt(self, who: Identity, sequence: int) -> None:
        """Note a batch that may begin a transaction here; the lowest one that was tried has to begin it (KIP-890)."""
        epoch, lowest = self._attempts.get(who.producer_id, (-1, 0))
        if who.epoch > epoch or (who.epoch == epoch and sequence < lowest):
            self._attempts[who.producer_id] = who.epoch, sequence

    def is_open(self, who: Identity) -> bool:
        """Whether the producer has an open transaction of this epoch here."""
        known = self.producers.get(who.producer_id)
        return known is not None and known.epoch == who.epoch and known.open_from is not None

    def is_old(self, who: Identity, *, is_looked_at: bool) -> bool:
        """Whether the leader knows a newer epoch of the producer.

        Args:
            who: the writer.
            is_looked_at: whether the leader checks epochs even if no transaction is open.
        """
        known = self.producers.get(who.producer_id)
        return known is not None and who.epoch < known.epoch and (is_looked_at or known.open_from is not None)

    def append(self, who: Identity, values: Sequence[V], sequence: int | None, now_ms: int, *, version: int = 1) -> str:
        """Add records of an open transaction.

        Args:
            who: the writer.
            sequence: of the first record; None for a group's offsets, which have no sequence numbers.
            version: transaction version; from 2 on, a producer that is not known here must begin at 0.
        """
        known = self.producers.get(who.producer_id) or Producer()
        if who.epoch < known.epoch:
            return OLD_EPOCH
        if sequence is not None:
            batch = Batch(sequence, sequence + len(values) - 1)
            if who.epoch == known.epoch and batch in known.batches:
                return NONE
            _, lowest = self._attempts.get(who.producer_id, (who.epoch, sequence))
            if sequence > lowest or not _is_next(known, who, sequence, version):
                return OUT_OF_ORDER
            known.advance(who.epoch)
            known.batches.append(batch)
        known.advance(who.epoch)
        if known.open_from is None:
            known.open_from = len(self.entries)
        self.producers[who.producer_id] = known
        self._attempts.pop(who.producer_id, None)
        self.entries += [Entry(value, who.producer_id, now_ms) for value in values]
        return NONE

    def mark(self, producer_id: int, epoch: int, now_ms: int, *, is_commit: bool) -> None:
        """Write the marker that ends a transaction."""
        known = self.producers.setdefault(producer_id, Producer())
        if known.open_from is not None:
            for entry in self.entries[known.open_from :]:
                if entry.producer_id == producer_id and entry.value is not None and entry.is_committed is None:
                    entry.is_committed = is_commit
        known.open_from = None
        known.advance(epoch)
        self._attempts.pop(producer_id, None)
        self.entries.append(Entry(None, producer_id, now_ms))

    def extent(self, producer_id: int, values: Sequence[V]) -> tuple[int, int]:
        """The first and the last offset of records that a producer added: what the answers to its requests said."""
        found = [
            offset
            for offset, entry in enumerate(self.entries)
            if entry.producer_id == producer_id and entry.value in values
        ]
        return found[0], found[-1]

    def opened(self) -> dict[ProducerIdAndEpoch, int]:
        """Where the transactions begin that are open here, by producer."""
        return {
            ProducerIdAndEpoch(producer_id, known.epoch): known.open_from
            for producer_id, known in self.producers.items()
            if known.open_from is not None
        }

    @property
    def stable_end(self) -> int:
        """Where a `read_committed` reader stops: the first record of an open transaction, or the end."""
        open_from = [known.open_from for known in self.producers.values() if known.open_from is not None]
        return min(open_from, default=len(self.entries))

    def read(self, *, is_committed: bool) -> Iterator[tuple[int, V]]:
        """Records with their offsets, as a consumer at either isolation level gets them."""
        end = self.stable_end if is_committed else len(self.entries)
        for offset, entry in enumerate(self.entries[:end]):
            if entry.value is not None and (entry.is_committed or not is_committed):
                yield offset, entry.value


def _is_next(known: Producer, who: Identity, sequence: int, version: int) -> bool:
    if who.epoch != known.epoch:
        return sequence == 0 or (known.epoch == -1 and version < 2)
    return sequence == (known.batches[-1].last + 1 if known.batches else 0)
