"""The identity and the transaction of one producer, as Kafka's ``TransactionManager`` keeps them.

Owns what a producer remembers of itself between calls: who it is, in which state, and whether a commit that it asked
for may have been done. Asks the coordinator, and must never touch a record: those are with clients/delivery.py.
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
    """Who a producer is, and where its transaction stands.

    Args:
        transactional_id: None for a producer that is idempotent only, whose state never changes.
        timeout_ms: of its transactions.

    Attributes:
        identity: None before the first one, and where records of an idempotent producer were dropped.
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
        self._may_be_committed = False  # by a commit that is asked for

    def need_id(self, call: str) -> str:
        """The transactional id, without which `call` makes no sense."""
        if self.transactional_id is None:
            raise UsageError("transactions need a transactional_id: log.producer(transactional_id=...)", call=call)
        return self.transactional_id

    def need_identity(self) -> ProducerIdAndEpoch:
        """The identity that the coordinator gave, or one that an idempotent producer takes for itself."""
        if self.identity is None:
            ensure(self.transactional_id is None, "a transactional producer that writes was initialised")
            self.identity = ProducerIdAndEpoch(self._producer_ids.take(), 0)
        return self.identity

    def check_call(self, call: str) -> None:
        """Refuse a call that the state does not allow."""
        self.need_id(call)
        client_state.check_call(self.state, call)

    def move(self, target: ClientState) -> None:
        """Take the step to `target`, unless the same call took it before."""
        if self.state is not target:
            self.state = client_state.transition(self.state, target)

    @contextmanager
    def tracking(self) -> Iterator[None]:
        """Take the state that an error of the block leads to."""
        try:
            yield
        except BaseException as error:
            if self.transactional_id is not None and isinstance(error, Exception):
                self.state = client_state.after_error(self.state, error)
            raise

    def initialize(self, *, keep_prepared: bool) -> ProducerIdAndEpoch | None:
        """Get an identity and fence every older one; returns the token of a prepared transaction that was kept."""
        transactional_id = self.need_id("init_transactions")
        self.move(ClientState.INITIALIZING)
        reach(CrashPoint.PRODUCER_INIT)
        with self.tracking():
            initialised = self._coordinator.init_producer_id(
                transactional_id, timeout_ms=self._timeout_ms, keep_prepared=keep_prepared
            )
        kept = initialised.prepared
        self._go_on_as(
            initialised.producer, ClientState.READY if kept is None else ClientState.PREPARED_TRANSACTION, kept
        )
        return kept

    def send_offsets(self, group_id: str, offsets: Mapping[TopicIdPartition, OffsetAndMetadata]) -> None:
        """Stage a group's offsets in the transaction."""
        transactional_id = self.need_id("send_offsets_to_transaction")
        self.is_begun = True  # and stays so where the outcome is unknown
        with self.tracking():
            self._coordinator.send_offsets(transactional_id, self.need_identity(), group_id, offsets)

    def prepare(self) -> ProducerIdAndEpoch:
        """Promise that the transaction can be committed; returns its token."""
        transactional_id = self.need_id("prepare_transaction")
        if not self.is_begun:
            raise IllegalStateTransitionError(
                "nothing was written in this transaction, so there is nothing to prepare; commit or abort it",
                transactional_id=transactional_id,
            )
        with self.tracking():
            token = self._coordinator.prepare(transactional_id, self.need_identity())
        self.move(ClientState.PREPARED_TRANSACTION)
        self._prepared = token
        return token

    def end(self, *, commit: bool, by: Callable[[], ProducerIdAndEpoch] | None = None) -> bool:
        """Commit or abort, and go on as who comes next.

        Args:
            by: the step, where it does more than `end_txn`.

        Returns:
            whether there was anything to end, of which the coordinator knew.
        """
        if not self.is_begun and self._prepared is None:
            self.move(ClientState.READY)
            return False
        reach(CrashPoint.PRODUCER_END)
        might_be_committed, self._may_be_committed = self._may_be_committed, commit
        try:
            with self.tracking():
                identity = self.end_txn(commit=commit) if by is None else by()
        except RetriableError:  # which says that this call did nothing
            self._may_be_committed = might_be_committed
            raise
        reach(CrashPoint.PRODUCER_ENDED)
        self._go_on_as(identity, ClientState.READY)
        return True

    def end_txn(self, *, commit: bool) -> ProducerIdAndEpoch:
        """Have the coordinator commit or abort; returns the next identity."""
        return self._coordinator.end_txn(self.need_id("end_txn"), self.need_identity(), commit=commit)

    def complete(self, token: ProducerIdAndEpoch) -> bool:
        """End the prepared transaction that was kept; returns whether it was committed, as `token` names it."""
        is_commit = token == self._prepared
        self.move(ClientState.COMMITTING_TRANSACTION if is_commit else ClientState.ABORTING_TRANSACTION)
        with self.tracking():
            identity = self._coordinator.complete_transaction(
                self.need_id("complete_transaction"), self.need_identity(), token
            )
        self._go_on_as(identity, ClientState.READY)
        return is_commit

    @property
    def is_left_to_abort(self) -> bool:
        """Whether the last transaction ended with an error and was not committed, but is not aborted either."""
        failed = {ClientState.ABORTABLE_ERROR, ClientState.ABORTING_TRANSACTION}
        if not self._may_be_committed:
            failed.add(ClientState.COMMITTING_TRANSACTION)
        return self._prepared is None and self.state in failed

    def give_up_commit(self) -> None:
        """Where a commit was begun that is known not to be done, let an abort follow."""
        if self.state is ClientState.COMMITTING_TRANSACTION:
            self.move(ClientState.ABORTABLE_ERROR)

    def drop(self, error: BaseException) -> None:
        """Records are dropped, so a transaction can only be aborted, whatever became of the append.

        An idempotent producer begins anew under a fresh id: under the old one the next records could have the
        sequences of the dropped ones, which may be in the log, and would be taken for their duplicates.
        """
        if self.transactional_id is None:
            self.identity = None
        elif self.state in {ClientState.IN_TRANSACTION, ClientState.COMMITTING_TRANSACTION}:
            self.state = client_state.after_error(self.state, abortable(error))

    def _go_on_as(
        self, identity: ProducerIdAndEpoch, target: ClientState, prepared: ProducerIdAndEpoch | None = None
    ) -> None:
        """Go on under another identity. The state comes last: interrupted before, the same call again is the way on."""
        state = client_state.transition(self.state, target)
        self.identity, self.is_begun, self._prepared = identity, False, prepared
        self._may_be_committed = False
        self.state = state


def abortable(error: BaseException) -> TransactionAbortableError:
    """What a failed send means to its transaction."""
    return TransactionAbortableError("a send of this transaction failed; abort it", cause=str(error))
