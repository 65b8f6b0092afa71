"""Sends a producer's buffered records: writes them into files, appends these to the log, and retries.

First the files are written and made durable, then one multi per group of partitions appends them
(log/partition_log.py). A retry repeats the same append with the same sequences, so the partition recognises it if an
earlier try succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from oncelog.clients.accumulator import Piece, as_batches
from oncelog.clients.services import LogServices
from oncelog.clients.upkeep import Upkeep
from oncelog.coordinator.transactions import own_transaction
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import OutcomeUnknownError, PartitionPinnedError, RetriableError, StepTooLargeError
from oncelog.log import generations, partition_log
from oncelog.log.partition_log import Append, Appended
from oncelog.log.segment import BlockBuffer, SegmentWriter
from oncelog.protocol.sequencing import sequence_add
from oncelog.types import Block, ProducerIdAndEpoch, TopicIdPartition
from oncelog.znodes.transact import in_parts, resolving

T = TypeVar("T")

Landed = Callable[[TopicIdPartition, int], None]

RETRY_BACKOFF_MS = 50

GENERATION_KNOWN_MS = 60_000
"""How long a sender uses a generation that it has read; far less than one lasts (limits.GENERATION_MIN_AGE_MS)."""


class Sender:
    """Appends for one producer. Remembers the next sequence of each partition for the current identity."""

    def __init__(self, services: LogServices, *, codec: str, delivery_timeout_ms: int) -> None:
        self._services = services
        self._codec = codec
        self._delivery_timeout_ms = delivery_timeout_ms
        self._index_files = services.new_index_files()
        self._upkeep = Upkeep(services)
        self._producer: ProducerIdAndEpoch | None = None
        self._sequences: dict[TopicIdPartition, int] = {}
        self._touched: set[TopicIdPartition] = set()  # since the last settle
        self._known_generation: tuple[int, int] | None = None

    def appended_count(self, producer: ProducerIdAndEpoch | None) -> int:
        """How many records were appended with this identity: those of one transaction."""
        return sum(self._sequences.values()) if producer == self._producer else 0

    @contextmanager
    def without_retries(self) -> Iterator[None]:
        """Within the block, retriable errors and unknown outcomes are raised at once, without retries."""
        timeout_ms, self._delivery_timeout_ms = self._delivery_timeout_ms, 0
        try:
            yield
        finally:
            self._delivery_timeout_ms = timeout_ms

    def append_blocks(
        self,
        blocks: Mapping[TopicIdPartition, Sequence[Block]],
        producer: ProducerIdAndEpoch,
        transactional_id: str | None,
    ) -> None:
        """Append durable blocks. Retriable errors and unknown outcomes are raised only after the delivery time-out."""
        for appends in self.in_steps(blocks, producer, transactional_id):
            self.append_step(appends, producer, transactional_id, lambda partition, offset: None)

    def commit(
        self, last: list[Append], producer: ProducerIdAndEpoch, transactional_id: str, on_landed: Landed
    ) -> ProducerIdAndEpoch:
        """Append a transaction's last step and commit, in one multi; returns the identity of the next transaction."""
        coordinator = self._services.coordinator
        try:
            appended, identity = self._retrying(last, lambda: coordinator.commit(transactional_id, producer, last))
        except StepTooLargeError:
            self.append_step(last, producer, transactional_id, on_landed)
            return self._retrying(last, lambda: coordinator.end_txn(transactional_id, producer, commit=True))
        self._landed(last, appended, on_landed)
        return identity

    def in_steps(
        self,
        blocks: Mapping[TopicIdPartition, Sequence[Block]],
        producer: ProducerIdAndEpoch,
        transactional_id: str | None,
    ) -> Iterator[list[Append]]:
        if producer != self._producer:
            self._producer, self._sequences = producer, {}  # each transaction has a new epoch, which begins at 0
        owner = own_transaction(transactional_id, producer) if transactional_id else None
        manifests = partition_log.write_manifests(self._services.store, self._index_files, blocks)
        return partition_log.in_steps(
            [Append(p, producer, self._sequences.get(p, 0), owner, tuple(blocks[p]), manifests.get(p))]
            for p in sorted(blocks)
        )

    def append_step(
        self, appends: list[Append], producer: ProducerIdAndEpoch, transactional_id: str | None, on_landed: Landed
    ) -> None:
        def append(some: Sequence[Append]) -> list[Appended]:
            if transactional_id is not None:
                return self._services.coordinator.append(transactional_id, producer, some)
            store = self._services.store
            return resolving(lambda: store.transact(lambda view: partition_log.append_all(view, some)))

        def append_some(some: Sequence[Append]) -> None:
            self._landed(some, self._retrying(some, lambda: append(some)), on_landed)

        reach(CrashPoint.PRODUCER_APPEND)
        in_parts(appends, append_some)
        reach(CrashPoint.PRODUCER_APPENDED)

    def _landed(self, appends: Sequence[Append], appended: Sequence[Appended | None], on_landed: Landed) -> None:
        for request, landed in zip(appends, appended, strict=True):
            if landed is None:
                continue  # the topic was deleted meanwhile
            on_landed(request.partition, landed.base_offset)
            self._sequences[request.partition] = sequence_add(request.base_sequence, request.count)
            self._touched.add(request.partition)
            partition_log.roll_if_long(self._services.store, self._index_files, request.partition, landed.tail_nodes)

    def write_files(self, buffers: Mapping[TopicIdPartition, Sequence[Piece]]) -> dict[TopicIdPartition, list[Block]]:
        writer = SegmentWriter(
            self._services.files, generations.prefix(generations.DATA, self._generation()), codec=self._codec
        )
        gathered = BlockBuffer[TopicIdPartition](writer)
        blocks: dict[TopicIdPartition, list[Block]] = {}
        try:
            for partition, pieces in buffers.items():
                for batch in as_batches(pieces):
                    _collect(blocks, gathered.append(partition, batch))
            _collect(blocks, gathered.flush())
            writer.finish()
        except BaseException:
            writer.discard()
            raise
        return blocks

    def _generation(self) -> int:
        """The collection generation, at most a minute old: safe, since files of the previous one may be named, too."""
        now_ms = self._services.clock.monotonic_ms()
        if self._known_generation is None or now_ms - self._known_generation[1] >= GENERATION_KNOWN_MS:
            self._known_generation = (generations.current(self._services.store), now_ms)
        return self._known_generation[0]

    def _retrying(self, appends: Sequence[Append], step: Callable[[], T]) -> T:
        """Like `resolving`, which retries at once, but waits between tries for a store that is unavailable."""
        deadline_ms = self._services.clock.monotonic_ms() + self._delivery_timeout_ms
        unknown: OutcomeUnknownError | None = None
        while True:
            try:
                return step()
            except (RetriableError, OutcomeUnknownError) as error:
                unknown = error if isinstance(error, OutcomeUnknownError) else unknown
                if self._services.clock.monotonic_ms() >= deadline_ms:
                    raise unknown or error from None
                if isinstance(error, PartitionPinnedError):
                    self._upkeep.unblock(request.partition for request in appends)
                self._services.clock.sleep_ms(RETRY_BACKOFF_MS)

    def settle(self) -> None:
        """Settle the partitions written to, if that is due. Never fails the caller."""
        touched, self._touched = self._touched, set()
        self._upkeep.after_writing(touched)


def _collect(blocks: dict[TopicIdPartition, list[Block]], written: Iterable[tuple[TopicIdPartition, Block]]) -> None:
    for partition, block in written:
        blocks.setdefault(partition, []).append(block)
