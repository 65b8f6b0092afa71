"""A Kafka cluster in memory: its state, and what its brokers do by themselves as time passes.

transactions.py and logs.py define what each request does. This module keeps the state, and before each request does the
brokers' own work that is due: markers, time-outs, expirations. So a run depends only on its requests and its clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple
from zlib import crc32

from oncelog_kafka.protocol.participants import Listed, Transaction
from oncelog_kafka.protocol.ports import CommittedOffset, Offsets, PartitionState, PartitionStates, Unstable
from simulation.kafka import transactions
from simulation.kafka.logs import OLD_EPOCH, PartitionLog
from simulation.kafka.transactions import (
    CONCURRENT,
    ENDING,
    FENCED,
    MAX_EPOCH,
    NONE,
    Coordinator,
    Identity,
    Known,
    State,
    Step,
    TopicPartition,
    is_completing,
)

GROUPS: TopicPartition = ("__consumer_offsets", 0)
"""The partition with the offsets of all groups."""

SHARDS = 4
"""The number of parts of all ids and groups; the coordinators of one part move together."""

_RETRIED = frozenset({CONCURRENT, "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"})
"""The coordinator's answers to a partition's leader after which the leader tells a producer to retry."""

_NEVER_MS = 2**62
_DAYS_7_MS = 7 * 24 * 3_600_000


@dataclass(slots=True)
class Settings:
    """Settings of the brokers, with Kafka's defaults.

    Attributes:
        version: the cluster's transaction version, 1 or 2. It may be raised and lowered.
        clean_up_ms: how often the brokers look for time-outs.
        expiration_ms: how long an unused id is kept.
        retention_ms: how long an offset of a group without members is kept.
        max_epoch: of a producer id; then the producer gets a new one.
        is_kafka_3: whether the brokers are Kafka 3.x. There the offset of a fenced producer replaces one that the same
            producer id has staged in the group since. That one then never becomes visible, although its transaction
            commits (until the group's coordinator loads its log again, which is not simulated).
    """

    version: int = 2
    clean_up_ms: int = 10_000
    expiration_ms: int = _DAYS_7_MS
    retention_ms: int = _DAYS_7_MS
    max_timeout_ms: int = 900_000
    max_epoch: int = MAX_EPOCH
    is_kafka_3: bool = False


@dataclass(frozen=True, slots=True)
class StagedOffset:
    """A record of `GROUPS`."""

    group: str
    partition: TopicPartition
    committed: CommittedOffset


class _Move(NamedTuple):
    """Coordinators that move to another broker: first there is none, then the new one is loading."""

    loads_from_ms: int
    until_ms: int


class Cluster:
    """The brokers of one cluster.

    Args:
        now_ms: the brokers' wall clock.
        settings: they may be changed while the cluster runs.
        marker_delay_ms: the time from a transaction's end to one of its markers; called for each marker.

    Attributes:
        ids: what the coordinators know, by transactional id.
        logs: of the partitions of topics.
        groups: the log of `GROUPS`.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        settings: Settings | None = None,
        *,
        marker_delay_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.settings = settings or Settings()
        self.ids: dict[str, Known] = {}
        self.logs: dict[TopicPartition, PartitionLog[bytes]] = {}
        self.groups: PartitionLog[StagedOffset] = PartitionLog()
        self._now_ms = now_ms
        self._marker_delay_ms = marker_delay_ms
        self._producer_ids = itertools.count(1_000)
        self._order = itertools.count()
        self._ends: list[tuple[int, int, str, TopicPartition | None]] = []
        self._moves: dict[int, _Move] = {}
        self._looked_ms = now_ms()

    def create_topic(self, name: str, partitions: int) -> str:
        self.logs |= {(name, number): PartitionLog() for number in range(partitions)}
        return name

    def move_coordinators(self, shard: int, absent_ms: int, loading_ms: int) -> None:
        """Move the coordinators of one of `SHARDS` parts to another broker, from now on.

        Args:
            shard: the number of the part.
            absent_ms: how long there is no coordinator; listings then silently leave its ids out.
            loading_ms: how long the new coordinator loads after that.
        """
        loads_from_ms = self._now_ms() + absent_ms
        self._moves[shard] = _Move(loads_from_ms, loads_from_ms + loading_ms)

    def _absence(self, key: str, now_ms: int) -> str | None:
        """The answer for an id or a group while its coordinator moves."""
        move = self._moves.get(shard_of(key))
        if move is None or move.until_ms <= now_ms:
            return None
        return "NOT_COORDINATOR" if now_ms < move.loads_from_ms else "COORDINATOR_LOAD_IN_PROGRESS"

    # Time

    def pass_time(self) -> None:
        """Do what the brokers should have done by now, in order."""
        now_ms = self._now_ms()
        while True:
            due_ms = self._ends[0][0] if self._ends else _NEVER_MS
            look_ms = self._next_look_ms()
            if min(due_ms, look_ms) > now_ms:
                break
            if due_ms <= look_ms:
                self._end_next()
            else:
                self._abort_timed_out(look_ms)
        coordinator, expiration_ms = self._at(now_ms), self.settings.expiration_ms
        self.ids = {name: one for name, one in self.ids.items() if not coordinator.is_expired(one, expiration_ms)}

    def _next_look_ms(self) -> int:
        """When the coordinators will next find a time-out."""
        open_ids = [known for known in self.ids.values() if known.state is State.ONGOING]
        over_ms = min((known.started_ms + known.timeout_ms + 1 for known in open_ids), default=_NEVER_MS)
        looks = -(-(over_ms - self._looked_ms) // self.settings.clean_up_ms)
        return self._looked_ms + max(looks, 1) * self.settings.clean_up_ms

    def settle(self, *, completes: bool = True) -> None:
        """Write all pending markers now, and complete their transactions."""
        while self._ends and (completes or self._ends[0][-1] is not None):
            self._end_next()

    def _abort_timed_out(self, now_ms: int) -> None:
        self._looked_ms = now_ms
        coordinator = self._at(now_ms)
        for name, known in list(self.ids.items()):
            if coordinator.is_timed_out(known) and not self._absence(name, now_ms):
                self._keep(name, coordinator.fence(known), now_ms)

    def _at(self, now_ms: int) -> Coordinator:
        settings = self.settings
        return Coordinator(settings.version, now_ms, lambda: next(self._producer_ids), settings.max_epoch)

    def _keep(self, name: str, known: Known, now_ms: int) -> None:
        """Store what is known about an id. If its transaction begins to end, schedule its markers, in any order."""
        before = self.ids.get(name)
        self.ids[name] = known
        if known.state not in ENDING or (before is not None and before.state in ENDING):
            return
        targets: list[TopicPartition | None] = [*sorted(known.partitions)]
        for partition in targets or [None]:
            self._push_end(now_ms, name, partition)

    def _end_next(self) -> None:
        """Write the next marker, or complete a transaction whose markers are all written."""
        due_ms, _, name, partition = heappop(self._ends)
        known = self.ids[name]
        if partition is None:
            self.ids[name] = self._at(due_ms).complete(known)
            return
        log = self._log(partition)
        log.mark(known.producer_id, known.epoch, due_ms, is_commit=known.state is State.PREPARE_COMMIT)
        self.ids[name] = transactions.without_partition(known, partition)
        if is_completing(self.ids[name]):
            self._push_end(due_ms, name, None)

    def _push_end(self, now_ms: int, name: str, partition: TopicPartition | None) -> None:
        heappush(self._ends, (now_ms + self._marker_delay_ms(), next(self._order), name, partition))

    # Producers

    def init(self, transactional_id: str, timeout_ms: int) -> tuple[str, Identity | None]:
        """InitProducerId; also returns the new producer's identity, if it got one."""
        if not 0 < timeout_ms <= self.settings.max_timeout_ms:
            return "INVALID_TRANSACTION_TIMEOUT", None
        now_ms = self._moment()
        absence = self._absence(transactional_id, now_ms)
        if absence:
            return absence, None
        known, answer = self._at(now_ms).init(self.ids.get(transactional_id), timeout_ms)
        self._keep(transactional_id, known, now_ms)
        return answer, Identity(transactional_id, known.producer_id, known.epoch) if answer == NONE else None

    def add_partitions(self, who: Identity, partitions: Iterable[TopicPartition]) -> str:
        """AddPartitionsToTxn."""
        wanted = frozenset(partitions)
        if not wanted <= self.logs.keys():
            return "UNKNOWN_TOPIC_OR_PARTITION"
        return self._add(who, wanted)

    def add_offsets(self, who: Identity, group: str) -> str:
        """AddOffsetsToTxn; all groups are in one partition."""
        return self._add(who, frozenset({GROUPS}))

    def produce(
        self, who: Identity, partition: TopicPartition, values: Sequence[bytes], sequence: int, *, version: int
    ) -> str:
        """Produce, as a client of this transaction version sends it."""
        log = self.logs.get(partition)
        if log is None:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        refused = self._admit(who, partition, log, version, sequence)
        if refused:
            return "NOT_ENOUGH_REPLICAS" if refused in _RETRIED else refused
        return log.append(who, values, sequence, self._now_ms(), version=version)

    def stage(
        self, who: Identity, group: str, offsets: Mapping[TopicPartition, CommittedOffset], *, version: int
    ) -> str:
        """TxnOffsetCommit by a producer that is not a member of the group, at its transaction version."""
        refused = self._absence(group, self._now_ms()) or self._admit(who, GROUPS, self.groups, version)
        if refused == OLD_EPOCH and self.settings.is_kafka_3:
            self._forget_staged(who.producer_id, group, offsets)
        if refused:
            return "COORDINATOR_LOAD_IN_PROGRESS" if refused in _RETRIED else refused
        records = [StagedOffset(group, partition, committed) for partition, committed in offsets.items()]
        return self.groups.append(who, records, None, self._now_ms())

    def _forget_staged(self, producer_id: int, group: str, partitions: Iterable[TopicPartition]) -> None:
        for entry in self.groups.entries:
            staged = entry.value
            is_open = entry.producer_id == producer_id and entry.is_committed is None
            if is_open and staged is not None and staged.group == group and staged.partition in partitions:
                entry.is_committed = False

    def end(self, who: Identity, *, is_commit: bool, version: int) -> tuple[str, Identity | None]:
        """EndTxn, as a client of this transaction version sends it; from version 2 on, it also returns who is next."""

        def ended(coordinator: Coordinator, known: Known | None) -> Step | str:
            return coordinator.end(known, who, is_commit=is_commit, version=version)

        answer = self._of_coordinator(who.transactional_id, ended)
        if answer != NONE or version < 2:
            return answer, None
        return answer, transactions.following(self.ids[who.transactional_id], who.transactional_id)

    def _add(self, who: Identity, partitions: frozenset[TopicPartition]) -> str:
        def added(coordinator: Coordinator, known: Known | None) -> Step | str:
            return coordinator.add_partitions(known, who, partitions)

        return self._of_coordinator(who.transactional_id, added)

    def _of_coordinator(self, name: str, ask: Callable[[Coordinator, Known | None], Step | str]) -> str:
        now_ms = self._moment()
        step = self._absence(name, now_ms) or ask(self._at(now_ms), self.ids.get(name))
        if isinstance(step, str):
            return step
        self._keep(name, step.known, now_ms)
        return step.answer

    def _admit(
        self,
        who: Identity,
        partition: TopicPartition,
        log: PartitionLog[bytes] | PartitionLog[StagedOffset],
        version: int,
        sequence: int | None = None,
    ) -> str | None:
        """Why a write does not belong to an open transaction; None if it does. From version 2 on, it opens one."""
        now_ms = self._moment()
        if log.is_old(who, is_looked_at=not self.settings.is_kafka_3):
            return OLD_EPOCH
        if log.is_open(who):
            return None
        if sequence is not None:
            log.attempt(who, sequence)
        if version >= 2:
            answer = self._add(who, frozenset({partition}))
        else:
            known = self.ids.get(who.transactional_id)
            answer = self._absence(who.transactional_id, now_ms) or transactions.verify(known, who, partition)
        if answer == FENCED:
            return OLD_EPOCH
        return None if answer == NONE else answer

    # Drivers

    def describe(self, transactional_id: str) -> Transaction | str:
        """DescribeTransactions."""
        absence = self._absence(transactional_id, self._moment())
        if absence:
            return absence
        known = self.ids.get(transactional_id)
        if known is None:
            return "TRANSACTIONAL_ID_NOT_FOUND"
        return Transaction(
            transactional_id,
            known.state.value,
            known.producer_id,
            known.epoch,
            known.timeout_ms,
            known.started_ms,
            tuple(sorted(f"{topic}-{number}" for topic, number in known.partitions)),
        )

    def states(self, partitions: Iterable[TopicPartition]) -> PartitionStates:
        """DescribeProducers. Simulated topics are never created again, and keep their records."""
        self._moment()
        return {one: PartitionState(self._log(one).opened()) for one in partitions}

    def _log(self, partition: TopicPartition) -> PartitionLog[bytes] | PartitionLog[StagedOffset]:
        return self.groups if partition == GROUPS else self.logs[partition]

    def abort_in_partition(self, partition: TopicPartition, producer_id: int) -> bool:
        """WriteTxnMarkers as Kafka's tool sends it: the abort of an open transaction, in this partition alone.

        Returns:
            Whether the transaction was open there.
        """
        now_ms, log = self._moment(), self._log(partition)
        epoch = next((one.epoch for one in log.opened() if one.producer_id == producer_id), None)
        if epoch is None:
            return False
        log.mark(producer_id, epoch, now_ms, is_commit=False)
        return True

    def list_ids(self, states: Sequence[str]) -> list[Listed] | str:
        """ListTransactions at every broker; the ids of a part without a coordinator are missing."""
        now_ms = self._moment()
        if any(move.loads_from_ms <= now_ms < move.until_ms for move in self._moves.values()):
            return "COORDINATOR_LOAD_IN_PROGRESS"
        found = [(name, known.state.value) for name, known in self.ids.items() if not self._absence(name, now_ms)]
        return [one for one in found if not states or one[1] in states]

    def offsets(self, group: str, partitions: Iterable[TopicPartition] | None) -> Offsets | str:
        """OffsetFetch with stable offsets; None for all partitions."""
        now_ms = self._moment()
        absence = self._absence(group, now_ms)
        if absence:
            return absence
        wanted = None if partitions is None else set(partitions)
        found: Offsets = {}
        for entry in self.groups.entries:
            staged = entry.value
            if staged is None or staged.group != group or (wanted is not None and staged.partition not in wanted):
                continue
            if entry.is_committed is None:
                found[staged.partition] = Unstable()
            elif entry.is_committed and not isinstance(found.get(staged.partition), Unstable):
                if now_ms - entry.at_ms < self.settings.retention_ms:
                    found[staged.partition] = staged.committed
                else:
                    found.pop(staged.partition, None)
        return found

    def partitions_of(self, topic: str) -> int | None:
        return sum(name == topic for name, _ in self.logs) or None

    def setting(self, name: str) -> int:
        """DescribeConfigs."""
        return {
            "offsets.retention.minutes": self.settings.retention_ms // 60_000,
            "transactional.id.expiration.ms": self.settings.expiration_ms,
            "transaction.max.timeout.ms": self.settings.max_timeout_ms,
        }[name]

    # Consumers

    def values(self, topic: str, *, is_committed: bool = True) -> list[tuple[int, int, bytes]]:
        """What a consumer gets, as (partition, offset, value)."""
        self._moment()
        return [
            (number, offset, value)
            for (name, number), log in sorted(self.logs.items())
            if name == topic
            for offset, value in log.read(is_committed=is_committed)
        ]

    def _moment(self) -> int:
        self.pass_time()
        return self._now_ms()


def shard_of(key: str) -> int:
    """The part that an id or a group belongs to."""
    return crc32(key.encode()) % SHARDS
