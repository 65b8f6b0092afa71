"""Answers the jar's question how far a read of whole batches may go (WholeBatches.java)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncelog.types import TopicIdPartition
from oncelog_kafka import connections, options
from oncelog_kafka.ledger import decided_batches
from oncelog_kafka.whole_batches import last_ends, limited_ends


def answer(request: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """The ends, by topic and partition.

    Args:
        request: for each partition its start, up to where the read may go, and with a limit also the last end that was
            found without it. The brokers were asked about them before.
        given: options of the read that say where the ledger is.

    Raises:
        OncelogError: the ledger cannot be read, or does not say where the rows of a batch are.
    """
    asked = {
        TopicIdPartition(name, topic["id"], int(number)): offsets
        for name, topic in request["topics"].items()
        for number, offsets in topic["partitions"].items()
    }
    starts, wanted, *last = ({p: offsets[at] for p, offsets in asked.items()} for at in range(_count(asked)))
    store = connections.open_ledger_to_read(options.parse_ledger_place(given))
    store.sync()
    with store.snapshot() as reader:
        batches = decided_batches(reader)
    ends = limited_ends(batches, starts, wanted, *last) if last else last_ends(batches, starts, wanted)
    found: dict[str, dict[str, int]] = {}
    for partition, end in ends.items():
        found.setdefault(partition.topic, {})[str(partition.partition)] = end
    return {"ends": found}


def _count(asked: Mapping[TopicIdPartition, list[int]]) -> int:
    return max(map(len, asked.values()), default=2)
