"""Asks the brokers for transactions, tokens and settings, through kafka-python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from oncelog.extras import extras

with extras("kafka", part="oncelog_kafka"):
    from kafka import errors as kafka_errors
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.protocol.admin import DescribeTransactionsRequest
    from kafka.protocol.consumer import OffsetFetchRequest
    from kafka.protocol.metadata import CoordinatorType
    from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest

from oncelog_kafka.brokers.client import IN_FLIGHT, connected, name_of, named_errors, passing_name, sent
from oncelog_kafka.brokers.leaders import Leaders
from oncelog_kafka.brokers.partitions import KafkaPartitions
from oncelog_kafka.errors import BrokerUnavailableError
from oncelog_kafka.patience import refusal
from oncelog_kafka.protocol import end_txn
from oncelog_kafka.protocol.entries import keeps_ledger
from oncelog_kafka.protocol.extents import Extents
from oncelog_kafka.protocol.participants import Listed, Participant, ProducerIdAndEpoch, Transaction
from oncelog_kafka.protocol.ports import Answer, CommittedOffset, Ended, Offsets, PartitionStates, Unstable

_NO_PRODUCER = -1
_NEVER_COMMITTED = -1


class KafkaRequests:
    """`ports.Requests` through kafka-python."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._client = connected(settings)
        self._leaders = Leaders(self._client)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    # Transactions -----------------------------------------------------------------------------------------------------

    def end(self, participants: Sequence[Participant]) -> list[Ended]:
        requests = [(p.transactional_id, _end_request(p)) for p in participants]
        return [_ended(answer) for answer in self.ask_each(requests)]

    def init(self, transactional_ids: Sequence[str], timeout_ms: int) -> list[Answer]:
        requests = [(name, _init_request(name, timeout_ms)) for name in transactional_ids]
        return [_answer(answer) for answer in self.ask_each(requests)]

    def describe(self, transactional_ids: Sequence[str]) -> list[Transaction | Answer]:
        try:
            by_coordinator = self._by_coordinator(transactional_ids)
        except BrokerUnavailableError:
            return ["NETWORK_EXCEPTION"] * len(transactional_ids)
        requests = [(ids[0], DescribeTransactionsRequest(transactional_ids=ids)) for ids in by_coordinator]
        found: dict[str, Transaction | Answer] = {}
        for ids, answer in zip(by_coordinator, self.ask_each(requests), strict=True):
            if isinstance(answer, str):  # the request was routed by the first id; all ids have the same coordinator
                found |= dict.fromkeys(ids, answer)
            else:
                found |= {state.transactional_id: _transaction(state) for state in answer.transaction_states}
        for name, answer in found.items():
            if isinstance(answer, str) and answer in end_txn.PASSING:
                self._forget_coordinator(name)
        return [found[name] for name in transactional_ids]

    def states(self, rows: Extents, others: Sequence[tuple[str, int]]) -> PartitionStates:
        return self._leaders.states(rows, others)

    def list_ids(self, states: Sequence[str]) -> list[Listed]:
        with named_errors():
            answers = self._client.list_transactions(state_filters=states or None)
        return [(one.transactional_id, str(one.state.value)) for listed in answers.values() for one in listed]

    # Offsets ----------------------------------------------------------------------------------------------------------

    def offsets(self, groups: Mapping[str, Sequence[tuple[str, int]] | None]) -> dict[str, Offsets | Answer]:
        requests = [(group, _fetch_request(group, partitions)) for group, partitions in groups.items()]
        found: dict[str, Offsets | Answer] = {}
        for group, answer in zip(groups, self.ask_each(requests, CoordinatorType.GROUP), strict=True):
            said = answer if isinstance(answer, str) else _offsets(answer.groups[0])
            if isinstance(said, str) and said in end_txn.PASSING:
                self._forget_coordinator(group, CoordinatorType.GROUP)
            found[group] = said
        return found

    # Cluster ----------------------------------------------------------------------------------------------------------

    def partitions_of(self, topic: str) -> int | None:
        with named_errors():
            described = self._client.describe_topics([topic])
        for one in described:
            name = name_of(one["error_code"])
            if name in {"NONE", "LEADER_NOT_AVAILABLE"}:
                return len(one["partitions"])
            if name not in {"UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION"}:
                raise refusal(name, "a topic could not be described", topic=topic)
        return None

    def keeps_ledger(self, topic: str) -> bool:
        return keeps_ledger(KafkaPartitions(self._settings, self._client), topic)

    def topic_settings(self, topic: str) -> Mapping[str, str]:
        return KafkaPartitions(self._settings, self._client).settings_of(topic)

    def cluster_id(self) -> str:
        with named_errors():
            return str(self._client.describe_cluster()["cluster_id"])

    def broker_setting(self, name: str) -> int | None:
        with named_errors():
            brokers = [str(broker["broker_id"]) for broker in self._client.describe_cluster()["brokers"]]
            wanted = [ConfigResource(ConfigResourceType.BROKER, broker, configs=[name]) for broker in brokers]
            answer = self._client.describe_configs(wanted, config_filter="all")
        return min(_values_of(answer, name), default=None)

    # Requests ---------------------------------------------------------------------------------------------------------

    def ask_each(self, requests: Sequence[tuple[str, Any]], kind: Any = CoordinatorType.TRANSACTION) -> list[Any]:
        """Send each request to the coordinator of its key, in order. A passing failure is answered with its name."""
        answers: list[Any] = []
        for start in range(0, len(requests), IN_FLIGHT):
            some = requests[start : start + IN_FLIGHT]
            with named_errors():
                answers += self._client._manager.run(self._send_each, some, kind)
        return answers

    async def _send_each(self, requests: Sequence[tuple[str, Any]], kind: Any) -> list[Any]:
        keys = [key for key, _ in requests]
        try:
            nodes = await self._client._find_coordinator_ids(keys, key_type=kind)
        except kafka_errors.KafkaError as problem:
            return [passing_name(problem)] * len(requests)
        futures = [sent(self._client, request, nodes[key]) for key, request in requests]
        answers: list[Any] = []
        for (key, _), future in zip(requests, futures, strict=True):
            try:
                answer = await future
                moved = _code_of(answer) in {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"}
            except kafka_errors.KafkaError as problem:
                answer, moved = passing_name(problem), True
            if moved:
                self._forget_coordinator(key, kind)
            answers.append(answer)
        return answers

    def _by_coordinator(self, transactional_ids: Sequence[str]) -> list[list[str]]:
        with named_errors():
            found: dict[str, Any] = self._client._manager.run(
                self._client._find_coordinator_ids, transactional_ids, CoordinatorType.TRANSACTION
            )
        groups: dict[Any, list[str]] = {}
        for name, node in found.items():
            groups.setdefault(node, []).append(name)
        return list(groups.values())

    def _forget_coordinator(self, key: str, kind: Any = CoordinatorType.TRANSACTION) -> None:
        self._client._manager.cluster._coordinators.pop((kind, key), None)


# Wire -----------------------------------------------------------------------------------------------------------------


def _end_request(participant: Participant) -> Any:
    least, greatest = end_txn.wire_versions(participant.transaction_version)
    return EndTxnRequest(
        transactional_id=participant.transactional_id,
        producer_id=participant.producer_id,
        producer_epoch=participant.epoch,
        committed=True,
        min_version=least,
        max_version=greatest,
    )


def _init_request(transactional_id: str, timeout_ms: int) -> Any:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=_NO_PRODUCER,
        producer_epoch=_NO_PRODUCER,
        max_version=5,  # 6 is unreleased (KIP-939)
    )


def _fetch_request(group: str, partitions: Iterable[tuple[str, int]] | None) -> Any:
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    wanted = None
    if partitions is not None:
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        wanted = [of_group.OffsetFetchRequestTopics(name=name, partition_indexes=some) for name, some in topics.items()]
    return OffsetFetchRequest(
        groups=[of_group(group_id=group, topics=wanted)], require_stable=True, min_version=8, max_version=9
    )


def _offsets(answer: Any) -> Offsets | Answer:
    name = name_of(answer.error_code)
    if name not in {"NONE", "GROUP_ID_NOT_FOUND"}:
        return name
    found: Offsets = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            problem = name_of(partition.error_code)
            if problem in {"UNSTABLE_OFFSET_COMMIT", *end_txn.PASSING}:
                found[key] = Unstable()
            elif problem not in {"NONE", "UNKNOWN_TOPIC_OR_PARTITION"}:
                raise refusal(
                    problem, "offsets of a group could not be read", group_id=answer.group_id, topic=topic.name
                )
            elif partition.committed_offset != _NEVER_COMMITTED:
                found[key] = CommittedOffset(partition.committed_offset, partition.metadata or "")
    return found


def _transaction(state: Any) -> Transaction | Answer:
    if state.error_code:
        return name_of(state.error_code)
    return Transaction(
        transactional_id=state.transactional_id,
        state=state.transaction_state,
        producer_id=state.producer_id,
        epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        started_ms=state.transaction_start_time_ms,
        partitions=tuple(sorted(f"{topic.topic}-{number}" for topic in state.topics for number in topic.partitions)),
    )


def _values_of(answer: Any, name: str) -> Iterator[int]:
    for resources in answer.values():
        for settings in resources.values():
            if name in settings:
                yield int(settings[name]["value"])


def _ended(answer: Any) -> Ended:
    said = _answer(answer)
    if said != "NONE" or answer.producer_id == _NO_PRODUCER:  # below version 5, answers name no producer
        return Ended(said)
    return Ended(said, ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch))


def _answer(answer: Any) -> Answer:
    return answer if isinstance(answer, str) else name_of(answer.error_code)


def _code_of(answer: Any) -> Answer:
    code = getattr(answer, "error_code", 0)
    return name_of(code) if isinstance(code, int) else "NONE"
