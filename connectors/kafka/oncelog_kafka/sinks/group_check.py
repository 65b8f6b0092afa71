"""Checks that a consumer group is where the batch starts, before the batch moves it."""

from __future__ import annotations

from oncelog.batches.offsets import GroupProgress
from oncelog.types import TopicPartition
from oncelog_kafka.ledger.ledger import Ledger
from oncelog_kafka.protocol import tokens
from oncelog_kafka.protocol.ports import Brokers, CommittedOffset, Unstable


def check_group(brokers: Brokers, ledger: Ledger, progress: GroupProgress[TopicPartition]) -> None:
    """Refuse a batch that does not start at its group's offsets.

    One case is allowed: the group is behind, because an earlier batch of the query lost the part with the offsets and
    an operator accepted the loss. Then this batch moves the group forward.

    Raises:
        BatchRefusedError: see `GroupProgress.check_unmoved`.
    """
    if not progress.start:
        return
    for _ in brokers.tries("a group's offsets are not stable", group_id=progress.group_id):
        wanted = [(partition.topic, partition.partition) for partition in progress.start]
        held = brokers.offsets({progress.group_id: wanted})[progress.group_id]
        if not any(isinstance(offset, Unstable) for offset in held.values()):
            break
    progress.check_unmoved(
        {
            TopicPartition(*place): offset.offset
            for place, offset in held.items()
            if not isinstance(offset, Unstable) and not _is_of_an_earlier_batch(offset, ledger)
        }
    )


def _is_of_an_earlier_batch(offset: CommittedOffset, ledger: Ledger) -> bool:
    """Whether a batch of this query before the previous one wrote the offset, or a query whose history it took over."""
    said = tokens.read(offset.metadata)
    request = ledger.request
    if said is None:
        return False
    if said.query_id == request.query_id:
        return said.batch_id < request.batch_id - 1
    return said.query_id == request.takeover or ledger.remembers(said.round, said.nonce)
