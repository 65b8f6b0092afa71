"""Transactions that nobody ends, planted on real brokers: they are found, judged and ended without loss."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.znodes.clock import wall_ms
from oncelog_kafka.brokers import KafkaRequests
from oncelog_kafka.testing.transactions import Identity
from raw_producer import RawProducer
from tests.support.connectors.kafka_sink import values
from tests.support.harness.waiting import until
from tests.support.servers.kafka import TV1_VERSION, TV2_VERSION, KafkaBroker, fresh_name, running_broker

HOUR_MS = 3_600_000
TIMEOUT_MS = 60_000

UNGUARDED = {
    "transaction.partition.verification.enable": "false",
    "transaction.max.timeout.ms": str(2 * TIMEOUT_MS),
}
"""Then a leader takes a transaction's rows although the coordinator does not know its partition. The coordinator leaves
its marker out, as brokers 4.3.0 and 4.3.1 do for a partition that has no leader."""


class World:
    """A broker, a producer of hanging transactions, and the command line."""

    def __init__(self, broker: KafkaBroker, version: int, requests: KafkaRequests) -> None:
        self.broker = broker
        self.version = version
        self.raw = RawProducer(requests)
        self.topic = broker.create_topic(fresh_name("hanging"), partitions=2, retention_ms="-1")

    def began(self, name: str | None = None) -> Identity:
        """A producer's identity."""
        name = name or fresh_name("id")

        def ask() -> Identity | None:
            return self.raw.init(name, TIMEOUT_MS)[1]

        found: Identity = until(ask)
        return found

    def write(self, who: Identity, partition: int, *rows: str, is_known: bool = True, ago_ms: int = 0) -> None:
        """Write rows; unless `is_known`, the coordinator does not hear of the partition."""
        place = (self.topic, partition)
        if is_known:
            until(lambda: self.raw.add_partitions(who, [place]) == "NONE")
        some = [row.encode() for row in rows]
        answer = self.raw.produce(who, place, some, 0, version=1, timestamp_ms=wall_ms() - ago_ms)
        assert answer == "NONE"

    def end(self, who: Identity, *, is_commit: bool) -> None:
        """End the transaction, and wait until its markers are written."""
        assert self.raw.end(who, is_commit=is_commit, version=self.version)[0] == "NONE"
        until(lambda: self.json("txn", "describe", who.transactional_id)["transaction"]["state"].startswith("Complete"))

    def leave_open(self, *rows: str, is_commit: bool = True) -> Identity:
        """Rows in both partitions, and no marker in partition 1."""
        who = self.began()
        self.write(who, 0, "seen")
        self.write(who, 1, *rows, is_known=False)
        self.end(who, is_commit=is_commit)
        return who

    def json(self, *words: str, exit_code: int = 0) -> Any:
        arguments = ["kafka", "--brokers", self.broker.address, *words, "--json"]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == exit_code, (done.output, done.exception)
        return json.loads(done.stdout)

    def hangs(self) -> list[Any]:
        """Those of this test's topic."""
        found = CliRunner().invoke(main, ["kafka", "--brokers", self.broker.address, "txn", "find-hanging", "--json"])
        return [one for one in json.loads(found.stdout)["left_open"] if one["topic"] == self.topic]

    def values(self) -> list[str]:
        """What a reader of committed rows sees."""
        return values(self.broker, self.topic)


@pytest.fixture(scope="module", params=[(TV2_VERSION, 2), (TV1_VERSION, 1)], ids=["4.3", "3.9"])
def unguarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[KafkaBroker, int]]:
    release, version = request.param
    with running_broker(tmp_path_factory.mktemp("kafka"), version=release, settings=UNGUARDED) as broker:
        yield broker, version


@pytest.fixture
def world(unguarded: tuple[KafkaBroker, int]) -> Iterator[World]:
    broker, version = unguarded
    with closing(KafkaRequests({"bootstrap_servers": broker.address})) as requests:
        yield World(broker, version, requests)


def test_a_marker_that_was_left_out_of_a_commit_is_found_and_written(world: World) -> None:
    who = world.leave_open("lost-1", "lost-2")
    (hang,) = world.hangs()
    assert (hang["partition"], hang["start_offset"], hang["verdict"]) == (1, 0, "committed")
    assert (hang["transactional_id"], hang["state"]) == (who.transactional_id, "CompleteCommit")
    assert world.values() == ["seen"]

    done = world.json("txn", "repair", "--partition", f"{world.topic}-1", "--yes")

    assert [(one["ended"], one["is_ours"]) for one in done["repaired"]] == [("commit", True)]
    assert world.hangs() == []
    assert sorted(world.values()) == ["lost-1", "lost-2", "seen"]
