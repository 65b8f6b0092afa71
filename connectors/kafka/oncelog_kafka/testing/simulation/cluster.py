"""The brokers of a simulated run, which nobody may ask to undo a decision, and the ways of its processes to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from oncelog.ports import ZnodeReader
from oncelog.protocol.batch_ledger import QueryLedger
from oncelog.testing.simulation.processes import Process
from oncelog.testing.simulation.world import NETWORK, STARTED_MS, LawBrokenError, World
from oncelog_kafka.ledger import KAFKA_LEDGERS
from oncelog_kafka.participants import ONGOING, Transaction
from oncelog_kafka.patience import PatientBrokers
from oncelog_kafka.testing.brokers import Cluster, Settings
from oncelog_kafka.testing.lines import ProcessLine
from oncelog_kafka.testing.requests import SimulatedRequests
from oncelog_kafka.testing.transactions import Identity, Known, State

PREFIX, TASK = "query", "task"
"""Of the transactional ids, and of the names of tasks' processes."""

LAGS_MS = 3_000
"""For how long a broker may not have heard that it coordinates an id no more, and show what was."""

STATES_KEPT = 8
"""Of all ids together, for who lags."""


@dataclass(frozen=True, slots=True)
class Look:
    """That an open transaction was shown to somebody: when, and how long it might still have been open."""

    at_ms: int
    left_ms: int


class GuardedCluster(Cluster):
    """Brokers that nobody may ask to abort what a decision names, and that note who was shown what.

    An init of a task, of its own id, may: given up and sent again, the first one can reach the brokers behind the
    decision (tests/test_late_inits.py). They cannot tell it from a new one, and the loss is named and rewritten like
    that of a time-out. An init that a driver or an operator sends never may, however late it arrives.

    Their clock runs evenly, whatever becomes of the clocks of drivers and of the store.

    Args:
        world: whose znodes hold the ledger.
        settings: see `Cluster`.
        marker_delay_ms: see `Cluster`.

    Attributes:
        looks: the last one at each open transaction.
    """

    def __init__(self, world: World, settings: Settings, *, marker_delay_ms: Callable[[], int]) -> None:
        super().__init__(lambda: STARTED_MS + world.scheduler.now_ms, settings, marker_delay_ms=marker_delay_ms)
        self.looks: dict[Identity, Look] = {}
        self._world = world
        self._past: deque[tuple[int, dict[str, Known]]] = deque(maxlen=STATES_KEPT)
        self._shows_past = False

    def init(self, transactional_id: str, timeout_ms: int) -> tuple[str, Identity | None]:
        """See `Cluster`.

        Raises:
            LawBrokenError: the id's transaction is open, and a decision that is not carried out names it.
        """
        known = self.ids.get(transactional_id)
        is_open = known is not None and known.state is State.ONGOING
        step = self._world.trace[-1]
        is_late = step.process == NETWORK and str(step.what).startswith(f"init {transactional_id} of {TASK}.")
        if is_open and not is_late and transactional_id in self._named():
            raise LawBrokenError(f"{transactional_id}: it is decided, not committed yet, and somebody aborts it")
        return super().init(transactional_id, timeout_ms)

    def describe(self, transactional_id: str) -> Transaction | str:
        """See `Cluster`."""
        found = super().describe(transactional_id)
        if isinstance(found, Transaction) and found.state == ONGOING:
            now_ms = self._now_ms()
            who = Identity(transactional_id, found.producer_id, found.epoch)
            self.looks[who] = Look(now_ms, found.started_ms + found.timeout_ms - now_ms)
        return found

    @contextmanager
    def lagging(self) -> Iterator[None]:
        """Within the block answer as a broker does that has not heard yet of the newest states of its ids."""
        self.pass_time()
        newest, earliest_ms = self.ids, self._now_ms() - LAGS_MS
        past = [ids for at_ms, ids in self._past if at_ms >= earliest_ms]
        self.ids, self._shows_past = self._world.chance.choice([newest, *past]), True
        try:
            yield
        finally:
            self.ids, self._shows_past = newest, False

    def away_ms(self) -> int:
        """How long it takes until every id and group has a coordinator."""
        return max((move.until_ms - self._now_ms() for move in self._moves.values()), default=0)

    def pass_time(self) -> None:
        if not self._shows_past:
            super().pass_time()

    def _keep(self, name: str, known: Known, now_ms: int) -> None:
        self._past.append((self._now_ms(), dict(self.ids)))
        super()._keep(name, known, now_ms)

    def _named(self) -> set[str]:
        rounds = KAFKA_LEDGERS.read_rounds(self._world.znodes.store, PREFIX).values()
        participants = [participant for one in rounds if one.is_unfinished for participant in one.participants]
        return {participant.transactional_id for participant in participants if not participant.is_lost}


def brokers_of(cluster: GuardedCluster, process: Process) -> PatientBrokers:
    """A process's way to the brokers."""
    return PatientBrokers(SimulatedRequests(cluster, ProcessLine(process, cluster.lagging)), process)


def ledger_of(reader: ZnodeReader) -> QueryLedger | None:
    """The query's, as the znodes are."""
    return KAFKA_LEDGERS.read(reader, PREFIX)
