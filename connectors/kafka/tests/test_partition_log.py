"""The metadata store in a Kafka partition, on a real broker: its contract, and what only a topic can do to it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import oncelog
from oncelog.errors import CorruptDataError, InvalidOptionError, OutcomeUnknownError, StoreAccessError, UsageError
from oncelog.limits import RECENT_MS
from oncelog.ports import Create, Timing, ZnodeStore
from oncelog.testing import invariants
from oncelog.testing.kafka_broker import running_broker
from oncelog.testing.znode_store_contract import (
    AtomicReadsContract,
    ManyProcessesContract,
    StoreWorld,
    ZnodeStoreContract,
)
from oncelog.testing.znode_store_contract.worlds import increment, number_at
from oncelog.znodes.replicated import snapshot, store
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog.znodes.schemes import Place
from oncelog_kafka.control.requests import ControlRequests
from oncelog_kafka.ledger import ledger_store
from oncelog_kafka.ledger.ledger_store import Settings, opened
from oncelog_kafka.options.admin_settings import JavaClient
from tests.support.log.logs import started, values, write_committed
from tests.support.servers.kafka import KafkaBroker, fresh_name, require_shims

pytestmark = pytest.mark.sampled("a ledger's topic")


class PartitionWorld(StoreWorld):
    broker: KafkaBroker

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.topic = fresh_name("ledger")

    @property
    def settings(self) -> Settings:
        return {"bootstrap_servers": [self.broker.address]}

    def open(self, timing: Timing) -> ZnodeStore:
        ledger_store.store(self.settings, self.topic, create=True).close()
        return ReplicatedZnodeStore(partial(opened, self.settings, self.topic), timing, recent_ms=RECENT_MS)


class JavasWorld(PartitionWorld):
    @property
    def settings(self) -> Settings:
        return JavaClient({"bootstrap.servers": self.broker.address})


@pytest.fixture(autouse=True)
def _kept_short(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """With snapshots and trims between any few entries: whoever is behind starts again."""
    monkeypatch.setattr(PartitionWorld, "broker", kafka, raising=False)
    monkeypatch.setattr(store, "SAVED_EVERY", 7)
    monkeypatch.setattr(snapshot, "PART_BYTES", 100)


@pytest.fixture(scope="module")
def _java(kafka: KafkaBroker) -> Iterator[None]:
    """Java's client, which takes a second to start, runs all the time."""
    require_shims()
    with closing(ControlRequests(JavaClient({"bootstrap.servers": kafka.address}))):
        yield


@pytest.fixture(params=[PartitionWorld, JavasWorld], ids=["kafka-python", "java"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PartitionWorld]:
    """Each of the driver's clients."""
    if request.param is JavasWorld:
        require_shims()
    found = request.param(tmp_path)
    yield found
    found.close()


@pytest.mark.walk("a Kafka partition keeps znodes")
class TestPartitionStore(ZnodeStoreContract, AtomicReadsContract, ManyProcessesContract):
    world_class = PartitionWorld


@pytest.mark.walk("a Kafka partition keeps znodes, asked by Java's client")
@pytest.mark.usefixtures("_java")
class TestJavasPartitionStore(ZnodeStoreContract, AtomicReadsContract, ManyProcessesContract):
    world_class = JavasWorld


def test_what_one_client_wrote_another_reads_though_most_of_the_log_was_trimmed(world: PartitionWorld) -> None:
    writer, behind = world.client(), world.client()
    for number in range(50):
        writer.multi([Create(f"/{number:02}", b"%d" % number)])

    with closing(opened(world.settings, world.topic)) as log:
        assert log.start() > 20
    for reader in (behind, world.client()):
        assert [znode.data for _, znode in reader.children_data("/")] == [b"%d" % number for number in range(50)]


def test_the_topic_is_made_with_what_the_log_needs_and_another_one_is_refused(world: PartitionWorld) -> None:
    with pytest.raises(UsageError, match="there is no such topic"):
        opened(world.settings, world.topic)
    world.client()
    opened(world.settings, world.topic).close()

    wrong = world.broker.create_topic(fresh_name("wrong"), cleanup_policy="compact", retention_ms="-1")
    with pytest.raises(StoreAccessError, match="would lose entries") as refused:
        ledger_store.store(world.settings, wrong, create=True)
    assert refused.value.fields["found"] == {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}


def test_a_log_whose_metadata_is_in_a_topic_is_used_as_any_other(world: PartitionWorld, tmp_path: Path) -> None:
    znodes = f"kafka://{world.broker.address}/{world.topic}"
    with oncelog.open(tmp_path / "log", znodes=znodes) as log:
        log.create_topic("flights", partitions=2)
        with started(log, "loader") as producer:
            write_committed(producer, b"a", b"b")
            write_committed(producer, b"c", b"d")
        assert values(log) == [b"a", b"b", b"c", b"d"]
        invariants.check(log)


@pytest.mark.parametrize(
    "url", ["kafka:", "kafka://h1/ledger", "kafka://h1:9092", "kafka://u:p@h1:9092/t", "kafka://h1:9092/a b"]
)
def test_a_url_that_names_no_topic_is_refused(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="not the URL of a topic"):
        Place.of(url, "/data/log")


def test_a_topic_that_was_created_again_is_not_taken_for_the_one_that_was_opened(world: PartitionWorld) -> None:
    client = world.client()
    client.multi([Create("/written")])
    world.broker.delete_topic(world.topic)
    ledger_store.store(world.settings, world.topic, create=True).close()

    with pytest.raises(CorruptDataError, match="created again"):
        client.get("/written")


@pytest.mark.walk
def test_what_is_acknowledged_while_the_broker_is_killed_again_and_again_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_broker(tmp_path / "broker") as broker, ThreadPoolExecutor() as pool:
        monkeypatch.setattr(PartitionWorld, "broker", broker)
        world = PartitionWorld(tmp_path)
        world.client().multi([Create("/counter", b"0")])
        writers = [pool.submit(count_up, world.client(), 150) for _ in range(2)]
        for _ in range(3):
            broker.restart()
        unknown = sum(writer.result() for writer in writers)

        assert 300 <= number_at(world.client()) <= 300 + unknown
        world.close()


def count_up(client: ZnodeStore, times: int) -> int:
    """Returns how often the outcome of a step stayed unknown, because the broker was away for so long."""
    unknown = 0
    while times:
        try:
            client.transact(increment)
            times -= 1
        except OutcomeUnknownError:
            unknown += 1
    return unknown
