"""The admin client on topics and offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import oncelog
from oncelog import limits
from oncelog.clients.descriptions import PartitionDescription
from oncelog.errors import OffsetOutOfRangeError, TopicExistsError, UnknownTopicError, UsageError
from oncelog.log import partition_reads, topics
from oncelog.ports import ZnodeReader, ZnodeView
from oncelog.runtime import Log
from oncelog.types import Outcome
from oncelog.znodes import paths, payloads, walking
from tests.support.log.logs import TOPIC, LogWorld, send, started, state, tp, values, write_committed, write_open

DAY_MS = 24 * 3600 * 1000


# Topics ---------------------------------------------------------------------------------------------------------------


def test_topics_are_listed_with_their_retention(log: Log) -> None:
    log.admin.create_topic("audit", partitions=3, retention_ms=DAY_MS, retention_bytes=1000)

    audit, flights = log.admin.list_topics()

    assert (audit.topic, audit.partitions, audit.retention_ms, audit.retention_bytes) == ("audit", 3, DAY_MS, 1000)
    assert (flights.topic, flights.partitions, flights.retention_ms) == (TOPIC, 2, None)


def test_configuring_one_retention_leaves_the_other_as_it_is(log: Log) -> None:
    log.admin.configure_topic(TOPIC, retention_bytes=1000)
    assert log.admin.configure_topic(TOPIC, retention_ms=5).retention_bytes == 1000

    found = log.admin.configure_topic(TOPIC, retention_bytes=None)

    assert (found.retention_ms, found.retention_bytes) == (5, None)


@pytest.mark.parametrize("name", ["", ".", "a/b", "x" * 250])
def test_a_topic_with_an_illegal_name_is_refused_and_nothing_is_created(log: Log, name: str) -> None:
    with pytest.raises(UsageError, match="letters, digits"):
        log.admin.create_topic(name)

    assert [topic.topic for topic in log.admin.list_topics()] == [TOPIC]


@pytest.mark.parametrize(
    "settings", [{"partitions": 0}, {"partitions": limits.MAX_PARTITIONS + 1}, {"retention_ms": -1}]
)
def test_a_topic_with_a_number_out_of_bounds_is_refused(log: Log, settings: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=r"out of bounds|not negative"):
        log.admin.create_topic("audit", **settings)


def test_a_topic_that_exists_is_not_created_again(log: Log) -> None:
    with pytest.raises(TopicExistsError):
        log.admin.create_topic(TOPIC)


def test_a_deleted_topic_is_gone_and_one_of_the_same_name_shares_nothing_with_it(log: Log) -> None:
    write_committed(started(log), b"old")
    before = log.admin.describe_topic(TOPIC).topic_id

    log.admin.delete_topic(TOPIC)
    with pytest.raises(UnknownTopicError):
        log.admin.describe_topic(TOPIC)
    log.admin.create_topic(TOPIC, partitions=2)

    assert log.admin.describe_topic(TOPIC).topic_id != before
    assert values(log) == []
    assert write_committed(started(log), b"new") == [0]
    assert values(log) == [b"new"]
    log.admin.settle()


def test_a_step_that_read_a_deleted_topic_does_not_pass_its_check_on_the_new_one(log: Log) -> None:
    """A version that came back would let it write the old topic's id over the new one, and lose the new one's data."""
    attempts = []

    def configure_slowly(view: ZnodeView) -> None:
        before = partition_reads.read_topic(view, TOPIC)
        attempts.append(before.topic_id)
        if len(attempts) == 1:
            log.admin.delete_topic(TOPIC)
            log.admin.create_topic(TOPIC, partitions=2)
        view.set(paths.topic(TOPIC), payloads.encode_topic(replace(before, retention_ms=1)))

    log.services.store.transact(configure_slowly)

    assert len(set(attempts)) == 2, "the first attempt must fail"
    assert log.admin.describe_topic(TOPIC).topic_id == attempts[-1]


def test_finishing_a_deletion_spares_a_topic_that_was_created_under_the_name_meanwhile(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes find what a third left of a deletion; one of them creates the topic while the other still lists."""
    log.admin.delete_topic(TOPIC)
    listing = walking.paths_upwards

    def list_slowly(reader: ZnodeReader, path: str) -> Iterator[str]:
        monkeypatch.setattr(topics, "paths_upwards", listing)
        log.admin.create_topic(TOPIC, partitions=2)
        return listing(reader, path)

    monkeypatch.setattr(topics, "paths_upwards", list_slowly)
    topics.remove_deleted(log.services.store, TOPIC)

    assert [p.log_end for p in log.admin.describe_topic(TOPIC).partitions] == [0, 0]


def test_the_tombstone_of_a_topic_goes_after_its_time(world: LogWorld) -> None:
    world.log.admin.delete_topic(TOPIC)
    world.log.admin.collect()
    assert world.log.services.store.get(paths.topic(TOPIC)) is not None

    world.time.pass_ms(limits.TOMBSTONE_MS + 1)
    world.log.admin.collect()

    assert world.log.services.store.get(paths.topic(TOPIC)) is None


def described(log: Log, number: int) -> PartitionDescription:
    return log.admin.describe_topic(TOPIC).partitions[number]


def test_a_partition_is_described_alone_and_together_with_its_topic(log: Log) -> None:
    """What one open transaction holds back in partition 0 holds back a committed one in partition 1 as well.

    conformance: 27
    """
    write_open(blocker := started(log, "blocker"), b"open", number=0)
    copier = started(log)
    copier.begin_transaction()
    send(copier, b"a", number=0)
    send(copier, b"b", number=1)
    copier.commit_transaction()

    assert (described(log, 0).lso, described(log, 0).lso_together) == (0, 0)
    assert (described(log, 1).lso, described(log, 1).lso_together) == (1, 0)
    assert [p.log_end for p in log.admin.describe_topic(TOPIC).partitions] == [2, 1]
    blocker.commit_transaction()
    assert described(log, 1).lso_together == 1


def test_a_partition_names_its_unsettled_transactions_with_state_and_age(world: LogWorld) -> None:
    producer = started(world.log, transaction_timeout_ms=7000)
    write_open(producer, b"a", b"b")
    world.time.pass_ms(5000)

    (unsettled,) = described(world.log, 0).owners

    assert (unsettled.first_offset, unsettled.last_offset) == (0, 1)
    assert (unsettled.owner.transactional_id, unsettled.owner.outcome) == ("copier", Outcome.OPEN)
    assert (unsettled.owner.age_ms, unsettled.owner.timeout_ms) == (5000, 7000)
    assert unsettled.owner.partitions == (tp(0),)
    producer.abort_transaction()


def test_a_partition_tells_its_size_and_the_shape_of_its_index(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 4)
    producer = log.producer()
    for at in range(7):
        producer.send(TOPIC, b"%d" % at, partition=0)
        producer.flush()

    found = described(log, 0)

    assert (found.index_roots, found.tail_length) == (1, 3)
    assert found.size_bytes == state(log).size_bytes > 0


# Offsets --------------------------------------------------------------------------------------------------------------


def test_offsets_are_listed_by_place_and_end_where_the_isolation_level_ends(log: Log) -> None:
    """conformance: 37"""
    producer = started(log)
    producer.begin_transaction()
    for at in range(3):
        producer.send(TOPIC, b"v", partition=0, timestamp_ms=1000 + at)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(TOPIC, b"open", partition=0, timestamp_ms=5000)
    producer.flush()

    def listed(place: oncelog.clients.offset_lookup.OffsetSpec, isolation: str) -> int | None:
        return log.admin.list_offsets({tp(): place}, isolation_level=isolation)[tp()]

    assert [listed("earliest", level) for level in ("read_committed", "read_uncommitted")] == [0, 0]
    assert [listed("latest", level) for level in ("read_committed", "read_uncommitted")] == [4, 5]
    assert [listed(1001, level) for level in ("read_committed", "read_uncommitted")] == [1, 1]
    assert [listed(2000, level) for level in ("read_committed", "read_uncommitted")] == [None, 4]
    producer.abort_transaction()


def test_deleting_records_moves_the_log_start_by_whole_batches(log: Log) -> None:
    producer = started(log)
    write_committed(producer, b"a", b"b")
    write_committed(producer, b"c", b"d")

    assert log.admin.delete_records({tp(): 3}) == {tp(): 2}
    assert values(log) == [b"c", b"d"]
    with pytest.raises(OffsetOutOfRangeError):
        log.admin.delete_records({tp(): 1})


def test_records_are_deleted_of_all_partitions_that_are_named_or_of_none(log: Log) -> None:
    write_committed(started(log), b"a", b"b")

    with pytest.raises(OffsetOutOfRangeError, match="offset=9"):
        log.admin.delete_records({tp(0): 2, tp(1): 9})

    assert state(log).log_start == 0


def test_deleting_records_stops_at_an_unsettled_transaction(log: Log) -> None:
    """conformance: 28"""
    write_committed(started(log, "before"), b"a")
    write_open(copier := started(log), b"b")
    write_committed(started(log, "after"), b"c")

    assert log.admin.delete_records({tp(): 3}) == {tp(): 1}
    copier.commit_transaction()
    assert values(log) == [b"b", b"c"]
