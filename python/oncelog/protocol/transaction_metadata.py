"""The stored metadata of a transactional id. Only coordinator_core.py, with identities.py, may change it."""

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
    """Everything stored of one transactional id. Its times are znode times: this one's mtime, and its owner's ctime.

    Attributes:
        producer_id, epoch: the pair of the open transaction, or the one that may begin the next.
        previous_producer_id, last_epoch: the pair before, if a retry may have it.
        next_producer_id, next_epoch: the pair that may end a prepared transaction that was kept; absent otherwise.
        partitions, pending_groups: those of the open transaction, or of a decided one that is not completed; sorted.
        prepared: whether the open transaction is prepared: it takes no more writes and never times out (KIP-939).
        owner: znode path of the owner of the open or last transaction.
        round: path of the micro-batch's round that initialised the id and owns its transaction; None otherwise.
        nonce: of the last InitProducerId. A try that finds its own nonce has succeeded before.
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
        self._ensure(self.state not in PENDING_ONLY, "a pending state is never stored")
        self._ensure(self.producer_id >= 0, "a producer id is not negative")
        self._ensure(0 <= self.epoch <= MAX_PRODUCER_EPOCH, "an epoch is in range")
        self._ensure(self._goes_forward(), "an epoch is above the last one")
        self._ensure(not is_open or self.owner is not None, "an open transaction has an owner")
        self._ensure(not is_open or touched, "a transaction is open once it touched something")
        self._ensure(is_open or self.state in COMPLETIONS or not touched, "what is finished touches nothing")
        self._ensure(is_open or not self.prepared, "only an open transaction is prepared")
        self._ensure(self.prepared or self.next_epoch == NO_PRODUCER_EPOCH, "only a prepared transaction is kept")

    def _ensure(self, condition: bool, law: str) -> None:
        if not condition:
            ensure(
                False,
                law,
                transactional_id=self.transactional_id,
                state=self.state,
                producer=str(self.producer),
                last=str(self.last),
            )

    def _goes_forward(self) -> bool:
        last, now = self.last, self.producer
        return last is None or last.producer_id != now.producer_id or last.epoch < now.epoch

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The pair whose requests are accepted."""
        if self.next_epoch != NO_PRODUCER_EPOCH:
            return ProducerIdAndEpoch(self.next_producer_id, self.next_epoch)
        return ProducerIdAndEpoch(self.producer_id, self.epoch)

    @property
    def last(self) -> ProducerIdAndEpoch | None:
        """The `producer` before; None if a request of that one cannot be a retry."""
        if self.last_epoch == NO_PRODUCER_EPOCH:
            return None
        return ProducerIdAndEpoch(self.previous_producer_id, self.last_epoch)

    @property
    def open_transaction(self) -> ProducerIdAndEpoch | None:
        """The pair that identifies the open transaction; None if none is open."""
        return ProducerIdAndEpoch(self.producer_id, self.epoch) if self.state is TxnState.ONGOING else None

    @property
    def prepared_transaction(self) -> ProducerIdAndEpoch | None:
        """The pair that identifies the prepared transaction, as in its token; None if none is prepared."""
        return self.open_transaction if self.prepared else None
