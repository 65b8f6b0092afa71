"""The consumer group that a sink keeps: which source offsets of a batch become the group's with its decision.

After a lost checkpoint a query with ``startingOffsets=group`` goes on exactly behind the last committed batch. That
holds only if the group's offsets are all the query's progress; what else a query may depend on is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.coordinator.rounds import BatchOffsets
from oncelog.errors import BatchRefusedError
from oncelog.spark.context import BatchContext
from oncelog.spark.offsets import SourceOffset, is_source_offset, parse_offset
from oncelog.types import OffsetAndMetadata, TopicIdPartition


def of_batch(batch: BatchContext, group_id: str, cluster_id: str) -> BatchOffsets:
    """The group's offsets before and after the batch.

    Args:
        batch: what Spark's checkpoint says of it.
        group_id: of the sink; the query's source must name the same.
        cluster_id: of the sink's log, which keeps the group; the query's source must read it.

    Raises:
        BatchRefusedError: the query's progress is more than the offsets of this group.
    """
    if batch.has_state:
        raise BatchRefusedError(
            "the query keeps state, which would not resume with the group's offsets; leave groupId out of the sink",
            group_id=group_id,
            query_id=batch.query_id,
        )
    ends = [parse_offset(text) for text in batch.end_offsets if text is not None and is_source_offset(text)]
    if len(ends) != len(batch.end_offsets) or any(end.group_id != group_id for end in ends):
        raise BatchRefusedError(
            "every source of the query must be oncelog with the sink's groupId, for the group to hold its progress; "
            "give the sources that groupId, or leave it out of the sink",
            group_id=group_id,
            sources=len(batch.end_offsets),
            groups=sorted({str(end.group_id) for end in ends}),
        )
    if any(end.cluster_id != cluster_id for end in ends):
        raise BatchRefusedError(
            "the source reads another log than the sink writes, and a group's offsets are kept where it reads; leave "
            "groupId out of the sink",
            group_id=group_id,
            source_cluster_ids=sorted({end.cluster_id for end in ends}),
            cluster_id=cluster_id,
        )
    # A source that has no start yet begins with an empty batch (source.py): its end is where the query starts.
    starts = [end if text is None else parse_offset(text) for text, end in zip(batch.start_offsets, ends, strict=True)]
    return BatchOffsets(group_id, _positions(starts, group_id), _positions(ends, group_id))


def _positions(offsets: Iterable[SourceOffset], group_id: str) -> dict[TopicIdPartition, OffsetAndMetadata]:
    found: dict[TopicIdPartition, OffsetAndMetadata] = {}
    for source in offsets:
        for partition, offset in source.partitions().items():
            if partition in found:
                raise BatchRefusedError(
                    "two sources of the query read one partition; one offset cannot stand for both",
                    group_id=group_id,
                    topic=partition.topic,
                    partition=partition.partition,
                )
            found[partition] = OffsetAndMetadata(offset)
    return found
