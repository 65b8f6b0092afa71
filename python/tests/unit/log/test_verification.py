"""Verification finds every kind of damage, and says what it costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.rules import BatchRequest
from oncelog.log import partition_log, partition_reads
from oncelog.log.verification import Damage, Verified
from oncelog.ports import ZnodeView
from oncelog.znodes import paths, payloads
from tests.support.log.copies import written_blocks
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    contents,
    flip_a_bit,
    log_world,
    numbered,
    partition,
    roll_and_collect,
    started,
    state,
    tp,
    write_aborted,
    write_committed,
    write_open,
)
from tests.support.log.rounds import plan_round


@contextmanager
def damaged_world(folder: Path) -> Iterator[LogWorld]:
    """A log on the disk with a rolled index, a manifest, committed, aborted and open data; no check at the end."""
    with log_world(folder, "sqlite") as world:
        world.is_checked = False
        world.log.create_topic(TOPIC, partitions=2)
        write_committed(started(world.log), *numbered("a", 3))
        write_aborted(started(world.log, "loser"), b"b")
        world.log.admin.settle()
        many = written_blocks(world.log, *numbered("m", limits.INLINE_BLOCKS_MAX + 1))
        request = BatchRequest("copies", "query-1", "sink", "run-1", 0, "offsets")
        found = plan_round(world.log.services.new_round_services(), request)
        assert found is not None
        found.write({partition(world.log, 1): many})
        found.decide()
        partition_log.roll(world.log.services.store, world.log.services.new_index_files(), partition(world.log))
        write_open(started(world.log, "blocker"), b"open")
        assert world.log.admin.verify().problems == ()
        yield world


def file_of(world: LogWorld, folder: str) -> Path:
    """The first file of a folder that the index names."""
    return min(Path(world.folder, folder).iterdir(), key=lambda path: path.stat().st_mtime_ns)


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def newer_format(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"oncelog.version\x021", b"oncelog.version\x029"))


@pytest.mark.parametrize("folder", ["data", "index", "manifests"])
@pytest.mark.parametrize(
    ("harm", "damage"),
    [(flip_a_bit, Damage.CORRUPT_FILE), (cut_off, Damage.CORRUPT_FILE), (Path.unlink, Damage.MISSING_FILE)],
)
def test_a_damaged_file_is_found_with_the_offsets_it_costs(
    tmp_path: Path, folder: str, harm: Callable[[Path], None], damage: Damage
) -> None:
    with damaged_world(tmp_path) as world:
        path = file_of(world, folder)
        harm(path)

        (problem,) = world.log.admin.verify().problems

        assert (problem.damage, problem.place) == (damage, f"{folder}/{path.name}")
        costs = {"data": (0, 0, 3), "index": (0, 0, 6), "manifests": (1, 0, 65)}[folder]
        assert (problem.partition, problem.start_offset, problem.end_offset) == costs
        assert path.name in problem.detail


def test_damage_in_one_place_hides_none_in_another(tmp_path: Path) -> None:
    with damaged_world(tmp_path) as world:
        for folder in ("index", "manifests"):
            flip_a_bit(file_of(world, folder))
        lost = world.log.admin.describe_transaction("blocker").owner
        assert lost is not None
        world.log.services.store.transact(lambda view: view.delete(lost.path))

        problems = world.log.admin.verify().problems

        assert sorted((p.damage.value, p.partition) for p in problems) == [
            ("corrupt_file", 0), ("corrupt_file", 1), ("missing_znode", 0)
        ]  # fmt: skip


Rewrite = Callable[[LogWorld, ZnodeView], None]


def lose_a_tail_node(world: LogWorld, view: ZnodeView) -> None:
    view.delete(paths.tail_node(partition(world.log, 1), 0))


def repeat_a_tail_node(world: LogWorld, view: ZnodeView) -> None:
    tip = partition(world.log, 1)
    first = view.get(paths.tail_node(tip, 0))
    assert first is not None
    node = payloads.decode_tail_node("", first.data)
    view.create(paths.tail_node(tip, 1), payloads.encode_tail_node(node))


def forget_an_end(world: LogWorld, view: ZnodeView) -> None:
    path = paths.partition(partition(world.log, 1))
    view.set(path, payloads.encode_partition(replace(state(world.log, 1), log_end=99)))


def miscount_bytes(world: LogWorld, view: ZnodeView) -> None:
    path = paths.partition(partition(world.log, 1))
    view.set(path, payloads.encode_partition(replace(state(world.log, 1), size_bytes=1)))


def lose_a_partition(world: LogWorld, view: ZnodeView) -> None:
    log = world.log
    store = log.services.store
    below = [f"{paths.tail(partition(log, 1))}/{name}" for name in store.children(paths.tail(partition(log, 1)))]
    below += [paths.producer(partition(log, 1), int(n)) for n in store.children(paths.producers(partition(log, 1)))]
    for path in [*below, paths.tail(partition(log, 1)), paths.producers(partition(log, 1))]:
        view.delete(path)
    view.delete(paths.partition(partition(log, 1)))


def spoil(path: str) -> Rewrite:
    return lambda world, view: view.set(path, b'{"version":1,"state":[]}')


def spoil_partition(world: LogWorld, view: ZnodeView) -> None:
    view.set(paths.partition(partition(world.log, 1)), b"")


def spoil_tail_node(world: LogWorld, view: ZnodeView) -> None:
    view.set(paths.tail_node(partition(world.log, 1), 0), b"{}")


def spoil_owner(world: LogWorld, view: ZnodeView) -> None:
    owner = world.log.admin.describe_transaction("blocker").owner
    assert owner is not None
    view.set(owner.path, b"\xff")


@pytest.mark.parametrize(
    ("rewrite", "damages"),
    [
        (lose_a_tail_node, {Damage.HOLE, Damage.WRONG_TOTAL}),
        (repeat_a_tail_node, {Damage.OVERLAP, Damage.WRONG_TOTAL}),
        (forget_an_end, {Damage.HOLE}),
        (miscount_bytes, {Damage.WRONG_TOTAL}),
        (lose_a_partition, {Damage.MISSING_ZNODE}),
        (spoil(paths.topic(TOPIC)), {Damage.CORRUPT_ZNODE}),
        (spoil(paths.transaction("copier")), {Damage.CORRUPT_ZNODE}),
        (spoil(EMBEDDED.path("copies")), {Damage.CORRUPT_ZNODE}),
        (spoil_partition, {Damage.CORRUPT_ZNODE}),
        (spoil_tail_node, {Damage.CORRUPT_ZNODE, Damage.HOLE, Damage.WRONG_TOTAL}),
        (spoil_owner, {Damage.CORRUPT_ZNODE}),
    ],
)
def test_damaged_metadata_is_found(tmp_path: Path, rewrite: Rewrite, damages: set[Damage]) -> None:
    with damaged_world(tmp_path) as world:
        world.log.services.store.transact(lambda view: rewrite(world, view))

        assert {problem.damage for problem in world.log.admin.verify().problems} == damages


def test_verifying_counts_everything_and_changes_nothing(tmp_path: Path) -> None:
    with damaged_world(tmp_path) as world:
        before = contents(world)
        told: list[tuple[int, int]] = []

        found = world.log.admin.verify(on_progress=lambda done, total: told.append((done, total)))

        size_bytes = state(world.log).size_bytes + state(world.log, 1).size_bytes
        assert found == Verified(2, 70, 70, size_bytes, found.znodes, ())
        assert told[-1] == (size_bytes, size_bytes)
        assert contents(world) == before


def test_what_retention_removed_is_not_missed(world: LogWorld) -> None:
    """Also where an index file has entries on both sides of the log start."""
    producer = world.log.producer()
    for at in range(10):
        producer.send(TOPIC, b"%d" % at, partition=0)
        producer.flush()
    partition_log.roll(world.log.services.store, world.log.services.new_index_files(), partition(world.log))
    world.log.admin.delete_records({tp(): 5})
    gone = world.log.services.files
    removed = {name for name, _, _ in gone.names("data")}
    with_records = {entry for entry in removed if entry in named_from(world, 5)}
    for name in removed - with_records:
        gone.delete(name)

    found = world.log.admin.verify()

    assert (found.problems, found.records) == ((), 5)
    world.is_checked = False  # its index names files that went before their time


def test_what_goes_while_it_is_looked_at_is_not_missed(world: LogWorld) -> None:
    """Retention and collection, or the deletion of the topic, come between reading the index and reading a file."""
    world.is_checked = False  # files go before their time
    producer = world.log.producer()
    for at in range(3):
        producer.send(TOPIC, b"%d" % at, partition=0)
        producer.flush()
    files = world.log.services.files

    def retention_overtakes(done: int, total: int) -> None:
        world.log.admin.delete_records({tp(): 3})
        for name, _, _ in list(files.names("data")):
            files.delete(name)

    assert world.log.admin.verify(on_progress=retention_overtakes).problems == ()


def test_files_that_a_roll_replaced_while_they_were_looked_at_are_not_missed(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INLINE_BLOCKS_MAX", 0)
    for at in range(3):
        write_committed(started(world.log), b"%d" % at)
    told: list[int] = []

    def roll_once(done: int, total: int) -> None:
        if not told:
            roll_and_collect(world)
        told.append(done)

    found = world.log.admin.verify(on_progress=roll_once)

    assert (found.problems, found.records) == ((), 3)


def test_a_topic_that_is_deleted_while_it_is_looked_at_is_not_missed(world: LogWorld) -> None:
    producer = world.log.producer()
    for number in (0, 1):
        producer.send(TOPIC, b"a", partition=number)
    producer.close()

    found = world.log.admin.verify(on_progress=lambda done, total: delete_if_there(world))

    assert (found.problems, found.records) == ((), 1)


def delete_if_there(world: LogWorld) -> None:
    if world.log.admin.list_topics():
        world.log.admin.delete_topic(TOPIC)


def named_from(world: LogWorld, start: int) -> set[str]:
    index = partition_reads.read_index(world.log.services.store, partition(world.log), state(world.log))
    entries = index.entries(world.log.services.new_index_files(), start, state(world.log).log_end)
    return {entry.block.file for entry in entries if entry.block}
