"""Every interleaving of two writers and a reader on a command log, with the product's own store.

The writers commit, save snapshots and trim; an append may lose its answer or its request, or leave a copy that arrives
at any later time. A process does nothing that does not follow from the answers that it got from the log so far. So what
it asks for next is worked out once for the same answers, and a state of the whole is the log and everyone's answers.
The search visits every state once, breadth first: a broken law comes with one of the shortest histories that break it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from oncelog import randomness
from oncelog.errors import OutcomeUnknownError
from oncelog.ports import Create, Op, Set
from oncelog.znodes.errors import MultiFailedError
from oncelog.znodes.replicated import snapshot, store
from oncelog.znodes.replicated.command import Batch, decode
from oncelog.znodes.replicated.port import Entry, TrimmedError
from oncelog.znodes.replicated.replica import Replica
from oncelog.znodes.replicated.snapshot import load
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog.znodes.tree import Tree

# The log, as it is at a time ------------------------------------------------------------------------------------------


class Log(NamedTuple):
    """A command log that does not change.

    Attributes:
        bodies: of all entries that there ever were; their positions are their places.
        first: position of the first one that is left.
    """

    bodies: tuple[bytes, ...] = ()
    first: int = 0

    @property
    def foreign(self) -> int:
        return 0

    def start(self) -> int:
        return self.first - 1

    def read(self, after: int) -> Sequence[Entry]:
        if after < self.start():
            raise TrimmedError("trimmed")
        return self.entries()[after + 1 :]

    def append(self, after: int, body: bytes) -> None: ...

    def trim(self, position: int) -> None: ...

    def close(self) -> None: ...

    def entries(self) -> list[Entry]:
        return [Entry(at, 1_000 * at, body) for at, body in enumerate(self.bodies)]

    def appended(self, body: bytes) -> Log:
        return Log((*self.bodies, body), self.first)

    def trimmed(self, position: int) -> Log:
        return Log(self.bodies, max(self.first, position + 1))


class Truth:
    """What the entries of a log come to, applied one after the other, each batch once."""

    def __init__(self, log: Log) -> None:
        tree, numbers = Tree(), dict[str, int]()
        self.outcomes: dict[tuple[Op, ...], list[str | None]] = {}
        for entry in log.entries():
            found = decode(entry)
            if isinstance(found, Batch) and found.number > numbers.get(found.sender, 0):
                numbers[found.sender] = found.number
                for ops in found.multis:
                    self.outcomes.setdefault(tuple(ops), []).append(_why(tree, ops, entry.time_ms))
        self.znodes = dict(tree.znodes)


def _why(tree: Tree, ops: Sequence[Op], time_ms: int) -> str | None:
    """Carry out a multi. Returns why it was refused, or None."""
    try:
        tree.apply(ops, time_ms)
    except MultiFailedError as refused:
        return str(refused)
    return None


# Processes ------------------------------------------------------------------------------------------------------------


class Request(NamedTuple):
    """What a process asks of the log, and waits for."""

    kind: str
    what: Any = None


class Asked(BaseException):
    """A process has come to a request that is not answered yet."""


UNKNOWN = "unknown"


class Told(NamedTuple):
    """What a process was told.

    Attributes:
        after: how many answers it had got by then.
        ops: of its multi, or none if it read.
        result: why the multi was refused, or None; `UNKNOWN`; or the znodes that it read.
    """

    after: int
    ops: tuple[Op, ...]
    result: Any


class AnsweredLog:
    """A log that gives the answers that it has."""

    foreign = 0

    def __init__(self, answers: Sequence[Any]) -> None:
        self._answers = answers
        self.given = 0
        self.asked: Request | None = None

    def start(self) -> int:
        return int(self._answer(Request("start")))

    def read(self, after: int) -> Sequence[Entry]:
        return self._answer(Request("read", after))  # type: ignore[no-any-return]

    def append(self, after: int, body: bytes) -> None:
        self._answer(Request("append", body))

    def trim(self, position: int) -> None:
        self._answer(Request("trim", position))

    def close(self) -> None: ...

    def _answer(self, request: Request) -> Any:
        if self.given == len(self._answers):
            self.asked = request
            raise Asked
        answer = self._answers[self.given]
        self.given += 1
        if isinstance(answer, Exception):
            raise answer
        return answer


Script = Sequence[tuple[Op, ...]]
"""The multis of a process; one without operations is a read."""

A, AFTER_A, BESIDE = (Create("/a", b"1"),), (Set("/a", b"2", version=0),), (Create("/b", b"3"),)
READ: tuple[Op, ...] = ()


class Size(NamedTuple):
    """How much may happen.

    Attributes:
        scripts: of the processes.
        saved_every, part_bytes: see `store.SAVED_EVERY` and `snapshot.PART_BYTES`.
        faults: how many appends go wrong.
    """

    scripts: Sequence[Script]
    saved_every: int = 1
    part_bytes: int = snapshot.PART_BYTES
    faults: int = 0


IN_PARTS = 120
SMALL = [
    Size(((A,), (BESIDE,), (READ,)), part_bytes=IN_PARTS),
    Size(((A, AFTER_A), (READ, READ)), faults=1),
]
LARGE = [
    Size(((A, AFTER_A), (BESIDE,), (READ,)), saved_every=2, part_bytes=IN_PARTS),
    Size(((A,), (BESIDE,), (READ,)), faults=1),
    Size(((A, AFTER_A), (READ, READ)), part_bytes=IN_PARTS, faults=1),
]


class Life(NamedTuple):
    """What a process does with the answers that it has: what it was told, and what it asks next, if it goes on."""

    told: tuple[Told, ...]
    asks: Request | None


def live(number: int, script: Script, answers: Sequence[Any]) -> Life:
    log, told = AnsweredLog(answers), list[Told]()
    with randomness.drawn_from(lambda count: bytes([number]) * count):
        try:
            opened = ReplicatedZnodeStore(lambda: log)
            for ops in script:
                before = log.given
                result = _result(opened, ops) if ops else _znodes(opened)
                assert log.given > before, "a process did without asking the log"
                told.append(Told(log.given, ops, result))
        except Asked:
            pass
    return Life(tuple(told), log.asked)


def _znodes(opened: ReplicatedZnodeStore) -> object:
    with opened.snapshot() as tree:
        return dict(tree.znodes)


def _result(opened: ReplicatedZnodeStore, ops: Sequence[Op]) -> str | None:
    try:
        opened.multi(ops)
    except MultiFailedError as refused:
        return str(refused)
    except OutcomeUnknownError:
        return UNKNOWN
    return None


def _judge_told(told: Told, truth: Truth) -> None:
    if not told.ops:
        assert told.result == truth.znodes, "a read does not see what the log has"
    elif told.result != UNKNOWN:
        assert truth.outcomes.get(told.ops) == [told.result], "an outcome that was told is not true"


def _parts(replica: Replica) -> object:
    tree = replica.tree
    senders = {name: (last.number, last.time_ms, str(last.problems())) for name, last in replica.senders.items()}
    return dict(tree.znodes), tree.zxid, tree.last_ms, replica.position, replica.chain, replica.time_ms, senders


# The search -----------------------------------------------------------------------------------------------------------


class State(NamedTuple):
    """The whole.

    Attributes:
        log: see there.
        heard: of each process, which answers it has got: a number of `Search`.
        flying: appends that may still arrive.
        faults: how many may still happen.
    """

    log: Log
    heard: tuple[int, ...]
    flying: frozenset[bytes]
    faults: int


class BrokenLawError(Exception):
    """A law is broken; the message says which one, and how it came to that."""


Answer = tuple[str, Any, Log, frozenset[bytes], int]
"""How a request goes, what the process is told, and what becomes of the log, the flying appends and the faults."""


def _answers(state: State, asks: Request) -> Iterator[Answer]:
    log, flying, faults = state.log, state.flying, state.faults
    match asks.kind:
        case "start":
            yield "", log.start(), log, flying, faults
        case "read":
            try:
                yield "", tuple(log.read(asks.what)), log, flying, faults
            except TrimmedError as trimmed:
                yield "trimmed", trimmed, log, flying, faults
        case "trim":
            yield "", None, log.trimmed(asks.what), flying, faults
        case "append":
            after, unknown = log.appended(asks.what), OutcomeUnknownError("lost")
            yield "", None, after, flying, faults
            if faults:
                yield "without an answer", unknown, after, flying, faults - 1
                yield "late", unknown, log, flying | {asks.what}, faults - 1
                yield "twice", None, after, flying | {asks.what}, faults - 1


class Search:
    """All states that there can be."""

    def __init__(self, size: Size) -> None:
        self._scripts = size.scripts
        self._began = State(Log(), (0,) * len(size.scripts), frozenset(), size.faults)
        self._answers: list[tuple[Any, ...]] = [()]
        self._numbers: dict[tuple[int, Any], int] = {}
        self._lives: dict[tuple[int, int], Life] = {}
        self._truths: dict[tuple[bytes, ...], Truth] = {}
        self._opened: set[Log] = set()

    def run(self) -> set[State]:
        """Visit every state, and return them.

        Raises:
            BrokenLawError: a law is broken.
        """
        came: dict[State, tuple[State, str] | None] = {self._began: None}
        waiting = deque([self._began])
        while waiting:
            state = waiting.popleft()
            for step, following in self._steps(state):
                if following not in came:
                    came[following] = (state, step)
                    waiting.append(following)
                    try:
                        self._judge(state, following)
                    except Exception as broken:
                        raise BrokenLawError(f"{broken}: {self._history(came, following)}") from broken
        return set(came)

    def _steps(self, state: State) -> Iterator[tuple[str, State]]:
        for number, heard in enumerate(state.heard):
            asks = self._life(number, heard).asks
            if asks is not None:
                for how, answer, log, flying, faults in _answers(state, asks):
                    following = self._number(heard, answer)
                    all_heard = (*state.heard[:number], following, *state.heard[number + 1 :])
                    yield f"{number} {asks.kind} {how}", State(log, all_heard, flying, faults)
        for body in state.flying:
            yield "an append arrives", state._replace(log=state.log.appended(body), flying=state.flying - {body})

    def _judge(self, before: State, state: State) -> None:
        if state.log not in self._opened:
            self._opened.add(state.log)
            self._judge_who_opens(state.log)
        truth = self._truth(state.log)
        for number, (old, heard) in enumerate(zip(before.heard, state.heard, strict=True)):
            if old != heard:
                count = len(self._answers[heard])
                for told in self._life(number, heard).told:
                    if told.after == count:
                        _judge_told(told, truth)

    def _judge_who_opens(self, log: Log) -> None:
        """Whoever opens the log now finds what everybody has who read all of it."""
        everything = Replica()
        for entry in log.entries():
            everything.apply(entry, decode(entry))
        assert _parts(load(log)) == _parts(everything), "who opens the log finds something else than who read it"
        assert everything.tree.znodes == self._truth(log).znodes, "a log comes to something else than its multis"

    def _life(self, number: int, heard: int) -> Life:
        if (number, heard) not in self._lives:
            self._lives[number, heard] = live(number, self._scripts[number], self._answers[heard])
        return self._lives[number, heard]

    def _number(self, heard: int, answer: Any) -> int:
        key = heard, str(answer) if isinstance(answer, Exception) else answer
        if key not in self._numbers:
            self._numbers[key] = len(self._answers)
            self._answers.append((*self._answers[heard], answer))
        return self._numbers[key]

    def _truth(self, log: Log) -> Truth:
        if log.bodies not in self._truths:
            self._truths[log.bodies] = Truth(log)
        return self._truths[log.bodies]

    def _history(self, came: dict[State, tuple[State, str] | None], state: State) -> list[str]:
        steps: list[str] = []
        while (before := came[state]) is not None:
            state = before[0]
            steps.append(before[1])
        return steps[::-1]


@pytest.mark.parametrize(
    "size", [*SMALL, *(pytest.param(size, marks=pytest.mark.walk("many interleavings")) for size in LARGE)]
)
def test_no_interleaving_breaks_a_law(size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SAVED_EVERY", size.saved_every)
    monkeypatch.setattr(snapshot, "PART_BYTES", size.part_bytes)

    states = Search(size).run()

    assert any(state.log.first for state in states), "the log is trimmed in some of them"
    assert {state.faults for state in states} == set(range(size.faults + 1))
