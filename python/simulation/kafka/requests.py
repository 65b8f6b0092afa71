"""`ports.Requests` to a simulated cluster; a `Line` carries each request, and may lose it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from oncelog_kafka.errors import BrokerUnavailableError
from oncelog_kafka.protocol.extents import Extents
from oncelog_kafka.protocol.participants import Listed, Participant, ProducerIdAndEpoch, Transaction
from oncelog_kafka.protocol.ports import Answer, Ended, Offsets, PartitionStates
from simulation.kafka.brokers import Cluster
from simulation.kafka.transactions import Identity, TopicPartition

T = TypeVar("T")


class NoAnswerError(Exception):
    """The connection ended, and it is unknown whether the request arrived."""


class Line(Protocol):
    """Carries requests. Here a simulated process waits for its turn, and requests and answers are lost."""

    def carry(self, what: str, request: Callable[[], T], *, changes: bool = True) -> T:
        """Deliver a request now, later, twice or never, and return its answer.

        Args:
            what: describes the request in a trace.
            request: what the brokers do.
            changes: whether it can change anything.

        Raises:
            NoAnswerError: there is no answer.
        """


class DirectLine:
    """Every request arrives and is answered."""

    def carry(self, what: str, request: Callable[[], T], *, changes: bool = True) -> T:
        return request()


class SimulatedRequests:
    """`ports.Requests` of one process.

    Args:
        line: carries the requests; without faults by default.
    """

    def __init__(self, cluster: Cluster, line: Line | None = None) -> None:
        self._cluster = cluster
        self._line = line or DirectLine()

    def end(self, participants: Sequence[Participant]) -> list[Ended]:
        return [self._end(participant) for participant in participants]

    def init(self, transactional_ids: Sequence[str], timeout_ms: int) -> list[Answer]:
        return [self._named(f"init {name}", partial(self._init, name, timeout_ms)) for name in transactional_ids]

    def describe(self, transactional_ids: Sequence[str]) -> list[Transaction | Answer]:
        return [self._read(f"describe {name}", partial(self._cluster.describe, name)) for name in transactional_ids]

    def states(self, rows: Extents, others: Sequence[TopicPartition]) -> PartitionStates:
        wanted = sorted({(one.topic, one.partition) for one in rows} | set(others))
        said = self._read("describe producers", partial(self._cluster.states, wanted))
        return dict.fromkeys(wanted, said) if isinstance(said, str) else said

    def list_ids(self, states: Sequence[str]) -> list[Listed]:
        return _unnamed(self._read("list transactions", partial(self._cluster.list_ids, states)))

    def offsets(self, groups: Mapping[str, Sequence[TopicPartition] | None]) -> dict[str, Offsets | Answer]:
        return {
            group: self._read(f"offsets of {group}", partial(self._cluster.offsets, group, partitions))
            for group, partitions in groups.items()
        }

    def partitions_of(self, topic: str) -> int | None:
        return _unnamed(self._read(f"topic {topic}", partial(self._cluster.partitions_of, topic)))

    def keeps_ledger(self, topic: str) -> bool:
        return False

    def topic_settings(self, topic: str) -> Mapping[str, str]:
        return {}

    def cluster_id(self) -> str:
        return _unnamed(self._read("cluster", lambda: "simulated"))

    def broker_setting(self, name: str) -> int | None:
        return _unnamed(self._read(f"setting {name}", partial(self._cluster.setting, name)))

    def close(self) -> None:
        """Do nothing: the cluster continues."""

    def _init(self, transactional_id: str, timeout_ms: int) -> Answer:
        answer, _ = self._cluster.init(transactional_id, timeout_ms)
        return answer

    def _end(self, one: Participant) -> Ended:
        who = Identity(one.transactional_id, *one.producer)
        request = partial(self._cluster.end, who, is_commit=True, version=one.transaction_version)
        said = self._named(f"commit {one.transactional_id}", request)
        if isinstance(said, str):
            return Ended(said)
        answer, following = said
        return Ended(answer, None if following is None else ProducerIdAndEpoch(*following[1:]))

    def _read(self, what: str, request: Callable[[], T]) -> T | Answer:
        return self._named(what, request, changes=False)

    def _named(self, what: str, request: Callable[[], T], *, changes: bool = True) -> T | Answer:
        """The answer, or ``NETWORK_EXCEPTION`` if there is none."""
        try:
            return self._line.carry(what, request, changes=changes)
        except NoAnswerError:
            return "NETWORK_EXCEPTION"


def _unnamed(found: T | Answer) -> T:
    """Raise the failure of a request that cannot return it by name."""
    if isinstance(found, str):
        raise BrokerUnavailableError("the simulated brokers do not answer", answer=found)
    return found
