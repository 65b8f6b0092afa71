"""Logs for tests: one on each znode store, by a clock that the test drives, checked when the test ends.

A `LogWorld` is the znodes and the files of one log: all in memory, or in SQLite and on the disk. `world.open()` is what
another process would do; in memory all share the one store, with SQLite each has connections of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from oncelog import limits, runtime
from oncelog.clients.accumulator import Receipt
from oncelog.clients.background import Threads
from oncelog.clients.producer import Producer
from oncelog.coordinator import sweeper, transactional_ids
from oncelog.coordinator.sweeper import Overdue
from oncelog.errors import FileWriteError
from oncelog.log import partition_log, partition_reads, topics
from oncelog.log.files import LocalFileStore
from oncelog.ports import EndsWithProcess, FileStore, OutputFile, ZnodeStore
from oncelog.protocol.partition import PartitionState
from oncelog.runtime import Log
from oncelog.testing import invariants
from oncelog.types import ConsumerRecord, IsolationLevel, TopicIdPartition, TopicPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.sqlite import SqliteZnodeStore
from tests.support.harness.variants import variants
from tests.support.servers.shared import SHARED

TOPIC = "flights"
STORES = ["memory", *variants("sqlite", *SHARED)]
CAUGHT_UP_MS = 1_000
"""Beyond every pause that upkeep keeps between two looks."""


class DrivenTime:
    """Wall clock and durations that pass when somebody waits, or when the test says so."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self.wall_ms = wall_ms
        self.durations_ms = 0
        self.background = DrivenBackground(self)

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.durations_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.wall_ms += duration_ms
        self.durations_ms += duration_ms

    def pass_ms(self, duration_ms: int) -> None:
        """As the test lets it pass: what is due in the background is done."""
        self.sleep_ms(duration_ms)
        self.background.run_due()


class DrivenBackground(Threads):
    """Work in the background that is done when the test lets the time pass, and by nobody when the process ends."""

    def __init__(self, time: DrivenTime) -> None:
        self._time = time
        self._due: list[tuple[int, Callable[[], int | None]]] = []

    def later(self, delay_ms: int, action: Callable[[], int | None], *, name: str) -> None:
        self._due.append((self._time.durations_ms + delay_ms, action))

    def at_exit(self, client: EndsWithProcess) -> None:
        pass

    def run_due(self) -> None:
        """Each once, and again at a later call if it asks for that."""
        waiting, self._due = self._due, []
        for due_ms, action in waiting:
            pause_ms: int | None = due_ms - self._time.durations_ms
            if pause_ms is not None and pause_ms <= 0:
                pause_ms = action()
            if pause_ms is not None:
                self.later(pause_ms, action, name="")


class MemoryFiles:
    """`ports.FileStore` in memory: for tests that fail the znodes at hundreds of places, and no disk at all."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def create(self, name: str) -> OutputFile:
        return MemoryOutputFile(name, self.contents)

    def read(self, name: str, position: int, length: int) -> bytes:
        return self._content(name)[position : position + length]

    def size(self, name: str) -> int:
        return len(self._content(name))

    def names(self, folder: str) -> Iterable[tuple[str, int, int]]:
        return [(name, len(data), 0) for name, data in sorted(self.contents.items()) if name.startswith(f"{folder}/")]

    def delete(self, name: str) -> None:
        self.contents.pop(name, None)

    def _content(self, name: str) -> bytes:
        if name not in self.contents:
            raise FileNotFoundError(name)
        return self.contents[name]


class MemoryOutputFile:
    """`ports.OutputFile` in memory; it is there once it is finished."""

    def __init__(self, name: str, contents: dict[str, bytes]) -> None:
        self._name = name
        self._contents = contents
        self._data = bytearray()

    @property
    def position(self) -> int:
        return len(self._data)

    def write(self, data: bytes | memoryview) -> None:
        self._data += data

    def finish(self) -> None:
        self._contents[self._name] = bytes(self._data)

    def discard(self) -> None:
        self._contents.pop(self._name, None)


class CountingFiles:
    """A file store that counts what is read."""

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self.reads: list[str] = []

    def create(self, name: str) -> OutputFile:
        return self._files.create(name)

    def read(self, name: str, position: int, length: int) -> bytes:
        self.reads.append(name)
        return self._files.read(name, position, length)

    def size(self, name: str) -> int:
        return self._files.size(name)

    def names(self, folder: str) -> Iterable[tuple[str, int, int]]:
        return self._files.names(folder)

    def delete(self, name: str) -> None:
        self._files.delete(name)


class FailingFiles:
    """A file store whose next file cannot be made."""

    def __init__(self, files: Any) -> None:
        self._files = files
        self.is_full = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def create(self, name: str) -> Any:
        if self.is_full:
            raise FileWriteError("the test's disk is full", file=name)
        return self._files.create(name)


class LogWorld:
    """The znodes and files of one log, and everyone who opened it.

    Attributes:
        is_checked: whether the invariants are checked at the end; a test that damages the log says no.
    """

    def __init__(self, folder: Path, kind: str = "memory", *, time: DrivenTime | None = None) -> None:
        self.folder = folder
        self.kind = kind
        self.time = time or DrivenTime()
        self.files = CountingFiles(MemoryFiles() if kind == "memory" else LocalFileStore(folder))
        self.is_checked = True
        self._memory = MemoryZnodeStore(now_ms=self.time.now_ms, clock=self.time) if kind == "memory" else None
        self._opened: list[ZnodeStore] = []
        self.log = self.open()

    def store(self) -> ZnodeStore:
        """The znodes, as a process of its own sees them."""
        if self._memory is not None:
            return self._memory
        store = SqliteZnodeStore(self.folder / "znodes.sqlite", now_ms=self.time.now_ms, clock=self.time)
        self._opened.append(store)
        return store

    def open(self, store: ZnodeStore | None = None) -> Log:
        """The log, as a process of its own opens it; over `store` instead of the plain one if given."""
        return runtime.open_with(
            str(self.folder),
            self.kind,
            store or self.store(),
            self.files,
            self.time,
            background=self.time.background,
        )

    def close(self) -> None:
        for store in self._opened:
            store.close()

    # Upkeep, as it happens between the calls of clients

    def settle(self, log: Log | None = None) -> int:
        """Settle everything that can be; returns how many owners were settled somewhere."""
        return invariants.settle_all(log or self.log)

    def sweep(self) -> list[Overdue]:
        """Time out what is overdue in any partition."""
        services = self.log.services
        return sweeper.sweep(services.store, services.coordinator, partitions(self.log))


def full_disk(world: LogWorld) -> FailingFiles:
    files = FailingFiles(world.files)
    world.files = files  # type: ignore[assignment]
    return files


World = TypeVar("World", bound=LogWorld)


@contextmanager
def checked(world: World) -> Iterator[World]:
    """A world that is checked and closed at the end of the block, unless the block failed."""
    try:
        yield world
        if world.is_checked:
            invariants.check(world.log)
    finally:
        world.close()


def log_world(folder: Path, kind: str = "memory") -> AbstractContextManager[LogWorld]:
    return checked(LogWorld(folder, kind))


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogWorld]:
    """A log with one topic of two partitions, on each store."""
    if request.param in SHARED:
        from tests.support.log.server_logs import server_log_world  # which is made of what is in this file

        opened: AbstractContextManager[LogWorld] = server_log_world(
            tmp_path, request.getfixturevalue(request.param).url()
        )
    else:
        opened = log_world(tmp_path, request.param)
    with opened as found:
        found.log.create_topic(TOPIC, partitions=2)
        yield found


@pytest.fixture
def memory_world(tmp_path: Path) -> Iterator[LogWorld]:
    """The same in memory, for what all stores do alike."""
    with log_world(tmp_path) as found:
        found.log.create_topic(TOPIC, partitions=2)
        yield found


@pytest.fixture
def log(world: LogWorld) -> Log:
    return world.log


# What tests ask of a log ----------------------------------------------------------------------------------------------


def partitions(log: Log, topic: str | None = None) -> list[TopicIdPartition]:
    """All partitions of a topic, or of the log."""
    store = log.services.store
    return topics.partitions_of(store, topic) if topic else topics.all_partitions(store)


def partition(log: Log, number: int = 0, topic: str = TOPIC) -> TopicIdPartition:
    return partition_reads.identify(log.services.store, topic, number)


def state(log: Log, number: int = 0, topic: str = TOPIC) -> PartitionState:
    """What the partition's znode says."""
    return partition_reads.read_partition(log.services.store, partition(log, number, topic))


def tp(number: int = 0, topic: str = TOPIC) -> TopicPartition:
    return TopicPartition(topic, number)


def records(
    log: Log,
    topic: str = TOPIC,
    isolation: IsolationLevel | str = IsolationLevel.READ_COMMITTED,
    *,
    starts: Mapping[TopicPartition, int] | None = None,
    max_records: int = 500,
) -> list[ConsumerRecord]:
    """Everything a consumer of the whole topic gets, from the beginning or from `starts`, partition by partition."""
    found: list[ConsumerRecord] = []
    with log.consumer(isolation_level=isolation, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        for start, offset in (starts or {}).items():
            consumer.seek(start, offset)
        while polled := consumer.poll(max_records=max_records):
            found += polled
    return sorted(found, key=lambda record: (record.partition, record.offset))


def values(
    log: Log,
    number: int | None = None,
    topic: str = TOPIC,
    isolation: IsolationLevel | str = IsolationLevel.READ_COMMITTED,
    *,
    starts: Mapping[TopicPartition, int] | None = None,
) -> list[bytes | None]:
    """The values of `records`, of one partition or of all."""
    found = records(log, topic, isolation, starts=starts)
    return [record.value for record in found if number in (None, record.partition)]


def uncommitted(log: Log, number: int | None = None, topic: str = TOPIC) -> list[bytes | None]:
    """The values a read_uncommitted consumer gets."""
    return values(log, number, topic, IsolationLevel.READ_UNCOMMITTED)


def check_all_there(log: Log, topic: str, sent: Iterable[tuple[bytes, Receipt]]) -> None:
    """Each record that has a receipt is where that says, and none is there twice."""
    found = records(log, topic)
    places = {(record.partition, record.offset): record.value for record in found}
    for value, receipt in sent:
        result = receipt.result()
        assert places.get((result.partition, result.offset)) == value
    assert len({record.value for record in found}) == len(found)


def lso(log: Log, number: int = 0, topic: str = TOPIC) -> int:
    """The last stable offset of a partition planned alone."""
    with log.consumer() as consumer:
        return consumer.end_offsets([tp(number, topic)])[tp(number, topic)]


def contents(world: LogWorld) -> dict[str, bytes]:
    """Every znode but the clock, and every file."""
    store = world.log.services.store

    def znodes(path: str) -> Iterator[tuple[str, bytes]]:
        znode = store.get(path)
        if znode is not None and path != paths.CLOCK:
            yield path, znode.data
        for name in store.children(path):
            yield from znodes(f"{path.rstrip('/')}/{name}")

    files = world.log.services.files
    names = [name for folder in ("data", "index", "manifests") for name, _, _ in files.names(folder)]
    return dict(znodes("/")) | {name: files.read(name, 0, files.size(name)) for name in names}


# What tests do to a log -----------------------------------------------------------------------------------------------


def started(log: Log, transactional_id: str = "copier", **options: int | str) -> Producer:
    """A transactional producer, initialised."""
    producer = log.producer(transactional_id=transactional_id, **options)  # type: ignore[arg-type]
    producer.init_transactions()
    return producer


def send(producer: Producer, *sent: bytes, number: int = 0, topic: str = TOPIC) -> list[int]:
    """Send values to one partition and append them as one batch; returns their offsets."""
    receipts = [producer.send(topic, value, partition=number) for value in sent]
    producer.flush()
    return [receipt.result().offset for receipt in receipts]


def write_open(producer: Producer, *sent: bytes, number: int = 0, topic: str = TOPIC) -> list[int]:
    """Begin a transaction, append values, and leave it open."""
    producer.begin_transaction()
    return send(producer, *sent, number=number, topic=topic)


def write_committed(producer: Producer, *sent: bytes, number: int = 0, topic: str = TOPIC) -> list[int]:
    """Append values in a transaction of their own, and commit it."""
    offsets = write_open(producer, *sent, number=number, topic=topic)
    producer.commit_transaction()
    return offsets


def roll_and_collect(world: LogWorld) -> None:
    """Roll the first partition's tail into index files, and let the files go that nothing names any more."""
    services = world.log.services
    partition_log.roll(services.store, services.new_index_files(), partition(world.log))
    for _ in range(4):
        world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
        world.log.admin.collect()


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)


def write_aborted(producer: Producer, *sent: bytes, number: int = 0, topic: str = TOPIC) -> list[int]:
    """Append values in a transaction of their own, and abort it."""
    offsets = write_open(producer, *sent, number=number, topic=topic)
    producer.abort_transaction()
    return offsets


def numbered(name: str, count: int) -> list[bytes]:
    """Values that tell where they come from: ``name-0``, ``name-1`` ..."""
    return [f"{name}-{at}".encode() for at in range(count)]


def columns(*sent: bytes | None, **more: list[object]) -> pa.RecordBatch:
    """A record batch of values, and of other columns if given."""
    return pa.record_batch({"value": pa.array(sent, pa.binary()), **more})


def set_epoch(log: Log, transactional_id: str, epoch: int) -> None:
    """Rewrite an idle id's metadata, as if it had come to `epoch` by as many transactions."""
    store = log.services.store
    stored = transactional_ids.load(store, transactional_id)
    assert stored is not None
    assert stored.open_transaction is None
    data = payloads.encode_transaction(replace(stored, epoch=epoch))
    store.transact(lambda view: view.set(paths.transaction(transactional_id), data))
