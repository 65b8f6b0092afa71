"""Which source offsets of a batch a sink commits to its consumer group. Pure.

The group can replace a lost checkpoint only if its offsets are all of the query's progress. Queries whose progress is
more than that are refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from oncelog.batches.offsets import GroupProgress
from oncelog.errors import BatchRefusedError

if TYPE_CHECKING:
    from oncelog.spark.kit.context import BatchContext  # needs PySpark

P = TypeVar("P")
S = TypeVar("S")


class Foreign(NamedTuple):
    """A kind of offset that a group of this target can never hold.

    Attributes:
        is_one: whether a logged offset is of this kind.
        refusal: the error message for it.
    """

    is_one: Callable[[str], bool]
    refusal: str


def parse_ends(
    batch: BatchContext, group_id: str, parse: Callable[[str | None], S | None], wanted: str, foreign: Foreign
) -> list[S]:
    """Where each source of the query ends in a batch.

    Args:
        batch: the batch as Spark's checkpoint describes it.
        group_id: the sink's groupId.
        parse: reads an offset that a source logged; returns None if the group cannot hold offsets of its kind.
        wanted: names the kind that it can hold, for the error.
        foreign: the kind that users give instead by mistake.

    Raises:
        BatchRefusedError: the query's progress is more than such offsets.
    """
    if batch.has_state:
        raise BatchRefusedError(
            "the query keeps state, which would not resume with the group's offsets; leave groupId out of the sink",
            group_id=group_id,
            query_id=batch.query_id,
        )
    ends = [parse(text) for text in batch.end_offsets]
    known = [end for end in ends if end is not None]
    if not known or len(known) != len(ends):
        if any(foreign.is_one(text) for text in batch.end_offsets if text is not None):
            raise BatchRefusedError(foreign.refusal, group_id=group_id, sources=list(batch.end_offsets))
        raise BatchRefusedError(
            f"every source of the query must be {wanted}, so that the group holds all of its progress; or leave "
            "groupId out of the sink",
            group_id=group_id,
            sources=list(batch.end_offsets),
        )
    return known


def merged(sources: Iterable[Mapping[P, int]], group_id: str) -> dict[P, int]:
    """The offsets of all sources.

    Raises:
        BatchRefusedError: two sources read the same partition.
    """
    found: dict[P, int] = {}
    for source in sources:
        twice = found.keys() & source.keys()
        if twice:
            raise BatchRefusedError(
                "two sources of the query read one partition, but a group holds only one offset per partition; leave "
                "groupId out of the sink",
                group_id=group_id,
                partitions=sorted(map(str, twice)),
            )
        found.update(source)
    return found


def progress(group_id: str, starts: Sequence[Mapping[P, int]], ends: Sequence[Mapping[P, int]]) -> GroupProgress[P]:
    """The progress of a batch over all sources."""
    return GroupProgress(group_id, merged(starts, group_id), merged(ends, group_id))
