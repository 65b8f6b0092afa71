"""What time does to a log: retention, expiry, collection of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.clients.admin import Admin
from oncelog.errors import DataLossError
from oncelog.protocol.txn_state import TxnState
from oncelog.runtime import Log
from oncelog.znodes import paths
from tests.support.log.copies import written_blocks
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    contents,
    log_world,
    started,
    state,
    tp,
    values,
    write_committed,
    write_open,
)

DAY_MS = 24 * 3600 * 1000


def write_at(world: LogWorld, timestamp_ms: int, *sent: bytes) -> None:
    producer = world.log.producer()
    for value in sent:
        producer.send(TOPIC, value, partition=0, timestamp_ms=timestamp_ms)
    producer.close()


def test_a_clock_that_was_ahead_for_one_write_makes_no_record_old(world: LogWorld) -> None:
    """The store's time stands still at it, for as long."""
    world.log.admin.configure_topic(TOPIC, retention_ms=DAY_MS)
    world.time.wall_ms += 365 * DAY_MS
    world.log.create_topic("other")
    world.time.wall_ms -= 365 * DAY_MS
    write_at(world, world.time.wall_ms, b"new")

    assert world.log.admin.enforce_retention() == []
    world.time.pass_ms(DAY_MS + 1)
    assert [one.records for one in world.log.admin.enforce_retention()] == [1]


def test_retention_removes_what_a_dry_run_said_it_would(world: LogWorld) -> None:
    write_at(world, world.time.wall_ms, b"old", b"older")
    world.time.pass_ms(DAY_MS)
    write_at(world, world.time.wall_ms, b"new")
    world.log.admin.configure_topic(TOPIC, retention_ms=DAY_MS // 2)

    said = world.log.admin.enforce_retention(dry_run=True)
    assert values(world.log) == [b"old", b"older", b"new"]

    assert world.log.admin.enforce_retention() == said
    assert [(one.log_start, one.records) for one in said] == [(2, 2)]
    assert values(world.log) == [b"new"]
    assert world.log.admin.enforce_retention() == []


def test_retention_never_passes_an_unsettled_transaction(world: LogWorld) -> None:
    """conformance: 28"""
    write_at(world, 1, b"old")
    write_open(copier := started(world.log), b"old and open")
    write_at(world, 1, b"old but behind it")
    world.time.pass_ms(DAY_MS)
    world.log.admin.configure_topic(TOPIC, retention_ms=1, retention_bytes=0)

    assert [one.log_start for one in world.log.admin.enforce_retention()] == [1]

    copier.commit_transaction()
    assert values(world.log) == [b"old and open", b"old but behind it"]


def orphan(log: Log) -> str:
    return written_blocks(log, b"of a task that died")[0].file


def test_an_orphan_goes_at_the_third_collection_after_it_was_left_and_nothing_else_does(world: LogWorld) -> None:
    write_committed(started(world.log), b"kept")
    lost = orphan(world.log)
    collected = []
    for _ in range(4):
        world.time.pass_ms(limits.GENERATION_MIN_AGE_MS + 1)
        said = world.log.admin.collect(dry_run=True)
        done = world.log.admin.collect()
        assert (said.generation, said.removed, said.size_bytes) == (done.generation, done.removed, done.size_bytes)
        collected.append(done.removed)

    assert collected == [(), (), (lost,), ()]
    assert values(world.log) == [b"kept"]
    assert world.log.admin.verify().problems == ()


def test_collections_within_the_hour_count_once(world: LogWorld) -> None:
    orphan(world.log)

    assert [world.log.admin.collect().removed for _ in range(5)] == [()] * 5


def test_a_file_that_oncelog_did_not_name_is_left_alone(tmp_path: Path) -> None:
    with log_world(tmp_path, "sqlite") as world:
        world.log.create_topic(TOPIC, partitions=2)
        write_committed(started(world.log), b"kept")
        Path(tmp_path, "data", "notes.txt").write_text("mine")

        found = world.log.admin.collect()

        assert (found.foreign, found.removed) == (("data/notes.txt",), ())


def test_upkeep_does_everything_that_time_asks_for(world: LogWorld) -> None:
    log = world.log
    write_at(world, world.time.wall_ms, b"old")
    started(log, "idle")
    write_open(started(log, "hanging", transaction_timeout_ms=1000), b"lost")
    log.admin.alter_offsets("readers", {tp(): 0})
    log.admin.configure_topic(TOPIC, retention_ms=DAY_MS)
    world.time.pass_ms(max(limits.TRANSACTIONAL_ID_EXPIRATION_MS, limits.OFFSETS_RETENTION_MS) + 1)

    report = log.admin.upkeep()

    assert [paths.transactional_id_of(overdue.owner) for overdue in report.timed_out] == ["hanging"]
    assert [(one.records, one.log_start) for one in report.removed] == [(1, 1)]
    assert report.expired_transactional_ids == ("idle",)
    assert report.expired_groups == ("readers",)
    assert report.expired_producers == 1, "the idempotent one; the other wrote a marker just now"
    assert (state(log).owners, values(log)) == ((), [])
    assert log.admin.verify().problems == ()


def test_a_partition_whose_index_is_damaged_keeps_no_other_one_from_its_upkeep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 2)
    with log_world(tmp_path, "sqlite") as world:
        world.is_checked = False
        for topic in ("a", "b"):
            world.log.create_topic(topic, retention_bytes=0)
            for _ in range(3):
                write_committed(started(world.log), b"old", topic=topic)
        world.log.admin.alter_offsets("readers", {tp(0, "b"): 0})
        for ref in state(world.log, topic="a").roots:
            (tmp_path / ref.file).unlink()
        world.time.pass_ms(limits.OFFSETS_RETENTION_MS + 1)

        with pytest.raises(DataLossError, match="topic='a', partition=0"):
            world.log.admin.upkeep()

        assert state(world.log, topic="b").log_start > 0
        assert world.log.admin.list_groups() == []


def test_a_dry_run_of_upkeep_changes_nothing(world: LogWorld) -> None:
    write_at(world, 1, b"old")
    write_open(copier := started(world.log), b"open")
    world.log.admin.configure_topic(TOPIC, retention_ms=1)
    orphan(world.log)
    world.log.create_topic("gone")
    world.log.admin.delete_topic("gone")
    world.time.pass_ms(2 * DAY_MS)
    before = contents(world)

    report = world.log.admin.upkeep(dry_run=True)

    assert len(report.removed) == 1
    assert contents(world) == before
    copier.abort_transaction()


def test_idle_producers_are_forgotten_but_never_one_with_an_open_transaction(world: LogWorld) -> None:
    """conformance: 34"""
    idempotent = world.log.producer()
    idempotent.send(TOPIC, b"a", partition=0)
    idempotent.flush()
    write_open(copier := started(world.log), b"b")
    copier.prepare_transaction()
    world.time.pass_ms(limits.PRODUCER_ID_EXPIRATION_MS + 1)

    assert world.log.admin.expire_producers() == 1

    idempotent.send(TOPIC, b"c", partition=0)
    idempotent.flush()
    copier.commit_transaction()
    assert values(world.log) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("tidy", [Admin.settle, Admin.upkeep])
def test_a_decided_transaction_whose_topic_was_deleted_leaves_nothing_behind(
    world: LogWorld, tidy: Callable[[Admin], object]
) -> None:
    write_open(copier := started(world.log), b"a")
    world.log.admin.delete_topic(TOPIC)
    copier.commit_transaction()

    tidy(world.log.admin)

    assert world.log.services.store.children(paths.transaction("copier")) == []
    assert world.log.admin.describe_transaction("copier").state is TxnState.COMPLETE_COMMIT
    world.log.create_topic(TOPIC, partitions=2)
