"""Aborts what an operator names: the transaction of a transactional id, or the undecided round of a sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from oncelog.batches.ledger import EMBEDDED
from oncelog.clients.maintenance import settle_soon
from oncelog.clients.services import LogServices
from oncelog.coordinator import inspection
from oncelog.coordinator.inspection import OwnerDescription, RoundName, TransactionDescription
from oncelog.errors import InvalidTxnStateError, UnknownPartitionError, UnknownTopicError
from oncelog.log import partition_reads
from oncelog.protocol.txn_state import TxnState
from oncelog.types import TopicIdPartition, TopicPartition
from oncelog.znodes.clock import store_now_ms

_ABORTED = (TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT)


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """The result of `Admin.abort_transaction`.

    Attributes:
        round: the micro-batch's round that owned the transaction and was aborted with all its participants, or None.
        was_open: False if the transaction had been aborted before.
    """

    transactional_id: str
    round: RoundName | None
    was_open: bool


def abort_transaction(services: LogServices, transactional_id: str) -> AbortedTransaction:
    """Abort the open transaction of an id: see `Admin.abort_transaction`."""
    found = _describe(services, transactional_id)
    if found.state is TxnState.ONGOING and found.owner is not None and _abort(services, found.owner):
        settle_soon(services, _existing(services, found.owner.partitions))
        return AbortedTransaction(transactional_id, found.round, was_open=True)
    state = _describe(services, transactional_id).state
    if state not in _ABORTED:
        raise InvalidTxnStateError(
            "this transactional id has no open transaction to abort",
            transactional_id=transactional_id,
            state=state.value,
        )
    return AbortedTransaction(transactional_id, found.round, was_open=False)


def abort_round(services: LogServices, prefix: str) -> int | None:
    """Abort the undecided round of a prefix: see `Admin.abort_round`."""
    ledger = inspection.describe_ledger(services.store, prefix, store_now_ms(services.store))
    for found in ledger.open_rounds:
        if EMBEDDED.abort(services.store, prefix, found.number):
            settle_soon(services, _existing(services, found.partitions))
            return found.number
    return None


def _describe(services: LogServices, transactional_id: str) -> TransactionDescription:
    return inspection.describe_transaction(services.store, transactional_id, store_now_ms(services.store))


def _abort(services: LogServices, owner: OwnerDescription) -> bool:
    if owner.round is not None:
        return EMBEDDED.abort(services.store, owner.round.prefix, owner.round.number)
    return services.coordinator.force_abort(str(owner.transactional_id), owner.path)


def _existing(services: LogServices, partitions: Iterable[TopicPartition]) -> Iterator[TopicIdPartition]:
    for tp in partitions:
        with suppress(UnknownTopicError, UnknownPartitionError):  # deleted meanwhile, or created again
            yield partition_reads.identify(services.store, tp.topic, tp.partition)
