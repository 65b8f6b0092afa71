"""Who looks after a query: aborts what is open, gives up what was lost, and begins anew when the checkpoint is gone."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from oncelog.errors import OncelogError
from oncelog.testing.simulation.clients import persevere
from oncelog.testing.simulation.processes import Process
from oncelog.testing.simulation.world import DELIVERED_WITHIN_MS
from oncelog_kafka import inspection
from oncelog_kafka.errors import ParticipantLostError
from oncelog_kafka.ledger import KAFKA_LEDGERS
from oncelog_kafka.testing.brokers import SHARDS
from oncelog_kafka.testing.simulation.cluster import PREFIX, brokers_of, ledger_of

if TYPE_CHECKING:
    from oncelog_kafka.testing.simulation.queries import SinkQuery

OUT_OF_REACH = 0.5
"""How probable it is that a driver cannot be killed when its query is begun anew, but stands still meanwhile."""

STANDS_STILL_MS = (30_000, 120_000, 300_000)
"""For how long; who begins the query anew needs `DELIVERED_WITHIN_MS` at least."""

SAME_MACHINE = 0.5
"""How probable it is that what took the checkpoint took a coordinator as well."""

AWAY_MS, LOADS_MS = 150_000, 1_000
"""For how long it is away then, longer than anybody is patient; and how long its successor loads."""


class Operator:
    """One query's.

    Attributes:
        out_of_reach, same_machine: see the constants of these names.
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
        """A driver ended by this error."""
        unknown = {error.fields["transactional_id"]} if "transactional_id" in error.fields else set()
        self._named_lost |= set(error.fields.get("missing_rows", unknown))

    def lose_checkpoint(self) -> None:
        """It is gone: the next driver begins without one."""
        self._has_lost_checkpoint = True

    def prepare_start(self, process: Process) -> None:
        """What is to be done before the next driver begins."""
        if self._named_lost:
            self._give_up_lost(process)
        if self._has_lost_checkpoint:
            self._begin_anew(process)

    def abort_open(self, process: Process) -> None:
        """Abort what is not decided."""
        with suppress(OncelogError):
            inspection.abort_open(brokers_of(self._query.place.cluster, process), process.open().services.store, PREFIX)
            self._world.counts["rounds aborted by an operator"] += 1

    def _give_up_lost(self, process: Process) -> None:
        """Stop the query, whose tasks may go on, and give up what an error named."""
        for driver in self._query.drivers:
            if driver is not process and not driver.is_dead:
                driver.crash()
        self.given_up |= self._named_lost  # it may die amid this, and only the ledger knows
        self._named_lost = set()
        with suppress(OncelogError):
            brokers = brokers_of(self._query.place.cluster, process)
            found = inspection.accept_loss(brokers, process.open().services.store, PREFIX)
            missing = [part for one in found for part in one.missing]
            self.given_up |= {part.transactional_id for part in missing}
            self._world.counts["participants given up"] += len(missing)

    def _begin_anew(self, process: Process) -> None:
        """Begin the query behind what the ledger holds as decided, with an empty checkpoint: it is another query then.

        The run before is stopped, and nothing that it had sent may be decided behind this look: either its round is
        aborted, or its last requests have arrived. What it decided it may not have carried out yet.
        """
        query, store, chance = self._query, process.open().services.store, self._world.chance
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
        """Kill every other driver; one that is out of reach stands still until the query was taken over."""
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
        """Who wakes up before the query was taken over would go on with it."""
        ledger = ledger_of(self._world.znodes.store)
        is_over = ledger is not None and ledger.query_id == self._query.checkpoint.query_id
        if not driver.is_dead and (self._has_lost_checkpoint or not is_over):
            driver.crash()
