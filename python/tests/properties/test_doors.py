"""Every public call names the argument that is of a wrong type, before it does anything (tests/doors.py finds them)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

import oncelog
import oncelog.spark
from oncelog import runtime
from oncelog.clients import admin
from oncelog.crash_points import CrashPoint
from oncelog.errors import InvalidOptionError, OncelogError, UsageError, WrongArgumentsError
from oncelog.metrics import stores
from oncelog.metrics.exposition import CollectorRegistry
from oncelog.spark.kit.options import Use
from oncelog.spark.option_table import OPTIONS
from oncelog.testing import faults, invariants, kafka_broker, zookeeper_server
from oncelog.testing.kafka_broker import KafkaBroker
from oncelog.testing.zookeeper_server import ZookeeperEnsemble, ZookeeperServer
from oncelog.types import ProducerIdAndEpoch
from tests.support.harness.doors import VALUES, Door, doors_of, odd_calls, wrong_calls
from tests.support.log.logs import TOPIC, LogWorld, columns, contents, log_world, started, tp, values

CLIENTS = doors_of([oncelog, admin, runtime])
DOORS = doors_of([oncelog, admin, runtime, oncelog.spark, stores, faults, invariants, kafka_broker, zookeeper_server])
BEFORE = b"sent before the wrong calls"


class Objects:
    """What the calls are made on and with: clients in the midst of work that no wrong call may disturb."""

    def __init__(self, world: LogWorld) -> None:
        self.world = world
        self.producer = started(world.log)
        self.producer.begin_transaction()
        self.producer.send(TOPIC, BEFORE, partition=0)
        self.consumer = world.log.consumer(group_id="g", auto_offset_reset="earliest")
        self.consumer.assign([tp()])
        self.token = oncelog.PreparedTransaction("copier", ProducerIdAndEpoch(1, 0))

    def call(self, door: Door, **given: object) -> object:
        """Make the call, on an object of the method's class."""
        return door.function(*([self.of(door.owner)] if door.owner else []), **given)

    def of(self, kind: type) -> object:
        """An object of a class that has methods."""
        log, folder = self.world.log, self.world.folder
        known = {type(one): one for one in (log, log.admin, self.producer, self.consumer, self.token)}
        if kind in known:
            return known[kind]
        once = oncelog.spark.once(print, bool)
        sink = oncelog.spark.sink(path=str(folder), topic=TOPIC)
        observation = oncelog.spark.Observation(None, ExitStack())
        of_spark = {type(one): one for one in (once, sink, oncelog.spark.together(sink, once), observation)}
        if kind in of_spark:
            return of_spark[kind]
        return {KafkaBroker: KafkaBroker, ZookeeperServer: ZookeeperServer, ZookeeperEnsemble: ZookeeperEnsemble}[kind](
            folder / kind.__name__
        )

    @property
    def values(self) -> list[object]:
        """Values of the types that only this log can fill."""
        services = self.world.log.services
        return [
            *(self.world.log, services, services.store, self.world.files, self.world.time, services.background),
            *(self.token, columns(b"after"), ProducerIdAndEpoch(1, 0), CrashPoint.SETTLE, self.world.folder / "new"),
            # None of these has a call that comes to look at it.
            *(SparkSession.builder, object.__new__(ClassicDataFrame), object.__new__(SparkSession)),
            *(CollectorRegistry(), ExitStack()),
            {},
        ]


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    monkeypatch.chdir(tmp_path)
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=2)
        yield Objects(world)


def named(doors: list[Door]) -> list[object]:
    return [pytest.param(door, id=door.name) for door in doors if door.parameters]


@pytest.mark.parametrize("door", named(DOORS))
def test_a_wrong_type_is_refused_by_the_name_of_its_argument_and_nothing_happened(
    door: Door, objects: Objects, tmp_path: Path
) -> None:
    if door.owner is not None:
        objects.of(door.owner)  # whatever that leaves in the folder was there before
    before, paths = contents(objects.world), sorted(tmp_path.rglob("*"))

    for name, label, given in wrong_calls(door, objects.values):
        with pytest.raises(UsageError) as refused:
            objects.call(door, **given)
        assert name in str(refused.value), label

    assert contents(objects.world) == before
    assert sorted(tmp_path.rglob("*")) == paths
    objects.producer.commit_transaction()
    assert values(objects.world.log) == [BEFORE]
    assert [record.value for record in objects.consumer.poll()] == [BEFORE]


@pytest.mark.parametrize("door", named(CLIENTS))
def test_a_value_of_the_right_type_is_taken_or_refused_by_an_error_of_oncelog(door: Door, objects: Objects) -> None:
    objects.world.is_checked = False
    for _, _, given in odd_calls(door, objects.values):
        with suppress(OncelogError):
            made = objects.call(door, **given)
            if hasattr(made, "close"):
                made.close()


@pytest.mark.parametrize("door", named(DOORS))
def test_wrong_names_and_counts_of_arguments_are_named(door: Door, objects: Objects) -> None:
    objects.world.is_checked = False
    parameters = door.parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        with pytest.raises(WrongArgumentsError, match="no_such_argument"):
            objects.call(door, no_such_argument=1)
    if any(p.default is p.empty and p.kind not in {p.VAR_KEYWORD, p.VAR_POSITIONAL} for p in parameters):
        with pytest.raises(WrongArgumentsError, match="missing"):
            objects.call(door)


@pytest.mark.parametrize("door", [door for door in DOORS if not door.parameters], ids=lambda door: door.name)
def test_a_call_without_arguments_says_so(door: Door, objects: Objects) -> None:
    objects.world.is_checked = False
    with pytest.raises(WrongArgumentsError, match="takes no argument"):
        objects.call(door, timeout=10)


@pytest.mark.parametrize("door", named(DOORS))
def test_every_parameter_of_a_public_call_shows_its_type(door: Door) -> None:
    assert [p.name for p in door.parameters.values() if p.annotation is inspect.Parameter.empty] == []


def test_every_object_that_users_hold_shows_what_it_is(objects: Objects) -> None:
    kinds = sorted({door.owner for door in DOORS if door.owner}, key=str)
    held = [*map(objects.of, kinds), *objects.values, objects.producer.send(TOPIC, b"x")]
    objects.producer.abort_transaction()

    shown = [repr(one) for one in held if type(one).__module__.startswith("oncelog.")]

    assert [text for text in shown if " object at 0x" in text or not text] == []


def test_the_walk_finds_what_users_call() -> None:
    names = {door.name for door in DOORS}

    assert {
        "Consumer.committed",
        "Admin.reset_group",
        "Producer.send",
        "TopicPartition",
        "oncelog.runtime.open",
    } <= names
    assert {"PreparedTransaction.parse", "Sink.__call__", "KafkaBroker.create_topic", "Log.producer"} <= names


@pytest.mark.parametrize("option", [option.name for option in OPTIONS if Use.FOREACH_BATCH in option.uses])
def test_an_option_of_a_wrong_type_is_refused_by_its_name(option: str, tmp_path: Path) -> None:
    for label, make in VALUES.items():
        if not isinstance(make(), str | int | None):
            with pytest.raises(InvalidOptionError, match=option):
                oncelog.spark.sink(**{"path": str(tmp_path), option: make()})
                pytest.fail(label)
