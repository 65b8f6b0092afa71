"""The source's stream reader, asked as Spark asks it, without Spark; spark/test_source.py has whole queries."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

import oncelog
from oncelog import limits, runtime
from oncelog.coordinator import groups
from oncelog.errors import (
    BatchRefusedError,
    DataLossError,
    InvalidOptionError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    PlanOvertakenError,
    StoreAccessError,
    UnknownPartitionError,
    UnknownTopicError,
)
from oncelog.log import snapshot
from oncelog.ports import Znode, ZnodeReader, ZnodeStore
from oncelog.runtime import Log
from oncelog.spark import planner, schema
from oncelog.spark.admitted_stream import AdmittedStreamReader as StreamReader
from oncelog.spark.kit.options import Use
from oncelog.spark.logs import close_logs
from oncelog.spark.offsets import parse_offset
from oncelog.spark.options import SourceOptions, parse_source_options
from oncelog.spark.planner import SourcePlanner
from oncelog.znodes import paths
from tests.support.log.faulty import RivalledStore
from tests.support.log.logs import TOPIC, LogWorld, log_world, numbered, send, started, tp, write_committed, write_open
from tests.support.log.rounds import GROUP, SOURCE, run_batch
from tests.support.log.rounds import begin as begin_batch
from tests.support.log.rounds import offsets as batch_offsets
from tests.support.log.rounds import request as batch_request

ALL = ReadAllAvailable()
Offset = dict[str, Any]


def options(path: str, **more: object) -> SourceOptions:
    given = {"path": path, "subscribe": TOPIC, "startingOffsets": "earliest", **more}
    return parse_source_options({name: value for name, value in given.items() if value is not None}, Use.STREAM_READ)


def reader(log: Log, **more: object) -> StreamReader:
    return StreamReader(options(log.path, **more), schema.read_schema(include_headers=False))


def begun(log: Log, **more: object) -> tuple[StreamReader, Offset]:
    """A reader whose first batch is over, and where that ended."""
    made = reader(log, **more)
    start = made.initialOffset()
    assert made.latestOffset(start, ALL) == start
    return made, start


def rows(made: StreamReader, start: Offset, end: Offset) -> list[bytes]:
    """What the tasks of a batch show, sorted."""
    batches = (batch for task in made.partitions(start, end) for batch in made.read(task))
    return sorted(value for batch in batches for value in batch.column("value").to_pylist())


def write(log: Log, *values: bytes, number: int = 0, topic: str = TOPIC) -> None:
    with started(log, f"writer-{number}") as producer:
        write_committed(producer, *values, number=number, topic=topic)


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_the_first_batch_is_empty_and_its_replay_too_wherever_the_log_is_by_then(log: Log, starting: str) -> None:
    write(log, *numbered("old", 2))
    first, start = begun(log, startingOffsets=starting)
    assert rows(first, start, start) == []
    write(log, *numbered("since", 3))

    replay = reader(log, startingOffsets=starting)
    asked_again = replay.initialOffset()
    assert rows(replay, asked_again, start) == []
    end = replay.latestOffset(start, ALL)

    assert rows(replay, start, end) == sorted(
        [*(numbered("old", 2) if starting == "earliest" else []), *numbered("since", 3)]
    )


def test_a_replay_of_the_first_batch_is_empty_for_every_scan_of_it(log: Log) -> None:
    """A stream that is united with itself is scanned twice; the second scan showed what was before the start."""
    write(log, *numbered("old", 2))
    _, start = begun(log, startingOffsets="latest")
    replay = reader(log, startingOffsets="earliest")
    asked_again = replay.initialOffset()

    assert [rows(replay, asked_again, start) for _ in range(2)] == [[], []]
    assert replay.initialOffset() == asked_again
    write(log, *numbered("new", 2))
    assert rows(replay, start, replay.latestOffset(start, ALL)) == numbered("new", 2)


def test_a_log_that_took_the_place_of_another_is_read_and_that_one_no_more(tmp_path: Path) -> None:
    """As in a notebook, whose session lives on: it went on to show the old one, or said that its files were gone."""

    def make(value: bytes) -> StreamReader:
        with oncelog.open(tmp_path / "remade") as made:
            made.create_topic(TOPIC, partitions=2)
            write(made, value)
            return reader(made)

    old = make(b"old")
    start = old.initialOffset()
    shutil.rmtree(tmp_path / "remade")
    new = make(b"new")

    with pytest.raises(StoreAccessError, match="open the log again"):
        old.reportLatestOffset()
    start = new.initialOffset()
    assert new.latestOffset(start, ALL) == start
    assert rows(new, start, new.latestOffset(start, ALL)) == [b"new"]
    close_logs()


def test_a_replay_of_the_first_batch_is_empty_though_the_group_it_started_at_moved_back(log: Log) -> None:
    write(log, *numbered("a", 3))
    with log.consumer(group_id="g") as consumer:
        consumer.commit({tp(0): 2, tp(1): 0})
        _, start = begun(log, startingOffsets="group", groupId="g")
        consumer.commit({tp(0): 0, tp(1): 0})

    replay = reader(log, startingOffsets="group", groupId="g")
    assert rows(replay, replay.initialOffset(), start) == []

    assert rows(replay, start, replay.latestOffset(start, ALL)) == [b"a-2"]


def test_a_plan_that_settlers_overtake_is_left_to_the_next_trigger(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    made, start = begun(log)
    write(log, b"a")
    monkeypatch.setattr(limits, "PLAN_ATTEMPTS", 0)
    assert made.latestOffset(start, ALL) == start
    assert made.reportLatestOffset() is None

    monkeypatch.undo()
    assert rows(made, start, made.latestOffset(start, ALL)) == [b"a"]


def test_a_plan_that_settlers_overtake_is_not_the_end_of_what_is_available_now(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, start = begun(log)
    write(log, b"a")
    made.prepareForTriggerAvailableNow()
    monkeypatch.setattr(limits, "PLAN_ATTEMPTS", 0)

    with pytest.raises(PlanOvertakenError):
        made.latestOffset(start, ALL)


@pytest.mark.parametrize("more", [{}, {"minOffsetsPerTrigger": 10, "maxTriggerDelay": "1h"}])
def test_what_is_available_now_is_what_was_there_when_that_was_asked(log: Log, more: dict[str, object]) -> None:
    made, start = begun(log, subscribe=None, subscribePattern=".*", **more)
    write(log, *numbered("a", 3))
    made.prepareForTriggerAvailableNow()
    write(log, b"later")
    log.create_topic("later")
    write(log, b"in a later topic", topic="later")

    limit = made.getDefaultReadLimit()
    end = made.latestOffset(start, limit)

    assert rows(made, start, end) == numbered("a", 3)
    assert made.latestOffset(end, limit) == end


def test_what_is_asked_for_at_once_waits_for_no_least_rows(log: Log) -> None:
    """So Trigger.Once asks."""
    made, start = begun(log, minOffsetsPerTrigger=4, maxTriggerDelay="1h")
    write(log, *numbered("a", 3))
    assert made.latestOffset(start, made.getDefaultReadLimit()) == start

    assert rows(made, start, made.latestOffset(start, ALL)) == numbered("a", 3)


def test_a_partition_with_little_is_not_starved_by_one_with_much(log: Log) -> None:
    write(log, *numbered("many", 500), number=0)
    write(log, b"one", number=1)
    made, start = begun(log, maxOffsetsPerTrigger=10)

    end = made.latestOffset(start, made.getDefaultReadLimit())

    found = rows(made, start, end)
    assert b"one" in found
    assert len(found) == 10


def test_no_partition_is_starved_though_a_batch_has_fewer_rows_than_there_are_partitions(log: Log) -> None:
    for number in (0, 1):
        write(log, *numbered(f"p{number}", 20), number=number)
    made, end = begun(log, maxOffsetsPerTrigger=1)

    first = set()
    for _ in range(15):
        start, end = end, made.latestOffset(end, made.getDefaultReadLimit())
        (row,) = rows(made, start, end)
        first.add(row[:2])
    assert first == {b"p0", b"p1"}


def test_a_backlog_is_cut_into_tasks_of_so_many_bytes(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in numbered("a", 3):
        write(log, value)
    made, start = begun(log)
    end = made.latestOffset(start, ALL)
    assert len(made.partitions(start, end)) == 1

    monkeypatch.setattr(planner, "TASK_BYTES", 1)
    assert len(made.partitions(start, end)) == 3
    assert rows(made, start, end) == numbered("a", 3)


def test_progress_that_nobody_answers_is_left_to_the_next_batch(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(*arguments: object) -> None:
        raise OutcomeUnknownError("the test's store lost the answer")

    made, start = begun(log, groupId="g")
    monkeypatch.setattr(groups, "commit", commit)
    made.commit(start)


def test_the_progress_that_a_source_tells_never_moves_the_group_of_a_sink(log: Log) -> None:
    log.create_topic(SOURCE)
    run_batch(log, batch_request(0, group_id=GROUP))
    made, start = begun(log, groupId=GROUP, subscribe=SOURCE)

    made.commit(start)

    with log.consumer(group_id=GROUP) as consumer:
        assert consumer.committed([tp(0, SOURCE)])[tp(0, SOURCE)].offset == 10


# Topics that are new to a query ---------------------------------------------------------------------------------------

MANY_TOPICS = {"subscribe": None, "subscribePattern": ".*"}


def write_both(log: Log, name: str, other: str, count: int = 1) -> None:
    """Commit to the first partition of the topic and of another one in one transaction."""
    with started(log, name) as producer:
        write_open(producer, *numbered(name, count))
        send(producer, *numbered(f"{name}-other", count), topic=other)
        producer.commit_transaction()


def batches(made: StreamReader, start: Offset, limit: ReadLimit = ALL) -> list[list[bytes]]:
    """The rows of each batch, up to where nothing is new."""
    found = []
    while (end := made.latestOffset(start, limit)) != start:
        found.append(rows(made, start, end))
        start = end
    return found


@pytest.mark.parametrize("more", [{}, {"minOffsetsPerTrigger": 2, "maxTriggerDelay": "1h"}])
@pytest.mark.parametrize("is_available_now", [True, False])
def test_a_transaction_over_a_topic_that_is_new_to_a_query_comes_whole(
    log: Log, more: dict[str, object], *, is_available_now: bool
) -> None:
    """conformance: 27, 36."""
    made, start = begun(log, **MANY_TOPICS, **more)
    log.create_topic("later")
    write_both(log, "first", "later")
    if is_available_now:
        made.prepareForTriggerAvailableNow()
        log.create_topic("latest")
        write_both(log, "too-late", "latest")

    assert batches(made, start, made.getDefaultReadLimit()) == [[], [b"first-0", b"first-other-0"]]


def test_a_transaction_over_a_topic_that_was_created_again_comes_whole(log: Log) -> None:
    log.create_topic("other")
    made, start = begun(log, **MANY_TOPICS, failOnDataLoss=False)
    log.admin.delete_topic("other")
    log.create_topic("other")
    write_both(log, "a", "other")

    assert batches(made, start) == [[], [b"a-0", b"a-other-0"]]


def test_a_query_that_finds_a_new_topic_at_every_look_goes_on_all_the_same(log: Log) -> None:
    made, end = begun(log, **MANY_TOPICS)
    found = []
    for number in range(6):
        log.create_topic(f"t{number}")
        write_both(log, f"w{number}", f"t{number}")
        start, end = end, made.latestOffset(end, ALL)
        found.append(len(rows(made, start, end)))

    assert found == [0, 2, 0, 4, 0, 4]


def test_rows_that_follow_a_new_topic_are_found_by_the_look_after_it(log: Log) -> None:
    made, start = begun(log, **MANY_TOPICS)
    log.create_topic("later")
    noted = made.latestOffset(start, ALL)
    write_both(log, "a", "later")

    assert batches(made, noted) == [[b"a-0", b"a-other-0"]]


class LateTopic(RivalledStore):
    """Each read is of a moment of its own, and somebody else acts right before the snapshot of decisions is read."""

    reads_are_atomic = False

    def get(self, path: str) -> Znode | None:
        if path == paths.COMMITS:
            self.is_overtaken()
        return super().get(path)

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        yield self


def test_a_topic_that_appears_while_a_plan_is_read_is_in_it_or_nothing_of_its_transaction_is(tmp_path: Path) -> None:
    """conformance: 27, 36."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC)
        store = LateTopic(world.store())
        planned = SourcePlanner(world.open(store), options(world.log.path, **MANY_TOPICS))

        def appear() -> None:
            world.log.create_topic("later")
            write_both(world.log, "a", "later")

        store.rival = appear
        shown = [task.topic for task in planned.tasks(planned.bounds())]

        assert store.rival is None
        assert shown in ([], [TOPIC, "later"], ["later", TOPIC])


@pytest.mark.parametrize("most", [None, 1])
@pytest.mark.parametrize("is_strict", [True, False])
def test_a_topic_that_goes_while_a_batch_is_planned_is_an_error_or_left_out(
    log: Log, most: int | None, monkeypatch: pytest.MonkeyPatch, *, is_strict: bool
) -> None:
    log.create_topic("other", partitions=3)
    write(log, b"kept")
    write(log, b"gone", number=2, topic="other")
    made, start = begun(log, **MANY_TOPICS, failOnDataLoss=is_strict, maxOffsetsPerTrigger=most)

    def go_on() -> list[bytes]:
        return rows(made, start, made.latestOffset(start, made.getDefaultReadLimit()))

    take = snapshot.take_selected

    def read_before_the_topic_goes(*arguments: Any, **more: Any) -> Any:
        monkeypatch.undo()
        seen = take(*arguments, **more)
        log.admin.delete_topic("other")
        log.create_topic("other", partitions=1)
        return seen

    monkeypatch.setattr(snapshot, "take_selected", read_before_the_topic_goes)
    if is_strict:
        with pytest.raises(DataLossError, match="failOnDataLoss=false continues without it"):
            go_on()
    else:
        assert go_on() == [b"kept"]


BY_NAME = [{"subscribe": f"{TOPIC},other"}, {"subscribe": None, "assign": json.dumps({TOPIC: [0], "other": [0]})}]
OF_MANY = pytest.mark.parametrize("named", [*BY_NAME, MANY_TOPICS], ids=["subscribe", "assign", "subscribePattern"])


@OF_MANY
@pytest.mark.parametrize("is_available_now", [False, True])
def test_a_topic_that_was_deleted_ends_a_query_or_is_left_out_of_it(
    log: Log, named: dict[str, object], caplog: pytest.LogCaptureFixture, *, is_available_now: bool
) -> None:
    log.create_topic("other")
    _, start = begun(log, **named)
    log.admin.delete_topic("other")
    write(log, b"kept")
    strict, lenient = reader(log, **named), reader(log, **named, failOnDataLoss=False)
    if is_available_now:
        strict.prepareForTriggerAvailableNow()
        lenient.prepareForTriggerAvailableNow()

    with pytest.raises(DataLossError, match=r"was deleted .*failOnDataLoss=false continues .*topic='other'"):
        strict.latestOffset(start, ALL)
    end = lenient.latestOffset(start, ALL)
    assert rows(lenient, start, end) == [b"kept"]
    assert list(parse_offset(lenient.reportLatestOffset() or {}).topics) == [TOPIC]
    assert [record.message for record in caplog.records if "deleted" in record.message] == [
        f"a topic was deleted since the query read it; continuing without it: {gone!r}"
        for gone in parse_offset(start).partitions()
        if gone.topic == "other"
    ]


@OF_MANY
def test_a_topic_that_was_created_again_ends_a_strict_query(log: Log, named: dict[str, object]) -> None:
    log.create_topic("other")
    made, start = begun(log, **named)
    log.admin.delete_topic("other")
    log.create_topic("other")

    with pytest.raises(DataLossError, match=r"was deleted .*topic='other'"):
        made.latestOffset(start, ALL)


@OF_MANY
def test_a_query_that_left_a_deleted_topic_out_may_be_strict_again(log: Log, named: dict[str, object]) -> None:
    log.create_topic("other")
    _, start = begun(log, **named)
    log.admin.delete_topic("other")
    end = reader(log, **named, failOnDataLoss=False).latestOffset(start, ALL)
    write(log, b"more")
    log.create_topic("other")
    write(log, b"anew", topic="other")

    assert batches(reader(log, **named), end) == [[], [b"anew", b"more"]]


@pytest.mark.parametrize("named", BY_NAME, ids=["subscribe", "assign"])
def test_a_query_of_which_every_topic_was_deleted_waits_for_them(log: Log, named: dict[str, object]) -> None:
    log.create_topic("other")
    made, start = begun(log, **named, failOnDataLoss=False)
    log.admin.delete_topic(TOPIC)
    log.admin.delete_topic("other")
    nowhere = made.latestOffset(start, ALL)
    assert parse_offset(nowhere).topics == {}
    assert made.latestOffset(nowhere, ALL) == nowhere

    log.create_topic("other")
    log.create_topic(TOPIC)
    write(log, b"new", topic="other")

    assert batches(made, nowhere) == [[], [b"new"]]


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ({"subscribe": f"{TOPIC},another"}, UnknownTopicError),
        ({"subscribe": None, "assign": json.dumps({TOPIC: [0, 1], "another": [0]})}, UnknownTopicError),
        ({"subscribe": None, "assign": json.dumps({TOPIC: [0, 1, 2]})}, UnknownPartitionError),
    ],
)
def test_what_a_query_never_read_is_not_taken_for_deleted(
    log: Log, named: dict[str, object], error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    _, start = begun(log)
    write(log, b"a")

    with pytest.raises(error):
        reader(log, **named).latestOffset(start, ALL)
    for is_strict in (True, False):
        with pytest.raises(error):
            begun(log, **named, failOnDataLoss=is_strict)
    assert batches(reader(log, **named, failOnDataLoss=False), start) == [[b"a"]]
    assert [record.message for record in caplog.records if "does not exist" in record.message] != []


@pytest.mark.parametrize("is_available_now", [False, True])
@pytest.mark.parametrize(
    "narrow",
    [
        {"subscribe": "other"},
        {"subscribePattern": "o.*", "subscribe": None},
        {"subscribe": None, "assign": json.dumps({TOPIC: [1], "other": [0]})},
    ],
)
def test_what_is_selected_no_more_is_an_error_or_stays_where_it_is(
    log: Log, narrow: dict[str, object], *, is_available_now: bool
) -> None:
    log.create_topic("other")
    wide = {"subscribe": f"{TOPIC},other"}
    _, start = begun(log, **wide)
    write(log, b"left", number=0)
    write(log, b"kept", topic="other")
    strict, lenient = reader(log, **narrow), reader(log, **narrow, failOnDataLoss=False)
    if is_available_now:
        strict.prepareForTriggerAvailableNow()
        lenient.prepareForTriggerAvailableNow()

    with pytest.raises(DataLossError, match=rf"no longer select .*select it again.*topic='{TOPIC}'.*partition=0"):
        strict.latestOffset(start, ALL)
    end = lenient.latestOffset(start, ALL)
    assert rows(lenient, start, end) == [b"kept"]
    assert batches(reader(log, **wide), end) == [[b"left"]]


IMPOSSIBLE: dict[str, tuple[dict[str, object], type[Exception]]] = {
    "deleted": ({}, UnknownTopicError),
    "below the log start": (
        {"startingOffsets": json.dumps({TOPIC: {"0": 0, "1": 0}, "other": {"0": 0}})},
        OffsetOutOfRangeError,
    ),
    "of no time": ({"startingOffsets": None, "startingTimestamp": 1}, InvalidOptionError),
}


@pytest.mark.parametrize("reason", IMPOSSIBLE)
def test_a_start_that_became_impossible_stops_a_new_query_and_none_that_began_there(log: Log, reason: str) -> None:
    """Spark asks for the start once more when it replays batch 0, and does without the answer."""
    more, error = IMPOSSIBLE[reason]
    given = {"subscribe": f"{TOPIC},other", "failOnDataLoss": False, **more}
    log.create_topic("other")
    for number in (0, 1):
        write(log, b"lost", number=number)
    write(log, b"lost", topic="other")
    _, start = begun(log, **given)
    if reason == "deleted":
        log.admin.delete_topic("other")
    else:
        log.admin.delete_records({tp(0): 1, tp(1): 1, tp(0, "other"): 1})

    with pytest.raises(error):
        begun(log, **given)
    replay = reader(log, **given)
    assert rows(replay, replay.initialOffset(), start) == []
    write(log, b"kept")
    assert b"kept" in rows(replay, start, replay.latestOffset(start, ALL))


# An older copy of the log ---------------------------------------------------------------------------------------------


def back_up(folder: Path, copy: Path) -> None:
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("znodes.sqlite*"))
    with (
        closing(sqlite3.connect(folder / "znodes.sqlite")) as used,
        closing(sqlite3.connect(copy / "znodes.sqlite")) as to,
    ):
        used.backup(to)


@pytest.mark.parametrize("is_planned", [True, False], ids=["batch that was planned", "next batch"])
@pytest.mark.parametrize("is_strict", [True, False])
def test_a_checkpoint_over_an_older_copy_of_the_log_is_an_error_or_goes_on_at_its_end(
    log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_strict: bool, is_planned: bool
) -> None:
    write(log, b"both")
    back_up(tmp_path / "log", tmp_path / "older")
    made, start = begun(log)
    write(log, *numbered("newer", 5))
    end = made.latestOffset(start, ALL)

    with oncelog.open(tmp_path / "older") as older:
        again = reader(older, failOnDataLoss=is_strict)
        if is_strict:
            with pytest.raises(DataLossError, match=r"older copy .*failOnDataLoss=false.*partition=0.*log_end=1"):
                _ = rows(again, start, end) if is_planned else again.latestOffset(end, ALL)
            return
        assert not is_planned or rows(again, start, end) == [b"both"]
        write(older, b"behind", number=1)
        at_end = again.latestOffset(end, ALL)
        write(older, *numbered("since", 2))

        assert batches(again, at_end) == [[b"since-0", b"since-1"]]
        assert "continuing at its end" in caplog.text


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_group_that_is_above_the_log_end_is_an_error_or_starts_at_the_end(log: Log, *, is_strict: bool) -> None:
    write(log, b"old")
    with log.consumer(group_id="g") as consumer:
        consumer.commit({tp(0): 99})
    given = options(log.path, startingOffsets="group", groupId="g", failOnDataLoss=is_strict)
    planned = SourcePlanner(log, given)

    if is_strict:
        with pytest.raises(DataLossError, match="position=99, log_end=1"):
            planned.bounds()
    else:
        assert [start for _, start, _ in planned.bounds()] == [1, 0]


STARTS_IN_A_TRANSACTION: dict[str, dict[str, object]] = {
    "offsets": {"startingOffsets": json.dumps({TOPIC: {"0": 2, "1": 0}})},
    "group": {"startingOffsets": "group", "groupId": "g"},
    "time": {"startingOffsets": None, "startingTimestamp": 400},
}


@pytest.mark.parametrize("more", [{}, {"maxOffsetsPerTrigger": 1}, {"minOffsetsPerTrigger": 1}], ids=str)
@pytest.mark.parametrize("start", STARTS_IN_A_TRANSACTION)
def test_a_start_in_an_open_transaction_waits_until_it_ends(log: Log, start: str, more: dict[str, object]) -> None:
    given = {**STARTS_IN_A_TRANSACTION[start], **more}
    with started(log, "holder") as holder, log.consumer(group_id="g") as consumer:
        holder.begin_transaction()
        for timestamp_ms in (100, 300, 500):
            holder.send(TOPIC, b"%d" % timestamp_ms, partition=0, timestamp_ms=timestamp_ms)
        holder.send(TOPIC, b"other", partition=1, timestamp_ms=500)
        holder.flush()
        consumer.commit({tp(0): 2})

        assert [bound[1:] for bound in SourcePlanner(log, options(log.path, **given)).bounds()] == [(2, 2), (0, 0)]
        made, at = begun(log, **given)
        assert batches(made, at) == []
        holder.commit_transaction()
        log.admin.settle()
        found = batches(made, at)

    assert sorted(value for batch in found for value in batch) == [b"500", b"other"]


# A sink's group -------------------------------------------------------------------------------------------------------


def test_a_look_at_the_group_of_a_sink_shows_what_is_decided_and_ends_no_batch(log: Log) -> None:
    """conformance: 44, 57."""
    log.create_topic(SOURCE)
    write(log, *numbered("a", 30), topic=SOURCE)
    run_batch(log, batch_request(0, group_id=GROUP))
    live = begin_batch(log, 1, group_id=GROUP)
    live.stage_offsets(batch_offsets(log, 1))
    given: dict[str, object] = {"subscribe": SOURCE, "startingOffsets": "group", "groupId": GROUP}
    planned = SourcePlanner(log, options(log.path, **given))

    assert [start for _, start, _ in planned.bounds()] == [10]
    _, start = begun(log, **given)
    assert start["topics"][SOURCE]["offsets"] == {"0": 10}

    live.decide()
    assert [start for _, start, _ in planned.bounds()] == [20]


def test_a_query_that_continues_a_group_is_refused_if_a_batch_was_decided_since_it_looked(log: Log) -> None:
    """conformance: 57, 58."""
    log.create_topic(SOURCE)
    write(log, *numbered("a", 30), topic=SOURCE)
    run_batch(log, batch_request(0, group_id=GROUP))
    begun(log, subscribe=SOURCE, startingOffsets="group", groupId=GROUP)
    run_batch(log, batch_request(1, group_id=GROUP))

    heir = begin_batch(log, 0, "run-2", group_id=GROUP, query_id="heir", takeover="query")
    with pytest.raises(BatchRefusedError, match="has a new checkpoint; start it at the group's offsets"):
        heir.stage_offsets(batch_offsets(log, 1))
    heir.abort()


class Follower:
    """A store that lags: what was written below `hidden` shows after a sync only."""

    reads_are_atomic = False

    def __init__(self, store: ZnodeStore, hidden: str) -> None:
        self._store = store
        self._hidden = hidden
        self._is_synced = False

    def get(self, path: str) -> Znode | None:
        is_seen = self._is_synced or not f"{path}/".startswith(f"{self._hidden}/")
        return self._store.get(path) if is_seen else None

    def get_many(self, wanted: Iterable[str]) -> list[Znode | None]:
        return [self.get(path) for path in wanted]

    def children(self, path: str) -> list[str]:
        return [name for name, _ in self.children_data(path)]

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        found = [(name, self.get(f"{path}/{name}")) for name in self._store.children(path)]
        return [(name, znode) for name, znode in found if znode is not None]

    def sync(self) -> None:
        self._is_synced = True

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        yield self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    with log_world(tmp_path) as found:
        yield found


@pytest.mark.parametrize("selected", [{"subscribe": TOPIC}, {"subscribe": None, "subscribePattern": ".*"}])
def test_a_topic_is_missing_only_if_it_is_behind_a_sync(world: LogWorld, selected: dict[str, object]) -> None:
    world.log.create_topic(TOPIC, partitions=2)
    behind: Any = Follower(world.store(), paths.topic(TOPIC))
    log = runtime.open_with(world.log.path, "memory", behind, world.files, world.time)

    assert len(SourcePlanner(log, options(log.path, **selected)).starting()) == 2
