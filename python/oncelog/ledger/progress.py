"""The progress of a query as a consumer group holds it: what a sink with a `groupId` commits together with each batch.

After a lost checkpoint a query that starts where the group stands goes on exactly behind the last committed batch. That
holds only while nobody else commits to the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from oncelog.errors import BatchRefusedError

P = TypeVar("P")
"""A partition of the source, as its place names it."""


@dataclass(frozen=True)
class GroupProgress(Generic[P]):
    """The source offsets of a batch.

    Attributes:
        group_id: the group.
        start: what the group must hold before the batch. Partitions that it never committed may be missing there, and
            all of them may where the batch is the query's first.
        end: what the decision makes current.
    """

    group_id: str
    start: Mapping[P, int]
    end: Mapping[P, int]

    def check_unmoved(self, held: Mapping[P, int]) -> None:
        """Refuse a batch that does not start where its group stands.

        Args:
            held: what the group holds. A partition that it never committed stands nowhere, and is no contradiction.

        Raises:
            BatchRefusedError: somebody else commits to the group, or the checkpoint was lost.
        """
        moved = {
            str(partition): (held[partition], start)
            for partition, start in self.start.items()
            if partition in held and held[partition] != start
        }
        if moved:
            raise BatchRefusedError(
                "the group's committed offsets are not where the batch starts: somebody else commits to it, or the "
                "query starts from a new checkpoint; start it where the group stands (startingOffsets=group), or use "
                "another groupId",
                group_id=self.group_id,
                held_and_start=moved,
            )
