"""The Kafka brokers, as the sink's driver needs them: transactions, tokens, settings. The home of kafka-python.

kafka-python has an API for most of it. What it has none for (EndTxn and InitProducerId of any id, offsets that must be
stable, a coordinator that moved) goes through its private routing, wrapped here once; pyproject.toml bounds its
version.

Every request may be sent again: an answer that is lost, or says that a coordinator moved or loads, is asked for anew
until the brokers' patience ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.future import Future
from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest

from oncelog.errors import InvalidOptionError, InvariantViolation
from oncelog_kafka import end_txn
from oncelog_kafka.errors import BrokerAccessError, BrokerUnavailableError
from oncelog_kafka.participants import Participant, Transaction

T = TypeVar("T")

PATIENCE_MS = 60_000
"""How long a request is sent again while brokers are away; Kafka's own producer waits as long (max.block.ms)."""

PAUSE_S = 0.02
"""Between two tries: a coordinator that is busy with the previous transition is done in milliseconds."""

LONGEST_PAUSE_S = 0.5

RECONNECT_MS = 1_000
"""The longest pause before another try to connect: kafka-python's half a minute would outlast a broker's restart."""

IN_FLIGHT = 64
"""Requests that are sent before the first answer is waited for."""

_DEFAULTS = {
    "reconnect_backoff_max_ms": RECONNECT_MS,
    # More than are ever sent: at its limit (of 5) kafka-python refuses requests instead of keeping them.
    "max_in_flight_requests_per_connection": 2 * IN_FLIGHT,
}

_NO_PRODUCER = -1
_NEVER_COMMITTED = -1


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """An offset of a consumer group."""

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Unstable:
    """A group has offsets in a transaction that is not decided yet."""


class _AdminClient(KafkaAdminClient):  # type: ignore[misc]
    """Closes what it opened when no broker lets it in: kafka-python leaves a thread and its descriptors behind."""

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except BaseException:
            if hasattr(self, "_net"):
                self._closed = False
                self.close()
            raise


class Brokers:
    """A connection to one cluster; thread-safe, as kafka-python's is.

    Args:
        settings: of kafka-python's admin client.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
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
                # Of a login that is refused kafka-python mostly learns no more than that the connection ended.
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

    def commit(self, participants: Sequence[Participant]) -> list[str]:
        """Send EndTxn(commit) of each participant, in this order.

        Returns:
            the answers by Kafka's names, ``NONE`` for success; passing ones too, as they came.
        """
        requests = [(p.transactional_id, _end_request(p)) for p in participants]
        return [answer if isinstance(answer, str) else _name(answer.error_code) for answer in self._ask_each(requests)]

    def fence(self, transactional_ids: Iterable[str], timeout_ms: int) -> None:
        """Abort what is open under these ids and fence their producers, by InitProducerId.

        Never for an id whose outcome is not recorded: this is how a prepared transaction is lost.
        """
        waiting = list(transactional_ids)
        for _ in self.tries("a transaction could not be aborted"):
            requests = [(name, _init_request(name, timeout_ms)) for name in waiting]
            answers = [a if isinstance(a, str) else _name(a.error_code) for a in self._ask_each(requests)]
            for name, answer in zip(waiting, answers, strict=True):
                if answer != "NONE" and answer not in end_txn.PASSING:
                    raise _refusal(answer, "a transaction could not be aborted", transactional_id=name)
            waiting = [name for name, answer in zip(waiting, answers, strict=True) if answer != "NONE"]
            if not waiting:
                return

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        """What the coordinators say of these ids; those they do not know are left out."""
        found: dict[str, Transaction] = {}
        waiting = list(transactional_ids)
        for _ in self.tries("transactions could not be described"):
            by_coordinator = self._by_coordinator(waiting)
            requests = [(ids[0], DescribeTransactionsRequest(transactional_ids=ids)) for ids in by_coordinator]
            retried: list[str] = []
            for ids, answer in zip(by_coordinator, self._ask_each(requests), strict=True):
                if isinstance(answer, str):
                    retried += ids
                    for name in ids:  # the request went by the first one's coordinator, which is every one's
                        self._forget_coordinator(name)
                    continue
                for state in answer.transaction_states:
                    name = _name(state.error_code)
                    if name == "NONE":
                        found[state.transactional_id] = _transaction(state)
                    elif name in end_txn.PASSING:
                        retried.append(state.transactional_id)
                        self._forget_coordinator(state.transactional_id)
                    elif name != "TRANSACTIONAL_ID_NOT_FOUND":
                        raise _refusal(
                            name, "transactions could not be described", transactional_id=state.transactional_id
                        )
            waiting = retried
            if not waiting:
                break
        return found

    def list_ids(self, states: Sequence[str] = ()) -> list[tuple[str, str]]:
        """(transactional id, state) of all that the cluster's coordinators know, or of those in these states."""

        def ask() -> list[tuple[str, str]]:
            answers = self._admin.list_transactions(state_filters=states or None)
            return [(one.transactional_id, str(one.state.value)) for listed in answers.values() for one in listed]

        return sorted(self._patiently("transactions could not be listed", ask))

    # Offsets ----------------------------------------------------------------------------------------------------------

    def offsets(
        self, groups: Mapping[str, Iterable[tuple[str, int]]]
    ) -> dict[str, dict[tuple[str, int], CommittedOffset | Unstable]]:
        """The stable committed offsets of groups, of these partitions; what was never committed is left out."""
        found: dict[str, dict[tuple[str, int], CommittedOffset | Unstable]] = {}
        waiting = {group: sorted(partitions) for group, partitions in groups.items()}
        for _ in self.tries("offsets could not be read"):
            requests = [(group, _fetch_request(group, partitions)) for group, partitions in waiting.items()]
            for (group, _request), answer in zip(
                requests, self._ask_each(requests, CoordinatorType.GROUP), strict=True
            ):
                if not isinstance(answer, str) and _name(answer.groups[0].error_code) not in end_txn.PASSING:
                    found[group] = _offsets(group, answer.groups[0])
                    del waiting[group]
                else:
                    self._forget_coordinator(group, CoordinatorType.GROUP)
            if not waiting:
                break
        return found

    # Cluster ----------------------------------------------------------------------------------------------------------

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions a topic has; None if there is no such topic."""

        def ask() -> int | None:
            described = self._admin.describe_topics([topic])
            for one in described:
                name = _name(one["error_code"])
                if name in {"NONE", "LEADER_NOT_AVAILABLE"}:
                    return len(one["partitions"])
                if name not in {"UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION"}:
                    raise _refusal(name, "a topic could not be described", topic=topic)
            return None

        return self._patiently("a topic could not be described", ask)

    def broker_setting(self, name: str) -> int | None:
        """The least value that any broker has for a number; None if this client may not read settings."""

        def ask() -> int | None:
            brokers = [str(broker["broker_id"]) for broker in self._admin.describe_cluster()["brokers"]]
            wanted = [ConfigResource(ConfigResourceType.BROKER, broker, configs=[name]) for broker in brokers]
            answer = self._admin.describe_configs(wanted, config_filter="all")
            values = list(_values_of(answer, name))
            return min(values) if values else None

        try:
            return self._patiently("a broker's settings could not be read", ask)
        except BrokerAccessError:
            return None

    # Requests ---------------------------------------------------------------------------------------------------------

    def _ask_each(self, requests: Sequence[tuple[str, Any]], kind: Any = CoordinatorType.TRANSACTION) -> list[Any]:
        """Send each request to the coordinator of its key, in order; a failure that passes is answered by its name."""
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
        """The answer to come. A coordinator that left the cluster is one that does not answer."""
        try:
            return self._admin._manager.send(request, node_id=node)
        except kafka_errors.UnknownBrokerIdError as problem:
            return Future().failure(problem)

    def _by_coordinator(self, transactional_ids: Sequence[str]) -> list[list[str]]:
        def ask() -> dict[str, Any]:
            found: dict[str, Any] = self._admin._manager.run(
                self._admin._find_coordinator_ids, transactional_ids, CoordinatorType.TRANSACTION
            )
            return found

        groups: dict[Any, list[str]] = {}
        for name, node in self._patiently("a coordinator could not be found", ask).items():
            groups.setdefault(node, []).append(name)
        return list(groups.values())

    def _forget_coordinator(self, key: str, kind: Any = CoordinatorType.TRANSACTION) -> None:
        self._admin._manager.cluster._coordinators.pop((kind, key), None)

    def _patiently(self, what: str, ask: Callable[[], T]) -> T:
        """Ask until there is an answer, or patience ends."""
        for _ in self.tries(what):
            with suppress(BrokerUnavailableError), _named_errors():
                return ask()
        raise InvariantViolation("tries end with an error")

    def tries(self, what: str, **fields: object) -> Iterator[None]:
        """Turns for a caller that sends requests again by its own rules, with pauses between them.

        Args:
            what: could not be done, when patience ends.
            fields: of the error then.

        Raises:
            BrokerUnavailableError: patience ended.
        """
        deadline_s = time.monotonic() + PATIENCE_MS / 1000
        pause_s = PAUSE_S
        while True:
            yield
            if time.monotonic() > deadline_s:
                raise BrokerUnavailableError(
                    f"{what}: the brokers cannot be reached, or do not serve; try again when they do",
                    waited_ms=PATIENCE_MS,
                    **fields,
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


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


def _offsets(group: str, answer: Any) -> dict[tuple[str, int], CommittedOffset | Unstable]:
    name = _name(answer.error_code)
    if name == "GROUP_ID_NOT_FOUND":
        return {}
    if name != "NONE":
        raise _refusal(name, "offsets of a group could not be read", group_id=group)
    found: dict[tuple[str, int], CommittedOffset | Unstable] = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            problem = _name(partition.error_code)
            if problem in {"UNSTABLE_OFFSET_COMMIT", *end_txn.PASSING}:
                found[key] = Unstable()
            elif problem not in {"NONE", "UNKNOWN_TOPIC_OR_PARTITION"}:
                raise _refusal(problem, "offsets of a group could not be read", group_id=group, topic=topic.name)
            elif partition.committed_offset != _NEVER_COMMITTED:
                found[key] = CommittedOffset(partition.committed_offset, partition.metadata or "")
    return found


def _transaction(state: Any) -> Transaction:
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


def _code_of(answer: Any) -> str:
    code = getattr(answer, "error_code", 0)
    return _name(code) if isinstance(code, int) else "NONE"


def _passing_name(problem: kafka_errors.KafkaError) -> str:
    """The name of a failure that passes; others are raised."""
    name = str(getattr(problem, "message", ""))
    if name in end_txn.PASSING:
        return name
    if problem.retriable or isinstance(problem, kafka_errors.UnknownBrokerIdError):
        return "NETWORK_EXCEPTION"
    raise problem


@contextmanager
def _named_errors() -> Iterator[None]:
    """Give kafka-python's errors the names of oncelog's branches."""
    try:
        yield
    except (kafka_errors.AuthorizationError, kafka_errors.SaslAuthenticationFailedError) as problem:
        raise BrokerAccessError(
            "the Kafka brokers do not allow this; mend the credentials or the ACLs of this user", problem=str(problem)
        ) from problem
    except kafka_errors.KafkaError as problem:
        if not problem.retriable and not isinstance(problem, kafka_errors.UnknownBrokerIdError):
            raise BrokerAccessError("the Kafka brokers refused a request", problem=repr(problem)) from problem
        raise BrokerUnavailableError(
            "the Kafka brokers cannot be reached, or do not serve; check kafka.bootstrap.servers", problem=repr(problem)
        ) from problem


def _refusal(name: str, what: str, **fields: object) -> BrokerAccessError:
    return BrokerAccessError(f"{what}: the brokers refuse it", answer=name, **fields)
