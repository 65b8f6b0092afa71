"""The sink on executors of their own: one is killed, and a slow task gets a copy."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from killed_queries import World
from oncelog.metadata import open_metadata
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.protocol.participants import Participant, ParticipantId
from tests.support.harness.variants import variants
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, require_shims
from tests.support.spark import spark_home
from tests.support.spark.faults import executors_below
from tests.support.spark.standalone import awaited_executors, executors, speculating_executors, standalone_cluster

pytestmark = pytest.mark.walk("tasks that die, or run twice, leave one copy")

SLOWLY = "concat(value, substr(reflect('java.lang.Thread', 'sleep', 50L), 0, 0)) AS value"
"""A twentieth of a second for each row, without Python."""

NO_PYTHON = {"PYTHONHOME": "/no/python/here"}
"""No Python starts with it."""


@contextmanager
def copying(
    broker: KafkaBroker, home: Path, door: str, spark: Mapping[str, str], environment: Mapping[str, str], **more: Any
) -> Iterator[World]:
    """A query from a topic into another one, on two executors with one core each, on different hosts."""
    require_shims()
    with standalone_cluster(home, {**os.environ, **spark_home.environment(), **environment}) as master:
        world = World(broker, home, door, "topic", {"master": master, "spark": spark, **more})
        world.write(200, ("slow-", "fast-"))
        world.live(None)
        try:
            yield world
        finally:
            world.end()


def batches(world: World) -> list[tuple[Participant, ...]]:
    """Those whose rows count, of each batch."""
    with closing(open_metadata(world.sink["znodes"], create=False)) as store:
        rounds = KAFKA_LEDGERS.read_rounds(store, world.prefix)
    return [found.participants for _, found in sorted(rounds.items())]


def attempts(world: World) -> list[ParticipantId | None]:
    """Those of all tasks whose rows count."""
    return [ParticipantId.parse(one.transactional_id) for found in batches(world) for one in found]


def test_an_executor_that_is_killed_in_a_batch_leaves_one_copy_and_none_needs_python(
    kafka: KafkaBroker, tmp_path: Path, door: str
) -> None:
    with copying(kafka, tmp_path, door, executors(), NO_PYTHON, select=["partition", SLOWLY]) as world:
        world.wait_until(lambda: len(world.open_ids()) == 2)
        killed, other = executors_below(tmp_path)
        assert b"PYTHONHOME=/no/python/here" in Path(f"/proc/{other}/environ").read_bytes()
        os.kill(killed, signal.SIGKILL)
        assert world.found() == []

        world.recover()
        world.write()
        world.recover()
        world.stop()

    assert any(one is not None and (one.attempt, one.stage_attempt) != (0, 0) for one in attempts(world))
    world.check_nothing_is_left_open()


def test_a_stage_that_runs_again_after_some_of_its_tasks_succeeded_leaves_one_copy(
    kafka: KafkaBroker, tmp_path: Path, door: str
) -> None:
    """With its executor, a task loses a part of the shuffle, so Spark runs it in another attempt of the stage."""
    with copying(kafka, tmp_path, door, awaited_executors(), {}, tasks=4, select=["partition", SLOWLY]) as world:
        world.wait_until(lambda: len(world.open_ids()) == 4)
        os.kill(executors_below(tmp_path)[0], signal.SIGKILL)
        world.recover()
        world.stop()

    assert sorted(one.stage_attempt for one in attempts(world) if one is not None) == [0, 0, 0, 1]
    world.check_nothing_is_left_open()


@pytest.mark.parametrize("broker", variants("kafka", "kafka_tv1"), indirect=True)
def test_what_executors_prepared_outlives_them_and_the_next_batch_opens_other_producers(
    broker: KafkaBroker, version: int, tmp_path: Path
) -> None:
    """One is killed behind what it prepared, and the other is told to end, which must abort nothing."""
    gates = tmp_path / "gates"
    gates.mkdir()
    with copying(broker, tmp_path, "foreachBatch", executors(), {}, gates=str(gates)) as world:
        world.recover()
        world.write()
        world.recover()
        gate = gates / KafkaCrashPoint.WRITTEN
        gate.touch()
        world.write()
        world.wait_until((gates / f"{gate.name}.reached").exists)
        assert len(world.open_ids()) == 2
        lost = executors_below(tmp_path)
        for executor, number in zip(lost, (signal.SIGKILL, signal.SIGTERM), strict=True):
            os.kill(executor, number)
        world.wait_until(lambda: len(set(executors_below(tmp_path)) - set(lost)) == 2)
        assert len(world.open_ids()) == 2

        gate.unlink()
        world.recover()
        world.write()
        world.recover()
        world.stop()

    first, kept, prepared, following = batches(world)
    for before, after, epochs in ((first, kept, 1), (kept, prepared, 1), (prepared, following, version)):
        assert [(one.transactional_id, one.producer_id, one.epoch + epochs) for one in before] == [
            (one.transactional_id, one.producer_id, one.epoch) for one in after
        ]
    world.check_nothing_is_left_open()


def test_a_copy_of_a_slow_task_leaves_one_copy_of_its_rows_and_holds_up_no_reader(
    kafka: KafkaBroker, tmp_path: Path, door: str
) -> None:
    """The slow one is aborted while it still runs.

    conformance: 54.
    """
    folder = tmp_path / "attempts"
    folder.mkdir()
    fault = {"fault": "stalled", "folder": str(folder)}
    with copying(kafka, tmp_path, door, speculating_executors(), {}, **fault) as world:
        world.recover()
        assert len(list(folder.glob("attempt-*"))) == 2, "Spark did not speculate"
        until(lambda: not world.open_ids(), tell=world.open_ids)
        world.stop()

    assert sorted((one.partition, one.attempt) for one in attempts(world) if one is not None) == [(0, 1), (1, 0)]
