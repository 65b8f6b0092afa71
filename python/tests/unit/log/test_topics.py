"""Topics: names, creation and deletion over crashes and races, and the tombstones that keep versions growing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.errors import StoreUnavailableError, TopicExistsError, UnknownTopicError, UsageError
from oncelog.log import partition_reads, topics
from oncelog.runtime import Log
from oncelog.znodes import paths
from tests.support.log.faulty import HICCUPS, Crashed, Fault, FaultyStore, InterruptedStore
from tests.support.log.logs import TOPIC, LogWorld, log_world, partitions, send, values


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a" * 250, "a\n"])
def test_an_illegal_name_is_refused(log: Log, name: str) -> None:
    with pytest.raises(UsageError, match="topic="):
        log.create_topic(name)

    assert list(topics.states(log.services.store)) == [TOPIC]


@pytest.mark.parametrize("name", ["a", "A.b_c-1", "...", "_", "a" * 249])
def test_a_legal_name_is_taken(log: Log, name: str) -> None:
    log.create_topic(name)
    with log.producer() as producer:
        send(producer, b"a", topic=name)

    assert values(log, topic=name) == [b"a"]


@pytest.mark.parametrize("count", [0, -1, limits.MAX_PARTITIONS + 1])
def test_a_number_of_partitions_out_of_bounds_is_refused(log: Log, count: int) -> None:
    with pytest.raises(UsageError, match=f"partitions={count}, minimum=1, maximum=500"):
        log.create_topic("new", partitions=count)


@pytest.mark.slow
def test_the_largest_topic_is_created_and_deleted(tmp_path: Path) -> None:
    with log_world(tmp_path) as world:
        world.log.create_topic("wide", partitions=limits.MAX_PARTITIONS)
        with world.log.producer() as producer:
            for number in range(limits.MAX_PARTITIONS):
                producer.send("wide", b"a", partition=number)
        assert len(values(world.log, topic="wide")) == limits.MAX_PARTITIONS
        world.log.admin.delete_topic("wide")

        assert list(topics.states(world.log.services.store)) == []
        assert world.log.services.store.children(paths.topic("wide")) == []


def test_a_name_is_taken_once(log: Log) -> None:
    with pytest.raises(TopicExistsError, match=TOPIC):
        log.create_topic(TOPIC, partitions=5)

    assert len(partitions(log, TOPIC)) == 2


@pytest.mark.parametrize("fault", HICCUPS)
def test_a_creation_whose_answer_was_lost_is_no_existing_topic(world: LogWorld, fault: Fault) -> None:
    """conformance: 16."""
    store = FaultyStore(world.store())
    log = world.open(store)
    store.fail_next(fault)
    if fault is Fault.UNAVAILABLE:
        with pytest.raises(StoreUnavailableError):
            log.create_topic("new", partitions=3)
    else:
        log.create_topic("new", partitions=3)

    assert ("new" in topics.states(world.log.services.store)) == (fault is not Fault.UNAVAILABLE)


def test_of_two_that_create_a_topic_at_once_one_is_told_that_it_exists(world: LogWorld) -> None:
    store = InterruptedStore(world.store(), lambda: world.log.create_topic("new", partitions=3))
    log = world.open(store)
    store.interrupt()
    with pytest.raises(TopicExistsError):
        log.create_topic("new", partitions=7)

    assert len(partitions(world.log, "new")) == 3


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_a_deletion_that_was_begun_is_finished_by_whoever_creates_the_topic_again(
    tmp_path: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conformance: 14."""
    monkeypatch.setattr(topics, "ZNODES_PER_STEP", 3)
    for at in range(30):
        with log_world(tmp_path / str(at)) as world:
            world.log.create_topic(TOPIC, partitions=2)
            with world.log.producer() as producer:
                send(producer, b"old")
            store = FaultyStore(world.store(), fault, at)
            with suppress(Crashed):
                world.open(store).admin.delete_topic(TOPIC)
            with suppress(TopicExistsError):
                world.log.create_topic(TOPIC, partitions=1)
            is_deleted = len(partitions(world.log)) == 1
            assert is_deleted or at == 0
            assert values(world.log) == ([] if is_deleted else [b"old"])
            if not store.has_struck:
                assert at > 1
                return
    pytest.fail("the deletion never ended")


def test_a_deletion_leaves_the_partitions_of_a_topic_that_was_created_meanwhile(world: LogWorld) -> None:
    def create_again() -> None:
        world.log.create_topic(TOPIC, partitions=3)
        with world.log.producer() as producer:
            send(producer, b"new")

    store = InterruptedStore(world.store(), create_again)
    log = world.open(store)
    store.interrupt(1)
    log.admin.delete_topic(TOPIC)

    assert len(partitions(world.log, TOPIC)) == 3
    assert values(world.log) == [b"new"]


def test_a_step_that_read_the_deleted_topic_never_writes_to_its_successor(world: LogWorld) -> None:
    """conformance: 17."""

    def create_again() -> None:
        world.log.admin.delete_topic(TOPIC)
        world.log.create_topic(TOPIC, partitions=1)

    store = InterruptedStore(world.store(), create_again)
    store.interrupt()
    topics.configure(store, TOPIC, retention_ms=5)
    found = partition_reads.read_topic(world.log.services.store, TOPIC)

    assert (found.partitions, found.retention_ms) == (1, 5)
    assert len(partitions(world.log, TOPIC)) == 1


def test_settings_are_checked_and_change_alone(log: Log) -> None:
    store = log.services.store
    topics.configure(store, TOPIC, retention_ms=5)
    topics.configure(store, TOPIC, retention_bytes=7)
    found = partition_reads.read_topic(store, TOPIC)

    assert (found.retention_ms, found.retention_bytes) == (5, 7)
    assert topics.configure(store, TOPIC, retention_ms=None).retention_ms is None
    with pytest.raises(UsageError, match="retention_bytes=-1"):
        topics.configure(store, TOPIC, retention_bytes=-1)
    with pytest.raises(UnknownTopicError, match="nowhere"):
        topics.configure(store, "nowhere", retention_ms=1)


def test_tombstones_go_after_a_day_and_not_before(world: LogWorld) -> None:
    world.log.admin.delete_topic(TOPIC)
    store = world.log.services.store
    for passed_ms, is_left in ((limits.TOMBSTONE_MS, True), (1, False)):
        world.time.pass_ms(passed_ms)
        topics.remove_tombstones(store, world.time.now_ms())
        assert (store.get(paths.topic(TOPIC)) is not None) == is_left
    world.log.create_topic(TOPIC)

    assert values(world.log) == []
