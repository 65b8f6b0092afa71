"""A streaming query that writes to simulated brokers: drivers one after another or in parallel, and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.offsets import GroupProgress
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.errors import AbortableError, BatchRefusedError, FatalError, OncelogError, RunSupersededError
from oncelog.types import TopicPartition
from oncelog_kafka.errors import ParticipantLostError
from oncelog_kafka.options import sink_options as options
from oncelog_kafka.protocol.kafka_rounds import KafkaRound
from oncelog_kafka.sinks import stepwise
from oncelog_kafka.sinks.jobs import Job
from oncelog_kafka.sinks.target import KafkaTarget
from simulation.clients import Client, GaveUpError, persevere
from simulation.errors import LawBrokenError
from simulation.kafka.cluster import PREFIX, brokers_of, ledger_of
from simulation.kafka.jobs import Executors, Place, SimulatedJob
from simulation.kafka.operators import Operator
from simulation.processes import Process
from simulation.world import World

GROUP = "progress"
SOURCE = TopicPartition("source", 0)
ROWS_MAX = 4
"""The most rows in one partition of a batch."""

LATE_RESTARTS, RESTARTED_AFTER_MS = 0.5, (15_000, 80_000)
"""The probability that a driver starts late, and how late; what is decided may time out before."""

BACK_MAX = 3
"""The most batches that are missing in a checkpoint that was restored from a backup."""

TIMEOUT_MAX_MS = 600_000
"""The longest time-out of transactions."""

FALLS_WITHIN_MS = 100
"""How soon after a decision a driver's machine may die: about as long as the commits take."""

RESTARTS = 5
"""The most restarts of a query that ends with an error although no more faults happen."""

Rows = list[list[int]]
"""The rows of a batch, by Spark's partition."""


@dataclass(slots=True)
class Checkpoint:
    """A query's checkpoint.

    Attributes:
        base: the number of the source's batch that is the query's batch 0.
        takeover: the query whose history this one continues.
        done: the batches that are known to be done.
    """

    query_id: str = "query"
    base: int = 0
    takeover: str | None = None
    done: set[int] = field(default_factory=set)

    def successor(self, base: int, takeover: str) -> Checkpoint:
        """An empty checkpoint, of a new query."""
        name, _, number = self.query_id.partition("/")
        return Checkpoint(f"{name}/{int(number or 0) + 1}", base, takeover)


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties of a query.

    Attributes:
        has_group: whether its progress is also in a group.
        copies: the probability of a copy of a task; see `SimulatedJob`.
        losses: the probability, at the start of a life, that the checkpoint is lost.
        set_backs: the probability, at the start of a life, that an older checkpoint is restored.
        falls: the probability that a driver's machine dies right after a decision.
        is_stepwise: whether every other life runs its batches in two steps, like ``format("oncelog-kafka")``.
    """

    has_group: bool = False
    copies: float = 0.0
    losses: float = 0.0
    set_backs: float = 0.0
    falls: float = 0.0
    is_stepwise: bool = False


class Driver(Protocol):
    """Runs batches."""

    def run(self, batch: Batch[Job]) -> BatchReport:
        """Write one batch, exactly once."""


class StepwiseDriver:
    """A driver in two processes; the second one knows about the first only what was passed on."""

    def __init__(self, target: KafkaTarget) -> None:
        self._target = target

    def run(self, batch: Batch[Job]) -> BatchReport:
        """See `Driver`."""
        planned = stepwise.plan(self._target, batch)
        if isinstance(planned, BatchReport):
            return planned
        began_ms = self._target.clock.monotonic_ms()
        try:
            written = batch.job.run(planned.settings, planned.buckets)
        except OncelogError:
            with suppress(OncelogError):
                stepwise.abort(self._target, batch, planned.held)
            raise
        job_ms = self._target.clock.monotonic_ms() - began_ms
        return stepwise.complete(self._target, batch, planned.held, written, job_ms)


class SinkQuery(Client):
    """A query; each life is a run of its driver.

    Args:
        place: where it writes.
        batches: how many it has.
        more: options of the sink.
        lives: the most lives of drivers.
        executors: decides which executor a task runs in, and when they are lost.

    Attributes:
        source: the rows of all batches; the checkpoint says which are done.
        drivers: every life's process.
        bases: the first of the source's batches for each query that had the history.
    """

    def __init__(
        self,
        world: World,
        place: Place,
        batches: int,
        more: Mapping[str, object],
        traits: Traits,
        *,
        lives: int = 6,
        executors: Random | None = None,
    ) -> None:
        super().__init__(world, "driver", lives)
        self.place = place
        self.checkpoint = Checkpoint()
        self.source: list[Rows] = []
        self.has_group = traits.has_group
        self.prepared: dict[str, list[int]] = {}
        self.drivers: list[Process] = []
        self.bases = {self.checkpoint.query_id: 0}
        self.executors = Executors(executors or Random(0))
        self.operator = Operator(self)
        self.is_calm = False
        self._traits = traits
        self._options = options.parse(
            {
                "kafka.bootstrap.servers": "simulated:1",
                "znodes": "simulated",
                "topic": place.topic,
                "transactionalIdPrefix": PREFIX,
                **({"groupId": GROUP} if traits.has_group else {}),
                **more,
            }
        )
        self.plan(batches)

    def plan(self, batches: int) -> None:
        """Add rows for this many more batches to the source."""
        chance, known = self.world.chance, self.source
        for _ in range(batches):
            counts = [chance.randint(0, ROWS_MAX) for _ in range(chance.randint(1, 3))]
            known.append([[self.world.numbers("rows", 1) for _ in range(count)] for count in counts])

    def end(self, batch: int) -> int:
        """The source's offset after a batch."""
        return sum(len(rows) for rows_of in self.source[: batch + 1] for rows in rows_of)

    def decided(self) -> int:
        """How many of the source's batches are decided."""
        ledger = ledger_of(self.world.znodes.store)
        if ledger is None:
            return 0
        return self.bases[ledger.query_id] + (0 if ledger.last is None else ledger.last.batch_id + 1)

    def fall(self, decided: KafkaRound) -> None:
        """Sometimes let the driver's machine die right after a decision, possibly with the checkpoint."""
        chance = self.world.chance
        if self.is_calm or chance.random() >= self._traits.falls:
            return
        driver = next(process for process in self.drivers if process.name == decided.run_id)

        def die() -> None:
            driver.crash()
            if chance.random() < 0.5:
                self.operator.lose_checkpoint()

        self.world.scheduler.start(die, chance.randrange(FALLS_WITHIN_MS))

    def expects(self, error: FatalError) -> bool:
        return isinstance(error, (RunSupersededError, BatchRefusedError, ParticipantLostError))

    def live(self, process: Process) -> None:
        chance = self.world.chance
        if chance.random() < LATE_RESTARTS:
            process.sleep_ms(chance.choice(RESTARTED_AFTER_MS))
        self._begins_in(process)
        self.executors.may_be_lost()
        if self.checkpoint.done and chance.random() < self._traits.losses:
            self.operator.lose_checkpoint()
        self.operator.prepare_start(process)
        back = chance.randint(1, BACK_MAX) if chance.random() < self._traits.set_backs else 0
        self.go_on(process, back=min(back, len(self.checkpoint.done)))
        self.is_done = True

    def _begins_in(self, process: Process) -> None:
        """Note whose turn it is. With the ledger in a topic nothing binds it to the machine of the one before."""
        nature = self.world.nature
        is_move = bool(self.drivers) and self.drivers[-1].is_dead and nature.is_on_log and not nature.is_in_bucket
        self.world.counts["killed drivers that moved to another host"] += is_move
        self.drivers.append(process)

    def go_on(self, process: Process, *, back: int = 0) -> None:
        """Run the batches that the checkpoint does not list as done, and `back` batches before them."""
        checkpoint = self.checkpoint
        driver = self.driver(process)
        batch_id = max(checkpoint.done, default=-1) + 1 - back
        if back and self.world.chance.random() < 0.5:
            self._run_edited(process, driver, checkpoint, batch_id)
        while checkpoint.base + batch_id < len(self.source):
            self.run_batch(process, driver, checkpoint, batch_id)
            batch_id += 1

    def driver(self, process: Process) -> Driver:
        """The driver that runs the batches of one life."""
        brokers = brokers_of(self.place.cluster, process)
        target = persevere(process, lambda: KafkaTarget(process.open().services.store, brokers, self._options))
        if self._traits.is_stepwise and len(self.drivers) % 2:
            return StepwiseDriver(target)
        return BatchDriver(target)

    def run_batch(self, process: Process, driver: Driver, checkpoint: Checkpoint, batch_id: int) -> None:
        """Run one batch, and mark it as done."""
        batch = self._batch(process, checkpoint, batch_id, self.source[checkpoint.base + batch_id])
        counts = self.world.counts
        try:
            report = persevere(process, lambda: driver.run(batch), tries=2)
        except ParticipantLostError as error:
            self.operator.note_loss(error)
            raise
        counts["batches replayed" if report.is_replay else "batches committed"] += 1
        counts["batches of a query that took over"] += checkpoint.takeover is not None
        counts["batches in two steps"] += isinstance(driver, StepwiseDriver)
        counts["participants rewritten"] += report.rewritten
        counts["losers aborted"] += report.aborted
        process.wait(self.world.latency_ms())
        checkpoint.done.add(batch_id)

    def catch_up(self, process: Process) -> None:
        """At the end, without faults, run what is left and one more batch.

        A losing copy of a task may open its transaction after the batch, and only the next lease would find it. So
        there are no copies here, and nothing may be left open.
        """
        self.is_calm = True
        process.sleep_ms(max(self.place.cluster.away_ms(), 0))
        self.plan(1)
        for _ in range(RESTARTS):
            self._begins_in(process)
            self.operator.prepare_start(process)
            try:
                return self.go_on(process)
            except ParticipantLostError:
                pass
            except AbortableError:  # a slow network can exceed a short time-out
                self.world.counts["restarts at the end"] += 1
            except GaveUpError:  # a transaction that a listing missed, as its coordinator moved, holds a token back
                process.sleep_ms(TIMEOUT_MAX_MS)
                self.world.counts["time-outs waited for at the end"] += 1
            process = self.world.process("driver")
        return self.go_on(process)

    def _run_edited(self, process: Process, driver: Driver, checkpoint: Checkpoint, batch_id: int) -> None:
        """Run a decided batch that a restored checkpoint does not know: Spark plans it again, with more rows.

        Raises:
            BatchRefusedError: as it must be, because the batch is decided.
            LawBrokenError: the batch was accepted.
        """
        rows = [*self.source[checkpoint.base + batch_id], [self.world.numbers("rows", 1)]]
        self.world.counts["batches planned anew"] += 1
        persevere(process, lambda: driver.run(self._batch(process, checkpoint, batch_id, rows)), tries=2)
        raise LawBrokenError(f"batch {batch_id} is decided, and one with other rows was not refused")

    def _batch(self, process: Process, checkpoint: Checkpoint, batch_id: int, rows: Rows) -> Batch[Job]:
        start = self.end(checkpoint.base + batch_id - 1)
        end = start + sum(map(len, rows))
        request = BatchRequest(
            PREFIX,
            checkpoint.query_id,
            self.place.topic,
            process.name,
            batch_id,
            f"{start}-{end}",
            GROUP if self.has_group else None,
            checkpoint.takeover,
            f"{process.name}/{batch_id}",
        )
        job = SimulatedJob(
            self.world,
            process,
            self.place,
            self.executors,
            rows,
            self.prepared,
            copies=0.0 if self.is_calm else self._traits.copies,
            is_calm=self.is_calm,
        )
        progress = GroupProgress(GROUP, {SOURCE: start} if batch_id else {}, {SOURCE: end}) if self.has_group else None
        return Batch(request, job, progress)
