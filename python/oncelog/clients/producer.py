"""The producer: idempotent always, transactional with a `transactional_id`.

Owns what a client must remember between calls: its identity, its state, and the records not yet flushed. They are
appended by the send that finds the buffer full, on `flush`, when a receipt is asked, and before a commit. Those of an
idempotent producer are also appended in the background, soon after they were sent (clients/linger.py). In a transaction
nothing runs in the background: nobody reads its records before the commit anyway.

Not safe to share between threads: the lock is for the flush in the background alone. After a fork, open the log anew in
the child.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Annotated, Self

import pyarrow as pa

from oncelog import limits
from oncelog.arguments import check_name, check_number
from oncelog.clients.accumulator import Accumulator, Headers, Receipt, check_record, pairs_of
from oncelog.clients.flush import Flush
from oncelog.clients.linger import Linger
from oncelog.clients.prepared import PreparedTransaction
from oncelog.clients.routes import Routes
from oncelog.clients.sender import Sender
from oncelog.clients.services import LogServices
from oncelog.coordinator import groups
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import (
    IllegalStateTransitionError,
    InvalidOptionError,
    OncelogError,
    OutcomeUnknownError,
    RetriableError,
    TransactionAbortableError,
    UnknownTopicError,
    UsageError,
    ensure,
)
from oncelog.log import codec, partition_reads
from oncelog.protocol import client_state
from oncelog.protocol.client_state import ClientState
from oncelog.signatures import checked
from oncelog.types import MAX_LONG, OffsetAndMetadata, ProducerIdAndEpoch, TopicPartition

_log = logging.getLogger(__name__)

BUFFER_BYTES = 32 * 1024 * 1024
"""Kafka's buffer.memory: a send that finds so much flushes before it takes its record."""


class Producer:
    """Writes records, exactly once per partition, and atomically over partitions in transactions (KIP-98).

    Made by `Log.producer`. Closing aborts an open transaction, but never a prepared one. A producer that nobody closed
    is closed when its log is, or when the program ends; what is lost then is logged as a warning.

    Example:
        with log.producer(transactional_id="copier-0") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("flights", key=b"UA", value=b"...")
    """

    @checked
    def __init__(
        self,
        services: Annotated[LogServices, "a producer is made by log.producer(...)"],
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = limits.DEFAULT_TRANSACTION_TIMEOUT_MS,
        codec_name: str = limits.DEFAULT_CODEC,
        delivery_timeout_ms: int = 120_000,
        linger_ms: int = limits.DEFAULT_LINGER_MS,
    ) -> None:
        if transactional_id is not None:
            check_name("transactional id", transactional_id)
        check_number("transaction_timeout_ms", transaction_timeout_ms, least=-MAX_LONG)
        check_number("delivery_timeout_ms", delivery_timeout_ms)
        check_number("linger_ms", linger_ms)
        if codec_name not in codec.CODECS:
            raise InvalidOptionError("unknown codec", codec=codec_name, known=codec.CODECS)
        self._services = services
        self._transactional_id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._sender = Sender(services, codec=codec_name, delivery_timeout_ms=delivery_timeout_ms)
        self._accumulator = Accumulator()
        self._routes = Routes(services.store)
        self._state = ClientState.UNINITIALIZED
        self._identity: ProducerIdAndEpoch | None = None
        self._prepared: ProducerIdAndEpoch | None = None
        self._unfinished: Flush | None = None  # the next flush goes on with it, or the commit
        self._linger = Linger(
            services.background, services.clock, linger_ms=linger_ms, delivery_timeout_ms=delivery_timeout_ms
        )
        self._dropped = 0  # records, by what failed since this was set to nothing
        self._untold = 0  # of them, by flushes whose error no call has raised yet
        self._process_id = os.getpid()
        self._is_begun_at_coordinator = False
        self._may_be_committed = False  # by a commit that is asked for
        self._is_closed = False
        services.background.at_exit(self)

    # Transactions -----------------------------------------------------------------------------------------------------

    @checked
    def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Get an identity and fence every older producer of this transactional id.

        Args:
            keep_prepared: leave a prepared transaction alone, to be completed by this producer (KIP-939).

        Returns:
            the prepared transaction that was kept, if there is one.

        Raises:
            ConcurrentTransactionsError: a micro-batch owns the id's transaction; wait and call again.
            InvalidTransactionTimeoutError: mend `transaction_timeout_ms`.
        """
        transactional_id = self._need_transactional_id("init_transactions")
        self._move(ClientState.INITIALIZING, call="init_transactions")
        reach(CrashPoint.PRODUCER_INIT)
        with self._tracking():
            initialised = self._services.coordinator.init_producer_id(
                transactional_id, timeout_ms=self._transaction_timeout_ms, keep_prepared=keep_prepared
            )
        if initialised.prepared is None:
            self._go_on_as(initialised.producer, ClientState.READY)
            return None
        self._go_on_as(initialised.producer, ClientState.PREPARED_TRANSACTION, initialised.prepared)
        return PreparedTransaction(transactional_id, initialised.prepared)

    def begin_transaction(self) -> None:
        """Begin a transaction. The coordinator hears of it with the first append (KIP-890)."""
        self._need_transactional_id("begin_transaction")
        self._move(ClientState.IN_TRANSACTION, call="begin_transaction")

    @checked
    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group_id: str
    ) -> None:
        """Commit consumed offsets with the transaction: they become the group's if it commits.

        Args:
            offsets: the next offset to read, by partition.
            group_id: of the consumer group.
        """
        self._check_call("send_offsets_to_transaction")
        transactional_id = self._need_transactional_id("send_offsets_to_transaction")
        check_name("group id", group_id)
        if not offsets:
            return
        staged = {
            partition_reads.identify(self._services.store, tp.topic, tp.partition): groups.as_value(tp, value)
            for tp, value in offsets.items()
        }
        self._is_begun_at_coordinator = True  # and stays so where the outcome is unknown
        with self._tracking():
            self._services.coordinator.send_offsets(transactional_id, self._need_identity(), group_id, staged)

    def prepare_transaction(self) -> PreparedTransaction:
        """Flush, and promise that the transaction can be committed, by whoever has the token (KIP-939).

        A prepared transaction never times out, and takes no more writes.

        Raises:
            IllegalStateTransitionError: nothing was written in this transaction; commit or abort it.
        """
        self._check_call("prepare_transaction")
        transactional_id = self._need_transactional_id("prepare_transaction")
        self.flush()
        if not self._is_begun_at_coordinator:
            raise IllegalStateTransitionError(
                "nothing was written in this transaction, so there is nothing to prepare; commit or abort it",
                transactional_id=transactional_id,
            )
        with self._tracking():
            token = self._services.coordinator.prepare(transactional_id, self._need_identity())
        self._move(ClientState.PREPARED_TRANSACTION, call="prepare_transaction")
        self._prepared = token
        return PreparedTransaction(transactional_id, token)

    def commit_transaction(self) -> None:
        """Flush and commit: everything the transaction wrote becomes visible, or (on an error) nothing.

        Raises:
            ProducerFencedError: another producer, or a time-out, ended the transaction; close this producer. Where an
                answer of this commit was lost before, as after an OutcomeUnknownError, it may have been committed.
            TransactionAbortableError: some of it could not be sent; abort it.
            RetriableError, OutcomeUnknownError: call again; committing twice is harmless.
        """
        self._check_call("commit_transaction")
        if self._state is ClientState.IN_TRANSACTION:
            self._flush_but_last()
        self._move(ClientState.COMMITTING_TRANSACTION, call="commit_transaction")
        self._end(commit=True)

    def abort_transaction(self) -> None:
        """Abort: nothing the transaction wrote will ever be visible. Unsent records are dropped."""
        self._move(ClientState.ABORTING_TRANSACTION, call="abort_transaction")
        self._accumulator, self._unfinished = Accumulator(), None
        self._end(commit=False)

    @checked
    def complete_transaction(
        self, token: Annotated[PreparedTransaction, "PreparedTransaction.parse reads its text"]
    ) -> bool:
        """End the prepared transaction that `init_transactions` kept: commit it if `token` names it, else abort.

        Returns:
            whether it was committed.

        Raises:
            ProducerFencedError, InvalidTxnStateError: somebody else ended it otherwise, an operator say.
            UsageError: the token is of another transactional id; nothing was ended.
        """
        self._check_call("complete_transaction")
        transactional_id = self._need_transactional_id("complete_transaction")
        if token.transactional_id != transactional_id:
            raise UsageError(
                "the token is of another transactional id; give the one that its producer prepared",
                token=str(token),
                transactional_id=transactional_id,
            )
        is_commit = token.producer == self._prepared
        ending = ClientState.COMMITTING_TRANSACTION if is_commit else ClientState.ABORTING_TRANSACTION
        if self._state is not ending:
            self._state = client_state.transition(self._state, ending)
        with self._tracking():
            identity = self._services.coordinator.complete_transaction(
                transactional_id, self._need_identity(), token.producer
            )
        self._ended(identity)
        return is_commit

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin; commit on success, abort on an exception (which goes on).

        A block that ends well has committed, unless it aborted or prepared the transaction itself. Where the abort got
        no answer (the disk is full, say), the next block begins with it, and so does `close`. The same becomes of a
        commit that was not done; but one that may have been done is to be asked again, by `commit_transaction`.

        Example:
            with producer.transaction():
                producer.send("flights", value=b"...")

        Raises:
            TransactionAbortableError: a send failed and the block took its error for itself; all of it was aborted.
            what `commit_transaction` raises.
        """
        if self._is_left_to_abort:
            self._abort()
        self.begin_transaction()
        try:
            yield self
            if self._state is ClientState.ABORTABLE_ERROR:
                raise TransactionAbortableError("a send of this transaction failed, so that the block's end aborted it")
            if self._state in _ENDED_BY_A_COMMIT:
                self.commit_transaction()
        except BaseException as error:
            if self._state in {ClientState.IN_TRANSACTION, ClientState.ABORTABLE_ERROR}:
                try:
                    self.abort_transaction()
                except (RetriableError, OutcomeUnknownError) as failure:
                    error.add_note(f"The transaction could not be aborted yet; the next one begins with it: {failure}")
            raise

    @property
    def _is_left_to_abort(self) -> bool:
        """Whether the last transaction ended with an error and was not committed, but is not aborted either."""
        failed = {ClientState.ABORTABLE_ERROR, ClientState.ABORTING_TRANSACTION}
        if not self._may_be_committed:
            failed.add(ClientState.COMMITTING_TRANSACTION)
        return self._prepared is None and self._state in failed

    def _abort(self) -> None:
        """Abort, also where a commit was begun that is known not to be done."""
        if self._state is ClientState.COMMITTING_TRANSACTION:
            self._state = client_state.transition(self._state, ClientState.ABORTABLE_ERROR)
        self.abort_transaction()

    def _end(self, *, commit: bool) -> None:
        transactional_id = self._need_transactional_id("commit_transaction")
        if not self._is_begun_at_coordinator and self._prepared is None:
            self._state = client_state.transition(self._state, ClientState.READY)
            return
        reach(CrashPoint.PRODUCER_END)
        might_be_committed, self._may_be_committed = self._may_be_committed, commit
        try:
            if commit and self._unfinished is not None:
                identity = self._commit_with(self._unfinished, transactional_id)
            else:
                with self._tracking():
                    identity = self._services.coordinator.end_txn(
                        transactional_id, self._need_identity(), commit=commit
                    )
        except RetriableError:  # which says that this call did nothing
            self._may_be_committed = might_be_committed
            raise
        reach(CrashPoint.PRODUCER_ENDED)
        self._ended(identity)

    def _commit_with(self, last: Flush, transactional_id: str) -> ProducerIdAndEpoch:
        """Commit with the last append, in one step. Where the same call again is the way on, what to append is kept."""
        try:
            with self._tracking():
                identity = last.commit(transactional_id)
        except BaseException as error:
            if isinstance(error, OncelogError) and not isinstance(error, RetriableError | OutcomeUnknownError):
                self._after_failed_send(error)
            else:
                last.records.failed(error)
            raise
        last.records.failed(UnknownTopicError("the transaction committed, and the record's topic was deleted since"))
        return identity

    def _ended(self, identity: ProducerIdAndEpoch) -> None:
        self._go_on_as(identity, ClientState.READY)
        self._sender.settle()

    def _go_on_as(
        self, identity: ProducerIdAndEpoch, target: ClientState, prepared: ProducerIdAndEpoch | None = None
    ) -> None:
        """Go on under another identity. The state comes last: interrupted before, the same call again is the way on."""
        state = client_state.transition(self._state, target)
        self._sender.new_identity()
        self._unfinished = None
        self._identity, self._is_begun_at_coordinator, self._prepared = identity, False, prepared
        self._may_be_committed = False
        self._state = state

    # Records ----------------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Receipt:
        """Send one record. For many, `send_batch` is faster by far.

        Args:
            topic: an existing one.
            value: None is a tombstone.
            key: records of one key go to one partition, whoever writes them (Spark's hash of the key).
            partition: instead of the key's.
            headers: (name, value) pairs.
            timestamp_ms: of the record; now if left out.

        Returns:
            a receipt whose `result()` is the record's place.

        Raises:
            UnknownTopicError, UnknownPartitionError, InvalidRecordError, RecordTooLargeError,
            IllegalStateTransitionError: nothing was sent.
            what `flush` raises, of earlier records: this one was not taken.
        """
        check_name("topic's name", topic)
        if partition is not None:
            check_number("partition", partition, least=-MAX_LONG)
        timestamp_ms = _now_ms() if timestamp_ms is None else timestamp_ms
        headers = pairs_of(headers)
        size_bytes = check_record(key, value, headers, timestamp_ms)
        self._check_sendable("send")
        with self._linger.lock:
            self._make_room()
            target = self._routes.of_record(topic, key, partition)
            receipt = Receipt(self.flush, topic, target.partition, timestamp_ms)
            self._accumulator.add(target, (key, value, headers, timestamp_ms, receipt), size_bytes)
        return receipt

    @checked
    def send_batch(
        self, topic: str, batch: pa.RecordBatch | pa.Table, *, partition: int | None = None
    ) -> list[Receipt]:
        """Send the rows of a record batch or table, column by column.

        Args:
            topic: an existing one.
            batch: columns `value` (required), `key`, `headers`, `timestamp_ms`, as in `codec.RECORD_SCHEMA`; binary or
                string. Rows without a timestamp get the present time.
            partition: for all rows; by the hash of each key if left out. Rows without a key stay together.

        Returns:
            a receipt per partition written to; its result is the place of the first of its rows.

        Raises:
            as of `send`; none of the rows was taken.
        """
        records = codec.normalise(batch, default_timestamp_ms=_now_ms())
        self._check_sendable("send_batch")
        receipts = []
        with self._linger.lock:
            self._make_room()
            for target, rows in self._routes.of_rows(topic, records, partition):
                receipt = Receipt(self.flush, topic, target.partition, rows.column("timestamp_ms")[0].as_py())
                self._accumulator.add_batch(target, rows, receipt)
                receipts.append(receipt)
        return receipts

    def flush(self) -> None:
        """Append everything sent so far; afterwards every receipt is done.

        Raises:
            RetriableError, OutcomeUnknownError: no answer within the delivery time-out; `flush` again goes on with the
                same records, each of which will be in the log once.
            what else the append raises, and the receipts too. In a transaction it leaves only `abort_transaction`, and
            what would be retriable or of unknown outcome elsewhere is a TransactionAbortableError.
            what a flush in the background failed with, once the rest is sent.
        """
        if self._has_unsent():
            self._check_sendable("flush")
        if self._is_inherited:
            return  # the lock may be held by a thread of the other process
        with self._linger.lock:
            self._send_all()
            if isinstance(self._linger.failure, RetriableError | OutcomeUnknownError):
                self._linger.failure = None  # what had no answer has one now
            self._raise_failure()

    def _send_all(self) -> bool:
        """Send all that is unsent; whether there was anything."""
        if not self._has_unsent():
            return False
        while self._has_unsent():
            self._send_next()
        if self._transactional_id is None:
            self._sender.settle()
        return True

    def _send_in_background(self) -> bool:
        """What `Linger` does with the lock; whether anything was unsent. What gets no answer is kept for the next."""
        self._dropped = 0
        try:
            with self._sender.without_retries():
                return self._send_all()
        finally:
            self._untold += self._dropped

    def _raise_failure(self) -> None:
        """Tell the user what a flush in the background failed with."""
        failure, self._linger.failure = self._linger.failure, None
        if failure is not None:
            self._untold = 0
            raise failure

    def _has_unsent(self) -> bool:
        return self._unfinished is not None or bool(self._accumulator.buffers)

    def _flush_but_last(self) -> None:
        """Flush, but leave the last append, whose files are durable, to the commit."""
        if self._unfinished is not None:  # a call before was interrupted
            self.flush()
        if self._accumulator.buffers:
            self._send_next(leave=1)

    def _send_next(self, *, leave: int = 0) -> None:
        """Send what is unfinished, or else buffered; what cannot be sent fails its receipts, and the transaction.

        Taken out of the buffer it is unfinished at once, hence an interrupt loses none of it.
        """
        if self._unfinished is None:
            flush = Flush(self._sender, self._accumulator, self._need_identity(), self._transactional_id)
            self._unfinished, self._accumulator = flush, Accumulator()
        self._is_begun_at_coordinator = self._transactional_id is not None
        try:
            with self._tracking():
                self._unfinished.append(leave=leave)
        except BaseException as error:
            has_no_answer = isinstance(error, RetriableError | OutcomeUnknownError)
            if self._transactional_id is None and (has_no_answer or not isinstance(error, Exception)):
                raise
            self._after_failed_send(error)
            if has_no_answer:
                # The error could not keep its promise: the same call again would go on without the dropped records.
                raise _abortable(error) from error
            raise
        if self._unfinished.is_done:
            self._unfinished = None

    def _make_room(self) -> None:
        """Before a record is taken: see that it will leave, and that there is room for it."""
        linger = self._linger
        if self._transactional_id is None and not (self._identity and linger.is_begun and linger.failure is None):
            self._raise_failure()
            self._need_identity()
            linger.begin(self._send_in_background)
        unfinished_bytes = self._unfinished.records.size_bytes if self._unfinished else 0
        if self._accumulator.size_bytes + unfinished_bytes >= BUFFER_BYTES:
            self.flush()

    def _after_failed_send(self, error: BaseException) -> None:
        """Records are dropped, so a transaction can only be aborted, whatever became of the append.

        An idempotent producer begins anew under a fresh id: under the old one the next records could have the
        sequences of the dropped ones, which may be in the log, and would be taken for their duplicates.
        """
        if self._transactional_id is None:
            self._identity = None
            self._sender.new_identity()
        elif self._state in {ClientState.IN_TRANSACTION, ClientState.COMMITTING_TRANSACTION}:
            self._state = client_state.after_error(self._state, _abortable(error))
        self._drop_unfinished(error)
        if isinstance(error, UnknownTopicError):
            self._routes.forget()  # a topic was deleted, and may have been created again

    def _drop_unfinished(self, error: BaseException) -> None:
        dropped, self._unfinished = self._unfinished, None
        if dropped is not None:
            self._dropped += dropped.records.unsent
            dropped.records.failed(error)

    # State ------------------------------------------------------------------------------------------------------------

    def _check_sendable(self, call: str) -> None:
        if self._transactional_id is not None:
            self._check_call(call)
        else:
            self._check_usable(call)

    def _check_usable(self, call: str) -> None:
        if self._is_closed:
            raise IllegalStateTransitionError("this producer is closed; make a new one", call=call)
        if self._is_inherited:
            raise IllegalStateTransitionError(
                "this producer is of the process that forked this one, whose records would be taken for its own; open "
                "the log anew here, and make a producer of it",
                call=call,
            )

    @property
    def _is_inherited(self) -> bool:
        return os.getpid() != self._process_id

    def _check_call(self, call: str) -> None:
        self._check_usable(call)
        self._need_transactional_id(call)
        client_state.check_call(self._state, call)

    def _move(self, target: ClientState, *, call: str) -> None:
        self._check_call(call)
        if self._state is not target:
            self._state = client_state.transition(self._state, target)

    @contextmanager
    def _tracking(self) -> Iterator[None]:
        """Take the state that an error of the block leads to."""
        try:
            yield
        except BaseException as error:
            if self._transactional_id is not None and isinstance(error, Exception):
                self._state = client_state.after_error(self._state, error)
            raise

    def _need_transactional_id(self, call: str) -> str:
        if self._transactional_id is None:
            raise UsageError("transactions need a transactional_id: log.producer(transactional_id=...)", call=call)
        return self._transactional_id

    def _need_identity(self) -> ProducerIdAndEpoch:
        """The identity that `init_transactions` gave, or one that an idempotent producer takes for itself."""
        if self._identity is None:
            ensure(self._transactional_id is None, "a transactional producer that writes was initialised")
            self._identity = ProducerIdAndEpoch(self._services.producer_ids.take(), 0)
        return self._identity

    def close(self) -> None:
        """Flush (or abort a transaction that is neither committed nor prepared) and close. Safe to call twice.

        Raises:
            what `flush` raises; the receipts of what it could not send raise it, too.
        """
        if self._is_closed or self._is_inherited:  # records and transaction are the other process's
            self._is_closed = True
            return
        with self._linger.lock:
            try:
                if self._transactional_id is None:
                    self.flush()
                elif self._state is ClientState.IN_TRANSACTION or self._is_left_to_abort:
                    self._abort()
            except BaseException as error:
                self._drop_unfinished(error)
                self._dropped += self._unsent_count
                self._accumulator.failed(error)
                self._accumulator = Accumulator()
                raise
            finally:
                self._is_closed = True

    def close_forgotten(self) -> None:
        """Close for an owner who did not, and say what is lost with an open transaction. Raises what `close` raises."""
        if not (self._is_closed or self._is_inherited):
            self._warn_of_lost(self._uncommitted_count)
            self.close()

    def end_with_process(self) -> None:
        """`close_forgotten`, of which nobody hears what it raises: that is logged. Called by `ports.Background`."""
        lost, self._dropped = self._untold, 0
        try:
            self.close_forgotten()
        except BaseException as error:  # noqa: BLE001 - the program is over, and the next producer has its turn
            self._warn_of_lost(lost + self._dropped, error)

    def __del__(self) -> None:
        """What is unsent is held by the background, so what a producer loses that nobody names is a transaction."""
        if not getattr(self, "_is_closed", True) and not self._is_inherited:
            self._warn_of_lost(self._untold + (self._uncommitted_count or self._unsent_count), self._linger.failure)

    def _warn_of_lost(self, count: int, cause: BaseException | None = None) -> None:
        if count:
            _log.warning(
                "%d records are lost: %s [transactional_id=%r]",
                count,
                cause or "their producer was left in an open transaction; commit it, or use `with transaction()`",
                self._transactional_id,
            )

    @property
    def _uncommitted_count(self) -> int:
        """Records of the open transaction, if there is one."""
        is_open = self._state is ClientState.IN_TRANSACTION
        return self._sender.appended_count + self._unsent_count if is_open else 0

    @property
    def _unsent_count(self) -> int:
        return self._accumulator.unsent + (self._unfinished.records.unsent if self._unfinished else 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_ENDED_BY_A_COMMIT = frozenset(
    {ClientState.IN_TRANSACTION, ClientState.COMMITTING_TRANSACTION, ClientState.FATAL_ERROR}
)
"""Where the end of a block commits, or says why it cannot."""


def _abortable(error: BaseException) -> TransactionAbortableError:
    return TransactionAbortableError("a send of this transaction failed; abort it", cause=str(error))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
