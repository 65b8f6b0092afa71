"""The source's planner on ends of batch reads; test_stream_reader.py has those of streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog.ports import ZnodeReader
from oncelog.runtime import Log
from oncelog.spark.kit.options import Use
from oncelog.spark.options import parse_source_options
from oncelog.spark.planner import SourcePlanner
from tests.support.log.faulty import RivalledStore
from tests.support.log.logs import TOPIC, log_world, numbered, send, started, write_aborted, write_committed, write_open


def planner_of(log: Log, **options: object) -> SourcePlanner:
    given = {"path": log.path, "subscribe": TOPIC, **options}
    return SourcePlanner(log, parse_source_options(given, Use.BATCH_READ))


def rows_by_partition(planner: SourcePlanner) -> dict[int, int]:
    """How many rows a batch read shows."""
    bounds = planner.bounds()
    found = dict.fromkeys((partition.partition for partition, _, _ in bounds), 0)
    for task in planner.tasks(bounds):
        found[task.partition] += sum(piece.count for piece in task.slices)
    return found


class OvertakenPlan(RivalledStore):
    """Somebody else acts right after the next moment that is read."""

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        with super().snapshot() as reader:
            yield reader
        self.is_overtaken()


def test_the_ends_of_all_partitions_are_of_one_plan(tmp_path: Path) -> None:
    """conformance: 27."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=2)
        write_open(producer := started(world.log), *numbered("a", 3), number=0)
        send(producer, *numbered("a", 3), number=1)
        store = OvertakenPlan(world.store())
        planner = planner_of(world.open(store))

        store.rival = producer.commit_transaction
        assert rows_by_partition(planner) == {0: 0, 1: 0}

        assert store.rival is None
        assert rows_by_partition(planner) == {0: 3, 1: 3}


@pytest.mark.parametrize("end", [4, -1])
def test_a_named_end_beyond_the_last_stable_offset_shows_nothing_behind_it(tmp_path: Path, end: int) -> None:
    """conformance: 37."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=1)
        write_committed(started(world.log, "first"), b"shown")
        write_open(blocker := started(world.log, "blocker"), b"open")
        write_committed(started(world.log, "second"), b"behind")
        write_aborted(started(world.log, "third"), b"aborted")
        planner = planner_of(world.log, endingOffsets=json.dumps({TOPIC: {"0": end}}))

        assert rows_by_partition(planner) == {0: 1}

        blocker.abort_transaction()
        assert rows_by_partition(planner) == {0: 2}
