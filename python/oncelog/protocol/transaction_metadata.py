"""What is stored of a transactional id. coordinator_core.py, by identities.py, alone makes a new one of an old one."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.errors import ensure
from oncelog.protocol.txn_state import COMPLETIONS, PENDING_ONLY, TxnState
from oncelog.types import (
    MAX_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    TopicIdPartition,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """Everything stored of one transactional id. Its times are the store's: this znode's mtime, its owner's ctime.

    Attributes:
        producer_id, epoch: the open transaction's pair, or the one that may begin the next.
        previous_producer_id, last_epoch: the pair before, as far as a retry may name it.
        next_producer_id, next_epoch: who may act on a prepared transaction that was kept; absent otherwise.
        partitions, pending_groups: what the open (or decided, not completed) transaction has touched, sorted.
        prepared: the open transaction takes no more writes and never times out (KIP-939).
        owner: znode path of the owner of the open or last transaction.
        round: path of the micro-batch's round that initialised the id, and so owns its transaction; None otherwise.
        nonce: of the last InitProducerId; an attempt that finds its own has won before.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TxnState = TxnState.EMPTY
    previous_producer_id: int = NO_PRODUCER_ID
    last_epoch: int = NO_PRODUCER_EPOCH
    next_producer_id: int = NO_PRODUCER_ID
    next_epoch: int = NO_PRODUCER_EPOCH
    partitions: tuple[TopicIdPartition, ...] = ()
    pending_groups: tuple[str, ...] = ()
    prepared: bool = False
    owner: str | None = None
    round: str | None = None
    nonce: str = ""

    def __post_init__(self) -> None:
        is_open, touched = self.state is TxnState.ONGOING, bool(self.partitions or self.pending_groups)
        named = {"transactional_id": self.transactional_id, "state": self.state, "producer": str(self.producer)}
        ensure(self.state not in PENDING_ONLY, "a pending state is never stored", **named)
        ensure(self.producer_id >= 0, "a producer id is not negative", **named)
        ensure(0 <= self.epoch <= MAX_PRODUCER_EPOCH, "an epoch is in range", **named)
        ensure(self._goes_forward(), "an epoch is above the last one", last=str(self.last), **named)
        ensure(not is_open or self.owner is not None, "an open transaction has an owner", **named)
        ensure(not is_open or touched, "a transaction is open once it touched something", **named)
        ensure(is_open or self.state in COMPLETIONS or not touched, "what is finished touches nothing", **named)
        ensure(is_open or not self.prepared, "only an open transaction is prepared", **named)
        ensure(self.prepared or self.next_epoch == NO_PRODUCER_EPOCH, "only a prepared transaction is kept", **named)

    def _goes_forward(self) -> bool:
        last, now = self.last, self.producer
        return last is None or last.producer_id != now.producer_id or last.epoch < now.epoch

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """Whose requests are accepted."""
        if self.next_epoch != NO_PRODUCER_EPOCH:
            return ProducerIdAndEpoch(self.next_producer_id, self.next_epoch)
        return ProducerIdAndEpoch(self.producer_id, self.epoch)

    @property
    def last(self) -> ProducerIdAndEpoch | None:
        """Who was `producer` before; None where a request of that one is no retry."""
        if self.last_epoch == NO_PRODUCER_EPOCH:
            return None
        return ProducerIdAndEpoch(self.previous_producer_id, self.last_epoch)

    @property
    def open_transaction(self) -> ProducerIdAndEpoch | None:
        """The pair that names the open transaction."""
        return ProducerIdAndEpoch(self.producer_id, self.epoch) if self.state is TxnState.ONGOING else None

    @property
    def prepared_transaction(self) -> ProducerIdAndEpoch | None:
        """The pair that names the prepared transaction: the token to complete it by."""
        return self.open_transaction if self.prepared else None
