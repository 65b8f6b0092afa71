"""Transactions that are open in a partition, although no coordinator will ever end them there.

A coordinator ends a transaction by a marker in each of its partitions. If it left one out, or if a record came late,
into a partition that is not in the transaction any more, the partition waits for a marker that nobody sends, and
readers of committed records stand still. Whoever sends one instead must know what became of the transaction: an abort
drops rows that were committed elsewhere, and a commit shows rows that were aborted.

What is certain comes from a ledger alone: if a decision of a sink names the very producer and epoch, its rows are
committed. A coordinator knows only what became of an id's *last* transaction, which may be a later one, even of the
same epoch (transaction version 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from oncelog.errors import UsageError
from oncelog.ports import ZnodeReader
from oncelog.types import Outcome
from oncelog_kafka.ledger import KAFKA_LEDGERS
from oncelog_kafka.participants import ONGOING, ProducerIdAndEpoch, Transaction
from oncelog_kafka.ports import Brokers, OpenInPartition, PartitionLeaders

ENDING = frozenset({"PrepareCommit", "PrepareAbort"})
"""States in which the coordinator sends the markers until each is there."""


class Marker(StrEnum):
    """What ends a transaction in a partition."""

    COMMIT = "commit"
    ABORT = "abort"


class Ended(StrEnum):
    """What became of a transaction that hangs in a partition."""

    COMMITTED = "committed"
    PROBABLY_COMMITTED = "probably committed"
    PROBABLY_ABORTED = "probably aborted"
    UNKNOWN = "unknown"

    @property
    def advice(self) -> str:
        """What is safe."""
        return _ADVICE[self]


_ADVICE = {
    Ended.COMMITTED: "a decision of its sink names it: a commit loses nothing, an abort would drop its rows",
    Ended.PROBABLY_COMMITTED: "its id's last transaction was committed: if it is this, an abort would drop its rows",
    Ended.PROBABLY_ABORTED: "its id's last transaction was aborted: if it is this, an abort loses nothing",
    Ended.UNKNOWN: "no coordinator knows what became of it: look at its rows first",
}


@dataclass(frozen=True, slots=True)
class HangingPartition:
    """A transaction that hangs in a partition.

    Attributes:
        transactional_id: of its producer; None if no coordinator knows it.
        state: of that id.
        ended: what became of the transaction.
        advice: what is safe.
    """

    topic: str
    partition: int
    start_offset: int
    last_timestamp_ms: int
    producer_id: int
    epoch: int
    transactional_id: str | None
    state: str | None
    ended: Ended
    advice: str


def find_in_partitions(
    leaders: PartitionLeaders,
    brokers: Brokers,
    store: ZnodeReader | None,
    partitions: Iterable[tuple[str, int]] | None = None,
) -> list[HangingPartition]:
    """The transactions that hang in these partitions, or in all that this user may see.

    The leaders are asked first and last: a transaction counts only if it was open before its coordinator said that
    it was over, and still is afterwards.

    Args:
        store: with the ledgers of sinks; None if there are none.
    """
    before = leaders.open_transactions(partitions)
    ids = leaders.ids_of(sorted({one.producer_id for one in before}))
    known = {one.producer_id: one for one in brokers.describe(sorted(set(ids.values()))).values()}
    suspects = [one for one in before if not _is_looked_after(one, known.get(one.producer_id))]
    if not suspects:
        return []
    decided = set() if store is None else _decided(store)
    after = {_identity(one) for one in leaders.open_transactions({(one.topic, one.partition) for one in suspects})}
    return [_described(one, known, decided) for one in suspects if _identity(one) in after]


def repair(
    leaders: PartitionLeaders,
    brokers: Brokers,
    store: ZnodeReader | None,
    partition: tuple[str, int],
    *,
    is_commit: bool | None,
) -> list[tuple[HangingPartition, Marker]]:
    """End what hangs in a partition, by the marker that is missing.

    A second marker of the same transaction changes nothing, so a repair may be run again, and beside another one. The
    producer must be stopped: at transaction version 1 the marker would also end what it has begun there meanwhile.

    Args:
        is_commit: which marker, where it is not certain what became of the transaction; None to refuse that.

    Returns:
        What hung there, and how it was ended.

    Raises:
        UsageError: nothing hangs there, its producer is at work, or `is_commit` is missing or contradicts a decision;
            nothing was written.
        BrokerAccessError: the user may not alter the cluster.
    """
    found = find_in_partitions(leaders, brokers, store, [partition])
    if not found:
        raise UsageError("nothing hangs in this partition", topic=partition[0], partition=partition[1])
    chosen = [(one, _marker(one, is_commit)) for one in found]
    still = {_identity(one): one for one in leaders.open_transactions([partition])}
    for one, marker in chosen:
        if _identity(one) in still:
            leaders.mark(still[_identity(one)], is_commit=marker is Marker.COMMIT)
    return chosen


def _marker(one: HangingPartition, is_commit: bool | None) -> Marker:
    if one.state == ONGOING:
        raise UsageError(
            "the producer of this transaction has another one open; stop it, and wait until that is over",
            transactional_id=one.transactional_id,
        )
    if one.ended is Ended.COMMITTED:
        if is_commit is False:
            raise UsageError(
                "a decision of its sink names this transaction, and an abort would drop its rows; leave out --abort",
                transactional_id=one.transactional_id,
            )
        return Marker.COMMIT
    if is_commit is None:
        raise UsageError(
            "it is not certain what became of this transaction; read its rows from the start offset on, with the "
            "isolation level read_uncommitted, and choose: --commit shows them, --abort drops them for good",
            transactional_id=one.transactional_id,
            start_offset=one.start_offset,
            outcome=one.ended.value,
        )
    return Marker.COMMIT if is_commit else Marker.ABORT


def _is_looked_after(one: OpenInPartition, known: Transaction | None) -> bool:
    """Whether a coordinator will end the transaction in this partition."""
    if known is None or known.epoch < one.epoch:
        return False
    is_open = known.state == ONGOING or known.state in ENDING
    return is_open and one.place in known.partitions


def _described(
    one: OpenInPartition, known: Mapping[int, Transaction], decided: set[ProducerIdAndEpoch]
) -> HangingPartition:
    producer = known.get(one.producer_id)
    ended = _ended(one, producer, decided)
    return HangingPartition(
        one.topic,
        one.partition,
        one.start_offset,
        one.last_timestamp_ms,
        one.producer_id,
        one.epoch,
        None if producer is None else producer.transactional_id,
        None if producer is None else producer.state,
        ended,
        ended.advice,
    )


def _ended(one: OpenInPartition, known: Transaction | None, decided: set[ProducerIdAndEpoch]) -> Ended:
    if ProducerIdAndEpoch(one.producer_id, one.epoch) in decided:
        return Ended.COMMITTED
    if known is None or known.epoch > one.epoch + 1:  # transaction version 2 raises it at each end
        return Ended.UNKNOWN
    return {"CompleteCommit": Ended.PROBABLY_COMMITTED, "CompleteAbort": Ended.PROBABLY_ABORTED}.get(
        known.state, Ended.UNKNOWN
    )


def _decided(store: ZnodeReader) -> set[ProducerIdAndEpoch]:
    """The producers of all decisions that ledgers remember."""
    return {
        part.producer
        for prefix in KAFKA_LEDGERS.prefixes(store)
        for one in KAFKA_LEDGERS.read_rounds(store, prefix).values()
        if one.outcome is Outcome.COMMIT
        for part in one.participants
        if not part.is_lost
    }


def _identity(one: OpenInPartition | HangingPartition) -> tuple[str, int, int, int, int]:
    return one.topic, one.partition, one.producer_id, one.epoch, one.start_offset
