"""The producer: idempotent always, transactional with a `transactional_id`.

The door to two rooms: clients/transaction_manager.py knows who the producer is and where its transaction stands, and
clients/delivery.py has the records that are not in the log yet. They are appended by the send that finds the buffer
full, on `flush`, when a receipt is asked, and before a commit. Those of an idempotent producer are also appended in the
background, soon after they were sent (clients/linger.py). In a transaction nothing runs in the background: nobody reads
its records before the commit anyway.

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
        """Get an identity and fence every older producer of this transactional id.

        Args:
            keep_prepared: leave a prepared transaction alone, to be completed by this producer (KIP-939).

        Returns:
            the prepared transaction that was kept, if there is one.

        Raises:
            ConcurrentTransactionsError: a micro-batch owns the id's transaction; wait and call again.
            InvalidTransactionTimeoutError: mend `transaction_timeout_ms`.
        """
        kept = self._legal("init_transactions").initialize(keep_prepared=keep_prepared)
        return self._token(kept) if kept is not None else None

    def begin_transaction(self) -> None:
        """Begin a transaction. The coordinator hears of it with the first append (KIP-890)."""
        self._legal("begin_transaction").move(ClientState.IN_TRANSACTION)

    @checked
    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group_id: str
    ) -> None:
        """Commit consumed offsets with the transaction: they become the group's if it commits.

        Args:
            offsets: the next offset to read, by partition.
            group_id: of the consumer group.
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
        """Flush, and promise that the transaction can be committed, by whoever has the token (KIP-939).

        A prepared transaction never times out, and takes no more writes.

        Raises:
            IllegalStateTransitionError: nothing was written in this transaction; commit or abort it.
        """
        transactions = self._legal("prepare_transaction")
        self.flush()
        return self._token(transactions.prepare())

    def commit_transaction(self) -> None:
        """Flush and commit: everything the transaction wrote becomes visible, or (on an error) nothing.

        Raises:
            ProducerFencedError: another producer, or a time-out, ended the transaction; close this producer. Where an
                answer of this commit was lost before, as after an OutcomeUnknownError, it may have been committed.
            TransactionAbortableError: some of it could not be sent; abort it.
            RetriableError, OutcomeUnknownError: call again; committing twice is harmless.
        """
        transactions = self._legal("commit_transaction")
        if transactions.state is ClientState.IN_TRANSACTION:
            self._delivery.flush_but_last()
        transactions.move(ClientState.COMMITTING_TRANSACTION)
        if transactions.end(commit=True, by=self._delivery.commit):
            self._delivery.settle()

    def abort_transaction(self) -> None:
        """Abort: nothing the transaction wrote will ever be visible. Unsent records are dropped."""
        transactions = self._legal("abort_transaction")
        transactions.move(ClientState.ABORTING_TRANSACTION)
        self._delivery.drop()
        if transactions.end(commit=False):
            self._delivery.settle()

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
        transactions = self._legal("complete_transaction")
        if token.transactional_id != self._transactional_id:
            raise UsageError(
                "the token is of another transactional id; give the one that its producer prepared",
                token=str(token),
                transactional_id=self._transactional_id,
            )
        is_commit = transactions.complete(token.producer)
        self._delivery.settle()
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
            TransactionAbortableError: a send failed and the block swallowed its error; all of it was aborted.
            OncelogError: what `commit_transaction` raises.
        """
        if self._transactions.is_left_to_abort:
            self._abort()
        self.begin_transaction()
        try:
            yield self
            if self._transactions.state is ClientState.ABORTABLE_ERROR:
                raise TransactionAbortableError("a send of this transaction failed, so that the block's end aborted it")
            if self._transactions.state in _ENDED_BY_A_COMMIT:
                self.commit_transaction()
        except BaseException as error:
            if self._transactions.state in {ClientState.IN_TRANSACTION, ClientState.ABORTABLE_ERROR}:
                try:
                    self.abort_transaction()
                except (RetriableError, OutcomeUnknownError) as failure:
                    error.add_note(f"The transaction could not be aborted yet; the next one begins with it: {failure}")
            raise

    def _abort(self) -> None:
        """Abort, also where a commit was begun that is known not to be done."""
        self._transactions.give_up_commit()
        self.abort_transaction()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else self._transactions.state.value
        return f"Producer(transactional_id={self._transactional_id!r}, state={state!r})"

    def _legal(self, call: str) -> TransactionManager:
        """The transaction manager, whose state allows the call."""
        self._check_usable(call)
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
            UsageError: the topic, the partition, the record or the producer's state forbids it; nothing was sent.
            OncelogError: what `flush` raises, about earlier records; this one was not taken.
        """
        if partition is not None:
            check_number("partition", partition, least=-MAX_LONG)
        timestamp_ms = _now_ms() if timestamp_ms is None else timestamp_ms
        headers = pairs_of(headers)
        size_bytes = check_record(key, value, headers, timestamp_ms)
        self._check_sendable("send")
        return self._delivery.take(topic, partition, key, value, headers, timestamp_ms, size_bytes, self.flush)

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
            UsageError, OncelogError: as `send` does; none of the rows was taken.
        """
        records = codec.normalise(batch, default_timestamp_ms=_now_ms())
        self._check_sendable("send_batch")
        return self._delivery.take_batch(topic, partition, records, self.flush)

    def flush(self) -> None:
        """Append everything sent so far; afterwards every receipt is done.

        Raises:
            RetriableError, OutcomeUnknownError: no answer within the delivery time-out; `flush` again goes on with the
                same records, each of which will be in the log once.
            TransactionAbortableError: in a transaction, in place of those two; only `abort_transaction` is left.
            OncelogError: what else the append raises, and the receipts too; or what a flush in the background failed
                with, once the rest is sent.
        """
        if self._delivery.has_unsent():
            self._check_sendable("flush")
        if not self._is_inherited():  # or the lock may be held by a thread of the other process
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
                "this producer is of the process that forked this one, whose records would be taken for its own; open "
                "the log anew here, and make a producer of it",
                call=call,
            )

    def _is_inherited(self) -> bool:
        return os.getpid() != self._process_id

    def close(self) -> None:
        """Flush (or abort a transaction that is neither committed nor prepared) and close. Safe to call twice.

        Raises:
            OncelogError: what `flush` raises; the receipts of what it could not send raise it, too.
        """
        if self._is_closed or self._is_inherited():  # records and transaction are the other process's
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
        """Close for an owner who did not, and say what is lost with an open transaction. Raises what `close` raises."""
        if not (self._is_closed or self._is_inherited()):
            self._warn_of_lost(self._uncommitted_count)
            self.close()

    def end_with_process(self) -> None:
        """`close_forgotten`, of which nobody hears what it raises: that is logged. Called by `ports.Background`."""
        lost, self._delivery.lost = self._delivery.untold, 0
        try:
            self.close_forgotten()
        except BaseException as error:  # noqa: BLE001 - the program is over, and the next producer has its turn
            self._warn_of_lost(lost + self._delivery.lost, error)

    def __del__(self) -> None:
        """What is unsent is held by the background, so what a producer loses that nobody names is a transaction."""
        if not getattr(self, "_is_closed", True) and not self._is_inherited():
            delivery = self._delivery
            count = delivery.untold + (self._uncommitted_count or delivery.unsent_count)
            self._warn_of_lost(count, delivery.linger.failure)

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
"""Where the end of a block commits, or says why it cannot."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
