"""The admin client on consumer groups: lag, reset, deletion, expiry."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import limits
from oncelog.clients.descriptions import GroupPartitionProgress
from oncelog.coordinator import group_removal
from oncelog.errors import GroupOwnedError, OffsetOutOfRangeError, UnknownGroupError, UnstableOffsetCommitError
from oncelog.ports import Znode, ZnodeView
from oncelog.runtime import Log
from oncelog.znodes import paths
from tests.support.log.copies import open_round
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    numbered,
    partition,
    started,
    tp,
    write_aborted,
    write_committed,
    write_open,
)
from tests.support.log.rounds import Round


def progress(log: Log, group_id: str = "readers") -> tuple[GroupPartitionProgress, ...]:
    return log.admin.describe_group(group_id).partitions


def test_lag_counts_up_to_the_last_stable_offset_of_each_partition_alone(log: Log) -> None:
    write_committed(started(log), *numbered("a", 5), number=0)
    write_open(blocker := started(log, "blocker"), b"open", number=0)
    log.admin.alter_offsets("readers", {tp(0): 2, tp(1): 0})

    assert [(p.offset, p.lso, p.lag) for p in progress(log)] == [(2, 5, 3), (0, 0, 0)]
    blocker.abort_transaction()


def test_who_has_read_every_record_has_no_lag_behind_the_ends_of_transactions(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SETTLE_LAG_MS", 0)  # there are no plans that settling could disturb
    write_committed(started(log), b"a")
    with log.consumer(group_id="readers", auto_offset_reset="earliest") as consumer:
        consumer.assign([tp()])
        consumer.poll()
        consumer.commit()
        write_aborted(started(log, "loser"), b"never seen")
        log.admin.settle()

        (found,) = progress(log)
        assert found.offset is not None
        assert found.lso is not None
        assert found.offset < found.lso
        assert (found.lag, consumer.lag(tp())) == (0, 0)

        write_committed(started(log), b"b")
        (found,) = progress(log)
        assert found.offset is not None
        assert found.lso is not None
        assert found.lag == consumer.lag(tp()) == found.lso - found.offset


def test_what_retention_removed_before_a_group_read_it_is_lag(log: Log) -> None:
    write_committed(started(log), *numbered("a", 5))
    log.admin.alter_offsets("readers", {tp(): 0})
    log.admin.delete_records({tp(): 5})

    (found,) = progress(log)
    assert (found.offset, found.log_start, found.lag) == (0, 5, found.lso)


def test_a_group_shows_its_old_offset_while_a_newer_one_is_undecided(log: Log) -> None:
    """conformance: 45"""
    log.admin.alter_offsets("readers", {tp(): 0})
    write_open(copier := started(log), b"a")
    copier.send_offsets_to_transaction({tp(): 1}, "readers")

    (found,) = progress(log)
    assert (found.offset, len(found.undecided)) == (0, 1)
    copier.commit_transaction()
    (found,) = progress(log)
    assert (found.offset, found.undecided) == (1, ())


def test_an_offset_above_the_log_end_has_no_lag(log: Log) -> None:
    with log.consumer(group_id="readers") as consumer:
        consumer.commit({tp(0): 99, tp(1): 0})

    assert [(p.is_beyond_log, p.lag) for p in progress(log)] == [(True, None), (False, 0)]


def test_a_group_keeps_the_offsets_of_a_topic_that_was_deleted_without_a_lag(log: Log) -> None:
    log.admin.alter_offsets("readers", {tp(): 0})
    log.admin.delete_topic(TOPIC)

    (found,) = progress(log)

    assert (found.offset, found.lso, found.lag) == (0, None, None)


def test_a_group_with_pending_offsets_is_not_deleted(log: Log) -> None:
    """conformance: 48"""
    log.admin.alter_offsets("readers", {tp(0): 0})
    write_open(copier := started(log), b"a")
    copier.send_offsets_to_transaction({tp(1): 0}, "readers")

    with pytest.raises(UnstableOffsetCommitError):
        log.admin.delete_group("readers")
    assert [p.offset for p in progress(log)] == [0, None], "nothing was deleted"

    copier.commit_transaction()
    log.admin.delete_group("readers")
    assert log.admin.list_groups() == []
    log.admin.settle()
    assert log.admin.list_groups() == [], "settling brings nothing back"
    with pytest.raises(UnknownGroupError):
        log.admin.describe_group("readers")


def test_a_deleted_group_begins_anew(log: Log) -> None:
    log.admin.alter_offsets("readers", {tp(0): 0, tp(1): 0})
    log.admin.delete_group("readers")
    with pytest.raises(UnknownGroupError):
        log.admin.delete_group("readers")
    with log.consumer(group_id="readers", auto_offset_reset="none") as consumer:
        assert consumer.committed([tp(0), tp(1)]) == {}

    log.admin.alter_offsets("readers", {tp(1): 0})

    assert [(p.partition, p.offset) for p in progress(log)] == [(1, 0)]


def test_an_offset_that_is_committed_while_its_group_is_deleted_goes_with_it(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that was committed before the deletion ended comes back when the name is used again."""
    log, other = world.log, world.open()
    log.admin.alter_offsets("readers", {tp(0): 0})
    bury = group_removal._bury_unless_moved
    late = [tp(0)]

    def bury_late(view: ZnodeView, group_id: str, seen: Znode | None) -> bool:
        if late:
            other.admin.alter_offsets("readers", {late.pop(): 0})
        return bury(view, group_id, seen)

    monkeypatch.setattr(group_removal, "_bury_unless_moved", bury_late)
    log.admin.delete_group("readers")
    log.admin.alter_offsets("readers", {tp(1): 0})

    assert [p.partition for p in progress(log)] == [1]


def test_a_settler_that_read_a_deleted_groups_offset_does_not_bring_it_back(log: Log) -> None:
    """The versions of its znodes go on, so that the settler's check fails even when the group is used again."""
    write_open(copier := started(log), b"a")
    copier.send_offsets_to_transaction({tp(): 1}, "readers")
    path = paths.group_partition("readers", partition(log))
    seen = log.services.store.get(path)
    copier.commit_transaction()

    log.admin.delete_group("readers")
    log.admin.alter_offsets("readers", {tp(): 0})

    now = log.services.store.get(path)
    assert seen is not None
    assert now is not None
    assert now.stat.version > seen.stat.version
    assert now.stat.czxid == seen.stat.czxid, "the znode was never recreated"
    log.admin.settle()
    assert [p.offset for p in progress(log)] == [0]


def test_a_group_that_a_sink_owns_is_not_reset_until_it_is_deleted(log: Log) -> None:
    open_round(log, 0, group_id="readers").decide()
    assert log.admin.describe_group("readers").owning_prefix == "copies"

    with pytest.raises(GroupOwnedError):
        log.admin.reset_group("readers", "latest")
    assert [p.offset for p in progress(log)] == [1]

    log.admin.delete_group("readers")
    assert log.admin.reset_group("readers", "earliest", names=[TOPIC]) == {tp(0): 0, tp(1): 0}


def test_a_group_is_reset_to_either_end_of_the_log(log: Log) -> None:
    write_committed(started(log), b"a", b"b")
    write_open(blocker := started(log, "blocker"), b"c")
    log.admin.alter_offsets("readers", {tp(): 1})

    assert log.admin.reset_group("readers", "latest") == {tp(): 2}
    assert log.admin.reset_group("readers", "earliest") == {tp(): 0}
    assert log.admin.reset_group("others", "earliest", names=[TOPIC]) == {tp(0): 0, tp(1): 0}
    with pytest.raises(UnknownGroupError):
        log.admin.reset_group("nobody", "earliest")
    blocker.abort_transaction()


def test_a_group_is_not_set_to_an_offset_outside_the_log(log: Log) -> None:
    with pytest.raises(OffsetOutOfRangeError):
        log.admin.alter_offsets("readers", {tp(): 1})

    assert log.admin.list_groups() == []


def test_idle_offsets_expire_and_their_group_with_them(world: LogWorld) -> None:
    world.log.admin.alter_offsets("idle", {tp(0): 0})
    world.log.admin.alter_offsets("busy", {tp(0): 0, tp(1): 0})
    world.time.pass_ms(limits.OFFSETS_RETENTION_MS)
    world.log.admin.alter_offsets("busy", {tp(1): 0})
    assert world.log.admin.expire_offsets() == []
    world.time.pass_ms(1)

    assert world.log.admin.expire_offsets() == ["busy", "idle"]

    assert world.log.admin.list_groups() == ["busy"]
    assert [p.partition for p in progress(world.log, "busy")] == [1]


def test_the_tombstones_of_expired_offsets_go_after_their_time(world: LogWorld) -> None:
    store = world.log.services.store
    world.log.admin.alter_offsets("idle", {tp(): 0})
    world.time.pass_ms(limits.OFFSETS_RETENTION_MS + 1)
    world.log.admin.expire_offsets()
    assert store.children(paths.GROUPS) == ["idle"]

    for _ in range(2):
        world.time.pass_ms(limits.TOMBSTONE_MS + 1)
        world.log.admin.expire_offsets()

    assert store.children(paths.GROUPS) == []


def test_the_offsets_of_a_group_with_pending_ones_do_not_expire(world: LogWorld) -> None:
    """conformance: 48"""
    world.log.admin.alter_offsets("readers", {tp(0): 0})
    write_open(copier := started(world.log), b"a")
    copier.send_offsets_to_transaction({tp(1): 0}, "readers")
    copier.prepare_transaction()
    world.time.pass_ms(limits.OFFSETS_RETENTION_MS + 1)

    assert world.log.admin.expire_offsets() == []

    copier.commit_transaction()
    assert [p.offset for p in progress(world.log)] == [0, 0]


def test_the_offsets_that_a_sink_owns_never_expire(world: LogWorld) -> None:
    open_round(world.log, 0, group_id="readers").decide()
    world.settle()
    world.time.pass_ms(10 * limits.OFFSETS_RETENTION_MS)

    assert world.log.admin.expire_offsets() == []
    assert [p.offset for p in progress(world.log)] == [1]


def test_the_offsets_of_a_deleted_topic_go_at_once_and_those_of_its_successor_stay(log: Log) -> None:
    log.admin.alter_offsets("readers", {tp(0): 0, tp(1): 0})
    log.admin.delete_topic(TOPIC)
    log.create_topic(TOPIC)
    log.admin.alter_offsets("readers", {tp(0): 0})
    assert len(progress(log)) == 3

    assert log.admin.expire_offsets() == ["readers"]

    assert [(p.partition, p.lso) for p in progress(log)] == [(0, 0)]
    assert log.admin.expire_offsets() == []


def test_a_sinks_group_loses_the_offsets_of_deleted_topics_only(log: Log) -> None:
    log.create_topic("other")
    open_round(log, 0, group_id="readers").decide()
    log.admin.delete_topic("other")
    assert log.admin.expire_offsets() == []
    log.admin.delete_topic(TOPIC)

    assert log.admin.expire_offsets() == ["readers"]

    assert progress(log) == ()
    assert log.admin.describe_group("readers").owning_prefix == "copies"


def test_a_batch_is_not_refused_because_upkeep_removes_what_a_deleted_topic_left_in_its_group(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that goes sets the znode of the group, which is no commit."""
    log, admin = world.log, world.open().admin
    log.create_topic("other")
    log.admin.alter_offsets("readers", {tp(0, "other"): 0})
    log.admin.delete_topic("other")
    assert admin.expire_offsets() == ["readers"]
    world.time.pass_ms(limits.TOMBSTONE_MS + 1)
    expire = group_removal._expire_offsets
    rounds: list[Round] = []

    def begin_first(*args: Any) -> int:
        if not rounds:
            rounds.append(open_round(log, 0, group_id="readers"))
        return expire(*args)

    monkeypatch.setattr(group_removal, "_expire_offsets", begin_first)
    admin.expire_offsets()
    rounds[0].decide()

    assert [(p.topic, p.offset) for p in progress(log)] == [(TOPIC, 1)]


def test_an_undecided_offset_of_a_deleted_topic_waits_for_its_decision(log: Log) -> None:
    """conformance: 48"""
    log.create_topic("other")
    write_open(copier := started(log), b"a", topic="other")
    copier.send_offsets_to_transaction({tp(0): 0}, "readers")
    log.admin.delete_topic(TOPIC)
    assert log.admin.expire_offsets() == []

    copier.commit_transaction()

    assert log.admin.expire_offsets() == ["readers"]
    assert progress(log) == ()
