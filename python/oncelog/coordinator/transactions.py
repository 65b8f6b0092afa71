"""The transaction coordinator as a library, for producers. There is no server; any process may run any step.

Each method is one `transact`, and may allocate a producer id before it. A step with an unknown outcome is run again: by
sequence, epoch and nonce, the second run finds out whether the first one succeeded (I5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from oncelog import limits
from oncelog.coordinator import groups, transactional_ids
from oncelog.coordinator.producer_ids import ProducerIds
from oncelog.errors import InvalidProducerIdMappingError
from oncelog.log import partition_log, partition_reads
from oncelog.log.partition_log import Append, Appended
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.protocol import coordinator_events as events
from oncelog.protocol.coordinator_events import ProducerIdNeeded
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.randomness import random_id
from oncelog.types import OffsetAndMetadata, Outcome, ProducerIdAndEpoch, TopicIdPartition
from oncelog.znodes import paths
from oncelog.znodes.transact import resolving, resolving_told

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Initialised:
    """The result of an init: the identity, and the identity of a prepared transaction that was kept, if any."""

    producer: ProducerIdAndEpoch
    prepared: ProducerIdAndEpoch | None


class TransactionCoordinator:
    """The steps of transactional producers on one log's znodes. Its only state is the pool of producer ids."""

    def __init__(self, store: ZnodeStore, producer_ids: ProducerIds) -> None:
        self._store = store
        self._producer_ids = producer_ids

    def init_producer_id(
        self,
        transactional_id: str,
        *,
        timeout_ms: int = limits.DEFAULT_TRANSACTION_TIMEOUT_MS,
        expected: ProducerIdAndEpoch | None = None,
        keep_prepared: bool = False,
    ) -> Initialised:
        """Give the caller the id's next identity, and fence all older ones.

        Args:
            expected: the caller's current identity, from which to continue (KIP-360).
            keep_prepared: keep a prepared transaction, which the caller must then complete (KIP-939).

        Raises:
            ProducerFencedError, InvalidTransactionTimeoutError, ConcurrentTransactionsError: see the core.
        """
        nonce = random_id()
        seen: list[str] = []  # the stored nonce before each write; a run that finds itself fenced does not add one

        def init(view: ZnodeView, fresh_producer_id: int | None, is_repeated: bool) -> Initialised:
            found = transactional_ids.load(view, transactional_id)
            base_nonce = seen[-1] if is_repeated and seen else None  # None: no earlier run got as far as a write
            if base_nonce is None:
                seen.append(found.nonce if found else "")
            event = events.InitProducerId(
                transactional_id=transactional_id,
                timeout_ms=timeout_ms,
                max_timeout_ms=limits.MAX_TRANSACTION_TIMEOUT_MS,
                nonce=nonce,
                base_nonce=base_nonce,
                owner_outcome=transactional_ids.owner_outcome(view, found),
                expected=expected,
                keep_prepared=keep_prepared,
                fresh_producer_id=fresh_producer_id,
            )
            step = transactional_ids.apply(view, event)
            return Initialised(step.answer, step.metadata.prepared_transaction)

        return self._run(init)

    def append(self, transactional_id: str, producer: ProducerIdAndEpoch, appends: Sequence[Append]) -> list[Appended]:
        """Append to partitions in the id's transaction; the first append begins it.

        Args:
            appends: one per partition, owned by `own_transaction` of the same producer.
        """

        def append(view: ZnodeView) -> list[Appended]:
            partitions = [request.partition for request in appends]
            owner = own_transaction(transactional_id, producer)
            partition_log.read_for(view, appends, also=[paths.transaction(transactional_id), owner])
            transactional_ids.add_partitions(view, transactional_id, producer, partitions, owner)
            return [partition_log.append(view, request) for request in appends]

        return resolving(lambda: self._store.transact(append))

    def commit(
        self, transactional_id: str, producer: ProducerIdAndEpoch, appends: Sequence[Append]
    ) -> tuple[list[Appended | None], ProducerIdAndEpoch]:
        """Append the last record batches of the id's transaction and commit it, all in one multi.

        Args:
            appends: one per partition, owned by `own_transaction` of the same producer.

        Returns:
            where the batches are (None if the topic was deleted since), and the identity of the next transaction.
        """
        owner = own_transaction(transactional_id, producer)

        def commit(
            view: ZnodeView, fresh_producer_id: int | None, is_repeated: bool
        ) -> tuple[list[Appended | None], ProducerIdAndEpoch]:
            end = events.EndTxn(
                transactional_id=transactional_id, producer=producer, commit=True, fresh_producer_id=fresh_producer_id
            )
            partition_log.read_for(view, appends, also=[paths.transaction(transactional_id), owner])
            stored = transactional_ids.load(view, transactional_id)
            if stored is None or stored.producer != producer:  # unknown, fenced, or an earlier try succeeded
                identity = transactional_ids.apply(view, end).answer
                return [_landed_before(view, request) for request in appends], identity
            if stored.open_transaction is None and _is_one_phase(appends):
                (request,) = appends
                identity = transactional_ids.commit_at_once(view, transactional_id, producer, owner, fresh_producer_id)
                return [partition_log.append(view, request, commits=True)], identity
            transactional_ids.add_partitions(
                view, transactional_id, producer, [request.partition for request in appends], owner
            )
            appended: list[Appended | None] = [partition_log.append(view, request) for request in appends]
            return appended, transactional_ids.apply(view, end).answer

        return self._run(commit)

    def send_offsets(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        group_id: str,
        offsets: Mapping[TopicIdPartition, OffsetAndMetadata],
    ) -> None:
        """Stage a group's offsets in the id's transaction; they become current if it commits."""
        owner = own_transaction(transactional_id, producer)

        def stage(view: ZnodeView, some: groups.GroupOffsets) -> None:
            event = events.AddOffsets(transactional_id=transactional_id, producer=producer, group=group_id, owner=owner)
            transactional_ids.apply(view, event)
            order = groups.next_order(view, group_id)
            listed = groups.stage(view, group_id, some, owner, order)
            transactional_ids.add_groups_to_owner(view, owner, listed)

        def run(some: groups.GroupOffsets) -> None:
            resolving(lambda: self._store.transact(lambda view: stage(view, some)))

        for _ in groups.step_by_step(offsets, run):
            pass

    def prepare(self, transactional_id: str, producer: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        """Prepare the open transaction; returns the identity that its token names (KIP-939)."""
        return resolving(
            lambda: self._store.transact(lambda view: transactional_ids.prepare(view, transactional_id, producer))
        )

    def end_txn(self, transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool) -> ProducerIdAndEpoch:
        """Commit or abort, with one multi that decides the owner; returns the identity of the next transaction."""

        def end(view: ZnodeView, fresh_producer_id: int | None, is_repeated: bool) -> ProducerIdAndEpoch:
            event = events.EndTxn(
                transactional_id=transactional_id,
                producer=producer,
                commit=commit,
                fresh_producer_id=fresh_producer_id,
            )
            view.get_many([paths.transaction(transactional_id), own_transaction(transactional_id, producer)])
            return transactional_ids.apply(view, event).answer

        return self._run(end)

    def complete_transaction(
        self, transactional_id: str, producer: ProducerIdAndEpoch, token: ProducerIdAndEpoch
    ) -> ProducerIdAndEpoch:
        """End the prepared transaction: commit it if `token` names it, else abort it (KIP-939).

        Raises:
            ProducerFencedError, InvalidTxnStateError: somebody else ended it the other way.
        """

        def complete(view: ZnodeView, fresh_producer_id: int | None, is_repeated: bool) -> ProducerIdAndEpoch:
            event = events.CompleteTransaction(
                transactional_id=transactional_id,
                producer=producer,
                owner=own_transaction(transactional_id, token),
                fresh_producer_id=fresh_producer_id,
            )
            return transactional_ids.apply(view, event).answer

        return self._run(complete)

    def force_abort(self, transactional_id: str, owner: str) -> bool:
        """Abort the id's open transaction, prepared or not, for an operator, and fence its producer.

        Args:
            owner: of the transaction that the operator saw, so that the id's next one is not aborted.

        Returns:
            whether this call aborted it; False if it was decided before.

        Raises:
            InvalidTxnStateError: a micro-batch's round owns it; abort the round instead.
        """

        def abort(view: ZnodeView, fresh_producer_id: int | None, is_repeated: bool) -> bool:
            aborted = transactional_ids.force_abort(view, transactional_id, owner, fresh_producer_id)
            return aborted or (is_repeated and _is_aborted(view, owner))

        return self._run(abort)

    def time_out(self, owner: str) -> bool:
        """Abort and fence the transaction of `owner` if it is open and unprepared; returns whether this call did it."""

        def abort(view: ZnodeView, fresh_producer_id: int | None, is_repeated: bool) -> bool:
            aborted = transactional_ids.time_out(view, owner, fresh_producer_id)
            return aborted or (is_repeated and _is_aborted(view, owner))

        return self._run(abort)

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """The stored metadata of an id. Raises an InvalidProducerIdMappingError if it does not exist."""
        found = transactional_ids.load(self._store, transactional_id)
        if found is None:
            raise InvalidProducerIdMappingError("no such transactional id", transactional_id=transactional_id)
        return found

    def _run(self, step: Callable[[ZnodeView, int | None, bool], T]) -> T:
        """Run a step: with a new producer id if it asks for one, and again while its outcome is unknown."""
        fresh_producer_id: int | None = None

        def run(is_repeated: bool) -> T:
            nonlocal fresh_producer_id
            try:
                return self._store.transact(lambda view: step(view, fresh_producer_id, is_repeated))
            except ProducerIdNeeded:
                fresh_producer_id = self._producer_ids.take()
                return run(is_repeated)

        return resolving_told(run)


def _is_one_phase(appends: Sequence[Append]) -> bool:
    """Whether a transaction of these appends can be committed in one phase: it is one append to one partition."""
    return len(appends) == 1 and appends[0].manifest_file is None


def _landed_before(view: ZnodeView, request: Append) -> Appended | None:
    """The result of an append that an earlier try committed; None if its topic was deleted since."""
    return partition_log.append(view, request) if partition_reads.exists(view, request.partition) else None


def _is_aborted(view: ZnodeView, owner: str) -> bool:
    state = partition_reads.read_owner(view, owner)
    return state is not None and state.outcome is Outcome.ABORT


def own_transaction(transactional_id: str, producer: ProducerIdAndEpoch) -> str:
    """The path of the owner of the transaction that `producer` identifies."""
    return paths.transaction_owner(transactional_id, producer.producer_id, producer.epoch)
