"""A query's progress as offsets of a consumer group, which a sink with a `groupId` commits together with each batch.

If the checkpoint is lost, a query that starts at the group's offsets continues exactly after the last committed batch.
This only works if nobody else commits offsets of the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from oncelog.errors import BatchRefusedError

P = TypeVar("P")
"""The type of a partition of the source."""


@dataclass(frozen=True)
class GroupProgress(Generic[P]):
    """The source offsets of a batch.

    Attributes:
        start: the offsets that the group must have before the batch. Partitions without a commit may be missing, and at
            the query's first batch all of them.
        end: the offsets that the decision commits.
    """

    group_id: str
    start: Mapping[P, int]
    end: Mapping[P, int]

    def check_unmoved(self, held: Mapping[P, int]) -> None:
        """Refuse a batch that does not start at its group's offsets.

        Args:
            held: the group's offsets. A partition without one is no contradiction.

        Raises:
            BatchRefusedError: another client commits to the group, or the checkpoint was lost.
        """
        moved = {
            str(partition): (held[partition], start)
            for partition, start in self.start.items()
            if partition in held and held[partition] != start
        }
        if moved:
            raise BatchRefusedError(
                "the batch does not start at the group's committed offsets: another client commits to the group, or "
                "the query has a new checkpoint; start it at the group's offsets (startingOffsets=group), or use "
                "another groupId",
                group_id=self.group_id,
                held_and_start=moved,
            )
