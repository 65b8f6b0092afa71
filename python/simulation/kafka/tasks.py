"""A task's producer on a simulated cluster: it opens a transaction, fills it, and leaves it open and prepared.

It does what io.oncelog.kafka.sink.Participant does with Kafka's producer, request by request. After a passing failure
it repeats the request (a batch with the same sequence number); any other failure fails the task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from oncelog.errors import NotPreparedError
from oncelog.ports import Clock
from oncelog.types import TopicIdPartition
from oncelog_kafka.patience import turns
from oncelog_kafka.protocol import end_txn
from oncelog_kafka.protocol.extents import Extent
from oncelog_kafka.protocol.participants import Handover, Participant, ProducerIdAndEpoch
from oncelog_kafka.protocol.ports import Answer, CommittedOffset
from simulation.kafka.brokers import Cluster
from simulation.kafka.requests import Line, NoAnswerError
from simulation.kafka.transactions import NONE, Identity, TopicPartition

BATCH_SIZE = 2
"""Records of one request; few, so that a transaction needs several requests."""

KEPT_FROM = 2
"""The lowest transaction version of a producer that is kept."""

_PASSING = end_txn.PASSING | {"NOT_ENOUGH_REPLICAS"}

KeptProducers = dict[str, ProducerIdAndEpoch]
"""The producers that an executor keeps open for later batches, by transactional id."""

GroupOffsets = Mapping[str, Mapping[TopicPartition, CommittedOffset]]
"""Offsets that the transaction commits, by group."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a task has to prepare.

    Attributes:
        transactional_id: of the attempt.
        partition: of the batch.
        rows: each row's partition and value.
        offsets: the token, and the source's offsets if this participant commits them.
        token_topic: the token is an offset of this topic's partition 0.
        content_hash: of the rows, if it is wanted.
        handover: of the id's last transaction, if the driver saw it end.
    """

    transactional_id: str
    partition: int
    rows: Sequence[tuple[TopicPartition, bytes]]
    offsets: GroupOffsets
    token_topic: str
    content_hash: int = 0
    handover: Handover | None = None


def topic_id(topic: str) -> str:
    """The id of a simulated topic, which is never created again."""
    return f"id-of-{topic}"


class TaskProducer:
    """One attempt of a task.

    Args:
        line: carries the requests of its process.
        clock: of its process.
        timeout_ms: of its transaction.
        kept: by the executor that it runs in.

    Attributes:
        extents: where the rows are that it prepared.
        has_adopted: whether it goes on with a producer that was kept.
    """

    def __init__(
        self, cluster: Cluster, line: Line, clock: Clock, timeout_ms: int, kept: KeptProducers | None = None
    ) -> None:
        self._cluster = cluster
        self._line = line
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._kept = {} if kept is None else kept
        self.extents: dict[TopicIdPartition, Extent] = {}
        self.has_adopted = False

    def prepare(self, work: Work) -> Participant:
        """Write everything into a transaction, and leave it open.

        Raises:
            NotPreparedError: the brokers refuse it, mostly because somebody fenced this producer.
            BrokerUnavailableError: the brokers did not accept it in time.
        """
        who, version = self._adopt(work) or self._init(work.transactional_id)
        self._send(who, work.rows, version)
        for group, offsets in work.offsets.items():
            if version < 2:
                self._taken(f"add offsets {who}", partial(self._cluster.add_offsets, who, group))
            self._taken(f"stage {who}", partial(self._cluster.stage, who, group, offsets, version=version))
        prepared = Participant(
            work.transactional_id,
            work.partition,
            who.producer_id,
            who.epoch,
            version,
            len(work.rows),
            work.content_hash,
            work.token_topic,
        )
        if version >= KEPT_FROM:
            self._kept[work.transactional_id] = prepared.producer
        return prepared

    def _adopt(self, work: Work) -> tuple[Identity, int] | None:
        """Go on with the producer that was kept, if its transaction is the one that the driver saw end."""
        kept, handover = self._kept.pop(work.transactional_id, None), work.handover
        if kept is None or handover is None or kept != handover.ended:
            return None
        self.has_adopted = True
        return Identity(work.transactional_id, *handover.following), self._cluster.settings.version

    def _init(self, transactional_id: str) -> tuple[Identity, int]:
        found: list[Identity] = []

        def ask() -> Answer:
            answer, who = self._cluster.init(transactional_id, self._timeout_ms)
            found[:] = [] if who is None else [who]
            return answer

        self._taken(f"init {transactional_id}", ask)
        return found[0], self._cluster.settings.version  # a real client gets it with the first answers

    def _send(self, who: Identity, rows: Sequence[tuple[TopicPartition, bytes]], version: int) -> None:
        for partition in dict.fromkeys(partition for partition, _ in rows):
            if version < 2:
                self._taken(f"add {partition} {who}", partial(self._cluster.add_partitions, who, [partition]))
            values = [value for there, value in rows if there == partition]
            for first in range(0, len(values), BATCH_SIZE):
                some = values[first : first + BATCH_SIZE]
                request = partial(self._cluster.produce, who, partition, some, first, version=version)
                self._taken(f"produce {partition} {first} {who}", request)
            self.extents[TopicIdPartition(partition[0], topic_id(partition[0]), partition[1])] = Extent(
                *self._cluster.logs[partition].extent(who.producer_id, values)
            )

    def _taken(self, what: str, request: Callable[[], Answer]) -> None:
        """Send a request until it succeeds, or fails permanently."""
        for _ in turns(self._clock, "a task's request was not taken", request=what):
            answer = self._sent(what, request)
            if answer == NONE:
                return
            if answer not in _PASSING:
                raise NotPreparedError("the simulated brokers refuse a task's request", request=what, answer=answer)

    def _sent(self, what: str, request: Callable[[], Answer]) -> Answer:
        try:
            return self._line.carry(what, request)
        except NoAnswerError:
            return "NETWORK_EXCEPTION"
