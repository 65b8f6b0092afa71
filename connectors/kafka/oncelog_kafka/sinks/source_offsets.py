"""Which source offsets of a batch the sink commits to its consumer group, in the batch's own transactions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from oncelog.batches.offsets import GroupProgress
from oncelog.checkpoints.positions import kafka_offsets
from oncelog.errors import BatchRefusedError
from oncelog.spark.kit.progress import Foreign, parse_ends, progress
from oncelog.spark.offsets import is_source_offset
from oncelog.types import TopicPartition

if TYPE_CHECKING:
    from oncelog.spark.kit.context import BatchContext  # needs PySpark

_OF_A_LOG = Foreign(
    is_source_offset,
    "a Kafka group cannot hold the offsets of a log; leave groupId out of the sink (the checkpoint keeps the "
    "progress), and set it on the source if the log should show the query's progress",
)

KafkaOffsets = dict[TopicPartition, int]


def of_batch(batch: BatchContext, group_id: str, cluster_id: Callable[[], str]) -> GroupProgress[TopicPartition]:
    """The group's offsets before and after a batch. The query's first batch may start anywhere.

    Args:
        cluster_id: returns the id of the group's cluster.

    Raises:
        BatchRefusedError: the query's progress is more than offsets of Kafka's partitions, or of another cluster.
    """
    others = {cluster for cluster in batch.source_clusters if cluster not in (None, cluster_id())}
    if others:
        raise BatchRefusedError(
            "a source reads another cluster than the sink writes to, and a group holds offsets of its own cluster's "
            "topics only; leave groupId out of the sink (the checkpoint keeps the progress), and set it on the source "
            "if its cluster should show the query's progress",
            group_id=group_id,
            source_clusters=sorted(map(str, others)),
            sink_cluster=cluster_id(),
        )
    ends = parse_ends(batch, group_id, parse_offsets, "Kafka (format kafka or oncelog-kafka)", _OF_A_LOG)
    starts = [parse_offsets(text) for text in batch.start_offsets]
    known = [start for start in starts if start is not None]
    return progress(group_id, known if len(known) == len(starts) else [], ends)


def by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    """Offsets in the shape that Kafka's sources write."""
    found: dict[str, dict[int, int]] = {}
    for place, offset in offsets.items():
        found.setdefault(place.topic, {})[place.partition] = offset
    return found


def parse_offsets(text: str | None) -> KafkaOffsets | None:
    """The offsets that a Kafka source logged, ``{"topic":{"0":12}}``; None if they are another source's.

    They are empty if no topic matches the source's pattern yet. Where `oncelog-kafka` continues in topics
    that are out of sight now, and the ids of topics that were created again, do not belong to a group's offsets.
    """
    found = kafka_offsets(text)
    if found is None:
        return None
    return {TopicPartition(topic, number): offset for topic, some in found.items() for number, offset in some.items()}
