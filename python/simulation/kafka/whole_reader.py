"""A reader of whole batches beside a simulated query: it must never see a part of a batch."""

from __future__ import annotations

from random import Random

from oncelog.types import TopicIdPartition
from oncelog_kafka.ledger.ledger import decided_batches
from oncelog_kafka.whole_batches.whole_batches import last_ends, limited_ends
from simulation.clients import number_of
from simulation.errors import LawBrokenError
from simulation.kafka.logs import PartitionLog
from simulation.kafka.queries import SinkQuery
from simulation.kafka.tasks import topic_id
from simulation.world import World

PAUSES_MS = (0, 0, 5, 100, 2_000)
"""Between two questions of the reader."""

LIMITED = 0.5
"""The share of plans with a limit."""


class WholeReader:
    """Plans again and again, and checks what it would read.

    Args:
        chance: its own, so that it changes nothing of the run.
    """

    def __init__(self, world: World, query: SinkQuery, chance: Random) -> None:
        self._world = world
        self._query = query
        self._chance = chance
        place = query.place
        self._logs: dict[TopicIdPartition, PartitionLog[bytes]] = {
            TopicIdPartition(place.topic, topic_id(place.topic), number): place.cluster.logs[place.topic, number]
            for number in range(place.partitions)
        }
        self._ends = dict.fromkeys(self._logs, 0)
        self._is_planning = False

    def look(self) -> None:
        """Go on from the last plan's ends, one question after the other, with or without a limit.

        Raises:
            LawBrokenError: the ends cut a batch.
        """
        if not self._is_planning:
            self._is_planning = True
            self._go_on(self._plan())
            self._is_planning = False

    def look_at_the_end(self) -> None:
        """Plan when nothing is left to do: everything must be readable.

        Raises:
            LawBrokenError: the ends cut a batch, or something is held back.
        """
        stable = {partition: log.stable_end for partition, log in self._logs.items()}
        ends = last_ends(decided_batches(self._world.znodes.store), self._ends, stable)
        self._go_on(ends)
        if ends != stable:
            raise LawBrokenError(f"a reader of whole batches is held back for ever: {ends=} {stable=}")

    def _plan(self) -> dict[TopicIdPartition, int]:
        chance, store, starts = self._chance, self._world.znodes.store, self._ends
        stable = {}
        for partition, log in self._logs.items():
            stable[partition] = log.stable_end
            self._pause()
        ends = last_ends(decided_batches(store), starts, stable)
        self._world.counts["plans of whole batches"] += 1
        self._world.counts["plans that hold a batch back"] += ends != stable
        wanted = {partition: chance.randint(starts[partition], end) for partition, end in ends.items()}
        if wanted in (starts, ends) or chance.random() >= LIMITED:
            return ends
        self._pause()
        limited = limited_ends(decided_batches(store), starts, wanted, ends)
        if limited == starts:
            raise LawBrokenError(f"a reader of whole batches with a limit does not advance: {starts=} {wanted=}")
        return limited

    def _go_on(self, ends: dict[TopicIdPartition, int]) -> None:
        if any(end < self._ends[partition] for partition, end in ends.items()):
            raise LawBrokenError(f"a reader of whole batches goes back from {self._ends} to {ends}")
        self._ends = ends
        seen = {
            number_of(value)
            for partition, log in self._logs.items()
            for offset, value in log.read(is_committed=True)
            if offset < ends[partition]
        }
        given_up = {number for name in self._query.operator.given_up for number in self._query.prepared.get(name, ())}
        for batch, rows_of in enumerate(self._query.source):
            rows = {number for rows in rows_of for number in rows}
            if rows & seen and rows - seen - given_up:
                raise LawBrokenError(f"batch {batch} is cut: {sorted(rows & seen)} of {sorted(rows)} are seen")

    def _pause(self) -> None:
        self._world.scheduler.wait(self._chance.choice(PAUSES_MS))
