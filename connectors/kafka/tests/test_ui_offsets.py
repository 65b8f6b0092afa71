"""What the page of a cluster reads of partitions and groups, and what it says that it left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing

import pytest

from oncelog.metrics import catalogue as c
from oncelog.metrics.reading import Holder, Reading
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.brokers.overview import Ends
from oncelog_kafka.operations import ui_source
from oncelog_kafka.operations.metrics import KafkaSource
from oncelog_kafka.operations.repair import Search
from oncelog_kafka.operations.ui_source import (
    SEARCH_SECONDS,
    ClusterSource,
    HangSearch,
    Offsets,
    TopicPartition,
    read_offsets,
)
from oncelog_kafka.protocol.hanging import NotAsked
from tests.support.servers.kafka import KafkaBroker


class Cluster:
    """A cluster of one broker, some of whose partitions have no leader."""

    def __init__(self) -> None:
        self.all = {("t", 0): Ends(5, 9), ("t", 1): Ends(7, 7), ("u", 0): Ends(3, 3), ("__internal", 0): Ends(1, 1)}
        self.all["oncelog-ledger", 0] = Ends(8, 8)
        self.leaderless: set[TopicPartition] = set()
        self.offsets: dict[str, dict[TopicPartition, int]] = {
            "a": {("t", 0): 2, ("t", 1): 7, ("deleted", 0): 1},
            "b": {("u", 0): 4},
            "none": {},
            "oncelog-copy-0": {("t", 0): 1},
            "oncelog-batch-write.5f-12": {("t", 0): 0},  # of a batch write, whose ledger is gone
        }
        self.asked: list[TopicPartition] = []

    def leaders(self) -> dict[TopicPartition, int]:
        return {one: -1 if one in self.leaderless else 1 for one in self.all}

    def ends(self, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, Ends]:
        self.asked = sorted(leaders)
        return {one: self.all[one] for one, leader in leaders.items() if leader >= 0}

    def groups(self) -> list[str]:
        return sorted(self.offsets)

    def committed(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
        return {group: self.offsets.get(group, {}) for group in groups}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def read(cluster: Cluster, search: HangSearch | None = None, **names: list[str]) -> Reading:
    reading = Reading(ClusterSource.metrics)
    reading.queries["kafka", "copy"] = "query"
    reading.holders = [Holder("transaction", "id", None, "open", 1, 60, ("__internal-0",), ())]
    read_offsets(reading, Offsets(cluster, search or HangSearch(lambda _: Search((), ())), **names))
    return reading


def lags(reading: Reading) -> dict[str, float]:
    found: dict[str, float] = {}
    for (group, *_), lag in reading.values[c.GROUP_LAG].items():
        found[group] = found.get(group, 0) + lag
    return found


def test_groups_lag_to_the_last_stable_offset_and_those_with_tokens_are_no_readers(cluster: Cluster) -> None:
    """Offsets of deleted topics are no lag; one beyond the end is none, either."""
    assert lags(read(cluster)) == {"a": 3, "b": 0}


def test_internal_topics_are_read_only_where_they_are_held(cluster: Cluster) -> None:
    reading = read(cluster)
    assert set(reading.values[c.LAST_STABLE]) == {("t", "0"), ("t", "1"), ("u", "0"), ("__internal", "0")}
    assert reading.notes == {}


def test_what_has_no_leader_is_left_out_with_the_lag_of_its_groups(cluster: Cluster) -> None:
    """A part of a lag would be read as the whole."""
    cluster.leaderless = {("t", 1)}
    reading = read(cluster)

    assert ("t", "1") not in reading.values[c.LAST_STABLE]
    assert lags(reading) == {"b": 0}


def test_a_large_cluster_is_read_in_part_what_is_held_first_and_says_so(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui_source, "PARTITIONS_MOST", 2)
    monkeypatch.setattr(ui_source, "GROUPS_MOST", 1)
    reading = read(cluster)

    assert set(reading.values[c.LAST_STABLE]) == {("__internal", "0"), ("t", "0")}
    assert lags(reading) == {"a": 3}  # whole, also of partitions that are not shown
    assert reading.notes["Partitions"].startswith("2 more partitions are not read")
    assert reading.notes["Groups"].startswith("2 more groups are not read")


def test_named_topics_and_groups_are_read_alone_beside_what_is_held(cluster: Cluster) -> None:
    reading = read(cluster, topics=["u"], groups=["b"])
    assert cluster.asked == [("__internal", 0), ("u", 0)]
    assert lags(reading) == {"b": 0}
    assert reading.notes == {}
    assert lags(read(cluster, groups=["oncelog-copy-0"])) == {"oncelog-copy-0": 4}
    named = read(cluster, topics=["oncelog-ledger"])
    assert ("oncelog-ledger", "0") in named.values[c.LAST_STABLE]


def test_a_leader_that_does_not_say_who_holds_a_partition_is_named(cluster: Cluster) -> None:
    now = iter([0, SEARCH_SECONDS])
    search = HangSearch(lambda _: Search((), [NotAsked("t", 0, "TOPIC_AUTHORIZATION_FAILED")]), lambda: next(now))
    read(cluster, search)
    note = read(cluster, search).notes["Partitions"]
    assert note == "Who holds these was not said: t-0 (TOPIC_AUTHORIZATION_FAILED); 1 in all."


def test_a_login_for_javas_client_only_leaves_offsets_out_and_says_how_to_get_them(kafka: KafkaBroker) -> None:
    with ExitStack() as stack:
        brokers = stack.enter_context(closing(Brokers({"bootstrap_servers": kafka.address})))
        reading = ClusterSource(KafkaSource(brokers, None), None, stack).read()
    assert "admin.sasl_mechanism" in reading.notes["Partitions"]
    assert reading.notes["Partitions"] == reading.notes["Groups"]
