"""When leaders are asked by whom a partition is held: only where readers have stood still, and now and then."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from oncelog_kafka.operations.repair import Search
from oncelog_kafka.operations.ui_source import SEARCH_SECONDS, HangSearch, TopicPartition
from oncelog_kafka.protocol.hanging import Hang, NotAsked, Verdict

A, B = ("topic", 0), ("topic", 1)
HANG = Hang(*A, 7, 4, 30, 1_000, "id", "CompleteCommit", None, Verdict.COMMITTED, "because")


class Leaders:
    """Whoever is asked, and the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[set[TopicPartition]] = []
        self.search = HangSearch(self.find, lambda: self.now)

    def find(self, partitions: Collection[TopicPartition]) -> Search:
        self.asked.append(set(partitions))
        return Search([HANG] if A in partitions else [], [NotAsked(*B, "LEADER_NOT_AVAILABLE")])

    def look(self, held: dict[TopicPartition, int]) -> Search:
        self.now += SEARCH_SECONDS
        return self.search.look(held)


def test_leaders_are_asked_only_where_nothing_has_moved() -> None:
    leaders = Leaders()

    assert not leaders.look({A: 30, B: 5}).hangs
    assert list(leaders.look({A: 30, B: 6}).hangs) == [HANG]
    assert not leaders.look({}).hangs

    assert leaders.asked == [{A}]


def test_a_hundred_looks_at_what_stands_still_ask_no_more_than_now_and_then() -> None:
    leaders = Leaders()
    for _ in range(100):
        leaders.search.look({A: 30})
        leaders.now += SEARCH_SECONDS / 50
    assert leaders.asked == [{A}]


@pytest.mark.parametrize(("held", "is_shown"), [({A: 30}, True), ({A: 10}, True), ({A: 31}, False), ({B: 30}, False)])
def test_what_was_found_is_shown_until_readers_are_beyond_it(held: dict[TopicPartition, int], is_shown: bool) -> None:
    leaders = Leaders()
    leaders.look({A: 30})
    leaders.look({A: 30})

    found = leaders.search.look(held)

    assert list(found.hangs) == ([HANG] if is_shown else [])
    assert len(found.not_asked) == (B in held)
