"""Transactions that are open in a partition and over at their coordinator: what became of them, and what is safe. Pure.

Nobody ends such a transaction, and read_committed readers are stuck in front of it. It happens if a coordinator left
out a marker (KAFKA-20734), or if a write arrives after the end of its transaction (KIP-890).

A producer asks for a commit when all its rows are acknowledged, and a leader drops what it has already. Hence rows of a
committed transaction are part of it, wherever their marker is. Transactions of one producer with one epoch cannot be
told apart: the coordinator knows how the last of them ended.

Whoever asks must ask the partition first, then the coordinator, and the partition again. Then a marker that was under
way has been written: the coordinator calls a transaction complete only behind its markers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from oncelog_kafka.protocol.participants import ONGOING, Participant, ParticipantId, Transaction

TransactionKey = tuple[str, int, int, int]
"""Topic, partition, producer id and start offset: no other transaction ever has all four."""


class Verdict(StrEnum):
    """What became of a transaction that a partition still has open."""

    COMMITTED = "committed"
    """A commit marker loses nothing. An abort marker would drop committed rows."""

    ABORTED = "aborted"
    """An abort marker loses nothing."""

    UNKNOWN = "unknown"
    """The coordinator has forgotten it. Either marker may be wrong."""

    RUNNING = "running"
    """Its producer may still end it, or has begun another transaction with the same epoch, which a marker would end."""


@dataclass(frozen=True, slots=True)
class InPartition:
    """A transaction in one of its partitions.

    Attributes:
        start_offset: of its first row there.
    """

    topic: str
    partition: int
    producer_id: int
    epoch: int
    start_offset: int

    @property
    def key(self) -> TransactionKey:
        return self.topic, self.partition, self.producer_id, self.start_offset

    @property
    def place(self) -> str:
        """As Kafka's tools write a partition."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class OpenInPartition(InPartition):
    """A transaction that a partition's leader has open.

    Attributes:
        last_timestamp_ms: the greatest timestamp in the producer's last batch here.
        coordinator_epoch: of the producer's last marker here; -1 for none.
    """

    last_timestamp_ms: int
    coordinator_epoch: int


class NotAsked(NamedTuple):
    """A partition whose leader did not say what is open, and Kafka's name of the reason."""

    topic: str
    partition: int
    answer: str


class Recorded(NamedTuple):
    """Participants that the ledgers of sinks name: of complete batches, and of decided ones that are not complete."""

    complete: Sequence[Participant] = ()
    unfinished: Sequence[Participant] = ()


@dataclass(frozen=True, slots=True)
class Hang(InPartition):
    """A transaction that nobody will end.

    Attributes:
        transactional_id, state: at the coordinator; None if it has forgotten the producer.
        prefix: of the sink that the id belongs to, judging by its form.
        age_ms: since its last row, by that row's timestamp.
        why: how the verdict was reached, in words.
    """

    age_ms: int
    transactional_id: str | None
    state: str | None
    prefix: str | None
    verdict: Verdict
    why: str


def judge(
    found: OpenInPartition,
    known: Transaction | None,
    recorded: Recorded,
    now_ms: int,
    max_timeout_ms: int,
) -> Hang | None:
    """Whether an open transaction hangs, and what became of it.

    Args:
        found: what the partition said before and after the coordinator was asked.
        known: what the coordinator knows about the producer id; None for nothing.
        max_timeout_ms: of any transaction of the cluster.

    Returns:
        None if it ends by itself, or may do so.
    """
    age_ms = now_ms - found.last_timestamp_ms
    reached = _judged(found, known, recorded) or _unknown(found, known, is_old=age_ms > max_timeout_ms)
    if reached is None:
        return None
    name = None if known is None else ParticipantId.parse(known.transactional_id)
    return Hang(
        found.topic,
        found.partition,
        found.producer_id,
        found.epoch,
        found.start_offset,
        age_ms,
        None if known is None else known.transactional_id,
        None if known is None else known.state,
        None if name is None else name.prefix,
        *reached,
    )


_ENDS = {"CompleteCommit": Verdict.COMMITTED, "CompleteAbort": Verdict.ABORTED}


def ends_by_itself(found: OpenInPartition, known: Transaction | None) -> bool:
    """Whether the coordinator has the transaction open, or is about to write its markers."""
    if known is None or not _is_last(found, known):
        return False
    if known.state == ONGOING:
        return known.epoch == found.epoch and found.place in known.partitions
    return known.state.startswith("Prepare")


def _judged(found: OpenInPartition, known: Transaction | None, recorded: Recorded) -> tuple[Verdict, str] | None:
    if known is not None and known.state == ONGOING and known.epoch == found.epoch:
        return Verdict.RUNNING, "its producer has another transaction open with the same epoch; stop it first"
    if known is not None and known.state in _ENDS and _is_the_one(found, known):
        return _ENDS[known.state], f"the coordinator says {known.state}, and left this partition's marker out"
    producer = found.producer_id, found.epoch
    if any(p.producer == producer for p in recorded.unfinished):
        return Verdict.RUNNING, "the ledger names it in a decided batch that is not complete; start its query first"
    # At transaction version 1, many transactions have one epoch, so an entry of the ledger may be of another one.
    if any(p.transaction_version >= 2 and p.producer == producer for p in recorded.complete):
        return Verdict.COMMITTED, "the ledger names it in a complete batch"
    return None


def _unknown(found: OpenInPartition, known: Transaction | None, *, is_old: bool) -> tuple[Verdict, str] | None:
    if known is None:
        return (Verdict.UNKNOWN, _UNKNOWN_PRODUCER) if is_old else None
    if known.state in _ENDS and known.epoch == found.epoch:
        return Verdict.UNKNOWN, f"the coordinator says {known.state}, maybe of a later transaction of the same epoch"
    return Verdict.UNKNOWN, "the coordinator knows only a later transaction of this producer"


_UNKNOWN_PRODUCER = "no coordinator shows its transactional id, or this user lacks the right Describe on it"


def _is_last(found: OpenInPartition, known: Transaction) -> bool:
    """Whether the coordinator may speak of this transaction.

    From transaction version 2 on, its end raises the epoch. So does a time-out at any version.
    """
    return known.epoch in {found.epoch, found.epoch + 1}


def _is_the_one(found: OpenInPartition, known: Transaction) -> bool:
    """Whether the transaction whose end the coordinator knows is this one.

    From transaction version 2 on, its end has raised the epoch. At version 1 another one of the same epoch may have
    ended later, and no time of a row tells them apart: producers and topics set it as they like. An older one may have
    had the epoch before, but then its rows are older than the start of the one that the coordinator knows.
    """
    return known.epoch == found.epoch + 1 and found.last_timestamp_ms >= known.started_ms
