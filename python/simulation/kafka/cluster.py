"""The brokers of a simulated run, which report a request that undoes a decision, and the processes' access to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from oncelog.batches.rules import QueryLedger
from oncelog.ports import ZnodeReader
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.patience import PatientBrokers
from oncelog_kafka.protocol.kafka_rounds import KafkaRound
from oncelog_kafka.protocol.participants import ONGOING, ProducerIdAndEpoch, Transaction
from oncelog_kafka.protocol.ports import PartitionState, PartitionStates
from simulation.errors import LawBrokenError
from simulation.kafka.brokers import Cluster, Settings
from simulation.kafka.lines import ProcessLine
from simulation.kafka.requests import SimulatedRequests
from simulation.kafka.transactions import NONE, Identity, Known, State, TopicPartition
from simulation.processes import Process
from simulation.world import NETWORK, STARTED_MS, World

PREFIX, TASK = "query", "task"
"""The prefix of the transactional ids, and of the names of tasks' processes."""

LAGS_MS = 3_000
"""How long a broker may still answer for an id that it no longer coordinates, with an older state."""

STATES_KEPT = 8
"""How many older states of all ids are kept, for lagging brokers."""


@dataclass(frozen=True, slots=True)
class Look:
    """An answer that a transaction is open: when it was given, and how long the transaction could still be open."""

    at_ms: int
    left_ms: int


class GuardedCluster(Cluster):
    """Brokers that raise LawBrokenError if somebody aborts what a decision names, and that note what they answered.

    One case is allowed: an init of a task for its own id. If the task gave it up and sent it again, the first one can
    reach the brokers after the decision (tests/test_late_inits.py). Brokers cannot tell it from a new one, and the loss
    is named and rewritten like one by a time-out. An init from a driver or an operator is never allowed, however late
    it arrives.

    The brokers' clock runs evenly, whatever the clocks of drivers and of the store do.

    Args:
        world: its znodes contain the ledger.
        settings, marker_delay_ms: see `Cluster`.

    Attributes:
        looks: the last answer about each open transaction.
        committed: whose transactions were committed.
        checked: whose transactions somebody has looked for in their partitions.
    """

    def __init__(self, world: World, settings: Settings, *, marker_delay_ms: Callable[[], int]) -> None:
        super().__init__(lambda: STARTED_MS + world.scheduler.now_ms, settings, marker_delay_ms=marker_delay_ms)
        self.looks: dict[Identity, Look] = {}
        self.committed: set[Identity] = set()
        self.checked: set[ProducerIdAndEpoch] = set()
        self._world = world
        self._past: deque[tuple[int, dict[str, Known]]] = deque(maxlen=STATES_KEPT)
        self._shows_past = False

    def init(self, transactional_id: str, timeout_ms: int) -> tuple[str, Identity | None]:
        """See `Cluster`.

        Raises:
            LawBrokenError: the id's transaction is open, and a decision that is not complete yet names it.
        """
        known = self.ids.get(transactional_id)
        is_open = known is not None and known.state is State.ONGOING
        step = self._world.trace[-1]
        is_late = step.process == NETWORK and str(step.what).startswith(f"init {transactional_id} of {TASK}.")
        if is_open and not is_late and transactional_id in self._named():
            raise LawBrokenError(f"{transactional_id}: somebody aborts it after its decision, before its commit")
        return super().init(transactional_id, timeout_ms)

    def end(self, who: Identity, *, is_commit: bool, version: int) -> tuple[str, Identity | None]:
        """See `Cluster`.

        Raises:
            LawBrokenError: it commits a transaction that no decision names.
        """
        answer, following = super().end(who, is_commit=is_commit, version=version)
        if is_commit and answer == NONE and who not in self.committed:
            if who.transactional_id not in self._named():
                raise LawBrokenError(f"{who}: somebody commits it, and no decision names it")
            self.committed.add(who)
        return answer, following

    def describe(self, transactional_id: str) -> Transaction | str:
        """See `Cluster`."""
        found = super().describe(transactional_id)
        if isinstance(found, Transaction) and found.state == ONGOING:
            now_ms = self._now_ms()
            who = Identity(transactional_id, found.producer_id, found.epoch)
            self.looks[who] = Look(now_ms, found.started_ms + found.timeout_ms - now_ms)
        return found

    def states(self, partitions: Iterable[TopicPartition]) -> PartitionStates:
        """See `Cluster`."""
        found = super().states(partitions)
        opened = (one.opened for one in found.values() if isinstance(one, PartitionState))
        self.checked |= {producer for producers in opened for producer in producers}
        return found

    def abort_unchecked(self, chance: Random) -> bool:
        """Abort one transaction in one partition, if there is one that no driver has looked for in its partitions.

        An abort that comes later may be noticed by nobody, which is the sink's documented limit.
        """
        self.pass_time()
        open_here = [
            (partition, known)
            for known in self.ids.values()
            if known.state is State.ONGOING and (known.producer_id, known.epoch) not in self.checked
            for partition in sorted(known.partitions)
        ]
        if not open_here:
            return False
        partition, known = chance.choice(open_here)
        return self.abort_in_partition(partition, known.producer_id)

    @contextmanager
    def lagging(self) -> Iterator[None]:
        """During the block, answer like a broker that does not know the newest states of its ids yet."""
        self.pass_time()
        newest, earliest_ms = self.ids, self._now_ms() - LAGS_MS
        past = [ids for at_ms, ids in self._past if at_ms >= earliest_ms]
        self.ids, self._shows_past = self._world.chance.choice([newest, *past]), True
        try:
            yield
        finally:
            self.ids, self._shows_past = newest, False

    def away_ms(self) -> int:
        """The time until every id and group has a coordinator."""
        return max((move.until_ms - self._now_ms() for move in self._moves.values()), default=0)

    def pass_time(self) -> None:
        if not self._shows_past:
            super().pass_time()

    def _keep(self, name: str, known: Known, now_ms: int) -> None:
        self._past.append((self._now_ms(), dict(self.ids)))
        super()._keep(name, known, now_ms)

    def newest(self, record: KafkaRound) -> KafkaRound:
        """What the ledger says of a round now; what it said before if it is forgotten."""
        return next((one for one in self._rounds() if one.nonce == record.nonce), record)

    def unfinished(self) -> list[KafkaRound]:
        """The decided rounds that are not complete."""
        return [one for one in self._rounds() if one.is_unfinished]

    def _rounds(self) -> Iterable[KafkaRound]:
        return KAFKA_LEDGERS.read_rounds(self._world.znodes.store, PREFIX).values()

    def _named(self) -> set[str]:
        participants = [participant for one in self.unfinished() for participant in one.participants]
        return {participant.transactional_id for participant in participants if not participant.is_lost}


def brokers_of(cluster: GuardedCluster, process: Process) -> PatientBrokers:
    """A process's access to the brokers."""
    return PatientBrokers(SimulatedRequests(cluster, ProcessLine(process, cluster.lagging)), process)


def ledger_of(reader: ZnodeReader) -> QueryLedger | None:
    """The query's ledger in the znodes."""
    return KAFKA_LEDGERS.read(reader, PREFIX)
