"""Bugs that the simulation found, each cut down to the few steps that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from oncelog import limits, runtime
from oncelog.coordinator.producer_ids import ProducerIds
from oncelog.coordinator.settler import Settler
from oncelog.coordinator.transactions import Initialised, TransactionCoordinator
from oncelog.errors import DataLossError, OutcomeUnknownError, ProducerFencedError, StoreUnavailableError
from oncelog.limits import TRANSACT_DEADLINE_MS
from oncelog.log import collection, generations, partition_log
from oncelog.log.index_files import IndexFiles
from oncelog.ports import Znode, ZnodeReader, ZnodeView
from oncelog.runtime import Log
from oncelog.znodes import paths
from tests.support.log.faulty import FaultyStore, RivalledStore
from tests.support.log.logs import (
    TOPIC,
    CountingFiles,
    log_world,
    numbered,
    partition,
    send,
    started,
    tp,
    values,
    write_aborted,
    write_committed,
    write_open,
)

T = TypeVar("T")


class UnansweredStore(FaultyStore):
    """A step fails before it has read anything, and the answer to that is lost: as over a connection that breaks."""

    is_due = True

    def transact(self, step: Callable[[ZnodeView], T], *, deadline_ms: int = TRANSACT_DEADLINE_MS) -> T:
        if self.is_due:
            self.is_due = False
            raise OutcomeUnknownError("the test's store lost the answer")
        return super().transact(step, deadline_ms=deadline_ms)


def test_an_init_whose_first_try_read_nothing_is_repeated(tmp_path: Path) -> None:
    """It ended in an IndexError: the second try asked what the first one had seen. conformance: 15."""
    with log_world(tmp_path) as world:
        ids = ProducerIds(world.store())
        coordinator = TransactionCoordinator(UnansweredStore(world.store()), ids)

        assert coordinator.init_producer_id("writer").producer.epoch == 0


class UnreadablePartition(FaultyStore):
    """The index of one partition cannot be read now."""

    path = ""

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        with super().snapshot() as reader:
            yield _Refusing(reader, self.path)


class _Refusing:
    def __init__(self, reader: ZnodeReader, path: str) -> None:
        self._reader = reader
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        if path == self._path:
            raise StoreUnavailableError("the test's store is away")
        return self._reader.children_data(path)


def test_a_poll_after_a_failed_one_hands_out_no_half_of_a_transaction(tmp_path: Path) -> None:
    """The failed plan had left one partition planned, and the next poll handed that out alone. conformance: 27."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=2)
        producer = started(world.log)
        producer.begin_transaction()
        send(producer, b"a", number=0)
        send(producer, b"a", number=1)
        send(producer, b"b", number=1)  # a second append, so that the tail is looked at and not only its first node
        producer.commit_transaction()
        store = UnreadablePartition(world.store())
        consumer = world.open(store).consumer(auto_offset_reset="earliest")
        consumer.subscribe([TOPIC])
        store.path = paths.tail(partition(world.log, 1))
        with pytest.raises(StoreUnavailableError):
            consumer.poll()

        store.path = ""
        found = [(record.partition, record.value) for record in consumer.poll()]
        assert found == [(0, b"a"), (1, b"a"), (1, b"b")]


class OvertakenReads(RivalledStore):
    """Reads one after another, as ZooKeeper's: somebody else acts between two of them, once."""

    reads_are_atomic = False

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        yield self


class OvertakenBeforeTail(OvertakenReads):
    """The other comes before the tail is read."""

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        self.is_overtaken()
        return super().children_data(path)


def test_a_roll_that_another_one_overtakes_between_its_reads_is_no_damage(tmp_path: Path) -> None:
    """It found a hole before the tail, and failed the commit behind which it ran."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=1)
        producer = started(world.log)
        for value in numbered("value", 4):
            write_committed(producer, value)
        store, files = OvertakenBeforeTail(world.store()), IndexFiles(world.files)
        store.rival = lambda: partition_log.roll(world.store(), files, partition(world.log))

        partition_log.roll(store, files, partition(world.log))

        assert store.rival is None


class RolledTail(OvertakenReads):
    """The tail is rolled after its first znodes were read; a list of znodes leaves out those that are gone."""

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        found = super().children_data(path)
        return found[:2] if self.is_overtaken() else found


def test_a_tail_that_is_rolled_while_it_is_read_shows_no_aborted_record(tmp_path: Path) -> None:
    """The marker that said so was behind the range that was read, and its absence went unnoticed. conformance: 36."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=1)
        write_aborted(started(world.log, "aborter"), b"aborted")
        blocker = started(world.log, "blocker")
        writer = started(world.log, "writer")
        write_committed(writer, b"committed")
        write_open(blocker, b"open")
        world.settle()
        store = RolledTail(world.store())
        store.rival = lambda: partition_log.roll(world.store(), IndexFiles(world.files), partition(world.log))

        assert values(world.open(store)) == [b"committed"]
        blocker.abort_transaction()


class OvertakenAfterTopic(OvertakenReads):
    """The other comes right after the topic's znode was read."""

    def get(self, path: str) -> Znode | None:
        found = super().get(path)
        if path == paths.topic(TOPIC):
            self.is_overtaken()
        return found

    def get_many(self, paths_read: Iterable[str]) -> list[Znode | None]:
        wanted = list(paths_read)
        found = super().get_many(wanted)
        if paths.topic(TOPIC) in wanted:
            self.is_overtaken()
        return found


UPKEEP: dict[str, Callable[[Log], object]] = {
    "collect": lambda log: collection.referenced_files(log.services.store, log.services.new_index_files()),
    "enforce_retention": lambda log: log.admin.enforce_retention(),
    "expire_producers": lambda log: log.admin.expire_producers(),
    "settle": lambda log: log.admin.settle(),
    "upkeep": lambda log: log.admin.upkeep(),
    "list_topics": lambda log: log.admin.list_topics(),
}


@pytest.mark.parametrize("work", UPKEEP)
def test_upkeep_goes_on_beside_the_deletion_of_a_topic(work: str, tmp_path: Path) -> None:
    """It ended in UnknownTopicError, and so the rest of the log had no upkeep that time."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=2)
        write_committed(started(world.log), b"value")
        store = OvertakenAfterTopic(world.store())
        log = world.open(store)
        store.rival = lambda: world.log.admin.delete_topic(TOPIC)

        UPKEEP[work](log)

        assert store.rival is None


class OvertakenFiles(CountingFiles):
    """Somebody else acts right before the next file of an index is read, and that takes hours."""

    rival: Callable[[], object] | None = None

    def size(self, name: str) -> int:
        if self.rival is not None and name.startswith(generations.INDEX):
            rival, self.rival = self.rival, None
            rival()
        return super().size(name)


WALKS: dict[str, Callable[[Log], object]] = {
    "collect": UPKEEP["collect"],
    "enforce_retention": UPKEEP["enforce_retention"],
    "delete_records": lambda log: log.admin.delete_records({tp(): 5}),
    "offsets_for_times": lambda log: log.consumer().offsets_for_times({tp(): 2**40}),
}


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_over_an_index_that_lasts_until_its_files_are_removed_begins_anew(
    walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection that stood still for hours called its index damaged (seed 183166)."""
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 2)
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, retention_bytes=2**20)
        for number in range(6):
            write_committed(started(world.log), b"%d" % number)
        files = OvertakenFiles(world.files)
        log = runtime.open_with(str(tmp_path), "memory", world.store(), files, world.time)

        def remove() -> None:
            world.log.admin.settle()
            world.log.admin.delete_records({tp(): 2})
            for _ in range(4):
                world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
                removed.extend(world.log.admin.collect().removed)

        removed: list[str] = []
        files.rival = remove
        WALKS[walk](log)

        assert files.rival is None
        assert any(name.startswith(generations.INDEX) for name in removed)
        assert values(log)[-1:] == [b"5"]


class BusyFiles(CountingFiles):
    """Somebody else rolls the tail, once more, whenever an index file is looked for."""

    roll: Callable[[], object] | None = None

    def size(self, name: str) -> int:
        roll, self.roll = self.roll, None
        if roll is not None and name.startswith(generations.INDEX):
            roll()
        self.roll = roll
        return super().size(name)


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
def test_an_index_file_that_is_gone_and_still_named_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_busy: bool
) -> None:
    """Also where the log grows faster than its index is walked."""
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 2)
    with log_world(tmp_path) as world:
        world.is_checked = False
        world.log.create_topic(TOPIC)
        producer = started(world.log)

        def write(count: int) -> None:
            for _ in range(count):
                write_committed(producer, b"a")

        write(6)
        for name, _, _ in list(world.files.names(generations.INDEX)):
            world.files.delete(name)
        files = BusyFiles(world.files)
        files.roll = (lambda: write(2)) if is_busy else None
        log = runtime.open_with(str(tmp_path), "memory", world.store(), files, world.time)

        for walk in ("collect", "delete_records", "offsets_for_times"):
            with pytest.raises(DataLossError, match="an index file is gone"):
                WALKS[walk](log)
        with pytest.raises(DataLossError, match="an index file is gone"):
            list(log.admin.dump(TOPIC))


class OvertakenAfterPartitions(OvertakenReads):
    """The other comes after a settler has read its partitions."""

    def get_many(self, paths_: Iterable[str]) -> list[Znode | None]:
        found = super().get_many(paths_)
        self.is_overtaken()
        return found


def test_a_settler_goes_on_beside_the_deletion_of_a_topic(tmp_path: Path) -> None:
    """It read each partition twice, and ended in UnknownTopicError where the second time found none."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=1)
        write_committed(started(world.log), b"value")
        store = OvertakenAfterPartitions(world.store())
        settler = Settler(store, world.log.services.clock)
        partitions = [partition(world.log)]
        store.rival = lambda: world.log.admin.delete_topic(TOPIC)

        settler.settle_now(partitions)

        assert store.rival is None


class UnsureStore(FaultyStore):
    """The answer of an init is lost, and so is the one that its repetition finds itself fenced by a rival."""

    rival: Callable[[], object] | None = None

    def transact(self, step: Callable[[ZnodeView], T], *, deadline_ms: int = TRANSACT_DEADLINE_MS) -> T:
        try:
            result = super().transact(step, deadline_ms=deadline_ms)
        except ProducerFencedError as error:
            if self.rival is None:
                raise
            self.rival = None
            raise OutcomeUnknownError("the answer was lost") from error
        if self.rival is None or not isinstance(result, Initialised):
            return result
        self.rival()
        raise OutcomeUnknownError("the answer was lost")


def test_an_init_that_lost_to_a_rival_does_not_come_back_though_it_was_not_told(tmp_path: Path) -> None:
    """It took the rival's identity for the base of its own next try, with a producer id that it had used before: two
    lives had one identity, and what one of them aborted the other one committed (seed 44665)."""
    with log_world(tmp_path) as world:
        store = UnsureStore(world.store())
        coordinator = world.open(store).services.coordinator
        store.rival = lambda: started(world.log, "writer")

        with pytest.raises(ProducerFencedError):
            coordinator.init_producer_id("writer")
