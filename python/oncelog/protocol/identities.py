"""The identities of a transactional id. Only this module compares them, and takes the next one.

``(producer_id, epoch)`` identifies the open transaction or, if none is open, the one that may begin next. The end of a
transaction takes the next epoch, and after epoch 32766 a new producer id, so a pair never identifies two transactions.
Only requests of `TransactionMetadata.producer` are accepted. It is this pair, with one exception: an `InitProducerId`
that keeps a prepared transaction gives its caller a new pair (``next_producer_id``, ``next_epoch``) and fences all
older ones, and the transaction keeps its own (KIP-939). `TransactionMetadata.last` is the pair before; it is only used
to recognise retries.

coordinator_core.py is the only caller. Like that module, this one must never read a znode, a clock or a random number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from oncelog.errors import InvalidProducerIdMappingError, ProducerFencedError
from oncelog.protocol.coordinator_events import (
    CommitAtOnce,
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
    """Check the identity of a request. This comes first for every request, and only here (invariant I7).

    Returns:
        whether the request is a retry: it has the identity before the current one, and may be the request that ended
        that identity (an init or an end), because no transaction was begun since.

    Raises:
        ProducerFencedError, InvalidProducerIdMappingError: the identity is another one.
    """
    if given == metadata.producer:
        return False
    may_be_retried = isinstance(event, InitProducerId | EndTxn | CommitAtOnce | CompleteTransaction | TimedOut)
    if given == metadata.last and may_be_retried and metadata.state is not TxnState.ONGOING:
        return True
    if given.producer_id != metadata.producer.producer_id and not isinstance(event, InitProducerId):
        raise InvalidProducerIdMappingError(
            "The transactional id has another producer id now; close this producer", **story(metadata, event)
        )
    raise fenced(metadata, event)


def moved_on(
    metadata: TransactionMetadata, fresh_producer_id: int | None, *states: TxnState, **changes: Any
) -> TransactionMetadata:
    """Pass through `states` and take the next identity; the current one becomes the last.

    Args:
        changes: of other fields.
    """
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
        **changes,
    )


def next_identity(present: ProducerIdAndEpoch, fresh_producer_id: int | None) -> ProducerIdAndEpoch:
    """The identity that follows `present`; after the last epoch, epoch 0 of the new producer id."""
    if present.epoch >= LAST_USABLE_EPOCH:
        return ProducerIdAndEpoch(fresh(fresh_producer_id), 0)
    return ProducerIdAndEpoch(present.producer_id, present.epoch + 1)


def fresh(producer_id: int | None) -> int:
    """The new producer id. Raises ProducerIdNeeded if none was given."""
    if producer_id is None:
        raise ProducerIdNeeded
    return producer_id


def fenced(metadata: TransactionMetadata, event: Event) -> ProducerFencedError:
    """The error for a request with an identity that was fenced."""
    return ProducerFencedError(
        "Another producer, or an abort by the coordinator, took over this transactional id; close this producer",
        **story(metadata, event),
    )


def story(metadata: TransactionMetadata | None, event: Event) -> dict[str, Any]:
    """The fields of every error: the id, the request, the state, and the stored and the given identity."""
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
