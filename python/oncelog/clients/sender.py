"""The sending half of a producer: buffers become files, files become appends, failures become retries.

Order: write the files, make them durable, then one multi per group of partitions (log/partition_log.py). A retry
repeats the same append with the same sequences, so it finds itself if an earlier try had won.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from oncelog.clients.accumulator import PartitionBuffer
from oncelog.clients.services import LogServices
from oncelog.clients.upkeep import Upkeep
from oncelog.coordinator.transactions import own_transaction
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import PartitionPinnedError, RetriableError
from oncelog.log import generations, partition_log
from oncelog.log.partition_log import Append, Appended
from oncelog.log.segment import BlockBuffer, SegmentWriter
from oncelog.protocol.sequencing import sequence_add
from oncelog.types import Block, ProducerIdAndEpoch, TopicIdPartition
from oncelog.znodes.transact import resolving

Landed = Callable[[TopicIdPartition, int], None]

RETRY_BACKOFF_MS = 50


class Sender:
    """Appends for one producer. Remembers the next sequence of each partition, per identity."""

    def __init__(self, services: LogServices, *, codec: str, delivery_timeout_ms: int) -> None:
        self._services = services
        self._codec = codec
        self._delivery_timeout_ms = delivery_timeout_ms
        self._index_files = services.new_index_files()
        self._upkeep = Upkeep(services)
        self._sequences: dict[TopicIdPartition, int] = {}
        self._touched: set[TopicIdPartition] = set()

    def new_identity(self) -> None:
        """Sequences begin at 0 again: every transaction has an epoch of its own."""
        self._sequences.clear()

    def send(
        self,
        buffers: Mapping[TopicIdPartition, PartitionBuffer],
        producer: ProducerIdAndEpoch,
        transactional_id: str | None,
        *,
        on_landed: Landed,
    ) -> None:
        """Append all buffers.

        Args:
            buffers: the records.
            producer: who sends them.
            transactional_id: of the open transaction, if there is one.
            on_landed: told the offset of each partition's first record, also where a later partition fails.

        Raises:
            what the append raises; retriable errors only after the delivery time-out.
        """
        self.append_blocks(self._write_files(buffers), producer, transactional_id, on_landed=on_landed)

    def append_blocks(
        self,
        blocks: Mapping[TopicIdPartition, Sequence[Block]],
        producer: ProducerIdAndEpoch,
        transactional_id: str | None,
        *,
        on_landed: Landed = lambda partition, offset: None,
    ) -> None:
        """Append durable blocks; arguments and errors as of `send`."""
        owner = own_transaction(transactional_id, producer) if transactional_id else None
        manifests = partition_log.write_manifests(self._services.store, self._index_files, blocks)
        requests = (
            [Append(p, producer, self._sequences.get(p, 0), owner, tuple(blocks[p]), manifests.get(p))]
            for p in sorted(blocks)
        )
        for appends in partition_log.in_steps(requests):
            reach(CrashPoint.PRODUCER_APPEND)
            appended = self._retrying(transactional_id, producer, appends)
            for request, landed in zip(appends, appended, strict=True):
                on_landed(request.partition, landed.base_offset)
                self._sequences[request.partition] = sequence_add(request.base_sequence, request.count)
            reach(CrashPoint.PRODUCER_APPENDED)
        self._touched.update(blocks)

    def _write_files(self, buffers: Mapping[TopicIdPartition, PartitionBuffer]) -> dict[TopicIdPartition, list[Block]]:
        prefix = generations.prefix(generations.DATA, generations.current(self._services.store))
        writer = SegmentWriter(self._services.files, prefix, codec=self._codec)
        gathered = BlockBuffer[TopicIdPartition](writer)
        blocks: dict[TopicIdPartition, list[Block]] = {}
        try:
            for partition, buffer in buffers.items():
                for batch in buffer.columns():
                    _collect(blocks, gathered.append(partition, batch))
            _collect(blocks, gathered.flush())
            writer.finish()
        except BaseException:
            writer.discard()
            raise
        return blocks

    def _append(
        self, transactional_id: str | None, producer: ProducerIdAndEpoch, appends: list[Append]
    ) -> list[Appended]:
        if transactional_id is not None:
            appended = self._services.coordinator.append(transactional_id, producer, appends)
        else:
            store = self._services.store
            appended = resolving(lambda: store.transact(lambda view: partition_log.append_all(view, appends)))
        for request, landed in zip(appends, appended, strict=True):
            partition_log.roll_if_long(self._services.store, self._index_files, request.partition, landed.tail_nodes)
        return appended

    def _retrying(
        self, transactional_id: str | None, producer: ProducerIdAndEpoch, appends: list[Append]
    ) -> list[Appended]:
        deadline_ms = self._services.clock.monotonic_ms() + self._delivery_timeout_ms
        while True:
            try:
                return self._append(transactional_id, producer, appends)
            except RetriableError as error:
                if self._services.clock.monotonic_ms() >= deadline_ms:
                    raise
                if isinstance(error, PartitionPinnedError):
                    self._upkeep.unblock(request.partition for request in appends)
                self._services.clock.sleep_ms(RETRY_BACKOFF_MS)

    def settle(self) -> None:
        """Shorten the lists of the partitions written to, when it is time; never fails the caller."""
        self._upkeep.after_writing(self._touched)


def _collect(blocks: dict[TopicIdPartition, list[Block]], written: Iterable[tuple[TopicIdPartition, Block]]) -> None:
    for partition, block in written:
        blocks.setdefault(partition, []).append(block)
