"""The operator of a query, who aborts what is open, gives up lost parts, and replaces a query without a checkpoint."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from oncelog.errors import OncelogError
from oncelog_kafka.errors import ParticipantLostError
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.operations import inspection
from simulation.clients import persevere
from simulation.kafka.brokers import SHARDS
from simulation.kafka.cluster import PREFIX, brokers_of, ledger_of
from simulation.processes import Process
from simulation.world import DELIVERED_WITHIN_MS

if TYPE_CHECKING:
    from simulation.kafka.queries import SinkQuery

OUT_OF_REACH = 0.5
"""The probability that a driver cannot be killed when a new query replaces its query, but is paused instead."""

STANDS_STILL_MS = (30_000, 120_000, 300_000)
"""How long it is paused; the start of the new query takes at least `DELIVERED_WITHIN_MS`."""

SAME_MACHINE = 0.5
"""The probability that the loss of the checkpoint also takes a coordinator down."""

AWAY_MS, LOADS_MS = 150_000, 1_000
"""How long the coordinator is then away, which is longer than any client waits, and how long its successor loads."""


class Operator:
    """The operator of one query.

    Attributes:
        out_of_reach, same_machine: see the constants with these names.
        given_up: ids of participants whose rows may be missing.
    """

    def __init__(self, query: SinkQuery) -> None:
        self._query = query
        self._world = query.world
        self._named_lost: set[str] = set()
        self._has_lost_checkpoint = False
        self._beginner: Process | None = None
        self.out_of_reach, self.same_machine = OUT_OF_REACH, SAME_MACHINE
        self.given_up: set[str] = set()

    def note_loss(self, error: ParticipantLostError) -> None:
        """A driver ended with this error."""
        unknown = {error.fields["transactional_id"]} if "transactional_id" in error.fields else set()
        self._named_lost |= set(error.fields.get("missing_rows", unknown))

    def lose_checkpoint(self) -> None:
        """The checkpoint is lost, and the next driver begins without one."""
        self._has_lost_checkpoint = True

    def prepare_start(self, process: Process) -> None:
        """Do what is necessary before the next driver begins."""
        if self._named_lost:
            self._give_up_lost(process)
        if self._has_lost_checkpoint:
            self._begin_anew(process)

    def abort_open(self, process: Process) -> None:
        """Abort what is undecided."""
        with suppress(OncelogError):
            inspection.abort_open(brokers_of(self._query.place.cluster, process), process.open().services.store, PREFIX)
            self._world.counts["rounds aborted by an operator"] += 1

    def _give_up_lost(self, process: Process) -> None:
        """Stop the query, whose tasks may continue, and give up the parts that an error named."""
        for driver in self._query.drivers:
            if driver is not process and not driver.is_dead:
                driver.crash()
        self.given_up |= self._named_lost  # first, because the operator may die in the middle of this
        self._named_lost = set()
        with suppress(OncelogError):
            brokers = brokers_of(self._query.place.cluster, process)
            found = inspection.accept_loss(brokers, process.open().services.store, PREFIX)
            missing = [part for one in found for part in one.missing]
            self.given_up |= {part.transactional_id for part in missing}
            self._world.counts["participants given up"] += len(missing)

    def _begin_anew(self, process: Process) -> None:
        """Start a new query after the last decided batch in the ledger, with an empty checkpoint.

        The previous run is stopped, and nothing that it sent may be decided after the ledger was read: either its round
        is aborted, or its last requests have arrived. Its last decision may not be complete yet.
        """
        query, store, chance = self._query, process.open().services.store, self._world.chance
        if not self._has_lost_checkpoint:  # another driver began anew while this one opened the store
            return
        if not query.is_calm and chance.random() < self.same_machine:
            query.place.cluster.move_coordinators(chance.randrange(SHARDS), AWAY_MS, LOADS_MS)
        self._stop_drivers(process)
        self._beginner = process
        if chance.random() < 0.5:
            brokers = brokers_of(query.place.cluster, process)
            persevere(process, lambda: inspection.abort_open(brokers, store, PREFIX))
        else:
            process.sleep_ms(DELIVERED_WITHIN_MS)
        persevere(process, store.sync)
        ledger = persevere(process, lambda: KAFKA_LEDGERS.require(store, PREFIX))
        base = query.bases[ledger.query_id] + (0 if ledger.last is None else ledger.last.batch_id + 1)
        query.checkpoint = query.checkpoint.successor(base, ledger.query_id)
        query.bases[query.checkpoint.query_id] = base
        self._has_lost_checkpoint, self._beginner = False, None
        self._world.counts["checkpoints lost"] += 1

    def _stop_drivers(self, process: Process) -> None:
        """Kill every other driver; one that is out of reach is paused until the new query has taken over."""
        world = self._world
        for driver in self._query.drivers:
            if driver is process or driver.is_dead:
                continue
            if driver is self._beginner or world.chance.random() >= self.out_of_reach:
                driver.crash()
                continue
            duration_ms = world.chance.choice(STANDS_STILL_MS)
            driver.pause(duration_ms)
            world.scheduler.start(lambda driver=driver: self._kill_too_early(driver), duration_ms - 1)  # type: ignore[misc]

    def _kill_too_early(self, driver: Process) -> None:
        """Kill a driver that would wake up before the takeover, because it would continue the old query."""
        ledger = ledger_of(self._world.znodes.store)
        is_over = ledger is not None and ledger.query_id == self._query.checkpoint.query_id
        if not driver.is_dead and (self._has_lost_checkpoint or not is_over):
            driver.crash()
