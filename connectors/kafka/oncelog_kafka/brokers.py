"""Asks the Kafka brokers through kafka-python: transactions, tokens, settings, entries of a command log. Its only user.

kafka-python has a public API for most of this. The rest (EndTxn and InitProducerId of any id, stable offsets, a
coordinator that moved) uses its private routing, which is wrapped here; pyproject.toml bounds its version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from oncelog.extras import extras

with extras("kafka", part="oncelog_kafka"):
    from kafka import TopicPartition
    from kafka import errors as kafka_errors
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
    from kafka.future import Future
    from kafka.protocol.admin import DescribeTransactionsRequest
    from kafka.protocol.consumer import FetchRequest, OffsetFetchRequest
    from kafka.protocol.metadata import CoordinatorType
    from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest, ProduceRequest
    from kafka.record import MemoryRecords, MemoryRecordsBuilder

from oncelog.errors import InvalidOptionError
from oncelog.ports import Clock
from oncelog.znodes.clock import SYSTEM_CLOCK, wall_ms
from oncelog.znodes.replicated.port import Entry
from oncelog_kafka import end_txn
from oncelog_kafka.admin_settings import JavaClient
from oncelog_kafka.control import ControlRequests
from oncelog_kafka.errors import BrokerAccessError, BrokerUnavailableError
from oncelog_kafka.participants import Listed, Participant, Transaction
from oncelog_kafka.patience import PatientBrokers, refusal
from oncelog_kafka.ports import Answer, CommittedOffset, Fetched, Offsets, Unstable

RECONNECT_MS = 1_000
"""The longest pause between two attempts to connect; kafka-python's 30 seconds are longer than a broker's restart."""

IN_FLIGHT = 64
"""How many requests are sent before waiting for the first answer."""

_DEFAULTS = {
    "reconnect_backoff_max_ms": RECONNECT_MS,
    # More than are ever in flight: at its limit (by default 5), kafka-python refuses requests instead of queueing them.
    "max_in_flight_requests_per_connection": 2 * IN_FLIGHT,
}

_FETCH_BYTES = 16 << 20
_PRODUCE_MS = 10_000

_NO_PRODUCER = -1
_NEVER_COMMITTED = -1


class Brokers(PatientBrokers):
    """A connection to one cluster; thread-safe.

    Args:
        settings: of the driver's client, from `admin_settings.derive`.
        clock: measures how long to wait for the brokers.
    """

    def __init__(self, settings: Mapping[str, Any] | JavaClient, clock: Clock = SYSTEM_CLOCK) -> None:
        chosen = ControlRequests(settings) if isinstance(settings, JavaClient) else KafkaRequests(settings)
        super().__init__(chosen, clock)


class _AdminClient(KafkaAdminClient):  # type: ignore[misc]
    """Closes itself if it cannot connect; kafka-python would leak a thread and file descriptors."""

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except BaseException:
            if hasattr(self, "_net"):
                self._closed = False
                self.close()
            raise


class KafkaRequests:
    """`ports.Requests` through kafka-python."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._leaders: dict[str, tuple[int, Any]] = {}  # of topics' partition 0, and the topics' ids
        with _named_errors():
            try:
                self._admin = _AdminClient(**{**_DEFAULTS, **settings})
            except kafka_errors.KafkaConfigurationError as problem:
                raise InvalidOptionError(
                    "a setting of the driver's Kafka client is wrong", problem=str(problem)
                ) from None
            except kafka_errors.KafkaTimeoutError as problem:
                if not str(settings.get("security_protocol", "")).upper().startswith("SASL"):
                    raise
                # If the login is refused, kafka-python usually only notices that the connection was closed.
                raise BrokerUnavailableError(
                    "the Kafka brokers cannot be reached, or refuse the login; check kafka.bootstrap.servers and the "
                    "credentials",
                    problem=repr(problem),
                    security_protocol=settings["security_protocol"],
                    sasl_mechanism=settings.get("sasl_mechanism"),
                ) from problem

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    # Transactions -----------------------------------------------------------------------------------------------------

    def end(self, participants: Sequence[Participant]) -> list[Answer]:
        requests = [(p.transactional_id, _end_request(p)) for p in participants]
        return [_answer(answer) for answer in self._ask_each(requests)]

    def init(self, transactional_ids: Sequence[str], timeout_ms: int) -> list[Answer]:
        requests = [(name, _init_request(name, timeout_ms)) for name in transactional_ids]
        return [_answer(answer) for answer in self._ask_each(requests)]

    def describe(self, transactional_ids: Sequence[str]) -> list[Transaction | Answer]:
        try:
            by_coordinator = self._by_coordinator(transactional_ids)
        except BrokerUnavailableError:
            return ["NETWORK_EXCEPTION"] * len(transactional_ids)
        requests = [(ids[0], DescribeTransactionsRequest(transactional_ids=ids)) for ids in by_coordinator]
        found: dict[str, Transaction | Answer] = {}
        for ids, answer in zip(by_coordinator, self._ask_each(requests), strict=True):
            if isinstance(answer, str):  # the request was routed by the first id; all ids have the same coordinator
                found |= dict.fromkeys(ids, answer)
            else:
                found |= {state.transactional_id: _transaction(state) for state in answer.transaction_states}
        for name, answer in found.items():
            if isinstance(answer, str) and answer in end_txn.PASSING:
                self._forget_coordinator(name)
        return [found[name] for name in transactional_ids]

    def list_ids(self, states: Sequence[str]) -> list[Listed]:
        with _named_errors():
            answers = self._admin.list_transactions(state_filters=states or None)
        return [(one.transactional_id, str(one.state.value)) for listed in answers.values() for one in listed]

    # Offsets ----------------------------------------------------------------------------------------------------------

    def offsets(self, groups: Mapping[str, Sequence[tuple[str, int]]]) -> dict[str, Offsets | Answer]:
        requests = [(group, _fetch_request(group, partitions)) for group, partitions in groups.items()]
        found: dict[str, Offsets | Answer] = {}
        for group, answer in zip(groups, self._ask_each(requests, CoordinatorType.GROUP), strict=True):
            said = answer if isinstance(answer, str) else _offsets(answer.groups[0])
            if isinstance(said, str) and said in end_txn.PASSING:
                self._forget_coordinator(group, CoordinatorType.GROUP)
            found[group] = said
        return found

    # Cluster ----------------------------------------------------------------------------------------------------------

    def partitions_of(self, topic: str) -> int | None:
        with _named_errors():
            described = self._admin.describe_topics([topic])
        for one in described:
            name = _name(one["error_code"])
            if name in {"NONE", "LEADER_NOT_AVAILABLE"}:
                return len(one["partitions"])
            if name not in {"UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION"}:
                raise refusal(name, "a topic could not be described", topic=topic)
        return None

    def broker_setting(self, name: str) -> int | None:
        with _named_errors():
            brokers = [str(broker["broker_id"]) for broker in self._admin.describe_cluster()["brokers"]]
            wanted = [ConfigResource(ConfigResourceType.BROKER, broker, configs=[name]) for broker in brokers]
            answer = self._admin.describe_configs(wanted, config_filter="all")
        return min(_values_of(answer, name), default=None)

    # Partitions -------------------------------------------------------------------------------------------------------

    def fetch(self, topic: str, offset: int) -> Fetched | Answer:
        answer = self._ask_leader(topic, _fetch_of(topic, offset))
        if isinstance(answer, str):
            return answer
        partition = answer.responses[0].partitions[0]
        found = _name(partition.error_code)
        if found != "NONE":
            self._leaders.pop(topic, None)
            return found
        entries = [
            Entry(record.offset, record.timestamp, record.value)
            for batch in MemoryRecords(partition.records or b"")
            for record in batch
            if record.offset >= offset  # a batch is fetched whole
        ]
        return Fetched(str(self._leaders[topic][1]), entries, partition.high_watermark)

    def produce(self, topic: str, body: bytes) -> Answer:
        answer = self._ask_leader(topic, _produce_of(topic, body))
        if not isinstance(answer, str):
            answer = _name(answer.responses[0].partition_responses[0].error_code)
        if answer != "NONE":
            self._leaders.pop(topic, None)
        return answer

    def earliest(self, topic: str) -> int:
        partition = TopicPartition(topic, 0)
        with _named_errors():
            found = self._admin.list_partition_offsets({partition: OffsetSpec.EARLIEST})
        return int(found[partition].offset)

    def delete_before(self, topic: str, offset: int) -> None:
        with _named_errors():
            self._admin.delete_records({TopicPartition(topic, 0): offset})

    def _ask_leader(self, topic: str, request: Any) -> Any:
        if topic not in self._leaders:
            with _named_errors():
                described = self._admin.describe_topics([topic])
            for one in described:
                for partition in one["partitions"]:
                    if partition["partition_index"] == 0 and partition["leader_id"] >= 0:
                        self._leaders[topic] = partition["leader_id"], one["topic_id"]
        if topic not in self._leaders:
            return "LEADER_NOT_AVAILABLE"
        with _named_errors():
            answer = self._admin._manager.run(self._answer_of, request, self._leaders[topic][0])
        if isinstance(answer, str):
            self._leaders.pop(topic)
        return answer

    async def _answer_of(self, request: Any, node: int) -> Any:
        try:
            return await self._sent(request, node)
        except kafka_errors.KafkaError as problem:
            return _passing_name(problem)

    # Requests ---------------------------------------------------------------------------------------------------------

    def _ask_each(self, requests: Sequence[tuple[str, Any]], kind: Any = CoordinatorType.TRANSACTION) -> list[Any]:
        """Send each request to the coordinator of its key, in order. A passing failure is answered with its name."""
        answers: list[Any] = []
        for start in range(0, len(requests), IN_FLIGHT):
            some = requests[start : start + IN_FLIGHT]
            with _named_errors():
                answers += self._admin._manager.run(self._send_each, some, kind)
        return answers

    async def _send_each(self, requests: Sequence[tuple[str, Any]], kind: Any) -> list[Any]:
        keys = [key for key, _ in requests]
        try:
            nodes = await self._admin._find_coordinator_ids(keys, key_type=kind)
        except kafka_errors.KafkaError as problem:
            return [_passing_name(problem)] * len(requests)
        sent = [self._sent(request, nodes[key]) for key, request in requests]
        answers: list[Any] = []
        for (key, _), future in zip(requests, sent, strict=True):
            try:
                answer = await future
                moved = _code_of(answer) in {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"}
            except kafka_errors.KafkaError as problem:
                answer, moved = _passing_name(problem), True
            if moved:
                self._forget_coordinator(key, kind)
            answers.append(answer)
        return answers

    def _sent(self, request: Any, node: Any) -> Any:
        """The future answer. A coordinator that left the cluster counts as one that does not answer."""
        try:
            return self._admin._manager.send(request, node_id=node)
        except kafka_errors.UnknownBrokerIdError as problem:
            return Future().failure(problem)

    def _by_coordinator(self, transactional_ids: Sequence[str]) -> list[list[str]]:
        with _named_errors():
            found: dict[str, Any] = self._admin._manager.run(
                self._admin._find_coordinator_ids, transactional_ids, CoordinatorType.TRANSACTION
            )
        groups: dict[Any, list[str]] = {}
        for name, node in found.items():
            groups.setdefault(node, []).append(name)
        return list(groups.values())

    def _forget_coordinator(self, key: str, kind: Any = CoordinatorType.TRANSACTION) -> None:
        self._admin._manager.cluster._coordinators.pop((kind, key), None)


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


def _fetch_request(group: str, partitions: Iterable[tuple[str, int]]) -> Any:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    wanted = [of_group.OffsetFetchRequestTopics(name=name, partition_indexes=some) for name, some in topics.items()]
    return OffsetFetchRequest(
        groups=[of_group(group_id=group, topics=wanted)], require_stable=True, min_version=8, max_version=9
    )


def _fetch_of(topic: str, offset: int) -> Any:
    of_topic = FetchRequest.FetchTopic
    partition = of_topic.FetchPartition(
        partition=0, current_leader_epoch=-1, fetch_offset=offset, log_start_offset=-1, partition_max_bytes=_FETCH_BYTES
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_FETCH_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[of_topic(topic=topic, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
        max_version=12,  # from 13 on topics go by their ids
    )


def _produce_of(topic: str, body: bytes) -> Any:
    records = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=len(body) + 1024)
    records.append(timestamp=wall_ms(), key=None, value=body)
    records.close()
    of_topic = ProduceRequest.TopicProduceData
    partition = of_topic.PartitionProduceData(index=0, records=records.buffer())
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=_PRODUCE_MS,
        topic_data=[of_topic(name=topic, partition_data=[partition])],
        max_version=12,  # from 13 on topics go by their ids
    )


def _offsets(answer: Any) -> Offsets | Answer:
    name = _name(answer.error_code)
    if name not in {"NONE", "GROUP_ID_NOT_FOUND"}:
        return name
    found: Offsets = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            problem = _name(partition.error_code)
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
        return _name(state.error_code)
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


# Errors ---------------------------------------------------------------------------------------------------------------


def _name(error_code: int) -> str:
    return "NONE" if error_code == 0 else str(kafka_errors.for_code(error_code).message)


def _answer(answer: Any) -> Answer:
    return answer if isinstance(answer, str) else _name(answer.error_code)


def _code_of(answer: Any) -> str:
    code = getattr(answer, "error_code", 0)
    return _name(code) if isinstance(code, int) else "NONE"


def _passing_name(problem: kafka_errors.KafkaError) -> str:
    """The name of a passing failure; other failures are raised."""
    name = str(getattr(problem, "message", ""))
    if name in end_txn.PASSING:
        return name
    if problem.retriable or isinstance(problem, kafka_errors.UnknownBrokerIdError):
        return "NETWORK_EXCEPTION"
    raise problem


@contextmanager
def _named_errors() -> Iterator[None]:
    """Turn kafka-python's errors into oncelog's."""
    try:
        yield
    except (kafka_errors.AuthorizationError, kafka_errors.SaslAuthenticationFailedError) as problem:
        raise BrokerAccessError(
            "the Kafka brokers do not allow this; check the credentials and the ACLs of this user", problem=str(problem)
        ) from problem
    except kafka_errors.KafkaError as problem:
        if not problem.retriable and not isinstance(problem, kafka_errors.UnknownBrokerIdError):
            raise BrokerAccessError("the Kafka brokers refused a request", problem=repr(problem)) from problem
        raise BrokerUnavailableError(
            "the Kafka brokers cannot be reached, or do not answer; check kafka.bootstrap.servers",
            problem=repr(problem),
        ) from problem
