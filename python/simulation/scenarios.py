"""The core scenarios: short pieces of work, with their preparation, to be crashed at every operation.

The work is done by one life after another, until one completes it. Like a restarted program, each life continues where
the log says that the work was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from oncelog.clients.producer import Producer
from oncelog.errors import DataLossError, ProducerFencedError
from oncelog.runtime import Log
from oncelog.testing.history import End, Ending
from oncelog.types import IsolationLevel, TopicPartition
from simulation.copiers import CopyingClient
from simulation.errors import LawBrokenError
from simulation.laws import Cast
from simulation.processes import Process
from simulation.producers import Sending, TransactionalClient, TransactionalLife
from simulation.readers import ALL, RecordedConsumer
from simulation.sinks import QueryClient
from simulation.targets.books import Books
from simulation.targets.destinations import (
    Destination,
    LogDestination,
    OnceDestination,
    PlaceDestination,
)
from simulation.targets.places import Database, Folder, Lake, OwnStore
from simulation.targets.queries import TargetQuery, Traits
from simulation.world import World

SOURCE, TARGET = "in", "out"

A_DAY_MS = 24 * 3600 * 1000


class Scenario(ABC):
    """One scenario in one world.

    Attributes:
        topics: with their numbers of partitions.
        limits: to replace, by name.
        cast: what is checked at the end.
    """

    topics: ClassVar[dict[str, int]] = {SOURCE: 2}
    limits: ClassVar[dict[str, int]] = {}

    def __init__(self, world: World) -> None:
        self.world = world
        self.cast = Cast(dict(self.topics))

    def prepare(self, process: Process, log: Log) -> None:  # noqa: B027 - most need nothing more than topics
        """Prepare what the work needs, without faults."""

    @abstractmethod
    def live(self, process: Process) -> None:
        """The work, or what is left of it."""

    def wake(self) -> None:  # noqa: B027 - in most scenarios nobody is paused
        """What a client that was paused all the time does after the work, without faults."""

    # Parts

    def write(
        self, process: Process, producer: Producer, name: str, *, partitions: int = 2, flush: bool = True
    ) -> Sending:
        """Begin a transaction, and send a record to each of the first `partitions` partitions."""
        sending = Sending(self.world, self.world.recorder(process), producer)
        producer.begin_transaction()
        for number in range(partitions):
            first = self.world.numbers(SOURCE, 1)
            sending.send(TopicPartition(SOURCE, number), first, 1, transaction=name, by=process.name)
            if flush or number < partitions - 1:
                producer.flush()
                sending.landed()
        return sending

    def commit(self, process: Process, producer: Producer, sending: Sending, name: str) -> None:
        """Commit the transaction."""
        recorder = self.world.recorder(process)
        call = recorder.invoke(End(name, Ending.COMMIT))
        producer.commit_transaction()
        sending.landed()
        recorder.ok(call)

    def fill(self, process: Process, log: Log, transactions: int) -> None:
        """Commit this many transactions over both partitions."""
        producer = log.producer(transactional_id="filler", codec="null")
        producer.init_transactions()
        for at in range(transactions):
            sending = self.write(process, producer, f"{process.name}/{at}", flush=False)
            self.commit(process, producer, sending, f"{process.name}/{at}")


class OneTransaction(Scenario):
    """A transaction over two partitions, in two appends, with a separate commit."""

    def live(self, process: Process) -> None:
        producer = process.open().producer(transactional_id="writer", codec="null")
        producer.init_transactions()
        sending = self.write(process, producer, process.name)
        self.commit(process, producer, sending, process.name)


class LastAppendCommits(Scenario):
    """A transaction whose last append commits it, in the same step."""

    def live(self, process: Process) -> None:
        producer = process.open().producer(transactional_id="writer", codec="null")
        producer.init_transactions()
        sending = self.write(process, producer, process.name, flush=False)
        self.commit(process, producer, sending, process.name)


class Copy(Scenario):
    """Consume-transform-produce, with the offsets in the transaction."""

    topics: ClassVar = {SOURCE: 2, TARGET: 2}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        targets = self.cast.partitions(TARGET)
        self._copiers = [
            CopyingClient(world, f"copier-{at}", TopicPartition(SOURCE, at), targets, most=2) for at in range(2)
        ]
        self.cast.copiers = list(self._copiers)

    def prepare(self, process: Process, log: Log) -> None:
        self.fill(process, log, 2)

    def live(self, process: Process) -> None:
        self._copiers[0].live(process)


class MicroBatch(Scenario):
    """A micro-batch of two tasks: planned, written, decided, settled, and replayed if the driver dies."""

    topics: ClassVar = {SOURCE: 2, TARGET: 2}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._query = QueryClient(world, "query", SOURCE, TARGET, 2, group="query-progress", min_tasks=2)
        self.cast.queries = [self._query]

    def prepare(self, process: Process, log: Log) -> None:
        self.fill(process, log, 1)

    def live(self, process: Process) -> None:
        self._query.live(process)


class MicroBatches(MicroBatch):
    """Several micro-batches of a run. Where steps are dear, those behind the first take one, which settles others."""

    limits: ClassVar = {"SETTLED_EVERY": 1, "SETTLE_LAG_MS": 0, "PARTITIONS_PER_STEP": 50, "OWNERS_PER_STEP": 50}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._query.max_rows = 2

    def prepare(self, process: Process, log: Log) -> None:
        self.fill(process, log, 3)


class TwoPhases(Scenario):
    """A transaction that one process prepares and another one commits, because another database decided so."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._client = TransactionalClient(world, "writer", self.cast.partitions(), prepares=True)
        self.cast.producers = [self._client]

    def live(self, process: Process) -> None:
        life = TransactionalLife(self._client, process, process.open())
        life.begin()
        life.prepare_over(self.cast.partitions(), process.name)
        successor = TransactionalLife(self._client, process, process.open())
        successor.begin()


class Fencing(Scenario):
    """A new producer with an id whose old producer left a transaction open, and wakes up afterwards."""

    def prepare(self, process: Process, log: Log) -> None:
        self._zombie = log.producer(transactional_id="writer", codec="null")
        self._zombie.init_transactions()
        self.write(process, self._zombie, "zombie")

    def live(self, process: Process) -> None:
        producer = process.open().producer(transactional_id="writer", codec="null")
        producer.init_transactions()
        sending = self.write(process, producer, process.name, flush=False)
        self.commit(process, producer, sending, process.name)

    def wake(self) -> None:
        _expect_fenced(self._zombie.commit_transaction)


class TimeOut(Scenario):
    """An overdue transaction that a sweeper aborts; its producer wakes up afterwards."""

    def prepare(self, process: Process, log: Log) -> None:
        self._zombie = log.producer(transactional_id="writer", codec="null", transaction_timeout_ms=1_000)
        self._zombie.init_transactions()
        self.write(process, self._zombie, "zombie")
        process.sleep_ms(5_000)

    def live(self, process: Process) -> None:
        log = process.open()
        log.admin.time_out()
        log.admin.settle()

    def wake(self) -> None:
        _expect_fenced(self._zombie.commit_transaction)


class Settling(Scenario):
    """Settling of several decided transactions in several partitions, in several steps."""

    def prepare(self, process: Process, log: Log) -> None:
        self.fill(process, log, 3)
        producer = log.producer(transactional_id="aborter", codec="null")
        producer.init_transactions()
        self.write(process, producer, "aborted")
        producer.abort_transaction()

    def live(self, process: Process) -> None:
        process.open().admin.settle()


class Removal(Scenario):
    """Retention and collection while a reader has planned; it continues to read afterwards."""

    def prepare(self, process: Process, log: Log) -> None:
        self.fill(process, log, 3)
        log.admin.settle()
        log.admin.configure_topic(SOURCE, retention_ms=1_000)
        self._reader = RecordedConsumer(self.world, process, log, self.cast.partitions(), IsolationLevel.READ_COMMITTED)
        self._reader.poll(1)
        process.sleep_ms(10_000)
        self.fill(self.world.process("filler"), log, 1)

    def live(self, process: Process) -> None:
        log = process.open()
        for _ in range(4):  # the third one is the first that can delete a file
            log.admin.upkeep()
            process.sleep_ms(A_DAY_MS // 4)

    def wake(self) -> None:
        try:
            while self._reader.poll(ALL):
                pass
        except DataLossError:
            return


class Rolling(Scenario):
    """So many transactions that the tails of their partitions roll into index files."""

    def prepare(self, process: Process, log: Log) -> None:
        self.fill(process, log, 4)

    def live(self, process: Process) -> None:
        self.fill(process, process.open(), 2)


class TargetScenario(Scenario):
    """Batches of two tasks, of a query into one or more targets."""

    topics: ClassVar = {SOURCE: 2, TARGET: 2}
    batches: ClassVar = 1

    def __init__(self, world: World) -> None:
        super().__init__(world)
        books = Books(world)
        traits = Traits(batches=0)
        self.query = TargetQuery(world, "query", books, self.destinations(books), traits, topic=TARGET)
        self.query.source = [[[world.numbers(TARGET, 1)], [world.numbers(TARGET, 1)]] for _ in range(self.batches)]
        self.cast.targets = [(self.query, TARGET)]

    @abstractmethod
    def destinations(self, books: Books) -> list[Destination]:
        """What the query writes to."""

    def live(self, process: Process) -> None:
        self.query.go_on(process)


class IntoAFolder(TargetScenario):
    """Two batches of pieces that are moved one by one."""

    batches = 2

    def destinations(self, books: Books) -> list[Destination]:
        return [PlaceDestination(Folder(self.world, "folder", books))]


class TogetherWithALog(TargetScenario):
    """A batch into a topic and a database, under one decision."""

    def destinations(self, books: Books) -> list[Destination]:
        return [LogDestination(TARGET, 2), PlaceDestination(Database(self.world, "database", books))]


class TogetherOfPlaces(TargetScenario):
    """A batch into a lake and into a store of the user's, under one decision."""

    def destinations(self, books: Books) -> list[Destination]:
        lake, store = Lake(self.world, "lake", books), OwnStore(self.world, "store", books)
        return [PlaceDestination(lake), OnceDestination(store)]


def _expect_fenced(call: Callable[[], object]) -> None:
    try:
        call()
    except ProducerFencedError:
        return
    raise LawBrokenError("I8: an old producer was not told that it is fenced")


SCENARIOS: dict[str, type[Scenario]] = {
    scenario.__name__: scenario
    for scenario in (
        OneTransaction,
        LastAppendCommits,
        Copy,
        MicroBatch,
        MicroBatches,
        TwoPhases,
        Fencing,
        TimeOut,
        Settling,
        Removal,
        Rolling,
        IntoAFolder,
        TogetherWithALog,
        TogetherOfPlaces,
    )
}
"""The scenarios by name."""
