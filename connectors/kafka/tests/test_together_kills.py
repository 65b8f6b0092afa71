"""A driver is killed at named points of batches that go into Kafka, PostgreSQL and a log under one decision.

Each life of the query recovers what the one before left, and is the next to die.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import oncelog
from oncelog.crash_points import CrashPoint
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_postgres.crash_points import PostgresCrashPoint
from tests.support.connectors.kafka_sink import values
from tests.support.harness.parts import require_java
from tests.support.log.logs import values as values_in_log
from tests.support.servers.kafka import KafkaBroker, fresh_name, require_shims
from tests.support.servers.postgres import PostgresServer
from tests.support.spark.lives import Lives
from tests.support.spark.processes import Program

TOPIC = "copied"

BEFORE_THE_DECISION = (
    CrashPoint.SINK_PLAN,
    CrashPoint.SINK_PLANNED,
    KafkaCrashPoint.WRITTEN,
    PostgresCrashPoint.STAGED,
    PostgresCrashPoint.COPIED,
    PostgresCrashPoint.WRITTEN,
    PostgresCrashPoint.PREPARED,
    CrashPoint.ROUND_APPEND,
    CrashPoint.ROUND_APPENDED,
    KafkaCrashPoint.CHECKED,
    CrashPoint.ROUND_DECIDE,
)
BEHIND_THE_DECISION = (
    CrashPoint.ROUND_DECIDED,
    KafkaCrashPoint.END,
    KafkaCrashPoint.ENDED,
    KafkaCrashPoint.COMPLETE,
    PostgresCrashPoint.COMMIT,
    PostgresCrashPoint.COMMITTED,
    PostgresCrashPoint.DROPPED,
    CrashPoint.SINK_DONE,
)

ROWS = 10
"""Of a batch."""


class World(Lives):
    """A query that is killed again and again.

    Attributes:
        written: the values so far.
    """

    def __init__(self, broker: KafkaBroker, server: PostgresServer, folder: Path) -> None:
        super().__init__(folder)
        self.broker = broker
        self.server = server
        self.topic = broker.create_topic(fresh_name("together"), partitions=2)
        self.table = f"public.{self.topic.replace('-', '_').replace('.', '_')}"
        server.ask(f"CREATE TABLE {self.table} (id int PRIMARY KEY, value text)")
        self.log = oncelog.open(folder / "log")
        self.log.create_topic(TOPIC, partitions=2)
        self.written: list[str] = []
        self._settings = {
            "source": str(folder / "in"),
            "kafka": {"kafka.bootstrap.servers": broker.address, "topic": self.topic},
            "postgres": {"url": server.url(), "table": self.table},
            "log": {"path": str(folder / "log"), "topic": TOPIC},
        }
        for name in ("kafka", "postgres", "log"):
            self._settings[name]["transactionalIdPrefix"] = f"{self.topic}.p"  # type: ignore[index]

    def write(self) -> None:
        rows = [{"id": len(self.written) + at, "value": f"{len(self.written) + at:05d}"} for at in range(ROWS)]
        self.put(len(self.written), "\n".join(map(json.dumps, rows)))
        self.written += [str(row["value"]) for row in rows]

    def live(self, point: str) -> Program:
        self._lives += 1
        self.mark.touch()
        return self._start("together_copier", self._settings, point)

    def in_kafka(self) -> list[str]:
        return values(self.broker, self.topic)

    def in_postgres(self) -> list[str]:
        return [str(value) for (value,) in self.server.ask(f"SELECT value FROM {self.table} ORDER BY id")]

    def in_log(self) -> list[str]:
        return sorted((value or b"").decode() for value in values_in_log(self.log, topic=TOPIC))

    def _staging_tables(self) -> list[tuple[object, ...]]:
        return self.server.ask("SELECT tablename FROM pg_tables WHERE tablename LIKE 'staging%'")

    def recover(self) -> None:
        """Everything is there once: in Kafka each second row, in the others each."""
        self.wait_until(lambda: len(self.in_log()) >= len(self.written))
        self.wait_until(lambda: len(self.in_postgres()) >= len(self.written))
        self.wait_until(lambda: len(self.in_kafka()) >= len(self.written) // 2)
        self.wait_until(lambda: not self._staging_tables())
        assert self.in_log() == self.written
        assert self.in_postgres() == self.written
        assert self.in_kafka() == self.written[::2]

    def end(self) -> None:
        super().end()
        self.log.close()


@pytest.fixture
def world(shared_broker: KafkaBroker, postgres: PostgresServer, tmp_path: Path) -> Iterator[World]:
    require_java()
    require_shims()
    found = World(shared_broker, postgres, tmp_path)
    yield found
    found.end()


@pytest.mark.walk("a killed driver leaves one copy in a target")
def test_a_driver_that_is_killed_at_any_point_leaves_one_copy_in_each_target(world: World) -> None:
    world.write()
    for point in (*BEFORE_THE_DECISION, *BEHIND_THE_DECISION):
        world.die(point)
        is_decided = point in BEHIND_THE_DECISION
        assert world.in_log() == (world.written if is_decided else world.written[:-ROWS]), point
        if not is_decided:
            assert world.in_postgres() == world.written[:-ROWS], point
            assert world.in_kafka() == world.written[:-ROWS:2], point
    world.live(CrashPoint.SINK_DONE)
    world.recover()
