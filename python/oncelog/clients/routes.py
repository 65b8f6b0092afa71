"""Chooses the partitions of a producer's records: the named one, the key's, or else each partition in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from oncelog.arguments import check_name
from oncelog.clients import partitioner
from oncelog.log import partition_reads, topics
from oncelog.log.records import split_rows
from oncelog.ports import ZnodeStore
from oncelog.types import TopicIdPartition


class Routes:
    """The partitions of the topics that a producer writes to. They are looked up once."""

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store
        self._partitions: dict[str, list[TopicIdPartition]] = {}
        self._turns: Counter[str] = Counter()

    def forget(self) -> None:
        """Look the partitions up again: a topic was deleted, and may have been created again."""
        self._partitions.clear()

    def of_record(self, topic: str, key: bytes | None, partition: int | None) -> TopicIdPartition:
        """The partition of one record: `partition` if given, else the key's, else the next in turn.

        Raises:
            UnknownTopicError, UnknownPartitionError: the topic or the partition does not exist.
            UsageError: the topic's name is not valid, or the partition is no whole number.
        """
        partitions = self._partitions_of(topic)
        if partition is not None:
            if type(partition) is int and 0 <= partition < len(partitions):
                return partitions[partition]
            found = partition_reads.identify(self._store, topic, partition)  # raises, unless
            del self._partitions[topic]  # the topic was created again, with more partitions
            return found
        if key is not None:
            return partitions[partitioner.partition_for_key(key, len(partitions))]
        return partitions[self._next_turn(topic, len(partitions))]

    def of_rows(
        self, topic: str, records: pa.RecordBatch, partition: int | None
    ) -> Iterator[tuple[TopicIdPartition, pa.RecordBatch]]:
        """Split the rows by partition, in order. Rows without a key go to one partition together.

        Args:
            records: in `codec.RECORD_SCHEMA`.
            partition: of all rows, regardless of their keys.

        Raises:
            UnknownTopicError, UnknownPartitionError: the topic or partition does not exist; nothing was yielded.
        """
        if records.num_rows == 0:
            return
        partitions = self._partitions_of(topic)
        if partition is not None or len(partitions) == 1:
            yield self.of_record(topic, None, partition), records
            return
        numbers = partitioner.partitions_for_keys(records.column("key"), len(partitions))
        turn = self._next_turn(topic, len(partitions)) if numbers.null_count else 0
        for number, rows in split_rows(records, numbers.fill_null(turn).to_numpy()):
            yield partitions[number], rows

    def _next_turn(self, topic: str, count: int) -> int:
        """Counts per topic: with one counter, two topics written alternately would each get only some partitions."""
        turn = self._turns[topic] = self._turns[topic] + 1
        return turn % count

    def _partitions_of(self, topic: object) -> list[TopicIdPartition]:
        found = self._partitions.get(topic) if isinstance(topic, str) else None
        if found is None:
            name = check_name("topic's name", topic)
            found = self._partitions[name] = topics.partitions_of(self._store, name)
        return found
