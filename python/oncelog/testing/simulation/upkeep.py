"""Upkeep: the sweeper of time-outs, settling, retention, expiry and the collection of files, run now and then."""

from __future__ import annotations

from collections.abc import Callable

from oncelog.errors import OutcomeUnknownError, RetriableError
from oncelog.runtime import Log
from oncelog.testing.simulation.clients import Client
from oncelog.testing.simulation.processes import Process
from oncelog.testing.simulation.world import World

WORKS: tuple[Callable[[Log], object], ...] = (
    lambda log: log.admin.time_out(),
    lambda log: log.admin.settle(),
    lambda log: log.admin.enforce_retention(),
    lambda log: log.admin.enforce_retention(),
    lambda log: log.admin.collect(),
    lambda log: log.admin.expire_producers(),
    lambda log: log.admin.expire_transactional_ids(),
    lambda log: log.admin.expire_offsets(),
    lambda log: log.admin.upkeep(),
)


class UpkeepClient(Client):
    """Does one kind of upkeep after the other, as chance has it.

    Args:
        rounds: how many in each life.
        pause_ms: between two, at most.
    """

    def __init__(self, world: World, name: str, *, rounds: int = 3, pause_ms: int = 1_000) -> None:
        super().__init__(world, name, lives=2)
        self._rounds = rounds
        self._pause_ms = pause_ms

    def live(self, process: Process) -> None:
        chance, log = self.world.chance, process.open()
        for _ in range(self._rounds):
            process.sleep_ms(chance.randrange(self._pause_ms))
            work = chance.choice(WORKS)
            try:
                work(log)
            except (RetriableError, OutcomeUnknownError):
                self.world.counts["upkeep failed"] += 1
