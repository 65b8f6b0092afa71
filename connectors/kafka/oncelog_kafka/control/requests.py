"""Asks the Kafka brokers through Java's client, for settings that kafka-python cannot handle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from oncelog_kafka.control.partitions import ControlPartitions
from oncelog_kafka.control.process import process_of
from oncelog_kafka.errors import BrokerUnavailableError
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.patience import refusal
from oncelog_kafka.protocol import end_txn
from oncelog_kafka.protocol.entries import keeps_ledger
from oncelog_kafka.protocol.extents import Extents
from oncelog_kafka.protocol.participants import Listed, Participant, ProducerIdAndEpoch, Transaction
from oncelog_kafka.protocol.ports import (
    Answer,
    CommittedOffset,
    Ended,
    Offsets,
    PartitionState,
    PartitionStates,
    Unstable,
)

_NEVER_COMMITTED = -1


class ControlRequests:
    """`ports.Requests` through Java's client; thread-safe. Raises as `control.process.process_of`."""

    def __init__(self, client: JavaClient) -> None:
        self._client = client
        self._process = process_of(client)

    def close(self) -> None:
        """End the process, unless others use it."""
        self._process.close()

    # Transactions -----------------------------------------------------------------------------------------------------

    def end(self, participants: Sequence[Participant]) -> list[Ended]:
        answers = self._ask_each(len(participants), "end", participants=[_end(one) for one in participants])
        return [_ended(answer) for answer in answers]

    def init(self, transactional_ids: Sequence[str], timeout_ms: int) -> list[Answer]:
        return self._ask_each(len(transactional_ids), "init", ids=list(transactional_ids), timeoutMs=timeout_ms)

    def describe(self, transactional_ids: Sequence[str]) -> list[Transaction | Answer]:
        answers = self._ask_each(len(transactional_ids), "describe", ids=list(transactional_ids))
        return [_transaction(name, one) for name, one in zip(transactional_ids, answers, strict=True)]

    def states(self, rows: Extents, others: Sequence[tuple[str, int]]) -> PartitionStates:
        ends = {(one.topic, one.partition): (one.topic_id, extent.last + 1) for one, extent in rows.items()}
        wanted = {**dict.fromkeys(others, (None, 0)), **ends}
        partitions = [
            {"topic": topic, "partition": number, "topicId": topic_id, "end": end}
            for (topic, number), (topic_id, end) in wanted.items()
        ]
        answers = self._ask_each(len(wanted), "states", partitions=partitions)
        return {one: _state(said) for one, said in zip(wanted, answers, strict=True)}

    def list_ids(self, states: Sequence[str]) -> list[Listed]:
        return [(name, state) for name, state in self._process.ask("list", states=list(states))]

    # Offsets ----------------------------------------------------------------------------------------------------------

    def offsets(self, groups: Mapping[str, Sequence[tuple[str, int]] | None]) -> dict[str, Offsets | Answer]:
        wanted = {group: None if some is None else _by_topic(some) for group, some in groups.items()}
        try:
            answers = self._process.ask("offsets", groups=wanted)
        except BrokerUnavailableError:
            return dict.fromkeys(groups, "NETWORK_EXCEPTION")
        return {group: one if isinstance(one, str) else _offsets(group, one) for group, one in answers.items()}

    # Cluster ----------------------------------------------------------------------------------------------------------

    def partitions_of(self, topic: str) -> int | None:
        name, count = self._process.ask("partitions", topic=topic)
        if name in {"NONE", "LEADER_NOT_AVAILABLE"}:
            return int(count)
        if name not in {"UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION"}:
            raise refusal(name, "a topic could not be described", topic=topic)
        return None

    def keeps_ledger(self, topic: str) -> bool:
        with closing(ControlPartitions(self._client)) as partitions:
            return keeps_ledger(partitions, topic)

    def topic_settings(self, topic: str) -> Mapping[str, str]:
        with closing(ControlPartitions(self._client)) as partitions:
            return partitions.settings_of(topic)

    def cluster_id(self) -> str:
        return str(self._process.ask("clusterId"))

    def broker_setting(self, name: str) -> int | None:
        return min(self._process.ask("setting", name=name), default=None)

    def _ask_each(self, count: int, what: str, **fields: object) -> list[Any]:
        try:
            answers: list[Any] = self._process.ask(what, **fields)
        except BrokerUnavailableError:
            return ["NETWORK_EXCEPTION"] * count
        return answers


# Wire -----------------------------------------------------------------------------------------------------------------


def _end(participant: Participant) -> dict[str, object]:
    least, greatest = end_txn.wire_versions(participant.transaction_version)
    return {
        "id": participant.transactional_id,
        "producerId": participant.producer_id,
        "epoch": participant.epoch,
        "least": least,
        "greatest": greatest,
    }


def _ended(answer: Any) -> Ended:
    return Ended(answer) if isinstance(answer, str) else Ended("NONE", ProducerIdAndEpoch(*answer))


def _transaction(name: str, answer: Any) -> Transaction | Answer:
    if isinstance(answer, str):
        return answer
    return Transaction(
        transactional_id=name,
        state=answer["state"],
        producer_id=answer["producerId"],
        epoch=answer["epoch"],
        timeout_ms=answer["timeoutMs"],
        started_ms=answer["startedMs"],
        partitions=tuple(sorted(answer["partitions"])),
    )


def _state(answer: Any) -> PartitionState | Answer:
    if isinstance(answer, str):
        return answer
    opened = {ProducerIdAndEpoch(producer_id, epoch): start for producer_id, epoch, start in answer["opened"]}
    return PartitionState(opened, answer["logStart"])


def _by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


def _offsets(group: str, answers: Iterable[Any]) -> Offsets:
    found: Offsets = {}
    for topic, number, problem, offset, metadata in answers:
        if problem in end_txn.PASSING:
            found[topic, number] = Unstable()
        elif problem not in {"NONE", "UNKNOWN_TOPIC_OR_PARTITION"}:
            raise refusal(problem, "offsets of a group could not be read", group_id=group, topic=topic)
        elif offset != _NEVER_COMMITTED:
            found[topic, number] = CommittedOffset(offset, metadata)
    return found
