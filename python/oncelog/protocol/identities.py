"""The identities of a transactional id: the one place that compares them, and that takes the next one.

``(producer_id, epoch)`` names the open transaction, and otherwise the one that may begin the next. Every
end of a transaction takes the next epoch, and beyond 32766 a fresh producer id, so a pair never names two. Requests
are accepted from `TransactionMetadata.producer` alone, which is that pair but for one case: `InitProducerId` that
keeps a prepared transaction gives its caller a new pair (``next_producer_id``, ``next_epoch``), fences all older ones,
and leaves the transaction its own (KIP-939). `TransactionMetadata.last` is the pair before; it serves to recognise a
retry and for nothing else.

coordinator_core.py is the only caller. Like it, this never reads a znode, a clock or a random number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from oncelog.errors import InvalidProducerIdMappingError, ProducerFencedError
from oncelog.protocol.coordinator_events import (
    CompleteTransaction,
    EndTxn,
    Event,
    InitProducerId,
    ProducerIdNeeded,
    TimedOut,
)
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.protocol.txn_state import TxnState, pass_through
from oncelog.types import MAX_PRODUCER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch

LAST_USABLE_EPOCH: Final = MAX_PRODUCER_EPOCH - 1


def check_identity(metadata: TransactionMetadata, given: ProducerIdAndEpoch, event: Event) -> bool:
    """Compare identities: the one place that does, and the first thing done to any request (invariant I7).

    Returns:
        whether the request is a retry. True for the identity before the one that may act, in a request that may be
        the very one that moved it on: an init or an end, as long as no transaction was begun since.

    Raises:
        ProducerFencedError, InvalidProducerIdMappingError: any other identity.
    """
    if given == metadata.producer:
        return False
    may_be_retried = isinstance(event, InitProducerId | EndTxn | CompleteTransaction | TimedOut)
    if given == metadata.last and may_be_retried and metadata.state is not TxnState.ONGOING:
        return True
    if given.producer_id != metadata.producer.producer_id and not isinstance(event, InitProducerId):
        raise InvalidProducerIdMappingError(
            "The transactional id has another producer id now; close this producer", **story(metadata, event)
        )
    raise fenced(metadata, event)


def moved_on(metadata: TransactionMetadata, fresh_producer_id: int | None, *states: TxnState) -> TransactionMetadata:
    """Pass through `states` and take the next identity; the present one becomes the last."""
    present = metadata.producer
    identity = next_identity(present, fresh_producer_id)
    return replace(
        metadata,
        state=pass_through(metadata.state, *states),
        producer_id=identity.producer_id,
        epoch=identity.epoch,
        previous_producer_id=present.producer_id,
        last_epoch=present.epoch,
        next_producer_id=NO_PRODUCER_ID,
        next_epoch=NO_PRODUCER_EPOCH,
        prepared=False,
    )


def next_identity(present: ProducerIdAndEpoch, fresh_producer_id: int | None) -> ProducerIdAndEpoch:
    """The identity that follows `present`; beyond the last epoch, epoch 0 of the fresh producer id."""
    if present.epoch >= LAST_USABLE_EPOCH:
        return ProducerIdAndEpoch(fresh(fresh_producer_id), 0)
    return ProducerIdAndEpoch(present.producer_id, present.epoch + 1)


def fresh(producer_id: int | None) -> int:
    """The fresh producer id that was given. Raises ProducerIdNeeded where none was."""
    if producer_id is None:
        raise ProducerIdNeeded
    return producer_id


def fenced(metadata: TransactionMetadata, event: Event) -> ProducerFencedError:
    """The error of whoever has an identity that may act no more."""
    return ProducerFencedError(
        "Another producer, or an abort by the coordinator, took over this transactional id; close this producer",
        **story(metadata, event),
    )


def story(metadata: TransactionMetadata | None, event: Event) -> dict[str, Any]:
    """Return the fields every error carries: whose request, in which state, which identity was met and which given."""
    given = event.expected if isinstance(event, InitProducerId) else getattr(event, "producer", None)
    return {
        "transactional_id": event.transactional_id,
        "request": type(event).__name__,
        "state": None if metadata is None else metadata.state.value,
        "stored": None if metadata is None else str(metadata.producer),
        "given": None if given is None else str(given),
        "owner": None if metadata is None else metadata.owner,
        "round": None if metadata is None else metadata.round,
    }
