"""The group of one consumer: fetches and commits its offsets, and notices when somebody else commits them as well.

It must never refuse a commit for that. As in Kafka, a consumer whose partitions are assigned by its user may commit at
any time, and the last commit counts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from oncelog.clients.services import LogServices
from oncelog.clients.upkeep import Upkeep
from oncelog.coordinator import groups
from oncelog.coordinator.groups import GroupOffsets
from oncelog.errors import UnstableOffsetCommitError
from oncelog.types import TopicIdPartition

_log = logging.getLogger(__name__)


class ConsumerGroup:
    """The offsets of one group, as one consumer sees and commits them."""

    def __init__(self, services: LogServices, group_id: str, upkeep: Upkeep) -> None:
        self.group_id = group_id
        self._store = services.store
        self._upkeep = upkeep
        self._known: dict[TopicIdPartition, int | None] = {}
        self._has_warned = False

    def fetch(self, partitions: Iterable[TopicIdPartition], *, require_stable: bool = True) -> GroupOffsets:
        """Fetch offsets. A transaction that keeps them undecided beyond its time-out is aborted, for the next try.

        Raises:
            UnstableOffsetCommitError: with `require_stable`, if an undecided transaction holds one of them.
        """
        try:
            with self._store.snapshot() as reader:
                return groups.fetch(reader, self.group_id, partitions, require_stable=require_stable)
        except UnstableOffsetCommitError as error:
            self._upkeep.sweep([error.fields["owner"]])
            raise

    def starts(self, partitions: Iterable[TopicIdPartition]) -> GroupOffsets:
        """Fetch the offsets at which the consumer begins to read."""
        wanted = list(partitions)
        found = self.fetch(wanted)
        self._known |= {partition: found[partition].offset if partition in found else None for partition in wanted}
        return found

    def commit(self, offsets: GroupOffsets) -> None:
        """Commit offsets; warn once if they replace those that somebody else committed meanwhile.

        Raises:
            GroupOwnedError, OutcomeUnknownError: see `groups.commit`.
        """
        # Taken out first: if the outcome stays unknown, the next commit must not take this one for somebody else's.
        known = {partition: self._known.pop(partition) for partition in offsets if partition in self._known}
        replaced = groups.commit(self._store, self.group_id, offsets)
        foreign = [p for p, before in replaced.items() if p in known and known[p] != before.offset]
        if foreign:
            self._warn(foreign[0])
        self._known |= {partition: value.offset for partition, value in offsets.items()}

    def _warn(self, partition: TopicIdPartition) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "another consumer of this group commits the same partition, and each of them gets every record: there "
                "is no rebalancing; assign different partitions to each [group_id=%r, partition=%r]",
                self.group_id,
                str(partition),
            )
