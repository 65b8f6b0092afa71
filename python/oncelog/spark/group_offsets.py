"""The consumer group that the log's sinks keep: which source offsets of a batch become its own with the decision."""

from __future__ import annotations

import json

from oncelog.errors import BatchRefusedError
from oncelog.ledger.progress import GroupProgress
from oncelog.spark.kit.context import BatchContext
from oncelog.spark.kit.progress import Foreign, parse_ends, progress
from oncelog.spark.offsets import SourceOffset, is_source_offset, parse_offset
from oncelog.types import TopicIdPartition


def _is_of_kafka(text: str) -> bool:
    """Whether Kafka's sources log such offsets: ``{"topic":{"0":12}}``."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return (
        not is_source_offset(text) and isinstance(found, dict) and any(isinstance(one, dict) for one in found.values())
    )


_OF_KAFKA = Foreign(
    _is_of_kafka,
    "Kafka offsets cannot be in a group of the log; leave groupId out of the sink (the checkpoint keeps the progress), "
    "and give it to the source, if Kafka is to show how far the query is",
)


def of_batch(batch: BatchContext, group_id: str, cluster_id: str) -> GroupProgress[TopicIdPartition]:
    """The group's offsets before and after the batch.

    Args:
        batch: what Spark's checkpoint says of it.
        group_id: of the sink; the query's source must name the same.
        cluster_id: of the sink's log, which keeps the group; the query's source must read it.

    Raises:
        BatchRefusedError: the query's progress is more than the offsets of this group.
    """

    def parse(text: str | None) -> SourceOffset | None:
        found = parse_offset(text) if text is not None and is_source_offset(text) else None
        return found if found is not None and found.group_id == group_id else None

    wanted = "oncelog with the sink's groupId (give the sources that option)"
    ends = parse_ends(batch, group_id, parse, wanted, _OF_KAFKA)
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
    return progress(group_id, [start.partitions() for start in starts], [end.partitions() for end in ends])
