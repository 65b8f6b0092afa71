"""How often an exporter asks the partitions for transactions that nobody ends, and what it says of them meanwhile."""

from __future__ import annotations

import logging
from contextlib import closing

import pytest

from oncelog.errors import OncelogError
from oncelog.metrics.reading import Reading
from oncelog.znodes.clock import SystemClock
from oncelog_kafka.errors import BrokerUnavailableError
from oncelog_kafka.operations.left_open import (
    AGAIN_MS,
    ASKED,
    EVERY_MS,
    LEFT_OPEN,
    NOT_ASKED,
    PARTITIONS,
    LeftOpen,
    Partitions,
)
from oncelog_kafka.operations.repair import Search
from oncelog_kafka.protocol.hanging import Hang, NotAsked, Verdict

HANG = Hang("topic", 1, 7, 0, 0, 0, None, None, None, Verdict.COMMITTED, "")
SOUND, HANGS = Search((), ()), Search((HANG,), (NotAsked("topic", 2, "LEADER_NOT_AVAILABLE"),))


class HandClock(SystemClock):
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.at_ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.at_ms

    def now_ms(self) -> int:
        return self.at_ms


class Searched:
    """Searches whose ends are foreseen, and what they were asked."""

    def __init__(self, *ends: Search | OncelogError) -> None:
        self.clock = HandClock()
        self.asked: list[Partitions] = []
        self._ends = iter(ends)
        self.left_open = LeftOpen(self._search, clock=self.clock)

    def _search(self, partitions: Partitions) -> Search:
        self.asked.append(partitions)
        end = next(self._ends)
        if isinstance(end, OncelogError):
            raise end
        return end

    def later(self, milliseconds: int) -> Reading:
        """What is read then, and once more when a search that began then is over."""
        self.clock.at_ms += milliseconds
        self.left_open.read(Reading(PARTITIONS))
        if self.left_open._running is not None:
            self.left_open._running.exception()
        reading = Reading(PARTITIONS)
        self.left_open.read(reading)
        return reading


def counts(reading: Reading) -> dict[str, float]:
    return {verdict: count for (verdict,), count in reading.values[LEFT_OPEN].items() if count}


def test_a_sound_cluster_is_asked_as_rarely_as_the_option_says() -> None:
    world = Searched(SOUND, SOUND)
    with closing(world.left_open):
        first = world.later(0)
        world.later(EVERY_MS - 1)
        assert world.asked == [None]
        world.later(1)

    assert world.asked == [None, None]
    assert dict(first.values[LEFT_OPEN]) == {(verdict.value,): 0 for verdict in Verdict}
    assert (first.values[NOT_ASKED], first.values[ASKED]) == ({(): 0}, {(): 1000})


def test_where_something_hangs_is_asked_again_soon_and_nowhere_else() -> None:
    world = Searched(HANGS, HANGS, SOUND, SOUND)
    with closing(world.left_open):
        found = [counts(world.later(0)), counts(world.later(AGAIN_MS - 1)), counts(world.later(1))]
        after = world.later(AGAIN_MS)
        world.later(EVERY_MS - 2 * AGAIN_MS)

    assert found == [{"committed": 1}] * 3
    assert counts(after) == {}
    assert after.values[NOT_ASKED] == {(): 1}  # as the last search of all partitions said
    assert world.asked == [None, {("topic", 1)}, {("topic", 1)}, None]


def test_a_search_that_failed_leaves_no_value_and_is_repeated_soon(caplog: pytest.LogCaptureFixture) -> None:
    world = Searched(HANGS, BrokerUnavailableError("the brokers are away"), SOUND)
    with closing(world.left_open), caplog.at_level(logging.WARNING):
        world.later(0)
        failed = world.later(AGAIN_MS)
        after = world.later(AGAIN_MS)

    assert failed.values[LEFT_OPEN] == {}
    assert "the brokers are away" in caplog.text
    assert dict(after.values[LEFT_OPEN]) == {(verdict.value,): 0 for verdict in Verdict}
    assert world.asked == [None, {("topic", 1)}, None]


def test_an_exporter_that_is_opened_again_asks_no_more_often_and_knows_what_was_found() -> None:
    world = Searched(HANGS, SOUND)
    world.later(0)
    world.left_open.close()

    assert counts(world.later(1)) == {"committed": 1}
    assert world.asked == [None]
    assert counts(world.later(AGAIN_MS)) == {}
    world.left_open.close()
