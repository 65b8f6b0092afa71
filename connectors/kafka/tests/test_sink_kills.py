"""A driver is killed with its JVM at named points of a batch; the next one leaves exactly one copy.

Each life of the query recovers what the one before left, and is the next to die.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog.crash_points import CrashPoint
from oncelog.ports import ZnodeStore
from oncelog.runtime import open_metadata
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.finishing import DecidedRound, finish
from oncelog_kafka.ledger import KAFKA_LEDGERS
from tests.support.connectors.kafka_sink import options, values
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name, require_shims
from tests.support.spark.processes import Program, start_job
from tests.support.spark.queries import PATIENCE_S

BEFORE_THE_DECISION = (
    CrashPoint.SINK_PLAN,
    CrashPoint.SINK_PLANNED,
    KafkaCrashPoint.FENCE,
    KafkaCrashPoint.WRITTEN,
    KafkaCrashPoint.CHECKED,
    CrashPoint.ROUND_DECIDE,
)
BEHIND_THE_DECISION = (
    CrashPoint.ROUND_DECIDED,
    KafkaCrashPoint.END,
    KafkaCrashPoint.ENDED,
    KafkaCrashPoint.COMPLETE,
    CrashPoint.SINK_DONE,
)
PASSED = BEFORE_THE_DECISION + BEHIND_THE_DECISION
"""Every point that a batch passes."""

OF_A_REWRITE = (KafkaCrashPoint.LOST, KafkaCrashPoint.REWRITTEN, KafkaCrashPoint.REPLACED)
"""The driver stops at these in test_sink_driver.py."""

ROWS = 10


class World:
    """A query that is killed again and again."""

    def __init__(self, broker: KafkaBroker, folder: Path, door: str, **more: object) -> None:
        self.broker = broker
        self.door = door
        self.folder = folder
        self.topic = broker.create_topic(fresh_name("killed"), partitions=2)
        self.prefix = f"{self.topic}.p"
        self.sink = options(broker, folder, self.topic, transactionalIdPrefix=self.prefix, **more)
        self.written: list[str] = []
        self._program: Program | None = None
        self._lives = 0
        (folder / "in").mkdir()

    @property
    def mark(self) -> Path:
        return self.folder / f"{self._lives}.mark"

    def write(self) -> None:
        """One more batch."""
        texts = [f"{len(self.written) + at:05d}" for at in range(ROWS)]
        lines = [json.dumps({"value": text, "partition": at % 2}) for at, text in enumerate(texts)]
        hidden = self.folder / ".hidden"
        hidden.write_text("\n".join(lines))
        hidden.rename(self.folder / "in" / f"{len(self.written):05d}.json")
        self.written += texts

    def live(self, point: str | None, *, is_doomed: bool = False) -> Program:
        """Begin a life that can be ended at `point`; it passes it unharmed until `die`, unless it is doomed."""
        self._lives += 1
        if not is_doomed:
            self.mark.touch()
        files = {"format": "json", "schema": "value string, partition int", "path": str(self.folder / "in")}
        settings = {
            "source": {**files, "maxFilesPerTrigger": 1},
            "checkpoint": str(self.folder / "checkpoint"),
            "sink": self.sink,
            "door": self.door,
            "stop": str(self.folder / "stop"),
            "crash_point": point,
            "mark": str(self.mark),
        }
        self._program = start_job("kafka_copier", settings, self.folder, f"life-{self._lives}")
        return self._program

    def die(self, point: str) -> None:
        """Recover, and be killed at the point in the next batch."""
        if point == KafkaCrashPoint.FENCE:  # passed by the first batch of a life only
            self.live(None)
            self.recover()
            self.end()
            self.write()
            self.live(point, is_doomed=True).wait_killed()
            return
        program = self.live(point)
        self.recover()
        self.mark.unlink()
        self.write()
        program.wait_killed()

    def end(self) -> None:
        if self._program is not None:
            self._program.kill()

    def found(self) -> list[str]:
        return values(self.broker, self.topic)

    def recover(self) -> None:
        """Wait until everything that was written is there."""

        def is_recovered() -> bool:
            assert self._program is not None
            self._program.check_runs()
            return len(self.found()) >= len(self.written)

        until(is_recovered, within_s=PATIENCE_S)
        assert self.found() == self.written


@pytest.fixture(params=["foreachBatch", "format"])
def door(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def more() -> dict[str, object]:
    """Options beside those that every sink has."""
    return {}


@pytest.fixture
def world(kafka: KafkaBroker, tmp_path: Path, door: str, more: dict[str, object]) -> Iterator[World]:
    require_java()
    require_shims()
    found = World(kafka, tmp_path, door, **more)
    yield found
    found.end()


@pytest.mark.walk
def test_a_driver_that_is_killed_at_any_point_leaves_exactly_one_copy(world: World) -> None:
    """conformance: 52, 53, 57."""
    world.write()
    for point in PASSED:
        world.die(point)
        visible = world.found()
        if point in BEFORE_THE_DECISION:
            assert visible == world.written[:-ROWS], point
        else:
            assert set(world.written[:-ROWS]) <= set(visible) <= set(world.written), point
    world.live(None)
    world.recover()
    world.end()
    _check_nothing_is_left_open(world)


@pytest.mark.walk
def test_a_decision_is_carried_out_by_whoever_comes_without_the_query(world: World) -> None:
    world.write()
    world.die(CrashPoint.ROUND_DECIDED)

    with unfinished(world) as (decided, brokers, store):
        assert finish(brokers, store, decided) == []
    until(lambda: world.found() == world.written)
    world.live(None)
    world.write()
    world.recover()


@pytest.mark.walk
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
    _check_nothing_is_left_open(world)


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


def _check_nothing_is_left_open(world: World) -> None:
    brokers = Brokers({"bootstrap_servers": world.broker.address})

    def open_ids() -> list[str]:
        return [name for name, _ in brokers.list_ids(["Ongoing"]) if name.startswith(world.prefix)]

    until(lambda: not open_ids(), tell=open_ids)
    brokers.close()


def test_every_crash_point_of_the_sink_is_walked_through() -> None:
    of_the_sink = set(KafkaCrashPoint)

    assert of_the_sink <= {*PASSED, *OF_A_REWRITE}
