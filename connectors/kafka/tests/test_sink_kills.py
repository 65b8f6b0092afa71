"""A driver is killed with its JVM at named points of a batch; the next one leaves exactly one copy.

Each life of the query recovers what the one before left, and is the next to die.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from killed_queries import BEHIND_THE_DECISION, ROWS, World
from oncelog.crash_points import CrashPoint
from oncelog.metadata import open_metadata
from oncelog.ports import ZnodeStore
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.sinks.finishing import DecidedRound, finish
from tests.support.docs.figures import guarantees
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, require_shims
from tests.support.spark.lives import walks

BEFORE_THE_DECISION = (
    CrashPoint.SINK_PLAN,
    CrashPoint.SINK_PLANNED,
    KafkaCrashPoint.FENCE,
    KafkaCrashPoint.WRITTEN,
    KafkaCrashPoint.CHECKED,
    CrashPoint.ROUND_DECIDE,
)
PASSED = BEFORE_THE_DECISION + BEHIND_THE_DECISION
"""Every point that a batch passes."""

OF_A_REWRITE = (KafkaCrashPoint.LOST, KafkaCrashPoint.REWRITTEN, KafkaCrashPoint.REPLACED)
"""The driver stops at these in test_sink_driver.py."""


@pytest.fixture
def source() -> str:
    return "files"


@pytest.fixture
def more() -> dict[str, Any]:
    """Options beside those that every sink has."""
    return {}


@pytest.fixture
def world(shared_broker: KafkaBroker, tmp_path: Path, door: str, source: str, more: dict[str, Any]) -> Iterator[World]:
    require_java()
    require_shims()
    found = World(shared_broker, tmp_path, door, source, **more)
    yield found
    found.end()


SQLITE: dict[str, Any] = {}
TOPIC: dict[str, Any] = {"znodes": None}
"""Where the ledger is; in a topic of the cluster by default."""

WALKS = [
    ("foreachBatch", "files", "kafka", TOPIC),
    ("format", "files", "kafka", SQLITE),
    ("format", "topic", "kafka", TOPIC),
    ("format", "topic", "kafka_tv1", TOPIC),
]
"""Doors, sources, brokers, and ledgers."""

MOVES = 10
"""From host to host, of one query."""

TRAVELLERS = 5
"""Queries that move so often, each with another order of points."""

AT_ANY_POINT = "a killed driver leaves one copy in Kafka"


def test_the_guarantees_say_how_many_points_there_are() -> None:
    assert f"; {len(PASSED)} of Kafka's, by both ways to write; " in guarantees()


@pytest.mark.walk(AT_ANY_POINT)
@pytest.mark.parametrize(("door", "source", "shared_broker", "more"), WALKS, indirect=["shared_broker"])
@pytest.mark.parametrize("points", walks(PASSED))
def test_a_driver_that_is_killed_at_any_point_leaves_exactly_one_copy(world: World, points: tuple[str, ...]) -> None:
    """The group of a source moves with its batch.

    conformance: 44, 52, 53, 57.
    """
    world.write()
    for point in points:
        ends = dict(world.ends)
        world.die(point)
        visible = world.found()
        if point in BEFORE_THE_DECISION:
            assert visible == world.written[:-ROWS], point
            assert world.moved() == ends, point
        else:
            assert set(world.written[:-ROWS]) <= set(visible) <= set(world.written), point
    world.live(None)
    world.recover()
    world.end()
    world.check_nothing_is_left_open()


@pytest.mark.walk(AT_ANY_POINT)
@pytest.mark.parametrize(("door", "source", "more"), [("foreachBatch", "topic", TOPIC)])
@pytest.mark.parametrize("first", PASSED[:TRAVELLERS])
def test_a_query_that_goes_on_on_ten_other_hosts_leaves_exactly_one_copy(world: World, first: str) -> None:
    begin = PASSED.index(first)
    world.write()
    for point in cycle((*PASSED[begin:], *PASSED[:begin])):
        world.die(point)
        if world.moves >= MOVES - 1:
            break
    world.live(None)
    world.recover()
    assert world.moves >= MOVES
    world.end()
    world.check_nothing_is_left_open()


@pytest.mark.every_spark
@pytest.mark.walk(AT_ANY_POINT)
def test_a_decision_is_carried_out_by_whoever_comes_without_the_query(world: World) -> None:
    world.write()
    world.die(CrashPoint.ROUND_DECIDED)

    with unfinished(world) as (decided, brokers, store):
        assert finish(brokers, store, decided).lost == []
    until(lambda: world.found() == world.written)
    world.live(None)
    world.write()
    world.recover()


@pytest.mark.walk(AT_ANY_POINT)
@pytest.mark.parametrize("more", [{"onTimedOutParticipant": "rewrite", "participants": 3}])
def test_what_the_brokers_lost_of_a_decision_is_written_again_by_the_restart(world: World) -> None:
    world.write()
    world.die(CrashPoint.ROUND_DECIDED)
    with unfinished(world) as (decided, brokers, _):
        brokers.fence([decided.record.participants[0].transactional_id], 60_000)  # as a time-out does

    world.live(None)
    world.recover()
    world.write()
    world.recover()
    world.end()
    world.check_nothing_is_left_open()


@contextmanager
def unfinished(world: World) -> Iterator[tuple[DecidedRound, Brokers, ZnodeStore]]:
    """The round that is decided and not carried out."""
    store = open_metadata(str(world.folder / "ledger"), create=False)
    brokers = Brokers({"bootstrap_servers": world.broker.address})
    rounds = KAFKA_LEDGERS.read_rounds(store, world.prefix)
    ((number, record),) = [(number, found) for number, found in rounds.items() if found.is_unfinished]
    try:
        yield DecidedRound(world.prefix, number, record), brokers, store
    finally:
        brokers.close()
        store.close()


def test_every_crash_point_of_the_sink_is_walked_through() -> None:
    of_the_sink = set(KafkaCrashPoint)

    assert of_the_sink <= {*PASSED, *OF_A_REWRITE}
