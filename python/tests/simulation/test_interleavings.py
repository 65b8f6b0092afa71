"""Every interleaving of a small log: two partitions, two transactions, a settler and a reader, znode by znode.

Transaction A may write both partitions and B one of them; either may commit or abort at any time after its first
record. Reader and settler read one znode per step, and the settler settles one partition per step. Both go round twice
where there is time: a plan is compared with the one before, and a settler meets what an earlier run left.

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
from tests.properties.visibility_faults import FAULTS
from tests.properties.visibility_model import BACKWARDS, ROWS, TORN, Shown, broken_by, goes_back
from tests.properties.visibility_world import SOUND, Log, Reading, Scheme, Settling, read_rows
from tests.support.harness.parts import is_deep

pytestmark = pytest.mark.sampled

T = TypeVar("T")

PARTITIONS = (0, 1)


class Size(NamedTuple):
    """How much may happen; of a transaction's records, one at most in each partition."""

    records_of_a: int = 2
    records_of_b: int = 1
    plans: int = 2
    settlings: int = 1
    wholes: int = 0
    """Transactions of one append, which begin and commit in one step."""


SMALL = Size()
WITH_WHOLE = [Size(records_of_b=0, wholes=1), Size(plans=1, settlings=0, wholes=1)]
LARGE = Size(records_of_b=2 if is_deep() else 1, settlings=2)


# What may happen ------------------------------------------------------------------------------------------------------


def writer_moves(log: Log, size: Size) -> Iterator[tuple[str, Log]]:
    ended = {decision.owner for decision in log.truth.decisions}
    for name, records in [("A", size.records_of_a), ("B", size.records_of_b)]:
        if name in ended:
            continue
        written = [partition for partition in PARTITIONS if log.truth.offsets_of(name, partition)]
        for partition in PARTITIONS:
            if partition not in written and len(written) < records:
                yield f"{name} writes to {partition}", log.written(partition, name, ProducerIdAndEpoch(ord(name), 0))
        if written:
            yield f"{name} commits", log.decided(name, Outcome.COMMIT)
            yield f"{name} aborts", log.decided(name, Outcome.ABORT)
    if size.wholes and "C" not in ended:
        for partition in PARTITIONS:
            whole = log.committed_at_once(partition, "C", ProducerIdAndEpoch(ord("C"), 0))
            yield f"C writes to {partition} and commits", whole


class Reader(NamedTuple):
    """A reader that plans again and again."""

    reading: Reading = Reading(PARTITIONS)
    plans: tuple[Shown, ...] = ()


def reader_moves(log: Log, reader: Reader, scheme: Scheme, size: Size) -> Iterator[tuple[str, Reader]]:
    if len(reader.plans) == size.plans:
        return
    reading = reader.reading.step(log, scheme)
    name = f"the reader reads {znode_read(reader.reading, reading)}"
    if not reading.is_done():
        yield name, Reader(reading, reader.plans)
    elif reading.must_start_over(scheme):
        yield f"{name} and starts over", Reader(plans=reader.plans)
    else:
        yield f"{name} and plans", Reader(plans=(*reader.plans, reading.shown(scheme)))


def znode_read(before: Reading, after: Reading) -> str:
    if after.zxid != before.zxid:
        return "/commits"
    new = [*after.partitions.keys() - before.partitions.keys(), *after.owners.keys() - before.owners.keys()]
    return str(new[0]) if new else "an owner that is gone"


class Settler(NamedTuple):
    """A settler at work, or between two runs."""

    work: Reading | Settling | None = None
    runs: int = 0


def settler_moves(log: Log, settler: Settler, scheme: Scheme, size: Size) -> Iterator[tuple[str, Log, Settler]]:
    work, runs = settler
    if isinstance(work, Settling):
        name = f"the settler settles {work.partitions[0]}" if work.partitions else "the settler removes owners"
        log, following = work.step(log, scheme)
        yield name, log, Settler(following, runs)
    elif work is not None:
        yield settler_read(log, work, runs, scheme)
    elif runs < size.settlings:
        for partition in PARTITIONS:
            begun = Reading((partition,), with_neighbours=scheme.settles_neighbours)
            yield settler_read(log, begun, runs + 1, scheme)


def settler_read(log: Log, begun: Reading, runs: int, scheme: Scheme) -> tuple[str, Log, Settler]:
    reading = begun.step(log, scheme)
    following = Settling.of(reading, scheme) if reading.is_done() else reading
    return f"the settler of {begun.wanted[0]} reads {znode_read(begun, reading)}", log, Settler(following, runs)


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
    """All that may happen under a scheme; what a part does is worked out once."""

    def __init__(self, scheme: Scheme, size: Size) -> None:
        self._logs, self._readers = Numbers(identity_of_log), Numbers(identity_of_reader)
        self._settlers = Numbers(identity_of_settler)
        self.start = Place(
            self._logs.of(Log.empty(len(PARTITIONS))), self._readers.of(Reader()), self._settlers.of(Settler())
        )
        self._scheme, self._size = scheme, size
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
            self._writing[log] = [
                (name, self._logs.of(after)) for name, after in writer_moves(self._logs[log], self._size)
            ]
        return self._writing[log]

    def _reads(self, log: int, reader: int) -> list[tuple[str, int, tuple[str, ...]]]:
        if (log, reader) not in self._reading:
            whole, before = self._logs[log], self._readers[reader]
            self._reading[log, reader] = [
                (name, self._readers.of(after), (*laws_of_plan(whole, before, after), *laws_of_rows(whole, after)))
                for name, after in reader_moves(whole, before, self._scheme, self._size)
            ]
        return self._reading[log, reader]

    def _settles(self, log: int, settler: int) -> list[tuple[str, int, int]]:
        if (log, settler) not in self._settling:
            moves = settler_moves(self._logs[log], self._settlers[settler], self._scheme, self._size)
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


def search(scheme: Scheme, size: Size, *, until: str | None = None) -> Result:
    """Visit every state that can be reached, or as many as it takes to break the law `until`."""
    world = World(scheme, size)
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


@pytest.mark.parametrize(
    ("size", "states"),
    [
        pytest.param(SMALL, 100_000, id="small"),
        pytest.param(
            LARGE, 2_500_000 if is_deep() else 900_000, id="large", marks=pytest.mark.walk("many interleavings")
        ),
    ],
)
def test_no_interleaving_breaks_a_law(size: Size, states: int) -> None:
    """conformance: 27, 36, 37."""
    result = search(SOUND, size)

    assert result.broken == {}
    assert result.states > states


@pytest.mark.parametrize("size", WITH_WHOLE, ids=["beside a settler", "beside another transaction"])
def test_no_interleaving_with_a_transaction_of_one_append_breaks_a_law(size: Size) -> None:
    """conformance: 27, 36, 37."""
    result = search(SOUND, size)

    assert result.broken == {}
    assert result.states > 30_000


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
    assert law in search(scheme_of(fault), SMALL, until=law).broken


def scheme_of(fault: str) -> Scheme:
    return next(planted.scheme for planted in FAULTS if planted.name == fault)


def test_the_shortest_way_to_tear_a_transaction_with_a_plain_lso() -> None:
    """B is open in partition 1 and holds back what A wrote behind it, while A is shown in 0. conformance: 27."""
    assert search(scheme_of("the plan is a plain LSO"), SMALL, until=TORN).broken[TORN] == [
        "A writes to 0",
        "B writes to 1",
        "A writes to 1",
        "A commits",
        "the reader reads /commits",
        "the reader reads 0",
        "the reader reads 1",
        "the reader reads A",
        "the reader reads B and plans",
    ]


def test_the_shortest_way_to_tear_a_transaction_with_a_settler_that_has_no_bound() -> None:
    """The reader read 0 before A wrote there, and finds A settled in 1, with a trim that does not tell it so."""
    assert search(scheme_of("the settler has no bound on d"), SMALL, until=TORN).broken[TORN] == [
        "A writes to 1",
        "the reader reads /commits",
        "the reader reads 0",
        "A writes to 0",
        "the settler of 1 reads /commits",
        "A commits",
        "the settler of 1 reads 1",
        "the settler of 1 reads A",
        "the settler of 1 reads 0",
        "the settler settles 1",
        "the reader reads 1 and plans",
    ]
