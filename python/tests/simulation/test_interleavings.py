"""Every interleaving of a small log: two partitions, two transactions, a settler and a reader, znode by znode.

Transaction A may write both partitions and B one of them; either may commit or abort at any time after its first
record. Reader and settler read one znode per step, and the settler settles one partition per step. Both go round twice:
a plan is compared with the one before, and a settler meets what an earlier run left.

Writers, reader and settler move by looking at the log and at themselves, so what one of them does is worked out once
for each pair, and a state of the whole is three small numbers. The search visits every state once, breadth first: a
broken law comes with one of the shortest histories that break it.

``HYPOTHESIS_PROFILE=deep`` lets B write both partitions too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

import pytest

from oncelog.types import Outcome, ProducerIdAndEpoch
from tests.parts import is_deep
from tests.properties.visibility_faults import FAULTS
from tests.properties.visibility_model import BACKWARDS, ROWS, TORN, UNDECIDED, Shown, broken_by, goes_back
from tests.properties.visibility_world import SOUND, Log, Reading, Scheme, Settling, read_rows

T = TypeVar("T")

PARTITIONS = (0, 1)
RECORDS = {"A": 2, "B": 2 if is_deep() else 1}
"""The transactions, and how many records each may write: one at most to a partition."""
PLANS = 2
SETTLINGS = 2


# What may happen ------------------------------------------------------------------------------------------------------


def writer_moves(log: Log) -> Iterator[tuple[str, Log]]:
    ended = {decision.owner for decision in log.truth.decisions}
    for name in sorted(RECORDS.keys() - ended):
        written = [partition for partition in PARTITIONS if log.truth.offsets_of(name, partition)]
        for partition in PARTITIONS:
            if partition not in written and len(written) < RECORDS[name]:
                yield f"{name} writes to {partition}", log.written(partition, name, ProducerIdAndEpoch(ord(name), 0))
        if written:
            yield f"{name} commits", log.decided(name, Outcome.COMMIT)
            yield f"{name} aborts", log.decided(name, Outcome.ABORT)


class Reader(NamedTuple):
    """A reader that plans again and again."""

    reading: Reading = Reading(PARTITIONS)
    plans: tuple[Shown, ...] = ()


def reader_moves(log: Log, reader: Reader, scheme: Scheme) -> Iterator[tuple[str, Reader]]:
    if len(reader.plans) == PLANS:
        return
    reading = reader.reading.step(log, scheme)
    if not reading.is_done():
        yield "the reader reads", Reader(reading, reader.plans)
    elif reading.must_start_over(scheme):
        yield "the reader starts over", Reader(plans=reader.plans)
    else:
        yield "the reader plans", Reader(plans=(*reader.plans, reading.shown(scheme)))


class Settler(NamedTuple):
    """A settler at work, or between two runs."""

    work: Reading | Settling | None = None
    runs: int = 0


def settler_moves(log: Log, settler: Settler, scheme: Scheme) -> Iterator[tuple[str, Log, Settler]]:
    work, runs = settler
    if isinstance(work, Settling):
        log, following = work.step(log, scheme)
        yield "the settler settles", log, Settler(following, runs)
        return
    if work is None and runs == SETTLINGS:
        return
    for partition in PARTITIONS if work is None else work.wanted:
        begun = work or Reading((partition,), with_neighbours=scheme.settles_neighbours)
        reading = begun.step(log, scheme)
        following = Settling.of(reading, scheme) if reading.is_done() else reading
        yield f"the settler of {partition} reads", log, Settler(following, runs + (work is None))


# The laws -------------------------------------------------------------------------------------------------------------


def laws_of_plan(log: Log, before: Reader, after: Reader) -> list[str]:
    """The laws that the reader's newest plan breaks."""
    if len(after.plans) == len(before.plans):
        return []
    newest = after.plans[-1]
    backwards = [BACKWARDS for earlier in before.plans if goes_back(earlier, newest)]
    return [*broken_by(newest, log.truth), *backwards]


def laws_of_rows(log: Log, reader: Reader) -> list[str]:
    """The law that breaks when the rows of the newest plan are not, or no longer, the right ones."""
    ends = reader.plans[-1].ends if reader.plans else {}
    return [ROWS for p, end in ends.items() if read_rows(log, p, end) != log.truth.rows(p, 0, end)]


# The search -----------------------------------------------------------------------------------------------------------


class Numbers(Generic[T]):
    """Values by number; those of equal identity have the same number."""

    def __init__(self, identity: Callable[[T], Hashable]) -> None:
        self._identity = identity
        self._numbers: dict[Hashable, int] = {}
        self._values: list[T] = []

    def of(self, value: T) -> int:
        number = self._numbers.setdefault(self._identity(value), len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return number

    def __getitem__(self, number: int) -> T:
        return self._values[number]


def identity_of_log(log: Log) -> Hashable:
    return log.commits, log.partitions, log.indexes, frozenset(log.owners.items()), log.truth.decisions


def identity_of_reading(reading: Reading) -> Hashable:
    return reading.wanted, reading.zxid, tuple(reading.partitions.items()), tuple(reading.owners.items())


def identity_of_reader(reader: Reader) -> Hashable:
    return identity_of_reading(reader.reading), tuple(tuple(plan.ends.values()) for plan in reader.plans)


def identity_of_settler(settler: Settler) -> Hashable:
    work = settler.work
    return settler.runs, identity_of_reading(work) if isinstance(work, Reading) else work


class Place(NamedTuple):
    """A state of the whole, by numbers."""

    log: int
    reader: int
    settler: int


class Move(NamedTuple):
    """What happens, where it leads, and the laws that it breaks."""

    name: str
    after: Place
    laws: tuple[str, ...]


class World:
    """All that may happen under one scheme; what a part does is worked out once."""

    def __init__(self, scheme: Scheme) -> None:
        self._logs, self._readers = Numbers(identity_of_log), Numbers(identity_of_reader)
        self._settlers = Numbers(identity_of_settler)
        self.start = Place(
            self._logs.of(Log.empty(len(PARTITIONS))), self._readers.of(Reader()), self._settlers.of(Settler())
        )
        self._scheme = scheme
        self._writing: dict[int, list[tuple[str, int]]] = {}
        self._reading: dict[tuple[int, int], list[tuple[str, int, tuple[str, ...]]]] = {}
        self._settling: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
        self._rows: dict[tuple[int, int], tuple[str, ...]] = {}

    def moves(self, place: Place) -> Iterator[Move]:
        log, reader, settler = place
        for name, log_after in self._writes(log):
            yield Move(name, Place(log_after, reader, settler), self._broken_rows(log_after, reader))
        for name, reader_after, laws in self._reads(log, reader):
            yield Move(name, Place(log, reader_after, settler), laws)
        for name, log_after, settler_after in self._settles(log, settler):
            yield Move(name, Place(log_after, reader, settler_after), self._broken_rows(log_after, reader))

    def _writes(self, log: int) -> list[tuple[str, int]]:
        if log not in self._writing:
            self._writing[log] = [(name, self._logs.of(after)) for name, after in writer_moves(self._logs[log])]
        return self._writing[log]

    def _reads(self, log: int, reader: int) -> list[tuple[str, int, tuple[str, ...]]]:
        if (log, reader) not in self._reading:
            whole, before = self._logs[log], self._readers[reader]
            self._reading[log, reader] = [
                (name, self._readers.of(after), (*laws_of_plan(whole, before, after), *laws_of_rows(whole, after)))
                for name, after in reader_moves(whole, before, self._scheme)
            ]
        return self._reading[log, reader]

    def _settles(self, log: int, settler: int) -> list[tuple[str, int, int]]:
        if (log, settler) not in self._settling:
            moves = settler_moves(self._logs[log], self._settlers[settler], self._scheme)
            self._settling[log, settler] = [
                (name, self._logs.of(log_after), self._settlers.of(after)) for name, log_after, after in moves
            ]
        return self._settling[log, settler]

    def _broken_rows(self, log: int, reader: int) -> tuple[str, ...]:
        if (log, reader) not in self._rows:
            self._rows[log, reader] = tuple(laws_of_rows(self._logs[log], self._readers[reader]))
        return self._rows[log, reader]


class Result(NamedTuple):
    """How many states were visited, and a shortest history for each law that was broken."""

    states: int
    broken: dict[str, list[str]]


def search(scheme: Scheme = SOUND, *, until: str | None = None) -> Result:
    """Visit every state that can be reached, or as many as it takes to break the law `until`."""
    world = World(scheme)
    came_from: dict[Place, Place | None] = {world.start: None}
    broken: dict[str, list[str]] = {}
    frontier = [world.start]
    while frontier and until not in broken:
        following = []
        for place in frontier:
            for name, after, laws in world.moves(place):
                for law in laws:
                    if law not in broken:
                        broken[law] = [*history(world, came_from, place), name]
                if after not in came_from:
                    came_from[after] = place
                    following.append(after)
        frontier = following
    return Result(len(came_from), broken)


def history(world: World, came_from: dict[Place, Place | None], place: Place) -> list[str]:
    """What happened until `place` was reached."""
    names: list[str] = []
    while (before := came_from[place]) is not None:
        names.append(next(name for name, after, _ in world.moves(before) if after == place))
        place = before
    return names[::-1]


# The tests ------------------------------------------------------------------------------------------------------------


def test_no_interleaving_breaks_a_law() -> None:
    """conformance: 27, 36, 37."""
    result = search()

    assert result.broken == {}
    assert result.states == (2_517_139 if is_deep() else 904_908)


FOUND = [
    ("the plan is a plain LSO", TORN),
    ("the plan has no bound on d", TORN),
    ("the reader ignores trim", TORN),
    ("the reader reads /commits last", BACKWARDS),
    ("the settler has no bound on d", TORN),
    ("the settler plans a plain LSO", TORN),
    ("the settler does not look at the neighbours", TORN),
    ("the settler leaves trim alone", TORN),
    ("the marker names no aborted pairs", ROWS),
]
"""The others need more transactions than two, or more records."""


@pytest.mark.parametrize(("fault", "law"), FOUND, ids=[name for name, _ in FOUND])
def test_the_search_finds_a_planted_fault(fault: str, law: str) -> None:
    assert law in search(scheme_of(fault), until=law).broken


def scheme_of(fault: str) -> Scheme:
    return next(planted.scheme for planted in FAULTS if planted.name == fault)


def test_the_shortest_way_to_tear_a_transaction_with_a_plain_lso() -> None:
    """B, open in one partition, holds back A's record there, while A's other record is shown. conformance: 27."""
    assert search(scheme_of("the plan is a plain LSO"), until=TORN).broken[TORN] == [
        "A writes to 0",
        "B writes to 1",
        "A writes to 1",
        "A commits",
        "the reader reads",  # /commits
        "the reader reads",  # partition 0
        "the reader reads",  # partition 1
        "the reader reads",  # A
        "the reader plans",  # with B
    ]


def test_the_shortest_way_to_tear_a_transaction_with_a_settler_that_has_no_bound() -> None:
    """The reader saw A in neither partition, then finds it settled in one, by a settler no younger than itself."""
    assert search(scheme_of("the settler has no bound on d"), until=TORN).broken[TORN] == []
