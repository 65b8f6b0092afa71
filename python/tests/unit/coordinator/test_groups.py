"""Group offsets as znodes: order, ownership, steps of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from oncelog import limits
from oncelog.coordinator import groups
from oncelog.errors import GroupOwnedError, StoreUnavailableError, UsageError
from oncelog.ports import Znode, ZnodeReader
from oncelog.runtime import Log
from oncelog.types import OffsetAndMetadata, TopicIdPartition, TopicPartition
from oncelog.znodes import paths
from tests.support.log.faulty import Fault, FaultyStore, RivalledStore
from tests.support.log.logs import LogWorld, partition, partitions, started, tp


def values(*offsets: int) -> dict[TopicIdPartition, OffsetAndMetadata]:
    return {TopicIdPartition("t", "id", number): OffsetAndMetadata(offset) for number, offset in enumerate(offsets)}


def version(log: Log, group_id: str = "g") -> int:
    znode = log.services.store.get(paths.group(group_id))
    assert znode is not None
    return znode.stat.version


def test_every_commit_of_a_group_has_its_own_place_in_its_order(log: Log) -> None:
    store = log.services.store
    orders = [store.transact(lambda view: groups.next_order(view, "g")) for _ in range(3)]

    assert orders == [0, 1, 2]
    assert version(log) == 2


def test_the_first_commit_of_a_further_topic_does_not_disturb_the_order(log: Log) -> None:
    log.create_topic("other")
    with log.consumer(group_id="g") as consumer:
        consumer.commit({tp(): 1})
        consumer.commit({TopicPartition("other", 0): 1})

    assert version(log) == 1


class SlowReads(RivalledStore):
    """Each read is of a moment of its own, and somebody else acts once one offset is read."""

    def get_many(self, wanted: Iterable[str]) -> list[Znode | None]:
        return list(map(self._read, wanted))

    def _read(self, path: str) -> Znode | None:
        found = self.get(path)
        if path.startswith(f"{paths.group('g')}/"):
            self.is_overtaken()
        return found

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        yield self


def test_offsets_that_are_committed_while_they_are_read_are_read_together(world: LogWorld) -> None:
    """conformance: 44."""
    store = SlowReads(world.store())
    where = partitions(world.log)
    groups.commit(store, "g", dict.fromkeys(where, OffsetAndMetadata(1)))
    copier = started(world.log)

    def commit() -> None:
        copier.begin_transaction()
        copier.send_offsets_to_transaction({found.topic_partition: 2 for found in where}, "g")
        copier.commit_transaction()

    store.rival = commit
    with store.snapshot() as reader:
        found = groups.fetch(reader, "g", where)

    assert store.rival is None
    assert [value.offset for value in found.values()] == [2, 2]


@pytest.mark.parametrize("value", [3, OffsetAndMetadata(3)])
def test_an_offset_may_come_alone_or_with_metadata(value: int | OffsetAndMetadata) -> None:
    assert groups.as_value(tp(), value) == OffsetAndMetadata(3)


def test_a_negative_offset_is_refused() -> None:
    with pytest.raises(UsageError, match="partition='flights-0', offset=-1"):
        groups.as_value(tp(), -1)


def test_the_metadata_of_an_offset_has_kafkas_bound() -> None:
    longest = "ä" * (limits.MAX_OFFSET_METADATA_BYTES // 2)
    assert groups.as_value(tp(), OffsetAndMetadata(1, longest)).metadata == longest
    with pytest.raises(UsageError, match="size_bytes=4097"):
        groups.as_value(tp(), OffsetAndMetadata(1, longest + "a"))


def test_steps_are_bounded_and_leave_nothing_out() -> None:
    offsets = {TopicIdPartition("t", "id", number): OffsetAndMetadata(number) for number in range(450)}
    steps = list(groups.step_by_step(offsets, lambda some: some))

    assert [len(step) for step in steps] == [200, 200, 50]
    assert {partition: value for step in steps for partition, value in step.items()} == offsets
    assert list(groups.step_by_step({}, len)) == []


def test_a_group_belongs_to_the_first_sink_that_stages_its_offsets(log: Log) -> None:
    store = log.services.store
    store.transact(lambda view: groups.next_order(view, "g", owning_prefix="sink"))
    store.transact(lambda view: groups.next_order(view, "g", owning_prefix="sink"))
    for prefix in (None, "other"):
        with pytest.raises(GroupOwnedError, match="owning_prefix='sink'"):
            store.transact(lambda view, prefix=prefix: groups.next_order(view, "g", owning_prefix=prefix))  # type: ignore[misc]

    assert version(log) == 1
    assert groups.describe(store, ["g"])["g"].owning_prefix == "sink"


def test_a_commit_that_is_refused_writes_nothing(world: LogWorld) -> None:
    """conformance: 16."""
    store = FaultyStore(world.store())
    where = partition(world.log)
    store.fail_next(Fault.UNAVAILABLE)
    with pytest.raises(StoreUnavailableError):
        groups.commit(store, "g", {where: OffsetAndMetadata(1)})
    assert store.children(paths.GROUPS) == []
    groups.commit(store, "g", {where: OffsetAndMetadata(1)})

    assert groups.fetch(store, "g", [where]) == {where: OffsetAndMetadata(1)}


def test_undecided_owners_are_those_that_hold_an_offset_open(log: Log) -> None:
    producer = started(log)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({tp(0): 1}, "g")
    first, second = partitions(log)
    store = log.services.store

    assert len(groups.undecided_owners(store, "g", first)) == 1
    assert groups.undecided_owners(store, "g", second) == ()
    producer.commit_transaction()
    assert groups.undecided_owners(store, "g", first) == ()
    assert groups.partitions_of(store, "g") == [first]
