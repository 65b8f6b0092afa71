"""Others change the settings of a ledger's topic while it is used: nothing is decided twice, or upon another ledger."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from driven_batches import FIRST, SECOND, World
from oncelog.crash_points import CrashPoint
from oncelog.errors import CorruptDataError, StoreAccessError
from oncelog.ports import Create, ZnodeStore
from oncelog.testing.kafka_broker import running_broker
from oncelog.testing.target_contract import at
from oncelog.znodes.replicated import store
from oncelog_kafka.errors import BrokerAccessError
from oncelog_kafka.ledger.ledger_store import open_ledger, requests_of
from oncelog_kafka.ledger.ledger_topic import NEEDED, RIGHTS, RIGHTS_TO_READ
from oncelog_kafka.protocol.ports import Fetched
from tests.support.connectors.kafka_sink import numbered
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name

THIRD = numbered(20, first=40)


class Topic:
    """A ledger's topic that others change."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.name = fresh_name("ledger")
        self._broker = broker
        self.settings = {"bootstrap_servers": [broker.address]}

    def open(self, rights: Sequence[str] = RIGHTS) -> ZnodeStore:
        return open_ledger(self.settings, self.name, create="WRITE" in rights, rights=rights)

    def set(self, **settings: str) -> None:
        """Change settings, and wait until the broker goes by them."""
        configs = {name.replace("_", "."): value for name, value in settings.items()}
        with self._broker.admin() as admin, closing(requests_of(self.settings)) as requests:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, self.name, configs)])
            until(lambda: configs.items() <= requests.settings_of(self.name).items())
        time.sleep(0.2)  # the partition's log follows what the broker says of itself

    def correct(self) -> None:
        self.set(**{name.replace(".", "_"): value for name, value in NEEDED.items()})

    def read(self) -> Fetched:
        """The topic from its beginning, or what is left of it."""
        with closing(requests_of(self.settings)) as requests:
            found = requests.fetch(self.name, requests.earliest(self.name))
        assert isinstance(found, Fetched), found
        return found

    def lose_all(self) -> None:
        """Let retention remove every entry."""
        end = self.read().high_watermark
        self.set(retention_ms="1")
        with closing(requests_of(self.settings)) as requests:
            until(lambda: requests.earliest(self.name) >= end)


@pytest.fixture
def topic(kafka: KafkaBroker) -> Topic:
    return Topic(kafka)


@pytest.fixture
def client(topic: Topic) -> Iterator[ZnodeStore]:
    with closing(topic.open()) as found:
        found.multi([Create("/a")])
        yield found


def test_a_compacted_topic_takes_no_entry_until_it_is_corrected(topic: Topic, client: ZnodeStore) -> None:
    before = client.children("/")
    topic.set(cleanup_policy="compact")
    with pytest.raises(BrokerAccessError, match="had its topic compacted") as refused:
        client.multi([Create("/b")])
    assert refused.value.fields["topic"] == topic.name
    assert client.children("/") == before
    with pytest.raises(StoreAccessError, match=r"correct them with kafka-configs\.sh"):
        topic.open()

    topic.correct()
    client.multi([Create("/b")])
    with closing(topic.open()) as another:
        assert another.children("/") == client.children("/")


def test_who_has_not_read_what_retention_removed_stops(topic: Topic, client: ZnodeStore) -> None:
    with closing(topic.open()) as ahead:
        ahead.multi([Create("/b")])
        topic.lose_all()

        with pytest.raises(CorruptDataError, match="no whole snapshot"):
            client.children("/")
        ahead.multi([Create("/c")])
        with pytest.raises(CorruptDataError, match="no whole snapshot"):
            client.multi([Create("/b")])


def test_a_topic_that_takes_no_snapshot_fails_no_step_and_is_refused_where_a_sink_starts(
    topic: Topic, client: ZnodeStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "SAVED_EVERY", 3)
    client.multi([Create("/large", Random(1).randbytes(50_000))])
    topic.set(max_message_bytes="20000")
    for number in range(6):
        client.multi([Create(f"/{number}")])
    assert "raise it with kafka-configs.sh" in caplog.text

    with pytest.raises(StoreAccessError, match=r"raise max\.message\.bytes") as refused:
        topic.open()
    assert refused.value.fields["found"] == 20_000
    with closing(topic.open(rights=RIGHTS_TO_READ)) as reader:
        assert reader.children("/") == client.children("/")
    topic.set(max_message_bytes="1000000")
    client.multi([Create("/7")])
    with closing(topic.open()) as another:
        assert another.children("/") == client.children("/")


def test_a_topic_that_oncelog_creates_has_all_settings_whatever_the_clusters_are(
    topic: Topic, client: ZnodeStore
) -> None:
    with closing(requests_of(topic.settings)) as requests:
        found = requests.settings_of(topic.name)
    assert found["max.message.bytes"] == "1048588"
    assert NEEDED.items() <= found.items()


@pytest.mark.walk("others change a ledger's topic")
def test_what_compaction_left_of_a_topic_is_no_ledger_and_who_has_read_it_all_goes_on(tmp_path: Path) -> None:
    with running_broker(tmp_path / "broker", settings={"log.cleaner.backoff.ms": "200"}) as broker:
        topic = Topic(broker)
        with closing(topic.open()) as client:
            topic.set(segment_ms="1", min_cleanable_dirty_ratio="0.0", max_compaction_lag_ms="1")
            for number in range(6):
                client.multi([Create(f"/{number}")])
            topic.set(cleanup_policy="compact")
            until(lambda: not any(batch.records for batch in topic.read().batches))
            topic.correct()

            with pytest.raises(CorruptDataError, match="compacted for a while"):
                topic.open()
            client.multi([Create("/6")])
            assert {str(number) for number in range(7)} <= set(client.children("/"))


# A sink that is under way ---------------------------------------------------------------------------------------------


@pytest.fixture
def sink(world: World, topic: Topic) -> World:
    """A sink with its ledger in the topic."""
    world.store.close()
    world.store = topic.open()
    return world


def restarted(sink: World, topic: Topic) -> None:
    """Another driver goes on, with all that it knows from the topic."""
    sink.store.close()
    sink.store = topic.open()


def test_a_batch_that_cannot_be_decided_in_a_compacted_topic_is_not_and_is_written_once_later(
    sink: World, topic: Topic
) -> None:
    compacted = partial(topic.set, cleanup_policy="compact")
    with (
        at(CrashPoint.ROUND_DECIDE, compacted),
        pytest.raises(BrokerAccessError, match=r"set cleanup\.policy to delete"),
    ):
        sink.run(0, FIRST)
    assert sink.values() == []

    topic.correct()
    restarted(sink, topic)
    assert not sink.run(0, FIRST, run="run-2").is_replay
    assert sink.values() == FIRST


def test_a_sink_goes_on_with_the_times_of_its_driver_which_no_other_begins_with(sink: World, topic: Topic) -> None:
    with at(CrashPoint.ROUND_DECIDE, partial(topic.set, message_timestamp_type="CreateTime")):
        sink.run(0, FIRST)
    sink.run(1, SECOND)
    with pytest.raises(StoreAccessError, match="correct them"):
        topic.open()

    topic.correct()
    restarted(sink, topic)
    assert sink.run(1, SECOND, run="run-2").is_replay
    assert sink.values() == [*FIRST, *SECOND]


def test_a_sink_goes_on_though_retention_removes_its_ledger_and_no_other_begins_upon_what_is_left(
    sink: World, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(CrashPoint.ROUND_DECIDE, topic.lose_all):
        sink.run(0, FIRST)
    sink.run(1, SECOND)
    with pytest.raises(StoreAccessError, match="would lose entries"):
        topic.open()
    topic.correct()
    with pytest.raises(CorruptDataError, match="no whole snapshot"):
        topic.open()

    monkeypatch.setattr(store, "SAVED_EVERY", 1)
    sink.run(2, THIRD)
    restarted(sink, topic)
    assert sink.run(2, THIRD, run="run-2").is_replay
    assert sink.values() == [*FIRST, *SECOND, *THIRD]
