"""Delivers a producer's records: from the call that sends them until they are appended or have failed.

Owns every record that is not in the log yet: those in the buffer, and those of an unfinished flush. Calls of the user
and flushes in the background (clients/linger.py) take turns by the linger's lock. Receipts refer to their producer, so
a producer that nobody else refers to lives as long as the background work has unsent records of it.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from oncelog.clients.accumulator import Accumulator, Headers, Receipt
from oncelog.clients.flush import Flush
from oncelog.clients.linger import Linger
from oncelog.clients.routes import Routes
from oncelog.clients.sender import Sender
from oncelog.clients.services import LogServices
from oncelog.clients.transaction_manager import TransactionManager, abortable
from oncelog.errors import OncelogError, OutcomeUnknownError, RetriableError, UnknownTopicError
from oncelog.types import ProducerIdAndEpoch

BUFFER_BYTES = 32 * 1024 * 1024
"""Kafka's buffer.memory: when the buffer holds this much, the next send flushes first."""


class Delivery:
    """The unsent records of one producer.

    Args:
        codec, delivery_timeout_ms, linger_ms: see `Log.producer`.

    Attributes:
        lost: number of records that failed since this was last set to 0.
        untold: number of records that failed in the background and whose error no call has raised yet.
        linger: the flushes in the background.
    """

    def __init__(
        self,
        services: LogServices,
        transactions: TransactionManager,
        *,
        codec: str,
        delivery_timeout_ms: int,
        linger_ms: int,
    ) -> None:
        self.lost = 0
        self.untold = 0
        self._transactions = transactions
        self._routes = Routes(services.store)
        self._sender = Sender(services, codec=codec, delivery_timeout_ms=delivery_timeout_ms)
        self.linger = Linger(
            services.background, services.clock, linger_ms=linger_ms, delivery_timeout_ms=delivery_timeout_ms
        )
        self._accumulator = Accumulator()
        self._unfinished: Flush | None = None  # the next flush or the commit continues it

    def has_unsent(self) -> bool:
        """Whether a flush has anything to do."""
        return self._unfinished is not None or bool(self._accumulator.buffers)

    @property
    def unsent_count(self) -> int:
        """How many records have no offset yet."""
        return self._accumulator.unsent + (self._unfinished.records.unsent if self._unfinished else 0)

    @property
    def uncommitted_count(self) -> int:
        """How many records were sent with the current identity: those of the open transaction."""
        return self._sender.appended_count(self._transactions.identity) + self.unsent_count

    # Taking -----------------------------------------------------------------------------------------------------------

    def take(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        size_bytes: int,
        flush: Callable[[], None],
    ) -> Receipt:
        """Take one record that was checked; its receipt calls `flush`."""
        with self.linger.lock:
            target = self._routes.of_record(topic, key, partition)
            self._make_room()
            receipt = Receipt(flush, topic, target.partition, timestamp_ms)
            self._accumulator.add(target, (key, value, headers, timestamp_ms, receipt), size_bytes)
        return receipt

    def take_batch(
        self, topic: str, partition: int | None, records: pa.RecordBatch, flush: Callable[[], None]
    ) -> list[Receipt]:
        """Take the rows of a record batch in `codec.RECORD_SCHEMA`; returns a receipt per partition."""
        receipts = []
        with self.linger.lock:
            self._make_room()
            for target, rows in self._routes.of_rows(topic, records, partition):
                receipt = Receipt(flush, topic, target.partition, rows.column("timestamp_ms")[0].as_py())
                self._accumulator.add_batch(target, rows, receipt)
                receipts.append(receipt)
        return receipts

    def _make_room(self) -> None:
        """Before a record is taken: make sure that a flush will send it, and that the buffer has room."""
        linger, transactions = self.linger, self._transactions
        if transactions.transactional_id is None and not (
            transactions.identity and linger.is_begun and linger.failure is None
        ):
            self._raise_failure()
            transactions.need_identity()
            linger.begin(self._flush_in_background)
        unfinished_bytes = self._unfinished.records.size_bytes if self._unfinished else 0
        if self._accumulator.size_bytes + unfinished_bytes >= BUFFER_BYTES:
            self.flush()

    # Flushing ---------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Append everything taken so far; raises what `Producer.flush` does."""
        with self.linger.lock:
            self._send_all()
            if isinstance(self.linger.failure, RetriableError | OutcomeUnknownError):
                self.linger.failure = None  # the flush succeeded now
            self._raise_failure()

    def flush_but_last(self) -> None:
        """Flush all but the last append, which the commit will do; its files are durable."""
        if self._unfinished is not None:  # an earlier call was interrupted
            self.flush()
        if self._accumulator.buffers:
            self._send_next(leave=1)

    def _flush_in_background(self) -> bool:
        """Flush once for `Linger`, which holds the lock; returns whether anything was unsent.

        What gets no answer is kept for the next flush.
        """
        self.lost = 0
        try:
            with self._sender.without_retries():
                return self._send_all()
        finally:
            self.untold += self.lost

    def _raise_failure(self) -> None:
        """Raise the error of a flush in the background, if there is one, to tell the user."""
        failure, self.linger.failure = self.linger.failure, None
        if failure is not None:
            self.untold = 0
            raise failure

    def _send_all(self) -> bool:
        """Send all that is unsent; returns whether there was anything."""
        if not self.has_unsent():
            return False
        while self.has_unsent():
            self._send_next()
        if self._transactions.transactional_id is None:
            self.settle()
        return True

    def _send_next(self, *, leave: int = 0) -> None:
        """Send the unfinished flush, or else the buffer. If that fails, the receipts and the transaction fail.

        Records leave the buffer and become the unfinished flush in one assignment, so an interrupt loses none.
        """
        transactional_id = self._transactions.transactional_id
        if self._unfinished is None:
            flush = Flush(self._sender, self._accumulator, self._transactions.need_identity(), transactional_id)
            self._unfinished, self._accumulator = flush, Accumulator()
        self._transactions.is_begun = True
        try:
            self._unfinished.append(leave=leave)
        except BaseException as error:
            self._transactions.track(error)
            has_no_answer = isinstance(error, RetriableError | OutcomeUnknownError)
            if transactional_id is None and (has_no_answer or not isinstance(error, Exception)):
                raise
            self._after_failed_send(error)
            if has_no_answer:
                # Not as a retriable error: the same call again would continue without the dropped records.
                raise abortable(error) from error
            raise
        if self._unfinished.is_done:
            self._unfinished = None

    # Ending -----------------------------------------------------------------------------------------------------------

    def commit(self) -> ProducerIdAndEpoch:
        """Commit, in one step with the append that `flush_but_last` left, if any; returns the next identity.

        If it may be called again after an error, the append is kept.
        """
        last = self._unfinished
        if last is None:
            return self._transactions.end_txn(commit=True)
        try:
            identity = last.commit()
        except BaseException as error:
            if isinstance(error, OncelogError) and not isinstance(error, RetriableError | OutcomeUnknownError):
                self._after_failed_send(error)
            else:
                last.records.failed(error)
            raise
        last.records.failed(UnknownTopicError("the transaction committed, but the record's topic was deleted since"))
        self._unfinished = None
        return identity

    def settle(self) -> None:
        """Settle the partitions written to, if that is due."""
        self._sender.settle()

    def drop(self) -> None:
        """Drop the unsent records of an aborted transaction."""
        self._accumulator, self._unfinished = Accumulator(), None

    def fail(self, error: BaseException) -> None:
        """Fail the unsent records of a producer that is being closed."""
        self._drop_unfinished(error)
        self.lost += self._accumulator.unsent
        self._accumulator.failed(error)
        self._accumulator = Accumulator()

    def _after_failed_send(self, error: BaseException) -> None:
        self._transactions.drop(error)
        self._drop_unfinished(error)
        if isinstance(error, UnknownTopicError):
            self._routes.forget()  # a topic was deleted, and may have been created again

    def _drop_unfinished(self, error: BaseException) -> None:
        dropped, self._unfinished = self._unfinished, None
        if dropped is not None:
            self.lost += dropped.records.unsent
            dropped.records.failed(error)
