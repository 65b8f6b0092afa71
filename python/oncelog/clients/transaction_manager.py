"""The identity and the transaction of one producer, like Kafka's ``TransactionManager``.

Owns what a producer remembers between calls: its identity, its state, and whether a commit may have succeeded. It calls
the coordinator, and must never touch records: clients/delivery.py owns those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from oncelog.clients.services import LogServices
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import (
    IllegalStateTransitionError,
    RetriableError,
    TransactionAbortableError,
    UsageError,
    ensure,
)
from oncelog.protocol import client_state
from oncelog.protocol.client_state import ClientState
from oncelog.types import OffsetAndMetadata, ProducerIdAndEpoch, TopicIdPartition


class TransactionManager:
    """The identity and the state of one producer.

    Args:
        transactional_id: None for a producer that is only idempotent; its state never changes.
        timeout_ms: of its transactions.

    Attributes:
        identity: None until it is needed; None again after records of an idempotent producer were dropped.
        is_begun: whether the coordinator may know of the transaction.
    """

    def __init__(self, services: LogServices, transactional_id: str | None, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.state = ClientState.UNINITIALIZED
        self.identity: ProducerIdAndEpoch | None = None
        self.is_begun = False
        self._coordinator = services.coordinator
        self._producer_ids = services.producer_ids
        self._timeout_ms = timeout_ms
        self._prepared: ProducerIdAndEpoch | None = None
        self._may_be_committed = False  # a commit was sent and may have succeeded

    def need_id(self, call: str) -> str:
        """The transactional id, which `call` needs."""
        if self.transactional_id is None:
            raise UsageError("transactions need a transactional_id: log.producer(transactional_id=...)", call=call)
        return self.transactional_id

    def need_identity(self) -> ProducerIdAndEpoch:
        """The identity from the coordinator; an idempotent producer takes a new producer id."""
        if self.identity is None:
            ensure(self.transactional_id is None, "a transactional producer that writes was initialised")
            self.identity = ProducerIdAndEpoch(self._producer_ids.take(), 0)
        return self.identity

    def check_call(self, call: str) -> None:
        """Raise if the state of a transactional producer does not allow the call."""
        client_state.check_call(self.state, call)

    def move(self, target: ClientState) -> None:
        """Change the state to `target`, unless an earlier try of the same call did."""
        if self.state is not target:
            self.state = client_state.transition(self.state, target)

    def track(self, error: BaseException) -> None:
        """Change to the state that follows from an error."""
        if self.transactional_id is not None and isinstance(error, Exception):
            self.state = client_state.after_error(self.state, error)

    @contextmanager
    def _tracking(self) -> Iterator[None]:
        """`track` the error that the block raises."""
        try:
            yield
        except BaseException as error:
            self.track(error)
            raise

    def initialize(self, *, keep_prepared: bool) -> ProducerIdAndEpoch | None:
        """Get an identity and fence older ones; returns the identity of the kept prepared transaction, or None."""
        transactional_id = self.need_id("init_transactions")
        self.move(ClientState.INITIALIZING)
        reach(CrashPoint.PRODUCER_INIT)
        with self._tracking():
            initialised = self._coordinator.init_producer_id(
                transactional_id, timeout_ms=self._timeout_ms, keep_prepared=keep_prepared
            )
        kept = initialised.prepared
        self._continue_as(
            initialised.producer, ClientState.READY if kept is None else ClientState.PREPARED_TRANSACTION, kept
        )
        return kept

    def send_offsets(self, group_id: str, offsets: Mapping[TopicIdPartition, OffsetAndMetadata]) -> None:
        """Add a group's offsets to the transaction."""
        transactional_id = self.need_id("send_offsets_to_transaction")
        self.is_begun = True  # set first: the outcome may be unknown
        with self._tracking():
            self._coordinator.send_offsets(transactional_id, self.need_identity(), group_id, offsets)

    def prepare(self) -> ProducerIdAndEpoch:
        """Prepare the transaction; returns the identity that its token names."""
        transactional_id = self.need_id("prepare_transaction")
        if not self.is_begun:
            raise IllegalStateTransitionError(
                "nothing was written in this transaction, so there is nothing to prepare; commit or abort it",
                transactional_id=transactional_id,
            )
        with self._tracking():
            token = self._coordinator.prepare(transactional_id, self.need_identity())
        self.move(ClientState.PREPARED_TRANSACTION)
        self._prepared = token
        return token

    def end(self, *, commit: bool, by: Callable[[], ProducerIdAndEpoch] | None = None) -> bool:
        """Commit or abort, and continue with the next identity.

        Args:
            by: called instead of `end_txn`, if the commit also appends.

        Returns:
            False if the coordinator never learned of the transaction, so that nothing was to be done.
        """
        if not self.is_begun and self._prepared is None:
            self.move(ClientState.READY)
            return False
        reach(CrashPoint.PRODUCER_END)
        might_be_committed, self._may_be_committed = self._may_be_committed, commit
        try:
            identity = self.end_txn(commit=commit) if by is None else by()
        except BaseException as error:
            self.track(error)
            if isinstance(error, RetriableError):  # this call certainly did nothing
                self._may_be_committed = might_be_committed
            raise
        reach(CrashPoint.PRODUCER_ENDED)
        self._continue_as(identity, ClientState.READY)
        return True

    def end_txn(self, *, commit: bool) -> ProducerIdAndEpoch:
        """Commit or abort with the coordinator; returns the next identity."""
        return self._coordinator.end_txn(self.need_id("end_txn"), self.need_identity(), commit=commit)

    def complete(self, token: ProducerIdAndEpoch) -> bool:
        """Commit the kept prepared transaction if `token` names it, else abort it; returns whether it was committed."""
        is_commit = token == self._prepared
        self.move(ClientState.COMMITTING_TRANSACTION if is_commit else ClientState.ABORTING_TRANSACTION)
        with self._tracking():
            identity = self._coordinator.complete_transaction(
                self.need_id("complete_transaction"), self.need_identity(), token
            )
        self._continue_as(identity, ClientState.READY)
        return is_commit

    @property
    def is_left_to_abort(self) -> bool:
        """Whether the last transaction failed and was certainly not committed, but has not been aborted yet."""
        failed = {ClientState.ABORTABLE_ERROR, ClientState.ABORTING_TRANSACTION}
        if not self._may_be_committed:
            failed.add(ClientState.COMMITTING_TRANSACTION)
        return self._prepared is None and self.state in failed

    def give_up_commit(self) -> None:
        """Allow an abort after a commit that certainly failed."""
        if self.state is ClientState.COMMITTING_TRANSACTION:
            self.move(ClientState.ABORTABLE_ERROR)

    def drop(self, error: BaseException) -> None:
        """Records were dropped, so the transaction can only be aborted, whatever became of the append.

        An idempotent producer takes a new producer id. With the old one, the next records would get the sequences of
        the dropped records. If these are in the log after all, the new records would be dropped as duplicates.
        """
        if self.transactional_id is None:
            self.identity = None
        elif self.state in {ClientState.IN_TRANSACTION, ClientState.COMMITTING_TRANSACTION}:
            self.state = client_state.after_error(self.state, abortable(error))

    def _continue_as(
        self, identity: ProducerIdAndEpoch, target: ClientState, prepared: ProducerIdAndEpoch | None = None
    ) -> None:
        """Continue with another identity. The state is set last, so that an interrupted call can be made again."""
        state = client_state.transition(self.state, target)
        self.identity, self.is_begun, self._prepared = identity, False, prepared
        self._may_be_committed = False
        self.state = state


def abortable(error: BaseException) -> TransactionAbortableError:
    """The error that a failed send means for its transaction."""
    return TransactionAbortableError("a send of this transaction failed; abort it", cause=str(error))
