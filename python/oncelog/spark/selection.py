"""Which partitions a source reads: those that its options select now, and what happens to those that it read before.

A partition that was deleted or is no longer selected is data loss under failOnDataLoss. Otherwise it is left out, with
one warning. A deleted partition is forgotten, because it never comes back; one that is no longer selected keeps its
position.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from oncelog.errors import DataLossError, UnknownPartitionError, UnknownTopicError
from oncelog.log import partition_reads, topics
from oncelog.ports import ZnodeReader
from oncelog.spark.offsets import SourceOffset
from oncelog.spark.options import SourceOptions
from oncelog.types import TopicIdPartition, TopicPartition

_log = logging.getLogger(__name__)

Named = str | TopicPartition
"""A topic, or one partition of it, as the options name them."""


class Selection:
    """The partitions of one source; remembers which of them are gone, and which warnings were logged."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._gone: set[TopicIdPartition] = set()
        self._told: set[Named | TopicIdPartition] = set()

    def read(self, reader: ZnodeReader, known: SourceOffset | None) -> list[TopicIdPartition]:
        """The selected partitions that exist.

        Args:
            known: how far the query has read; None for a new query.

        Raises:
            UnknownTopicError, UnknownPartitionError: the options name something that does not exist, and the query is
                new, or has failOnDataLoss and never read it.
            DataLossError: under failOnDataLoss, a partition that the query reads is gone, or no longer selected.
        """
        if known is None:
            return self._select(reader, lambda named: False)
        is_strict, names = self._options.fail_on_data_loss, known.names()
        selected = self._select(reader, lambda named: named in names or not is_strict)
        missing = known.partitions().keys() - set(selected)
        existing = partition_reads.read_existing(reader, sorted(missing))
        for partition in sorted(missing):
            if partition in existing:
                self._leave_out(partition)
            else:
                self.lose(partition)
        return selected

    def existing(self, reader: ZnodeReader) -> list[TopicIdPartition]:
        """The selected partitions that exist, whatever the query read before."""
        return self._select(reader, lambda named: True)

    def lose(self, partition: TopicIdPartition) -> None:
        """Continue without a partition that is gone, if the query may.

        Raises:
            DataLossError: under failOnDataLoss.
        """
        what = "a topic was deleted since the query read it"
        self._tell(partition, what, "failOnDataLoss=false continues without it")
        self._gone.add(partition)

    def is_gone(self, partition: TopicIdPartition) -> bool:
        """Whether the partition was deleted and the query continued without it."""
        return partition in self._gone

    def _select(self, reader: ZnodeReader, may_be_gone: Callable[[Named], bool]) -> list[TopicIdPartition]:
        options = self._options
        if options.subscribe_pattern is not None:
            pattern = re.compile(options.subscribe_pattern)
            return [p for p in topics.all_partitions(reader) if pattern.fullmatch(p.topic)]
        selected: list[TopicIdPartition] = []
        for named in options.assign or options.subscribe or ():
            try:
                selected += _named(reader, named)
            except (UnknownTopicError, UnknownPartitionError):
                if not may_be_gone(named):
                    raise
                self._warn_once(named, "the options name a topic or partition that does not exist")
        return selected

    def _leave_out(self, partition: TopicIdPartition) -> None:
        """Continue without a partition that exists but is no longer selected, if the query may."""
        self._tell(
            partition,
            "the options no longer select a partition that the query reads",
            "select it again, or start with a new checkpoint; failOnDataLoss=false leaves it out, and keeps its "
            "position",
        )

    def _tell(self, partition: TopicIdPartition, what: str, remedy: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{what}; {remedy}",
                topic=partition.topic,
                topic_id=partition.topic_id,
                partition=partition.partition,
            )
        self._warn_once(partition, what)

    def _warn_once(self, left_out: Named | TopicIdPartition, why: str) -> None:
        if left_out not in self._told:
            self._told.add(left_out)
            _log.warning("%s; continuing without it: %r", why, left_out)


def _named(reader: ZnodeReader, named: Named) -> list[TopicIdPartition]:
    """The partitions that a name in the options stands for."""
    if isinstance(named, str):
        return topics.partitions_of(reader, named)
    return [partition_reads.identify(reader, named.topic, named.partition)]
