"""Clients that do upkeep (time-outs, settling, retention, expiry, collection), and one that deletes topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from oncelog.errors import OutcomeUnknownError, RetriableError, UnknownTopicError
from oncelog.runtime import Log
from simulation.clients import Client, persevere
from simulation.processes import Process
from simulation.world import World

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
    """Does randomly chosen kinds of upkeep.

    Args:
        rounds: how many in each life.
        pause_ms: the longest pause between two.
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


class DeletingClient(Client):
    """Deletes topics while others write and read them.

    Args:
        topics: the topics to delete.
        pause_ms: the longest pause before each.
    """

    def __init__(self, world: World, name: str, topics: Iterable[str], *, pause_ms: int = 1_500) -> None:
        super().__init__(world, name)
        self._topics = list(topics)
        self._pause_ms = pause_ms

    def live(self, process: Process) -> None:
        log = process.open()
        for topic in self._topics:
            process.sleep_ms(self.world.chance.randrange(self._pause_ms))
            self.world.leaving.add(topic)
            with suppress(UnknownTopicError):  # an earlier try had succeeded
                persevere(process, lambda topic=topic: log.admin.delete_topic(topic))  # type: ignore[misc]
            self.world.gone.add(topic)
        self.is_done = True
