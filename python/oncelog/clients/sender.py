"""The sending half of a producer: buffers become files, files become appends, failures become retries.

Order: write the files, make them durable, then one multi per group of partitions (log/partition_log.py). A retry
repeats the same append with the same sequences, so it finds itself if an earlier try had won.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from oncelog import limits
from oncelog.clients.accumulator import PartitionBuffer
from oncelog.clients.services import LogServices
from oncelog.coordinator.transactions import own_transaction, resolving
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import PartitionPinnedError, RetriableError
from oncelog.log import generations, partition_log
from oncelog.log.partition_log import Append, Appended
from oncelog.log.segment import SegmentWriter
from oncelog.protocol.sequencing import sequence_add
from oncelog.types import Block, ProducerIdAndEpoch, TopicIdPartition

T = TypeVar("T")

PARTITIONS_PER_APPEND = 50
"""Bounds the multi of one append."""

RETRY_BACKOFF_MS = 50


class Sender:
    """Appends for one producer. Remembers the next sequence of each partition, per identity."""

    def __init__(self, services: LogServices, *, codec: str, delivery_timeout_ms: int) -> None:
        self._services = services
        self._codec = codec
        self._delivery_timeout_ms = delivery_timeout_ms
        self._index_files = services.new_index_files()
        self._settler = services.new_settler()
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
    ) -> dict[TopicIdPartition, int]:
        """Append all buffers; returns the offset of each partition's first record.

        Raises:
            what the append raises; retriable errors only after the delivery time-out.
        """
        return self.append_blocks(self._write_files(buffers), producer, transactional_id)

    def append_blocks(
        self,
        blocks: Mapping[TopicIdPartition, Sequence[Block]],
        producer: ProducerIdAndEpoch,
        transactional_id: str | None,
    ) -> dict[TopicIdPartition, int]:
        """Append durable blocks; returns the offset of each partition's first record."""
        offsets: dict[TopicIdPartition, int] = {}
        partitions = sorted(blocks)
        for at in range(0, len(partitions), PARTITIONS_PER_APPEND):
            some = partitions[at : at + PARTITIONS_PER_APPEND]
            owner = own_transaction(transactional_id, producer) if transactional_id else None
            appends = [self._request(partition, producer, owner, tuple(blocks[partition])) for partition in some]
            reach(CrashPoint.PRODUCER_APPEND)
            appended = self._retrying(lambda a=appends: self._append(transactional_id, producer, a), some)  # type: ignore[misc]
            for request, landed in zip(appends, appended, strict=True):
                offsets[request.partition] = landed.base_offset
                self._sequences[request.partition] = sequence_add(request.base_sequence, request.count)
            reach(CrashPoint.PRODUCER_APPENDED)
        self._touched.update(partitions)
        return offsets

    def _write_files(
        self, buffers: Mapping[TopicIdPartition, PartitionBuffer]
    ) -> dict[TopicIdPartition, tuple[Block, ...]]:
        prefix = generations.prefix(generations.DATA, generations.current(self._services.store))
        writer = SegmentWriter(self._services.files, prefix, codec=self._codec)
        try:
            blocks = {
                partition: tuple(block for batch in buffer.columns() for block in writer.append(batch))
                for partition, buffer in buffers.items()
            }
            writer.finish()
        except BaseException:
            writer.discard()
            raise
        return {partition: found for partition, found in blocks.items() if found}

    def _request(
        self, partition: TopicIdPartition, producer: ProducerIdAndEpoch, owner: str | None, blocks: tuple[Block, ...]
    ) -> Append:
        manifest = None
        if len(blocks) > limits.INLINE_BLOCKS_MAX:
            manifest = generations.new_name(generations.MANIFESTS, generations.current(self._services.store))
            self._index_files.write_manifest(manifest, blocks)
        return Append(partition, producer, self._sequences.get(partition, 0), owner, blocks, manifest)

    def _append(
        self, transactional_id: str | None, producer: ProducerIdAndEpoch, appends: list[Append]
    ) -> list[Appended]:
        if transactional_id is not None:
            appended = self._services.coordinator.append(transactional_id, producer, appends)
        else:
            store = self._services.store
            appended = resolving(lambda: store.transact(lambda view: [partition_log.append(view, a) for a in appends]))
        for request, landed in zip(appends, appended, strict=True):
            partition_log.roll_if_long(self._services.store, self._index_files, request.partition, landed.tail_nodes)
        return appended

    def _retrying(self, step: Callable[[], T], partitions: list[TopicIdPartition]) -> T:
        deadline_ms = self._services.clock.monotonic_ms() + self._delivery_timeout_ms
        while True:
            try:
                return step()
            except RetriableError as error:
                if self._services.clock.monotonic_ms() >= deadline_ms:
                    raise
                if isinstance(error, PartitionPinnedError):
                    self._services.unblock(partitions)
                self._services.clock.sleep_ms(RETRY_BACKOFF_MS)

    def settle(self) -> None:
        """Shorten the lists of the partitions written to, when it is time; never fails the caller."""
        self._services.settle_quietly(self._settler, self._touched)
