"""Which source offsets a log sink commits to its consumer group when a batch is decided."""

from __future__ import annotations

import json

from oncelog.batches.offsets import GroupProgress
from oncelog.errors import BatchRefusedError
from oncelog.spark.kit.context import BatchContext
from oncelog.spark.kit.progress import Foreign, parse_ends, progress
from oncelog.spark.offsets import SourceOffset, is_source_offset, parse_offset
from oncelog.types import TopicIdPartition


def _is_of_kafka(text: str) -> bool:
    """Whether the text has the shape that Kafka sources log: ``{"topic":{"0":12}}``."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return (
        not is_source_offset(text) and isinstance(found, dict) and any(isinstance(one, dict) for one in found.values())
    )


_OF_KAFKA = Foreign(
    _is_of_kafka,
    "a group of the log cannot hold Kafka offsets; leave groupId out of the sink (the checkpoint keeps the progress), "
    "and set it on the source if Kafka should show the query's progress",
)


def of_batch(batch: BatchContext, group_id: str, cluster_id: str) -> GroupProgress[TopicIdPartition]:
    """The group's offsets before and after the batch.

    Args:
        batch: the batch as Spark's checkpoint describes it.
        group_id: the sink's groupId; the query's source must name the same group.
        cluster_id: of the sink's log; the query's source must read from the same log.

    Raises:
        BatchRefusedError: the query's progress depends on more than the offsets of this group.
    """

    def parse(text: str | None) -> SourceOffset | None:
        found = parse_offset(text) if text is not None and is_source_offset(text) else None
        return found if found is not None and found.group_id == group_id else None

    wanted = "oncelog with the sink's groupId (give the sources that option)"
    ends = parse_ends(batch, group_id, parse, wanted, _OF_KAFKA)
    if any(end.cluster_id != cluster_id for end in ends):
        raise BatchRefusedError(
            "the source reads another log than the sink writes, and a group holds offsets of its own log only; leave "
            "groupId out of the sink",
            group_id=group_id,
            source_cluster_ids=sorted({end.cluster_id for end in ends}),
            cluster_id=cluster_id,
        )
    # A source without a start begins with an empty batch (source.py), so its end is where the query starts.
    starts = [end if text is None else parse_offset(text) for text, end in zip(batch.start_offsets, ends, strict=True)]
    return progress(group_id, [start.partitions() for start in starts], [end.partitions() for end in ends])
