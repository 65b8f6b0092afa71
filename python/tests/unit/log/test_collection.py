"""Collection of files: what is a candidate, over crashes between its steps, and how much it remembers."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.errors import FileUnavailableError
from oncelog.log import collection, generations, partition_log
from oncelog.log.collection import Collected
from oncelog.log.partition_log import Append
from oncelog.runtime import Log
from oncelog.types import ProducerIdAndEpoch
from oncelog.znodes import paths
from tests.support.log.copies import written_blocks
from tests.support.log.faulty import Crashed, Fault, FaultyStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    log_world,
    numbered,
    partition,
    send,
    started,
    tp,
    values,
    write_open,
)


def collect(log: Log, world: LogWorld, *, dry_run: bool = False) -> Collected:
    services = log.services
    return collection.collect(services.store, services.files, now_ms=world.time.now_ms, dry_run=dry_run)


def orphan(world: LogWorld, folder: str = generations.DATA) -> str:
    """A file of the present generation that no znode names."""
    name = generations.new_name(folder, generations.current(world.log.services.store))
    output = world.files.create(name)
    output.write(b"12345")
    output.finish()
    return name


def later(world: LogWorld) -> Collected:
    world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
    return collect(world.log, world)


def found(world: LogWorld) -> None:
    """Collections until one has found what is unnamed now beyond naming: the next one removes it."""
    for _ in range(2):
        later(world)


@pytest.mark.parametrize("folder", collection.FOLDERS)
def test_an_orphan_of_any_kind_waits_until_nobody_can_name_it_any_more(world: LogWorld, folder: str) -> None:
    name = orphan(world, folder)
    first, second, third = later(world), later(world), later(world)

    assert (first.removed, first.waiting, first.generation) == ((), (name,), 2)
    assert (second.removed, second.waiting, second.generation) == ((), (name,), 3)
    assert (third.removed, third.size_bytes, third.generation) == ((name,), 5, 4)
    assert list(world.files.names(folder)) == []


def test_a_file_that_was_looked_at_before_it_was_named_has_its_hour_from_when_retention_let_it_go(
    world: LogWorld,
) -> None:
    """Collections may be rarer than retention: the next one comes right behind it."""
    block = written_blocks(world.log, b"a")[0]
    assert later(world).waiting == (block.file,)
    late = Append(partition(world.log), ProducerIdAndEpoch(5, 0), 0, None, (block,))
    world.store().transact(lambda view: partition_log.append(view, late))
    world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
    world.log.admin.delete_records({tp(): 1})

    assert [collect(world.log, world).removed, later(world).removed] == [(), (block.file,)]


def test_a_file_that_retention_let_go_stays_for_its_readers_an_hour_from_when_that_was_found(world: LogWorld) -> None:
    """However soon the next generation comes. conformance: 28."""
    with world.log.producer() as producer:
        for value in numbered("a", 2):
            send(producer, value)
    for _ in range(3):
        later(world)
    world.time.pass_ms(limits.GENERATION_MIN_AGE_MS - 60_000)
    world.log.admin.delete_records({tp(): 1})
    assert len(collect(world.log, world).waiting) == 1
    for pause_ms in (60_000, limits.GENERATION_MIN_AGE_MS - 60_001):
        world.time.pass_ms(pause_ms)
        assert collect(world.log, world).removed == ()
    world.time.pass_ms(1)

    assert len(collect(world.log, world).removed) == 1


def test_the_hour_counts_from_after_the_look_at_the_indexes(world: LogWorld) -> None:
    """Retention may let go of a file while a collection looks, which may take long."""
    name = orphan(world)
    later(world)
    world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
    began_ms = world.time.now_ms()
    asked = iter([began_ms, began_ms + 60_000])
    collection.collect(world.store(), world.files, now_ms=lambda: next(asked))
    world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
    assert collect(world.log, world).removed == ()
    world.time.pass_ms(60_000)

    assert collect(world.log, world).removed == (name,)


def test_a_clock_that_is_set_back_makes_a_file_wait_an_hour_and_no_longer(world: LogWorld) -> None:
    name = orphan(world)
    later(world)
    world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
    collection.collect(world.store(), world.files, now_ms=lambda: world.time.now_ms() + 10**12)
    later(world)
    assert collect(world.log, world).waiting == (name,)

    assert later(world).removed == (name,)


def test_candidates_of_the_time_when_generations_were_remembered_are_found_anew(world: LogWorld) -> None:
    name = orphan(world)
    later(world)
    data = paths.encode({"files": {name: 1}})
    world.store().transact(lambda view: view.set(paths.CANDIDATES, data))
    world.time.pass_ms(2 * limits.GENERATION_MIN_AGE_MS)

    assert collect(world.log, world).waiting == (name,)
    assert later(world).removed == (name,)


def test_a_file_that_is_named_in_time_is_no_orphan(world: LogWorld) -> None:
    """conformance: 28."""
    producer = started(world.log)
    write_open(producer, b"a")
    producer.prepare_transaction()
    for _ in range(5):
        assert later(world).removed == ()
    producer.commit_transaction()

    assert values(world.log) == [b"a"]


@pytest.mark.parametrize("names_per_znode", [collection.NAMES_PER_ZNODE, 1])
def test_a_process_that_dies_within_a_collection_costs_no_data_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names_per_znode: int
) -> None:
    """conformance: 14."""
    monkeypatch.setattr(collection, "NAMES_PER_ZNODE", names_per_znode)
    for at in range(20):
        with log_world(tmp_path / str(at)) as world:
            world.log.create_topic(TOPIC)
            with world.log.producer() as producer:
                for value in numbered("a", 3):
                    send(producer, value)
            world.log.admin.delete_records({tp(): 1})
            name = orphan(world)
            found(world)
            orphan(world)
            world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
            store = FaultyStore(world.store(), Fault.CRASH_AFTER, at)
            with suppress(Crashed):
                collect(world.open(store), world)
            for _ in range(3):
                later(world)

            assert world.store().children(paths.CANDIDATES) == []
            left = {file for file, _, _ in world.files.names(generations.DATA)}
            assert name not in left
            assert len(left) == 2
            assert values(world.log) == [b"a-1", b"a-2"]
            if not store.has_struck:
                assert at > 0
                return
    pytest.fail("the collection never ended")


def test_a_file_that_cannot_be_removed_now_is_a_retriable_error_and_goes_later(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = orphan(world)
    found(world)
    delete = world.files.delete

    def refuse(_: str) -> None:
        raise FileUnavailableError("the test's disk is read-only")

    monkeypatch.setattr(world.files, "delete", refuse)
    with pytest.raises(FileUnavailableError):
        later(world)
    monkeypatch.setattr(world.files, "delete", delete)
    removed = [*later(world).removed, *later(world).removed]

    assert removed == [name]


def test_a_file_that_cannot_be_removed_keeps_no_other_one(world: LogWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of another user in a folder where only its owner may remove it."""
    names = sorted(orphan(world) for _ in range(5))
    found(world)
    delete = world.files.delete

    def refuse(name: str) -> None:
        if name == names[1]:
            raise FileUnavailableError("not permitted")
        delete(name)

    monkeypatch.setattr(world.files, "delete", refuse)
    for _ in range(2):
        with pytest.raises(FileUnavailableError):
            later(world)
        assert [name for name, _, _ in world.files.names(generations.DATA)] == [names[1]]
    monkeypatch.setattr(world.files, "delete", delete)

    assert collect(world.log, world).removed == (names[1],)


def test_a_store_that_removes_nothing_is_not_asked_for_every_file(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {orphan(world) for _ in range(15)}
    found(world)
    delete, asked = world.files.delete, []

    def refuse(name: str) -> None:
        asked.append(name)
        raise FileUnavailableError("the store is away")

    monkeypatch.setattr(world.files, "delete", refuse)
    with pytest.raises(FileUnavailableError):
        later(world)
    assert len(asked) == collection.FAILURES_TO_STOP
    monkeypatch.setattr(world.files, "delete", delete)

    assert set(collect(world.log, world).removed) == names


def test_any_number_of_files_goes_at_once_when_its_time_has_come(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "NAMES_PER_ZNODE", 2)
    names = {orphan(world) for _ in range(5)}
    found(world)
    assert len(world.store().children(paths.CANDIDATES)) == 2

    assert set(later(world).removed) == names
    assert world.store().children(paths.CANDIDATES) == []


def test_what_does_not_fit_into_its_memory_waits_a_collection_longer(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "NAMES_PER_ZNODE", 1)
    monkeypatch.setattr(collection, "MAX_PARTS", 1)
    names = {orphan(world) for _ in range(5)}
    removed: list[str] = []
    for _ in range(5):
        gone = later(world).removed
        assert len(gone) <= 2
        removed += gone

    assert set(removed) == names


def test_a_dry_run_says_what_would_go_and_changes_nothing(world: LogWorld) -> None:
    name = orphan(world)
    found(world)
    world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
    for _ in range(2):
        assert collect(world.log, world, dry_run=True).removed == (name,)

    assert collect(world.log, world).removed == (name,)
