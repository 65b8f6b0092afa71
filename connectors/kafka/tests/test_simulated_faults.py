"""Tasks and drivers on the simulated brokers, with every fault: a small driver's promise holds, seed by seed.

The driver here is no product's: it decides in a list that never fails, and does the least that a sink has to do.
"""

from __future__ import annotations

from random import Random

import pytest

from oncelog.errors import NotPreparedError
from oncelog_kafka.errors import BrokerUnavailableError
from oncelog_kafka.patience import PatientBrokers
from oncelog_kafka.protocol import end_txn
from oncelog_kafka.protocol.end_txn import Next, Token
from oncelog_kafka.protocol.participants import ONGOING, Participant
from oncelog_kafka.protocol.ports import CommittedOffset, Unstable
from simulation.faults import Fault, NoFaults, RandomFaults
from simulation.kafka.brokers import Cluster, Settings
from simulation.kafka.lines import ProcessLine
from simulation.kafka.requests import SimulatedRequests
from simulation.kafka.tasks import TaskProducer, Work
from simulation.processes import Process
from simulation.world import Nature, World

TASKS = 3
ROWS = 4
TIMEOUT_MS = 60_000
WAITED_MS = 10_000
"""How long a driver waits for its tasks."""

RATES = {
    Fault.CRASH_BEFORE: 0.01,
    Fault.CRASH_AFTER: 0.01,
    Fault.LOST_REPLY: 0.04,
    Fault.LOST_REQUEST: 0.02,
    Fault.DELAYED_REQUEST: 0.04,
    Fault.UNAVAILABLE: 0.02,
    Fault.PAUSE: 0.01,
}


class Sink:
    """One batch, written by tasks and ended by drivers, each of which may die."""

    def __init__(self, seed: int) -> None:
        self.world = World(Random(seed), Nature(latency_max_ms=20, slow=0.01, pause_max_ms=30_000))
        chance = self.world.chance
        version = chance.choice((1, 2))
        settings = Settings(version=version, max_epoch=chance.choice((3, 2**15 - 1)), is_kafka_3=version == 1)
        self.cluster = Cluster(self.world.wall_ms, settings, marker_delay_ms=lambda: chance.randrange(200))
        self.cluster.create_topic("out", 2)
        self.reported: dict[int, Participant] = {}
        self.decided: list[Participant] | None = None
        self.lost: set[int] = set()
        self.is_over = False

    def run(self) -> None:
        with self.world.entered():
            self.world.faults = RandomFaults(self.world.chance, RATES)
            for number in range(TASKS):
                self._start_task(number)
            self.world.scheduler.start(self._supervise)
            self.world.scheduler.run()

    def _start_task(self, number: int) -> None:
        process = self.world.process(f"task-{number}")

        def body() -> None:
            rows = [(("out", at % 2), f"{number}/{at}".encode()) for at in range(ROWS)]
            work = Work(f"id-{number}", number, rows, {f"tokens-{number}": {("out", 0): CommittedOffset(1, "")}}, "out")
            try:
                producer = TaskProducer(self.cluster, ProcessLine(process), process, TIMEOUT_MS)
                self.reported.setdefault(number, producer.prepare(work))
            except (NotPreparedError, BrokerUnavailableError):
                return

        process.start(body)

    def _supervise(self) -> None:
        """Start a driver whenever none lives, the last one without faults."""
        for life in range(20):
            if life == 5:
                self.world.faults = NoFaults()
            driver = self.world.process("driver")
            driver.start(lambda driver=driver: self._drive(driver))  # type: ignore[misc]
            while not driver.is_dead and not self.is_over:
                self.world.scheduler.wait(1_000)
            if self.is_over:
                return

    def _drive(self, process: Process) -> None:
        brokers = PatientBrokers(SimulatedRequests(self.cluster, ProcessLine(process)), process)
        try:
            if self.decided is None:
                self.decided = self._decide(process, brokers)
            self._commit(brokers, self.decided)
            kept = {one.transactional_id for one in self.decided}
            brokers.fence([name for name, _ in brokers.list_ids([ONGOING]) if name not in kept], TIMEOUT_MS)
            self.is_over = True
        except BrokerUnavailableError:
            process.is_dead = True

    def _decide(self, process: Process, brokers: PatientBrokers) -> list[Participant]:
        waited_until_ms = process.monotonic_ms() + WAITED_MS
        while len(self.reported) < TASKS and process.monotonic_ms() < waited_until_ms:
            process.sleep_ms(100)
        found = brokers.describe(one.transactional_id for one in self.reported.values())
        are_prepared = all(
            (known := found.get(one.transactional_id)) is not None
            and (known.producer_id, known.epoch, known.state) == (one.producer_id, one.epoch, ONGOING)
            for one in self.reported.values()
        )
        return list(self.reported.values()) if are_prepared and len(self.reported) == TASKS else []

    def _commit(self, brokers: PatientBrokers, waiting: list[Participant]) -> None:
        """Go by the product's list of decisions; what was paused for too long may be lost."""
        for _ in brokers.tries("the batch could not be committed"):
            left = []
            for participant, (answer, _) in zip(waiting, brokers.commit(waiting), strict=True):
                step = end_txn.decide(answer)
                if step is Next.ASK_TOKEN:
                    step = end_txn.decide(answer, self._token(brokers, participant))
                if step is Next.LOST:
                    self.lost.add(participant.partition)
                elif step is not Next.DONE:
                    assert step in {Next.SEND_AGAIN, Next.ASK_TOKEN}
                    left.append(participant)
            waiting = left
            if not waiting:
                return

    def _token(self, brokers: PatientBrokers, participant: Participant) -> Token:
        group = f"tokens-{participant.partition}"
        found = brokers.offsets({group: [("out", 0)]})[group].get(("out", 0))
        if found is None:
            return Token.ABSENT
        return Token.PENDING if isinstance(found, Unstable) else Token.THERE


@pytest.mark.parametrize("seed", range(60))
def test_what_was_decided_and_is_not_known_as_lost_is_there_once_and_nothing_else_is(seed: int) -> None:
    sink = Sink(seed)
    sink.run()
    sink.world.scheduler.now_ms += 2 * TIMEOUT_MS + 20_000
    sink.cluster.pass_time()

    values = sorted(value for _, _, value in sink.cluster.values("out"))
    with_token = {number for number in range(TASKS) if sink.cluster.offsets(f"tokens-{number}", [("out", 0)])}
    committed = {one.partition for one in sink.decided or ()} - sink.lost
    assert sink.is_over
    assert sink.cluster.list_ids([ONGOING, "PrepareCommit", "PrepareAbort"]) == []
    assert values == sorted(f"{number}/{at}".encode() for number in committed for at in range(ROWS))
    assert with_token == committed


def test_faults_are_played_and_batches_are_decided_and_aborted() -> None:
    sinks = [Sink(seed) for seed in range(60)]
    for sink in sinks:
        sink.run()

    faults = {step.fault for sink in sinks for step in sink.world.trace if step.fault is not None}
    assert faults == set(RATES)
    assert {bool(sink.decided) for sink in sinks} == {True, False}
    assert any(sink.lost for sink in sinks)
