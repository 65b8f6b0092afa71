"""Asks for single partitions through Java's client: entries of a command log."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from oncelog_kafka.control.process import process_of
from oncelog_kafka.errors import BrokerUnavailableError
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.protocol.ports import FETCH_BYTES, Answer, Appended, Fetched, LedgerTopic, Record, RecordBatch


class ControlPartitions:
    """`ports.PartitionRequests` through Java's client; thread-safe. Raises as `control.process.process_of`."""

    def __init__(self, client: JavaClient) -> None:
        self._process = process_of(client)

    def close(self) -> None:
        """End the process, unless others use it."""
        self._process.close()

    def fetch(self, topic: str, offset: int, max_bytes: int = FETCH_BYTES) -> Fetched | Answer:
        answer = self._passing("fetch", topic=topic, offset=offset, maxBytes=max_bytes)
        if isinstance(answer, str):
            return answer
        return Fetched(answer["topicId"], [_batch(**one) for one in answer["batches"]], answer["highWatermark"])

    def forget_leader(self, topic: str) -> None:
        self._process.ask("forgetLeader", topic=topic)

    def produce(self, topic: str, topic_id: str, body: bytes) -> Appended | Answer:
        answer = self._passing("produce", topic=topic, topicId=topic_id, body=b64encode(body).decode())
        if isinstance(answer, str):
            return answer
        return Appended(topic_id if answer["isById"] else None, answer["offset"], answer["timeMs"])

    def earliest(self, topic: str) -> int:
        return int(self._process.ask("earliest", topic=topic))

    def delete_before(self, topic: str, offset: int) -> None:
        self._process.ask("deleteBefore", topic=topic, offset=offset)

    def describe(self, topic: str) -> LedgerTopic:
        found = self._process.ask("topic", topic=topic)
        return LedgerTopic(
            answer=found["answer"],
            topic_id=found["topicId"],
            leader=found["leader"],
            leader_epoch=found["leaderEpoch"],
            partitions=found["partitions"],
            operations=frozenset(found["operations"]),
        )

    def settings_of(self, topic: str) -> Mapping[str, str]:
        found: Mapping[str, str] = self._process.ask("topicSettings", topic=topic)
        return found

    def create(self, topic: str, replicas: int, settings: Mapping[str, str]) -> None:
        self._process.ask("createTopic", topic=topic, replicas=replicas, settings=dict(settings))

    def count_brokers(self) -> int:
        return int(self._process.ask("brokers"))

    def _passing(self, what: str, **fields: object) -> Any:
        try:
            return self._process.ask(what, **fields)
        except BrokerUnavailableError:
            return "NETWORK_EXCEPTION"


def _batch(count: int, end: int, records: Sequence[tuple[int, int, str | None]], isIntact: bool) -> RecordBatch:  # noqa: N803 - Java's name
    found = [Record(offset, time_ms, None if value is None else b64decode(value)) for offset, time_ms, value in records]
    return RecordBatch(count, end, found, lambda: isIntact)
