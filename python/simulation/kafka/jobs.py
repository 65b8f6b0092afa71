"""A batch's job as Spark runs it: tasks are retried, run twice, and continue after their job has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from zlib import crc32

from oncelog.errors import AbortableError, OncelogError
from oncelog_kafka.protocol.extents import Extents
from oncelog_kafka.protocol.participants import Participant, ParticipantId
from oncelog_kafka.protocol.ports import CommittedOffset
from oncelog_kafka.sinks.jobs import Written
from simulation.clients import value_of
from simulation.kafka.cluster import TASK, GuardedCluster
from simulation.kafka.lines import ProcessLine
from simulation.kafka.tasks import KeptProducers, TaskProducer, Work
from simulation.processes import Process
from simulation.world import World

TASK_ATTEMPTS = 3
"""How often a task is tried before its job fails (four times in Spark)."""

STAGE_TRIED_AGAIN = 0.1
"""The probability that a running stage is given up and started again."""

LOOK_MS = 20
"""How often a driver checks its tasks."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a query writes: the cluster, a topic and its number of partitions."""

    cluster: GuardedCluster
    topic: str
    partitions: int


class Executors:
    """A query's executors, with the producers that each keeps.

    Args:
        chance: of the executors alone.
    """

    COUNT = 2
    LOST = 0.3
    """The probability that a restart of the driver loses them."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._kept: list[KeptProducers] = [{} for _ in range(self.COUNT)]

    def any(self) -> KeptProducers:
        """One for a task."""
        return self._chance.choice(self._kept)

    def may_be_lost(self) -> None:
        """A driver starts: with the executors of the last one, or with new ones."""
        if self._chance.random() < self.LOST:
            self._kept = [{} for _ in range(self.COUNT)]


class SimulatedJob:
    """`target.Job` of one batch.

    Args:
        driver: the process that runs the job.
        place: where the rows go.
        executors: that its tasks run in.
        rows: numbers, by Spark's partition.
        copies: the probability, at each check, of a second attempt of a running task.
        is_calm: whether no stage is tried again.
        prepared: filled with the rows of every prepared participant, by transactional id.
    """

    def __init__(
        self,
        world: World,
        driver: Process,
        place: Place,
        executors: Executors,
        rows: Sequence[Sequence[int]],
        prepared: dict[str, list[int]],
        *,
        copies: float,
        is_calm: bool = False,
    ) -> None:
        self.world = world
        self.driver = driver
        self.place = place
        self.executors = executors
        self.copies = copies
        self.prepared = prepared
        self._is_calm = is_calm
        self._rows = rows

    def parallelism(self) -> int:
        return len(self._rows)

    def speculates(self) -> bool:
        return self.copies > 0

    def run(self, settings: Mapping[str, Any], buckets: int | None) -> Written:
        """Run every task until one of its attempts has prepared its part.

        Raises:
            AbortableError: a task failed every time.
        """
        works = {number: rows for number, rows in self._parts(buckets) if _writes(settings, number, rows)}
        stage = 0
        while True:
            tasks = [_Task(self, settings, number, rows, stage) for number, rows in works.items()]
            if self._finish(tasks, may_give_up=not stage and not self._is_calm):
                winners = [task.winners[0] for task in tasks]
                attempts, participants, written = zip(*winners, strict=True) if winners else ((), (), ())
                extents_of = {one.transactional_id: some for one, some in zip(participants, written, strict=True)}
                return Written(participants, bool(stage) or any(attempts), extents_of)
            self.world.counts["stages tried again"] += 1
            stage += 1

    def _parts(self, buckets: int | None) -> Iterator[tuple[int, list[int]]]:
        if buckets is None:
            yield from enumerate(map(list, self._rows))
            return
        everything = [number for rows in self._rows for number in rows]
        for bucket in range(buckets):
            yield bucket, [number for number in everything if crc32(value_of(number)) % buckets == bucket]

    def _finish(self, tasks: Sequence[_Task], *, may_give_up: bool) -> bool:
        gives_up = may_give_up and self.world.chance.random() < STAGE_TRIED_AGAIN
        while not all(task.winners for task in tasks):
            for task in tasks:
                task.look()
            self.driver.sleep_ms(LOOK_MS)
            if gives_up and any(task.winners for task in tasks):
                return False
        return True


def _writes(settings: Mapping[str, Any], number: int, rows: Sequence[int]) -> bool:
    only = settings["only"]
    carries = settings["sourceGroup"] is not None and number == 0
    return (only is None or number in only) and (carries or bool(rows))


class _Task:
    """One task, in one or more attempts, each in its own process."""

    def __init__(
        self, job: SimulatedJob, settings: Mapping[str, Any], number: int, rows: list[int], stage: int
    ) -> None:
        self.winners: list[tuple[int, Participant, Extents]] = []
        self._job = job
        self._settings = settings
        self._number = number
        self._rows = rows
        self._stage = stage
        self._attempts = 0
        self._running: list[Process] = []

    def look(self) -> None:
        """Start an attempt if none is running, or sometimes a copy of the running one.

        Raises:
            AbortableError: too many attempts failed.
        """
        if self.winners:
            return
        self._running = [process for process in self._running if not process.is_dead]
        if not self._running:
            if self._attempts >= TASK_ATTEMPTS:
                raise AbortableError("a task of the batch failed every time")
            self._start()
        elif len(self._running) == 1 and self._job.copies and self._job.world.chance.random() < self._job.copies:
            self._job.world.counts["speculative tasks"] += 1
            self._start()

    def _start(self) -> None:
        job, attempt = self._job, self._attempts
        self._attempts += 1
        process = job.world.process(TASK)
        self._running.append(process)
        work = self._work(attempt)
        timeout_ms = int(self._settings["producer"]["transaction.timeout.ms"])
        kept = job.executors.any()

        def body() -> None:
            try:
                producer = TaskProducer(job.place.cluster, ProcessLine(process), process, timeout_ms, kept)
                participant = producer.prepare(work)
            except OncelogError:
                self._running.remove(process)
                return
            job.world.counts["producers adopted"] += producer.has_adopted
            job.prepared[work.transactional_id] = self._rows
            self.winners.append((attempt, participant, producer.extents))

        process.start(body, job.world.latency_ms())

    def _work(self, attempt: int) -> Work:
        settings, place, number = self._settings, self._job.place, self._number
        token = {(place.topic, 0): CommittedOffset(settings["batchId"], settings["token"])}
        offsets = {f"{settings['tokenGroupPrefix']}-{number}": token}
        if settings["sourceGroup"] is not None and number == 0:
            offsets[settings["sourceGroup"]] = {
                (topic, at): CommittedOffset(offset, settings["token"])
                for topic, found in settings["sourceOffsets"].items()
                for at, offset in found.items()
            }
        prefix, lease = settings["transactionalIdPrefix"], settings["lease"]
        return Work(
            str(ParticipantId(prefix, number, lease, self._stage, attempt)),
            number,
            [((place.topic, row % place.partitions), value_of(row)) for row in self._rows],
            offsets,
            place.topic,
            sum(crc32(value_of(row)) for row in self._rows) if settings["isHashed"] else 0,
            settings["handovers"].get(number),
        )
