"""Transactions that hang in a partition, planted on brokers of both kinds: each is found, and ended without a loss."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncelog import metadata
from oncelog.cli import main
from oncelog.errors import UsageError
from oncelog.protocol.batch_ledger import BatchRequest
from oncelog_kafka import hanging
from oncelog_kafka.brokers import Brokers, KafkaRequests
from oncelog_kafka.brokers.producers import KafkaProducers
from oncelog_kafka.hanging import Ended
from oncelog_kafka.ledger import Ledger
from oncelog_kafka.participants import Participant
from oncelog_kafka.testing.transactions import Identity
from raw_producer import RawProducer
from tests.support.connectors.kafka_sink import values
from tests.support.harness.waiting import until
from tests.support.servers.kafka import TV1_VERSION, TV2_VERSION, KafkaBroker, fresh_name, running_broker

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""Such brokers take records into a partition that is not in their producer's transaction, as those before 3.6 do."""

TIMEOUT_MS = 60_000


@pytest.fixture(scope="module", params=[TV1_VERSION, TV2_VERSION])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_broker(tmp_path_factory.mktemp("kafka"), version=request.param, settings=UNVERIFIED) as found:
        yield found


class World:
    """A topic of two partitions, of which the second one waits for a marker."""

    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        self.broker = broker
        self.topic = broker.create_topic(fresh_name("hanging"), partitions=2)
        self.ledger = str(folder / "ledger")
        self.requests = KafkaRequests({"bootstrap_servers": broker.address})
        self.raw = RawProducer(self.requests)

    def begin(self, name: str) -> Identity:
        """A transaction with one record, in partition 0."""
        who = until(lambda: self.raw.init(name, TIMEOUT_MS)[1])
        assert who is not None
        until(lambda: self.raw.add_partitions(who, [(self.topic, 0)]) == "NONE")
        self.write(who, 0, b"a")
        return who

    def write(self, who: Identity, partition: int, value: bytes) -> None:
        assert self.raw.produce(who, (self.topic, partition), [value], 0, version=1) == "NONE"

    def end(self, who: Identity, *, is_commit: bool) -> None:
        until(lambda: self.raw.end(who, is_commit=is_commit, version=1)[0] == "NONE")
        state = "CompleteCommit" if is_commit else "CompleteAbort"
        until(lambda: self.requests.describe([who.transactional_id])[0].state == state)  # type: ignore[union-attr]

    def leave_open(self, *, is_commit: bool) -> Identity:
        """A transaction that is over, but for partition 1, of which its coordinator knows nothing."""
        who = self.begin(self.topic)
        self.write(who, 1, b"b")
        self.end(who, is_commit=is_commit)
        return who

    def decide(self, who: Identity) -> None:
        """What a sink's ledger says of a batch that the transaction belongs to."""
        part = Participant(who.transactional_id, 0, who.producer_id, who.epoch, 1, 2, 0, self.topic)
        with closing(metadata.open_metadata(self.ledger)) as store:
            steps = Ledger(store, BatchRequest(self.topic, "query", "sink", "run", 0, "fp"))
            opened = steps.begin(lease=None, buckets=None)
            assert opened is not None
            steps.decide(opened, [part])

    def visible(self) -> list[str]:
        return values(self.broker, self.topic)

    def ask(self, *words: str, exit_code: int = 0) -> Result:
        arguments = ["--znodes", self.ledger, "kafka", "--brokers", self.broker.address, "txn", *words]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == exit_code, done.output
        return done

    def found(self) -> list[dict[str, Any]]:
        """What hangs in this topic."""
        done = CliRunner().invoke(
            main, ["--json", "--znodes", self.ledger, "kafka", "--brokers", self.broker.address, "txn", "find-hanging"]
        )
        return [one for one in json.loads(done.stdout)["partitions"] if one["topic"] == self.topic]

    def close(self) -> None:
        """End what is left, so that the next test finds nothing of it."""
        with closing(KafkaProducers({"bootstrap_servers": self.broker.address})) as leaders:
            for one in leaders.open_transactions([(self.topic, 0), (self.topic, 1)]):
                leaders.mark(one, is_commit=False)
        self.requests.close()


@pytest.fixture
def world(broker: KafkaBroker, tmp_path: Path) -> Iterator[World]:
    metadata.open_metadata(str(tmp_path / "ledger")).close()
    found = World(broker, tmp_path)
    yield found
    found.close()


def test_a_part_of_a_decided_batch_that_got_no_marker_is_committed_in_its_place(world: World) -> None:
    who = world.leave_open(is_commit=True)
    world.decide(who)
    assert world.visible() == ["a"]

    (found,) = world.found()
    assert (found["partition"], found["start_offset"], found["ended"]) == (1, 0, "committed")
    assert "a decision of its sink names it" in world.ask("find-hanging", exit_code=1).stdout
    assert "an abort would drop its rows" in world.ask("repair", world.topic, "1", "--abort", exit_code=2).output
    assert world.found() == [found]

    assert world.ask("repair", world.topic, "1").stdout.startswith(f"commit: {world.topic}-1 from offset 0")

    assert world.visible() == ["a", "b"]
    assert world.found() == []
    assert "nothing hangs in this partition" in world.ask("repair", world.topic, "1", exit_code=2).output


@pytest.mark.parametrize("is_commit", [True, False])
def test_of_other_transactions_the_operator_must_say_what_became_of_them(world: World, is_commit: bool) -> None:
    world.leave_open(is_commit=is_commit)

    (found,) = world.found()
    assert found["ended"] == (Ended.PROBABLY_COMMITTED if is_commit else Ended.PROBABLY_ABORTED)
    assert "--commit shows them, --abort drops them" in world.ask("repair", world.topic, "1", exit_code=2).output
    assert world.found() == [found]

    world.ask("repair", world.topic, "1", "--commit" if is_commit else "--abort")

    assert world.visible() == (["a", "b"] if is_commit else [])
    assert world.found() == []


def test_a_record_of_a_producer_that_no_coordinator_knows_is_found(world: World) -> None:
    world.write(Identity(f"{world.topic}-gone", 4_242, 0), 1, b"b")

    (found,) = world.found()
    assert (found["transactional_id"], found["state"], found["ended"]) == (None, None, "unknown")
    assert "4242.0" in world.ask("find-hanging", exit_code=1).stdout

    world.ask("repair", world.topic, "1", "--abort")

    assert world.visible() == []
    assert world.found() == []


def test_a_transaction_that_its_coordinator_will_end_hangs_nowhere(world: World) -> None:
    who = world.begin(world.topic)

    assert world.found() == []
    assert "nothing hangs in this partition" in world.ask("repair", world.topic, "0", "--abort", exit_code=2).output
    world.end(who, is_commit=True)
    assert world.visible() == ["a"]


def test_a_record_beside_the_open_transaction_of_its_producer_is_found(world: World) -> None:
    who = world.begin(world.topic)
    world.write(who, 1, b"b")

    (found,) = world.found()
    assert (found["partition"], found["state"], found["ended"]) == (1, "Ongoing", "unknown")
    assert "has another one open; stop it" in world.ask("repair", world.topic, "1", "--abort", exit_code=2).output
    world.end(who, is_commit=True)
    world.ask("repair", world.topic, "1", "--abort")
    assert world.visible() == ["a"]


def test_two_repairs_at_once_end_it_once(world: World) -> None:
    world.decide(world.leave_open(is_commit=True))

    def repaired(_: int) -> int:
        settings = {"bootstrap_servers": world.broker.address}
        with (
            closing(metadata.open_metadata(world.ledger)) as store,
            closing(KafkaProducers(settings)) as leaders,
            closing(Brokers(settings)) as brokers,
        ):
            with suppress(UsageError):  # the other one was first, and nothing hangs any more
                return len(hanging.repair(leaders, brokers, store, (world.topic, 1), is_commit=None))
            return 0

    with ThreadPoolExecutor(2) as pool:
        assert max(pool.map(repaired, range(2))) == 1

    assert world.visible() == ["a", "b"]
    assert world.found() == []
