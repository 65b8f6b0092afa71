"""The producer: always idempotent, and transactional with a `transactional_id`.

clients/transaction_manager.py keeps the producer's identity and the state of its transaction; clients/delivery.py has
the records that are not in the log yet. Records are appended when the buffer is full, on `flush`, when a receipt is
asked for its result, and before a commit. Without a transaction they are also appended in the background, soon after
they were sent (clients/linger.py). In a transaction nothing runs in the background, because readers cannot see the
records before the commit.

Not safe to share between threads: the lock only guards against the flush in the background. After a fork, the child
must open the log again.
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
from oncelog.clients.accumulator import Headers, Receipt, check_record, pairs_of
from oncelog.clients.delivery import Delivery
from oncelog.clients.prepared import PreparedTransaction
from oncelog.clients.services import LogServices
from oncelog.clients.transaction_manager import TransactionManager
from oncelog.coordinator import groups
from oncelog.errors import (
    IllegalStateTransitionError,
    InvalidOptionError,
    OutcomeUnknownError,
    RetriableError,
    TransactionAbortableError,
    UsageError,
)
from oncelog.habits import Guided
from oncelog.log import codec, partition_reads
from oncelog.protocol.client_state import ClientState
from oncelog.signatures import checked
from oncelog.types import MAX_LONG, OffsetAndMetadata, ProducerIdAndEpoch, TopicPartition

_log = logging.getLogger(__name__)


class Producer(Guided):
    """Writes records: exactly once to each partition, and in transactions atomically over partitions (KIP-98).

    Made by `Log.producer`. `close` aborts an open transaction, but not a prepared one. A producer that was not closed
    is closed with its log, or when the program ends; if records are lost then, a warning is logged.

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
        self._store = services.store
        self._transactional_id = transactional_id
        self._transactions = TransactionManager(services, transactional_id, transaction_timeout_ms)
        self._delivery = Delivery(
            services, self._transactions, codec=codec_name, delivery_timeout_ms=delivery_timeout_ms, linger_ms=linger_ms
        )
        self._process_id = os.getpid()
        self._is_closed = False
        services.background.at_exit(self)

    # Transactions -----------------------------------------------------------------------------------------------------

    @checked
    def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Get a producer id and epoch, and fence every older producer with this transactional id.

        Args:
            keep_prepared: keep a prepared transaction, which this producer must then complete (KIP-939).

        Returns:
            the token of the prepared transaction that was kept, or None.

        Raises:
            ConcurrentTransactionsError: a micro-batch owns the id's transaction; wait and call again.
            InvalidTransactionTimeoutError: correct `transaction_timeout_ms`.
        """
        kept = self._legal("init_transactions").initialize(keep_prepared=keep_prepared)
        return self._token(kept) if kept is not None else None

    def begin_transaction(self) -> None:
        """Begin a transaction. The coordinator learns of it with the first append (KIP-890)."""
        self._legal("begin_transaction").move(ClientState.IN_TRANSACTION)

    @checked
    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group_id: str
    ) -> None:
        """Commit a consumer group's offsets if, and only if, the transaction commits.

        Args:
            offsets: the next offset to read, by partition.
        """
        transactions = self._legal("send_offsets_to_transaction")
        check_name("group id", group_id)
        if not offsets:
            return
        staged = {
            partition_reads.identify(self._store, tp.topic, tp.partition): groups.as_value(tp, value)
            for tp, value in offsets.items()
        }
        transactions.send_offsets(group_id, staged)

    def prepare_transaction(self) -> PreparedTransaction:
        """Flush and prepare the transaction, so that any process with the token can commit it (KIP-939).

        A prepared transaction never times out and takes no more writes.

        Raises:
            IllegalStateTransitionError: nothing was written in this transaction; commit or abort it.
        """
        transactions = self._legal("prepare_transaction")
        self.flush()
        return self._token(transactions.prepare())

    def commit_transaction(self) -> None:
        """Flush and commit: everything that the transaction wrote becomes visible at once.

        Raises:
            ProducerFencedError: another producer or a time-out ended the transaction; close this producer. If an
                earlier call ended in an OutcomeUnknownError, the transaction may have been committed.
            TransactionAbortableError: a record could not be sent; abort the transaction.
            RetriableError, OutcomeUnknownError: call again; committing twice is harmless.
        """
        transactions = self._legal("commit_transaction")
        if transactions.state is ClientState.IN_TRANSACTION:
            self._delivery.flush_but_last()
        transactions.move(ClientState.COMMITTING_TRANSACTION)
        if transactions.end(commit=True, by=self._delivery.commit):
            self._delivery.settle()

    def abort_transaction(self) -> None:
        """Abort: nothing that the transaction wrote ever becomes visible. Unsent records are dropped."""
        transactions = self._legal("abort_transaction")
        transactions.move(ClientState.ABORTING_TRANSACTION)
        self._delivery.drop()
        if transactions.end(commit=False):
            self._delivery.settle()

    @checked
    def complete_transaction(
        self, token: Annotated[PreparedTransaction, "PreparedTransaction.parse reads its text"]
    ) -> bool:
        """End the prepared transaction that `init_transactions` kept: commit it if `token` names it, else abort it.

        Returns:
            whether it was committed.

        Raises:
            ProducerFencedError, InvalidTxnStateError: somebody else, such as an operator, ended it the other way.
            UsageError: the token has another transactional id; nothing was changed.
        """
        transactions = self._legal("complete_transaction")
        if token.transactional_id != self._transactional_id:
            raise UsageError(
                "the token has another transactional id; use the token of this producer's id",
                token=str(token),
                transactional_id=self._transactional_id,
            )
        is_commit = transactions.complete(token.producer)
        self._delivery.settle()
        return is_commit

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin a transaction; commit it at the end of the block, or abort it on an exception, which is raised again.

        The block may also abort or prepare the transaction itself. If an abort fails (the disk is full, say), the next
        block or `close` aborts first. The same happens after a commit that certainly failed. After a commit with an
        unknown outcome, call `commit_transaction` again.

        Example:
            with producer.transaction():
                producer.send("flights", value=b"...")

        Raises:
            TransactionAbortableError: a send failed and the block swallowed its error; the transaction was aborted.
            OncelogError: any error of `commit_transaction`.
        """
        if self._transactions.is_left_to_abort:
            self._abort()
        self.begin_transaction()
        try:
            yield self
            if self._transactions.state is ClientState.ABORTABLE_ERROR:
                raise TransactionAbortableError("a send of this transaction failed, so the transaction was aborted")
            if self._transactions.state in _ENDED_BY_A_COMMIT:
                self.commit_transaction()
        except BaseException as error:
            if self._transactions.state in {ClientState.IN_TRANSACTION, ClientState.ABORTABLE_ERROR}:
                try:
                    self.abort_transaction()
                except (RetriableError, OutcomeUnknownError) as failure:
                    error.add_note(f"The transaction could not be aborted; the next block or close() will: {failure}")
            raise

    def _abort(self) -> None:
        """Abort, even after a commit that certainly failed."""
        self._transactions.give_up_commit()
        self.abort_transaction()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else self._transactions.state.value
        return f"Producer(transactional_id={self._transactional_id!r}, state={state!r})"

    def _legal(self, call: str) -> TransactionManager:
        """The transaction manager, if its state allows the call."""
        self._check_usable(call)
        self._transactions.need_id(call)
        self._transactions.check_call(call)
        return self._transactions

    def _token(self, prepared: ProducerIdAndEpoch) -> PreparedTransaction:
        return PreparedTransaction(str(self._transactional_id), prepared)

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
        """Send one record. `send_batch` is much faster for many.

        Args:
            topic: must exist.
            value: None is a tombstone.
            key: decides the partition, by Spark's hash. Records without a key go to each partition in turn.
            partition: the partition, regardless of the key.
            headers: (name, value) pairs.
            timestamp_ms: now if left out.

        Returns:
            a receipt; its `result()` is the record's place in the log.

        Raises:
            UsageError: the topic, the partition, the record or the producer's state does not allow it; the record was
                not taken.
            OncelogError: `flush` failed for earlier records; this record was not taken.
        """
        timestamp_ms = _now_ms() if timestamp_ms is None else timestamp_ms
        headers = pairs_of(headers)
        size_bytes = check_record(key, value, headers, timestamp_ms)
        self._check_sendable("send")
        return self._delivery.take(topic, partition, key, value, headers, timestamp_ms, size_bytes, self.flush)

    @checked
    def send_batch(
        self, topic: str, batch: pa.RecordBatch | pa.Table, *, partition: int | None = None
    ) -> list[Receipt]:
        """Send the rows of a record batch or table.

        Args:
            topic: must exist.
            batch: columns `value` (required), `key`, `headers`, `timestamp_ms`, as in `codec.RECORD_SCHEMA`; binary or
                string. Rows without a timestamp get the current time.
            partition: for all rows. If left out, each row's key decides; rows without a key go to one partition
                together.

        Returns:
            a receipt for each partition that got rows; its result is the place of the first row.

        Raises:
            UsageError, OncelogError: as in `send`; no row was taken.
        """
        records = codec.normalise(batch, default_timestamp_ms=_now_ms())
        self._check_sendable("send_batch")
        return self._delivery.take_batch(topic, partition, records, self.flush)

    def flush(self) -> None:
        """Append everything sent so far. Afterwards every receipt is done.

        Raises:
            RetriableError, OutcomeUnknownError: there was no answer within the delivery time-out. Call `flush` again:
                it continues with the same records, and each will be in the log once.
            TransactionAbortableError: instead of these two, in a transaction; call `abort_transaction`.
            OncelogError: the append failed; its receipts raise the same error. Or an earlier flush in the background
                failed; then everything else was appended.
        """
        if self._delivery.has_unsent():
            self._check_sendable("flush")
        if not self._is_inherited():  # in a forked child, a thread of the parent may hold the lock forever
            self._delivery.flush()

    # State ------------------------------------------------------------------------------------------------------------

    def _check_sendable(self, call: str) -> None:
        self._check_usable(call)
        if self._transactional_id is not None:
            self._transactions.check_call(call)

    def _check_usable(self, call: str) -> None:
        if self._is_closed:
            raise IllegalStateTransitionError("this producer is closed; make a new one", call=call)
        if self._is_inherited():
            raise IllegalStateTransitionError(
                "this producer belongs to the parent process, and the log would mix up the records of both; open the "
                "log again in this process, and make a new producer",
                call=call,
            )

    def _is_inherited(self) -> bool:
        return os.getpid() != self._process_id

    def close(self) -> None:
        """Flush, or abort an open transaction that is not prepared, and close. Safe to call twice.

        Raises:
            OncelogError: any error of `flush`; the receipts of records that were not sent raise it, too.
        """
        if self._is_closed or self._is_inherited():  # the parent process has the records and the transaction
            self._is_closed = True
            return
        with self._delivery.linger.lock:
            try:
                if self._transactional_id is None:
                    self.flush()
                elif self._transactions.state is ClientState.IN_TRANSACTION or self._transactions.is_left_to_abort:
                    self._abort()
            except BaseException as error:
                self._delivery.fail(error)
                raise
            finally:
                self._is_closed = True

    def close_forgotten(self) -> None:
        """Close a producer that its user did not close, and warn of records that are lost with an open transaction."""
        if not (self._is_closed or self._is_inherited()):
            self._warn_of_lost(self._uncommitted_count)
            self.close()

    def end_with_process(self) -> None:
        """`close_forgotten`, but errors are logged, because nobody can catch them. Called by `ports.Background`."""
        lost, self._delivery.lost = self._delivery.untold, 0
        try:
            self.close_forgotten()
        except BaseException as error:  # noqa: BLE001 - the program is over, and other producers must be closed, too
            self._warn_of_lost(lost + self._delivery.lost, error)

    def __del__(self) -> None:
        """Warn of lost records. Usually an open transaction's: the background work keeps producers with unsent ones."""
        if not getattr(self, "_is_closed", True) and not self._is_inherited():
            delivery = self._delivery
            count = delivery.untold + (self._uncommitted_count or delivery.unsent_count)
            self._warn_of_lost(count, delivery.linger.failure)

    def _warn_of_lost(self, count: int, cause: BaseException | None = None) -> None:
        if count:
            _log.warning(
                "%d %s lost: %s [transactional_id=%r]",
                count,
                "record is" if count == 1 else "records are",
                cause or "the transaction was never committed; commit it, or use `with producer.transaction()`",
                self._transactional_id,
            )

    @property
    def _uncommitted_count(self) -> int:
        """Records of the open transaction, if there is one."""
        is_open = self._transactions.state is ClientState.IN_TRANSACTION
        return self._delivery.uncommitted_count if is_open else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_ENDED_BY_A_COMMIT = frozenset(
    {ClientState.IN_TRANSACTION, ClientState.COMMITTING_TRANSACTION, ClientState.FATAL_ERROR}
)
"""States in which the end of a `transaction` block commits, or raises why it cannot."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
