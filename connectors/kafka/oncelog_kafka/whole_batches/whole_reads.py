"""Says readers up to where they may read whole batches: the jar (WholeBatches.java), and consumers of users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncelog.errors import UnknownTopicError, UsageError
from oncelog.types import TopicIdPartition, TopicPartition
from oncelog_kafka import connections
from oncelog_kafka.ledger import ledger_store
from oncelog_kafka.ledger.ledger import decided_batches
from oncelog_kafka.options.sink_options import LedgerPlace, parse_ledger_place
from oncelog_kafka.protocol.extents import Batch
from oncelog_kafka.protocol.ports import LedgerTopic
from oncelog_kafka.whole_batches.whole_batches import last_ends, limited_ends


def answer(request: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    """The ends for the jar, by topic and partition.

    Args:
        request: for each partition its start, up to where the read may go, and with a limit also the last end that was
            found without it. The brokers were asked about them before.
        options: of the read; those that say where the ledger is.

    Raises:
        OncelogError: the ledger cannot be read, or does not say where the rows of a batch are.
    """
    asked = {
        TopicIdPartition(name, topic["id"], int(number)): offsets
        for name, topic in request["topics"].items()
        for number, offsets in topic["partitions"].items()
    }
    count = max(map(len, asked.values()), default=2)
    starts, wanted, *last = ({p: offsets[at] for p, offsets in asked.items()} for at in range(count))
    batches = _batches(parse_ledger_place(options))
    ends = limited_ends(batches, starts, wanted, *last) if last else last_ends(batches, starts, wanted)
    found: dict[str, dict[str, int]] = {}
    for partition, end in ends.items():
        found.setdefault(partition.topic, {})[str(partition.partition)] = end
    return {"ends": found}


def whole_ends(stable: Mapping[Any, int], starts: Mapping[Any, int], options: Mapping[str, object]) -> dict[Any, int]:
    """See `oncelog_kafka.whole_ends`."""
    place = parse_ledger_place(options)
    given = {_named(partition): partition for partition in stable}
    ids = _topic_ids(place, {partition.topic for partition in given})
    named = {TopicIdPartition(one.topic, ids[one.topic], one.partition): key for one, key in given.items()}
    from_ = {partition: min(starts.get(key, 0), stable[key]) for partition, key in named.items()}
    ends = last_ends(_batches(place), from_, {partition: stable[key] for partition, key in named.items()})
    return {key: ends[partition] for partition, key in named.items()}


def _named(partition: Any) -> TopicPartition:
    try:
        return TopicPartition(partition.topic, partition.partition)
    except AttributeError:
        raise UsageError(
            "a partition needs a topic and a partition; use kafka.TopicPartition, or oncelog.TopicPartition",
            found=repr(partition),
        ) from None


def _batches(place: LedgerPlace) -> list[Batch]:
    store = connections.open_ledger_to_read(place)
    store.sync()
    with store.snapshot() as reader:
        return decided_batches(reader)


def _topic_ids(place: LedgerPlace, topics: set[str]) -> dict[str, str]:
    requests = ledger_store.requests_of(place.admin)
    try:
        return {topic: _topic_id(topic, requests.describe(topic)) for topic in topics}
    finally:
        requests.close()


def _topic_id(topic: str, found: LedgerTopic) -> str:
    if found.answer != "NONE":
        raise UnknownTopicError("there is no such topic, or this user may not see it", topic=topic, answer=found.answer)
    return found.topic_id
