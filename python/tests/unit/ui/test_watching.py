"""Who looks at the page shares the readings, and troubles name the command that mends them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from oncelog.errors import RetriableError
from oncelog.metrics import catalogue as c
from oncelog.metrics.reading import Holder, Reading
from oncelog.ui.tables import ROWS_SHOWN
from oncelog.ui.troubles import Commands, find_troubles
from oncelog.ui.view import view
from oncelog.ui.watching import LOOKED_AT_SECONDS, UNSEEN_SECONDS, Watcher

COMMANDS = Commands(("--path", "/data/log"))


def holder(name: str = "loader-0", state: str = "overdue", kind: str = "transaction", age: float = 100) -> Holder:
    return Holder(kind, name, 3 if kind == "round" else None, state, age, 60, ("t-0",), ("readers",))


def hanging(fate: str, partition: str = "t-0") -> Holder:
    return Holder("transaction", "loader-0", None, "hanging", 5, 0, (partition,), (), fate=fate)


def reading(*holders: Holder, lag: float = 0, batch: str = "undecided", age: float = 0) -> Reading:
    made = Reading([*c.LOG, *c.LEDGER])
    made.holders = list(holders)
    made.put(c.GROUP_LAG, lag, "readers", "t", 0)
    made.put(c.GROUP_LAG, lag, "readers", "t", 1)
    for state in ("undecided", "decided", "visible", "aborted"):
        made.put(c.BATCH_STATE, state == batch, "postgres", "copy", state)
    made.put(c.BATCH_ROUND, 7, "postgres", "copy")
    made.put(c.BATCH_UNDECIDED, age if batch == "undecided" else 0, "postgres", "copy")
    made.put(c.BATCH_INVISIBLE, age if batch == "decided" else 0, "postgres", "copy")
    return made


class Place:
    """What a watcher reads, and its clock."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.reads = 0
        self.answer: Callable[[], Reading] = reading
        self.watcher = Watcher(self.read, monotonic=lambda: self.seconds, wall_ms=lambda: int(self.seconds * 1000))

    def read(self) -> Reading:
        self.reads += 1
        return self.answer()

    def look(self, viewers: int = 1) -> None:
        self.seconds += UNSEEN_SECONDS
        self.watcher.look_if_due(viewers)


@pytest.mark.parametrize(("viewers", "between"), [(10, LOOKED_AT_SECONDS), (1, LOOKED_AT_SECONDS), (0, UNSEEN_SECONDS)])
def test_ten_viewers_cause_no_more_reads_than_one(viewers: int, between: float) -> None:
    place = Place()

    for _ in range(1000):  # of the loop, in each of which all viewers may have asked
        place.watcher.look_if_due(viewers)
        place.seconds += 0.125

    assert place.reads == 125 / between or place.reads == 125 // between + 1


def test_while_the_store_is_away_the_page_says_so_with_the_last_reading_and_its_time() -> None:
    place = Place()
    place.answer = lambda: reading(holder())
    place.look()
    read_ms = place.watcher.read_ms

    def away() -> Reading:
        raise RetriableError("the store is away")

    place.answer = away
    place.look()
    page = view(place.watcher, COMMANDS, "/data/log")

    assert page["problem"] == "RetriableError: the store is away"
    assert page["read_ms"] == read_ms
    assert len(page["troubles"]) == 1

    place.answer = reading
    place.look()
    assert view(place.watcher, COMMANDS, "/data/log")["problem"] is None


def test_a_read_that_takes_long_is_a_store_that_does_not_answer() -> None:
    place = Place()
    seen: list[str | None] = []

    def slow() -> Reading:
        seen.append(place.watcher.problem)
        place.seconds += 9
        seen.append(place.watcher.problem)
        return reading()

    place.look()
    place.answer = slow
    place.look()

    assert seen == [None, "the store has not answered for 9 s"]
    assert place.watcher.problem is None


def test_decisions_and_lags_are_remembered_from_the_second_reading_on() -> None:
    place = Place()
    answers = [
        reading(holder(state="open"), lag=1),
        reading(holder(state="decided"), lag=2, batch="decided"),
        reading(lag=3, batch="visible"),
    ]
    for one in answers:
        place.answer = lambda one=one: one  # type: ignore[misc]
        place.look()

    assert {what for _, what in place.watcher.history.events} == {
        "loader-0: decided",
        "loader-0: ended",
        "copy into postgres: round 7 is decided",
        "copy into postgres: round 7 is visible",
    }
    assert list(place.watcher.history.lags["readers"]) == [2, 4, 6]


def test_a_group_that_was_removed_is_forgotten() -> None:
    place = Place()
    place.look()
    place.answer = lambda: Reading([*c.LOG, *c.LEDGER])
    place.look()

    assert not place.watcher.history.lags
    assert not view(place.watcher, COMMANDS, "/data/log")["tables"][4]["rows"]


@pytest.mark.parametrize(
    ("seen", "command"),
    [
        (reading(holder()), "oncelog txn abort --path /data/log -- loader-0"),
        (reading(holder("-x; rm -rf ~")), "oncelog txn abort --path /data/log -- '-x; rm -rf ~'"),
        (reading(holder("two\nlines")), "oncelog txn find-hanging --path /data/log"),
        (reading(holder(kind="round")), "oncelog batch abort --path /data/log -- loader-0"),
        (reading(holder(state="prepared", age=901)), "oncelog txn describe --path /data/log -- loader-0"),
        (reading(holder(state="open", age=901)), "oncelog txn describe --path /data/log -- loader-0"),
        (reading(age=3601), "oncelog batch show --path /data/log -- copy"),
        (reading(age=301, batch="decided"), "oncelog batch show --path /data/log -- copy"),
    ],
)
def test_a_trouble_names_the_command_that_mends_it(seen: Reading, command: str) -> None:
    assert [one.command for one in find_troubles(seen, COMMANDS)] == [command]


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("postgres", "batch complete --target postgres --znodes /ledger -- copy"),
        ("kafka", "batch show --znodes /ledger -- copy"),
        ("log", "gc --znodes /ledger"),
    ],
)
def test_a_batch_that_is_not_visible_is_completed_by_what_its_target_has(target: str, command: str) -> None:
    seen = Reading([*c.LOG, *c.LEDGER])
    seen.put(c.BATCH_INVISIBLE, 301, target, "copy")

    assert [one.command for one in find_troubles(seen, Commands(("--znodes", "/ledger")))] == [f"oncelog {command}"]


@pytest.mark.parametrize(
    ("seen", "command"),
    [
        (replace(holder(), abort=("prefix", "p q")), "txn abort --brokers h1:9092 '--prefix=p q'"),
        (replace(holder(), abort=("transactional-id", "-x")), "txn abort --brokers h1:9092 --transactional-id=-x"),
        (replace(holder(), abort=("prefix", "two\nlines")), "txn find-hanging --brokers h1:9092"),
        (hanging("committed"), "txn repair --brokers h1:9092 --partition=t-0"),
        (hanging("aborted"), "txn repair --brokers h1:9092 --partition=t-0"),
        (hanging("unknown"), "txn repair --dry-run --brokers h1:9092 --partition=t-0"),
        (hanging("running"), "txn find-hanging --brokers h1:9092"),
        (hanging("committed", "-x; rm -rf ~-0"), "txn repair --brokers h1:9092 '--partition=-x; rm -rf ~-0'"),
        (hanging("committed", "\u202egnp.exe-0"), ""),
    ],
)
def test_a_transaction_of_kafka_that_nobody_ends_is_repaired_where_it_hangs(seen: Holder, command: str) -> None:
    commands = Commands(("--brokers", "h1:9092"), ("kafka",))

    (found,) = find_troubles(reading(seen), commands)

    assert found.command == (f"oncelog kafka {command}" if command else "")


def test_a_batch_of_kafka_is_looked_at_with_its_participants() -> None:
    seen = reading(age=301, batch="decided")
    (found,) = find_troubles(seen, Commands(("--brokers", "h1:9092"), ("kafka",)))
    assert found.command == "oncelog kafka batch show --brokers h1:9092 -- copy"


def test_what_is_young_or_decided_is_no_trouble() -> None:
    seen = reading(holder(state="open"), holder(state="decided", age=10**6), holder(state="prepared"), age=299)
    assert find_troubles(seen, COMMANDS) == []


def test_a_large_place_is_cut_and_counted_and_the_filter_looks_at_all_of_it() -> None:
    place = Place()

    def large() -> Reading:
        made = reading(*(holder(f"id-{number}", "open") for number in range(5000)))
        for number in range(1000):
            made.put(c.LOG_START, 0, "big", number)
            made.put(c.LAST_STABLE, 10 if number != 777 else 4, "big", number)
            made.put(c.LOG_END, 10, "big", number)
        return made

    place.answer = large
    place.look()
    whole = view(place.watcher, COMMANDS, "/data/log")
    partitions, transactions = whole["tables"][:2]

    assert (partitions["total"], len(partitions["rows"])) == (1000, ROWS_SHOWN)
    assert partitions["rows"][0][0] == "big-777"  # what is held comes first
    assert (transactions["total"], len(transactions["rows"])) == (5000, ROWS_SHOWN)
    assert len(json.dumps(whole)) < 200_000
    found = view(place.watcher, COMMANDS, "/data/log", "BIG-999")["tables"][0]
    assert (found["total"], found["matching"], found["rows"][0][0]) == (1000, 1, "big-999")
