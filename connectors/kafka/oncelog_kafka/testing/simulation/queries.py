"""A streaming query into simulated brokers: drivers one after another, and beside each other; and its operator."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from oncelog.errors import AbortableError, BatchRefusedError, FatalError, OncelogError, RunSupersededError
from oncelog.ledger.progress import GroupProgress
from oncelog.protocol.batch_ledger import BatchRequest
from oncelog.spark.kit.driver import BatchDriver
from oncelog.spark.kit.target import Batch
from oncelog.testing.simulation.clients import Client, persevere
from oncelog.testing.simulation.processes import Process
from oncelog.testing.simulation.world import World
from oncelog.types import TopicPartition
from oncelog_kafka import inspection, options
from oncelog_kafka.errors import ParticipantLostError
from oncelog_kafka.patience import PatientBrokers
from oncelog_kafka.target import KafkaTarget
from oncelog_kafka.testing.lines import ProcessLine
from oncelog_kafka.testing.requests import SimulatedRequests
from oncelog_kafka.testing.simulation.jobs import Place, SimulatedJob

PREFIX, GROUP = "query", "progress"
SOURCE = TopicPartition("source", 0)
ROWS_MAX = 4
"""Of one partition of a batch."""

LATE_RESTARTS, RESTARTED_AFTER_MS = 0.5, (15_000, 80_000)
"""How probable it is that a driver takes long to begin, and how long: what is decided may time out meanwhile."""


RESTARTS = 5
"""Of a query that ends by an error when nothing goes wrong any more."""


@dataclass(slots=True)
class Checkpoint:
    """What Spark keeps over the runs: the rows of each batch, by Spark's partition, and the batches that are done."""

    batches: list[list[list[int]]] = field(default_factory=list)
    done: set[int] = field(default_factory=set)

    def end(self, batch_id: int) -> int:
        """The source's offset behind a batch."""
        return sum(len(rows) for batch in self.batches[: batch_id + 1] for rows in batch)


class SinkQuery(Client):
    """A query; each life is a run of its driver.

    Args:
        world: that it lives in.
        place: where it writes.
        batches: how many it has.
        more: options of the sink.
        has_group: whether its progress is in a group as well.
        is_speculative: whether its tasks may get copies.
        lives: of drivers.
    """

    def __init__(
        self,
        world: World,
        place: Place,
        batches: int,
        more: Mapping[str, object],
        *,
        has_group: bool,
        is_speculative: bool,
        lives: int = 6,
    ) -> None:
        super().__init__(world, "driver", lives)
        self.place = place
        self.checkpoint = Checkpoint()
        self.has_group = has_group
        self.prepared: dict[str, list[int]] = {}
        self.given_up: set[str] = set()
        self._named_lost: set[str] = set()
        self._is_speculative = is_speculative
        self._is_calm = False
        self._drivers: list[Process] = []
        self._options = options.parse(
            {
                "kafka.bootstrap.servers": "simulated:1",
                "znodes": "simulated",
                "topic": place.topic,
                "transactionalIdPrefix": PREFIX,
                **({"groupId": GROUP} if has_group else {}),
                **more,
            }
        )
        self.plan(batches)

    def plan(self, batches: int) -> None:
        """Let the source have rows for so many more batches."""
        chance, known = self.world.chance, self.checkpoint.batches
        for _ in range(batches):
            counts = [chance.randint(0, ROWS_MAX) for _ in range(chance.randint(1, 3))]
            known.append([[self.world.numbers("rows", 1) for _ in range(count)] for count in counts])

    def expects(self, error: FatalError) -> bool:
        return isinstance(error, (RunSupersededError, BatchRefusedError, ParticipantLostError))

    def live(self, process: Process) -> None:
        if self.world.chance.random() < LATE_RESTARTS:
            process.sleep_ms(self.world.chance.choice(RESTARTED_AFTER_MS))
        if self._named_lost:
            self._give_up_lost(process)
        self._drivers.append(process)
        self.go_on(process)
        self.is_done = True

    def go_on(self, process: Process) -> None:
        """Run the batches that the checkpoint does not know as done."""
        target = persevere(
            process, lambda: KafkaTarget(process.open().services.store, self._brokers(process), self._options)
        )
        driver = BatchDriver(target)
        while (batch_id := max(self.checkpoint.done, default=-1) + 1) < len(self.checkpoint.batches):
            batch = self._batch(process, batch_id)
            try:
                report = persevere(process, lambda batch=batch: driver.run(batch), tries=2)  # type: ignore[misc]
            except ParticipantLostError as error:
                self._named_lost |= set(error.fields.get("missing_rows", ()))
                raise
            self.world.counts["batches replayed" if report.is_replay else "batches committed"] += 1
            self.world.counts["participants rewritten"] += report.rewritten
            self.world.counts["losers aborted"] += report.aborted
            process.wait(self.world.latency_ms())
            self.checkpoint.done.add(batch_id)

    def catch_up(self, process: Process) -> None:
        """After everything, without faults: run what is left, and one batch more.

        A copy of a task that loses may open its transaction behind the batch, and only the next lease finds it: here
        there are none, so that nothing may be left open.
        """
        self._is_calm = True
        self.plan(1)
        for _ in range(RESTARTS):
            try:
                return self.go_on(process)
            except ParticipantLostError:
                self._give_up_lost(process)
            except AbortableError:  # a slow network leaves a short time-out too little
                self.world.counts["restarts at the end"] += 1
            process = self.world.process("driver")
        return self.go_on(process)

    def abort_open(self, process: Process) -> None:
        """The operator aborts what is not decided."""
        with suppress(OncelogError):
            inspection.abort_open(self._brokers(process), process.open().services.store, PREFIX)
            self.world.counts["rounds aborted by an operator"] += 1

    def _give_up_lost(self, process: Process) -> None:
        """The operator stops the query, whose tasks may go on, and gives up what an error named."""
        for driver in self._drivers:
            if driver is not process and not driver.is_dead:
                driver.crash()
        self.given_up |= self._named_lost  # it may die amid this, and only the ledger knows
        self._named_lost = set()
        with suppress(OncelogError):
            found = inspection.accept_loss(self._brokers(process), process.open().services.store, PREFIX)
            missing = [part for one in found for part in one.missing]
            self.given_up |= {part.transactional_id for part in missing}
            self.world.counts["participants given up"] += len(missing)

    def _brokers(self, process: Process) -> PatientBrokers:
        return PatientBrokers(SimulatedRequests(self.place.cluster, ProcessLine(process)), process)

    def _batch(self, process: Process, batch_id: int) -> Batch[SimulatedJob]:
        checkpoint = self.checkpoint
        start, end = checkpoint.end(batch_id - 1), checkpoint.end(batch_id)
        request = BatchRequest(
            PREFIX,
            "query",
            self.place.topic,
            process.name,
            batch_id,
            f"{start}-{end}",
            GROUP if self.has_group else None,
        )
        job = SimulatedJob(
            self.world,
            process,
            self.place,
            checkpoint.batches[batch_id],
            self.prepared,
            is_speculative=self._is_speculative and not self._is_calm,
            is_calm=self._is_calm,
        )
        progress = GroupProgress(GROUP, {SOURCE: start} if batch_id else {}, {SOURCE: end}) if self.has_group else None
        return Batch(request, job, progress)
